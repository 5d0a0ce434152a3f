import PipeRuntime
import Synchronization
import Testing

// In the language that the document describes, `On` is a value. It can be stored in a constant or a list,
// and it takes effect where a `When` lists it.

private let onLocked = On(event: Event.doorHasLocked) { Transition(to: State.closed) }

private let onEntered = On(event: Event.personsHaveEntered(persons:)) { persons in
  Guard(predicate: persons > 0)
} transition: { persons in
  Transition(to: State.open(persons: persons))
}

/// A set of events that is created at its first use, in the middle of a step.
private let buttons = OneOf {
  Event.closeButtonWasPressed
  Event.personsHaveEntered(persons:)
}

private final class Calls: Sendable {
  private let content = Mutex<[String]>([])

  var names: [String] { content.withLock { $0 } }

  @discardableResult
  func add(_ name: String) -> Bool {
    content.withLock { $0.append(name) }
    return true
  }
}

private func allOf(_ persons: Int) -> [On<State, Event>] {
  [
    onLocked,
    On(event: .closeButtonWasPressed) { Transition(to: .closing(persons: persons)) },
  ]
}

@OnBuilder<State, Event>
private func opening() -> Transitions<State, Event> {
  On(event: .closeButtonWasPressed) { Transition(to: .open(persons: 0)) }
}

