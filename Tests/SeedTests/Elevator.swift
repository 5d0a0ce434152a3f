import PipeRuntime

// The unchanged examples of the document that the machine language comes from. Parts that a listing
// leaves to the reader, such as cases that it does not show, are marked.

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

let stateMachine = StateMachine(initial: State.open(persons: 0)) {
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
}

// Left to the reader: the parts of a state that the tests and the views need.
extension State: Equatable, CustomStringConvertible {
  var persons: Int {
    switch self {
    case .open(let persons), .closing(let persons): persons
    case .closed: 0
    }
  }

  var description: String {
    switch self {
    case .open(let persons): "open, \(persons) inside"
    case .closing: "closing"
    case .closed: "closed"
    }
  }
}
extension Output: Equatable {}
