import PipeRuntime

/// The door of an elevator, written in the DSL and as a plain `switch`.
enum Door {
  enum State: DSLCompatible {
    case open(persons: Int)
    case closing(persons: Int)
    case closed
  }

  enum Event: DSLCompatible {
    case personsHaveEntered(persons: Int)
    case closeButtonWasPressed
    case doorHasLocked
  }

  enum Output: DSLCompatible {
    case close(speed: Int)
  }

  /// Returns the door in the DSL.
  /// - Parameter reopens: Whether persons may enter through a closed door, so that the machine
  ///   never stops.
  static func machine(reopens: Bool = false) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.open(persons: 0)) {
      When(state: State.open(persons:)) { _ in
        Execute.noOutput
      } transitions: { persons in
        On(event: Event.personsHaveEntered(persons:)) { newPersons in
          Transition(to: State.open(persons: persons + newPersons))
        }

        On(event: Event.closeButtonWasPressed) {
          Guard(predicate: persons < 10)
        } transition: {
          Transition(to: State.closing(persons: persons))
        }
      }

      When(state: State.closing(persons:)) { persons in
        Execute(output: Output.close(speed: persons > 5 ? 1 : 2))
      } transitions: { _ in
        On(event: Event.doorHasLocked) {
          Transition(to: State.closed)
        }
      }

      When(state: State.closed) {
        Execute.noOutput
      } transitions: {
        On(event: Event.personsHaveEntered(persons:)) {
          Guard(predicate: reopens && $0 > 0)
        } transition: { persons in
          Transition(to: State.open(persons: persons))
        }
      }
    }
  }

  /// Returns the next state, as a plain function. The function is not inlined, so that the
  /// optimizer cannot remove the loop that calls it.
  @inline(never)
  static func next(_ state: State, _ event: Event) -> State? {
    switch (state, event) {
    case (.open(let persons), .personsHaveEntered(let newPersons)):
      .open(persons: persons + newPersons)
    case (.open(let persons), .closeButtonWasPressed):
      persons < 10 ? .closing(persons: persons) : nil
    case (.closing, .doorHasLocked): .closed
    case (.open, .doorHasLocked), (.closing, .personsHaveEntered),
      (.closing, .closeButtonWasPressed), (.closed, _):
      nil
    }
  }
}