@Suite("Transitions as values")
struct TransitionValueTests {
  /// Returns a machine with the transitions that the closure lists, in the state `open`.
  private func machine(
    @OnBuilder<State, Event> _ transitions: @escaping @Sendable (Int) -> Transitions<State, Event>
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: .open(persons: 0)) {
      When(state: State.open(persons:)) { persons in
        Execute.noOutput
      } transitions: { persons in
        transitions(persons)
      }
    }
  }

  @Test("A named transition takes effect where it is listed")
  func named() {
    let onButton = On(event: Event.closeButtonWasPressed) { Transition(to: State.closed) }
    let machine = machine { persons in
      let onEntry = On(event: Event.personsHaveEntered(persons:)) { more in
        Transition(to: State.open(persons: persons + more))
      }
      onLocked
      onButton
      onEntry
    }
    #expect(machine.reduce(.open(persons: 2), .doorHasLocked) == .next(.closed))
    #expect(machine.reduce(.open(persons: 2), .closeButtonWasPressed) == .next(.closed))
    #expect(
      machine.reduce(.open(persons: 2), .personsHaveEntered(persons: 3))
        == .next(.open(persons: 5)))
    #expect(machine.alphabet == ["personsHaveEntered", "closeButtonWasPressed", "doorHasLocked"])
  }

  @Test("A transition that is not listed does nothing")
  func unlisted() {
    let calls = Calls()
    let machine = machine { persons in
      let _ = On(event: Event.doorHasLocked) {
        calls.add("transition")
        return Transition(to: State.closed)
      }
      On(event: .closeButtonWasPressed) { Transition(to: .closed) }
    }
    #expect(machine.reduce(.open(persons: 1), .doorHasLocked) == .refused(.noTransition))
    #expect(machine.reduce(.open(persons: 1), .closeButtonWasPressed) == .next(.closed))
    #expect(machine.alphabet == ["closeButtonWasPressed"])
    #expect(calls.names.isEmpty)
  }

  @Test("Transitions are tried in the order of the list, not of their creation")
  func order() {
    let guards = Calls()
    let machine = machine { persons in
      let first = On(event: Event.doorHasLocked) {
        Guard(predicate: guards.add("made first"))
      } transition: {
        Transition(to: State.closing(persons: 1))
      }
      On(event: .doorHasLocked) {
        Guard(predicate: persons > 5 && guards.add("listed first"))
      } transition: {
        Transition(to: .closing(persons: 2))
      }
      first
      On(event: .doorHasLocked) { Transition(to: .closing(persons: 3)) }
    }
    #expect(machine.reduce(.open(persons: 9), .doorHasLocked) == .next(.closing(persons: 2)))
    #expect(guards.names == ["listed first"])
    #expect(machine.reduce(.open(persons: 0), .doorHasLocked) == .next(.closing(persons: 1)))
    #expect(guards.names == ["listed first", "made first"])
  }

  @Test(
    "A stored transition's guard can refuse an event, which still belongs to the alphabet")
  func guarded() {
    let machine = machine { _ in onEntered }
    #expect(
      machine.reduce(.open(persons: 1), .personsHaveEntered(persons: 0)) == .refused(.guard))
    #expect(
      machine.reduce(.open(persons: 1), .personsHaveEntered(persons: 4))
        == .next(.open(persons: 4)))
    #expect(machine.alphabet == ["personsHaveEntered"])
  }

  @Test("Transitions can be given as a literal list, a named list or the result of a function")
  func lists() {
    let common = [onLocked, onEntered]
    for machine in [
      machine { persons in allOf(persons) },
      machine { persons in
        [
          onLocked,
          On(event: .closeButtonWasPressed) { Transition(to: .closing(persons: persons)) },
        ]
      },
      machine { persons in
        return [
          onLocked,
          On(event: .closeButtonWasPressed) { Transition(to: .closing(persons: persons)) },
        ]
      },
      machine { persons in
        let list = allOf(persons)
        return Transitions(list)
      },
      machine { persons in
        common
        if persons == 4 {
          On(event: .closeButtonWasPressed) { Transition(to: .closing(persons: 4)) }
        }
      },
    ] {
      #expect(machine.reduce(.open(persons: 4), .doorHasLocked) == .next(.closed))
      #expect(
        machine.reduce(.open(persons: 4), .closeButtonWasPressed) == .next(.closing(persons: 4)))
      #expect(machine.alphabet.contains("doorHasLocked"))
      #expect(machine.alphabet.contains("closeButtonWasPressed"))
    }
    let none = machine { _ in return [] }
    #expect(none.reduce(.open(persons: 4), .doorHasLocked) == .refused(.noTransition))
    #expect(none.alphabet.isEmpty)
  }

  @Test("Transitions listed by a builder function can be listed again in a 'When'")
  func nested() {
    let kept: Transitions<State, Event> = [onLocked]
    let machine = machine { _ in
      opening()
      kept
    }
    #expect(machine.reduce(.open(persons: 4), .doorHasLocked) == .next(.closed))
    #expect(machine.reduce(.open(persons: 4), .closeButtonWasPressed) == .next(.open(persons: 0)))
    #expect(machine.alphabet == ["closeButtonWasPressed", "doorHasLocked"])
  }

  @Test("A set of events created within a step is the same in every later step")
  func sets() {
    let machine = machine { _ in
      On(events: buttons) { Transition(to: .closed) }
    }
    let onButtons = On(events: buttons) { _ in Transition(to: State.closed) }
    let named = self.machine { _ in onButtons }
    for machine in [machine, named] {
      #expect(machine.reduce(.open(persons: 0), .doorHasLocked) == .refused(.noTransition))
      #expect(machine.reduce(.open(persons: 0), .closeButtonWasPressed) == .next(.closed))
      #expect(
        machine.reduce(.open(persons: 0), .personsHaveEntered(persons: 1)) == .next(.closed))
      #expect(machine.reduce(.open(persons: 0), .doorHasLocked) == .refused(.noTransition))
      #expect(machine.alphabet == ["personsHaveEntered", "closeButtonWasPressed"])
    }
    #expect(buttons.contains(.closeButtonWasPressed))
    #expect(!buttons.contains(.doorHasLocked))
  }

  @Test("A named transition, or a guarded transition on several events, can suspend")
  func asynchronous() async {
    let onButton = On(event: Event.closeButtonWasPressed) {
      await Task.yield()
      return Transition(to: State.closed)
    }
    let machine = machine { persons in
      onButton
      On(
        events: OneOf {
          Event.doorHasLocked
          Event.personsHaveEntered(persons:)
        }
      ) {
        Guard(predicate: persons < 3)
      } transition: {
        await Task.yield()
        return Transition(to: .closing(persons: persons))
      }
      On(
        events: OneOf {
          Event.doorHasLocked
          Event.personsHaveEntered(persons:)
        }
      ) { event in
        Guard(predicate: event.count > 0)
      } transition: { event in
        await Task.yield()
        return Transition(to: .open(persons: event.count))
      }
    }
    #expect(await machine.next(.open(persons: 9), .closeButtonWasPressed) == .closed)
    #expect(await machine.next(.open(persons: 2), .doorHasLocked) == .closing(persons: 2))
    #expect(machine.reduce(.open(persons: 3), .doorHasLocked) == .refused(.guard))
    #expect(
      await machine.next(.open(persons: 3), .personsHaveEntered(persons: 7)) == .open(persons: 7))
  }

  #if !PIPERUNTIME_TSAN
    @Test("A builder function called outside of a 'When' ends the program")
    func misplaced() async {
      await #expect(processExitsWith: .failure) { _ = opening() }
    }
  #endif
}

extension Event {
  fileprivate var count: Int {
    if case .personsHaveEntered(let persons) = self { persons } else { 0 }
  }
}

@Suite("States and their outputs")
struct StateTests {
  @Test("The first 'When' with an output closure determines the output, even 'noOutput'")
  func outputs() {
    let stateMachine = StateMachine(initial: State.closed) {
      When(state: State.closed) {
        Execute.noOutput
      } transitions: {
        On(event: Event.closeButtonWasPressed) { Transition(to: State.open(persons: 1)) }
      }
      When(state: State.closing(persons:)) { _ in
        On(event: Event.doorHasLocked) { Transition(to: State.closed) }
      }
      When(
        states: OneOf {
          State.closed
          State.closing(persons:)
        }
      ) { _ in
        Execute(output: Output.close(speed: 1))
      } transitions: {
        On(event: Event.doorHasLocked) { Transition(to: State.closed) }
      }
    }
    #expect(stateMachine.output(.closed) == nil)
    // A `When` with only transitions does not determine the output; the next `When` does.
    #expect(stateMachine.output(.closing(persons: 2)) == .close(speed: 1))
    #expect(stateMachine.reduce(.closed, .doorHasLocked) == .next(.closed))
  }

  @Test("A 'When' without transitions fits a machine with any event type")
  func withoutTransitions() {
    typealias Description = When<State, Event, Output>
    let descriptions: [Description] = [
      When(state: .closed) { Execute(output: .close(speed: 3)) },
      When(state: State.open(persons:)) { persons in Execute(output: .close(speed: persons)) },
      When(
        states: OneOf {
          State.closing(persons:)
          State.closed
        }
      ) { _ in Execute.noOutput },
    ]
    let stateMachine = StateMachine<State, Event, Output>(initial: .closed) {
      for description in descriptions { description }
    }
    #expect(stateMachine.output(.closed) == .close(speed: 3))
    #expect(stateMachine.output(.open(persons: 7)) == .close(speed: 7))
    #expect(stateMachine.output(.closing(persons: 7)) == nil)
    #expect(stateMachine.reduce(.closed, .doorHasLocked) == .refused(.noTransition))
    #expect(stateMachine.alphabet.isEmpty)
  }

  @Test("A 'When' without transitions can receive the state")
  func withoutTransitionsReceiving() {
    let typed = StateMachine<State, Event, Output>(initial: .closed) {
      When(state: .closed) { _ in Execute(output: .close(speed: 3)) }
    }
    #expect(typed.output(.closed) == .close(speed: 3))
    let inferred = StateMachine(initial: State.closed) {
      When(state: State.closed) { state in
        Execute(output: Output.close(speed: state == .closed ? 4 : 0))
      }
      When(state: State.open(persons:)) { _ in Execute.noOutput }
      When(state: State.closing(persons:)) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.doorHasLocked) { Transition(to: State.closed) }
      }
    }
    #expect(inferred.output(.closed) == .close(speed: 4))
    #expect(inferred.output(.open(persons: 1)) == nil)
    #expect(inferred.alphabet == ["doorHasLocked"])
  }

  @Test(
    "The types of a machine are inferred from its 'When's in any order")
  func inference() {
    let outputsFirst = StateMachine(initial: State.closed) {
      When(state: State.closed) { Execute(output: Output.close(speed: 1)) }
      When(state: State.open(persons:)) { persons in Execute(output: Output.close(speed: persons)) }
      When(state: State.closing(persons:)) { _ in Execute.noOutput }
      When(state: State.closed) { On(event: Event.doorHasLocked) { Transition(to: State.closed) } }
    }
    let eventsFirst = StateMachine(initial: State.closed) {
      When(state: State.closing(persons:)) { _ in Execute.noOutput }
      When(state: State.closed) { On(event: Event.doorHasLocked) { Transition(to: State.closed) } }
      When(state: State.open(persons:)) { persons in
        On(event: Event.doorHasLocked) { Transition(to: State.open(persons: persons)) }
      }
      When(state: State.closing(persons:)) { _ in Execute.noOutput }
      When(state: State.closed) { Execute(output: Output.close(speed: 1)) }
    }
    for machine in [outputsFirst, eventsFirst] {
      #expect(machine.output(.closed) == .close(speed: 1))
      #expect(machine.output(.closing(persons: 1)) == nil)
      #expect(machine.reduce(.closed, .doorHasLocked) == .next(.closed))
    }
  }
}
