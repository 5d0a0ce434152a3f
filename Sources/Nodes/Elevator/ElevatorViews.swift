import PipeRuntime

/// A view of the elevator's door.
package enum DoorView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 36, rows: 7)

  package static func body(_ state: ElevatorDoor.State, size: TerminalSize) -> [StyledLine] {
    let (leaf, word, persons): (Int, StyledLine, Int?) =
      switch state {
      case .open(let persons): (0, StyledLine("open", .bold, .color(.green)), persons)
      case .closing(let persons): (3, StyledLine("closing", .bold, .color(.yellow)), persons)
      case .closed: (6, StyledLine("closed", .bold, .color(.red)), nil)
      }
    let leaves = String(repeating: "█", count: leaf)
    let gap = String(repeating: " ", count: 2 * (6 - leaf))
    let row: StyledLine =
      "│" + StyledLine(leaves, .dim) + StyledLine(gap) + StyledLine(leaves, .dim)
      + "│"
    return [
      "┌────────────┐", row, row + "  The door is " + word,
      row + StyledLine(persons.map { "  \($0) inside" } ?? ""), "└────────────┘", "",
      StyledLine("1-9 enter, c closes, o opens", .dim),
    ]
  }

  package static func event(
    for key: Key, in state: ElevatorDoor.State
  ) -> ElevatorDoor.Event? {
    switch key {
    case .character("c"): .closeButtonWasPressed
    case .character("o"): .openButtonWasPressed
    case .character(let digit):
      digit.wholeNumberValue.flatMap {
        (1...9).contains($0) ? .personsHaveEntered(persons: $0) : nil
      }
    default: nil
    }
  }
}

/// A view of the elevator's motor.
package enum MotorView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 24, rows: 3)

  package static func body(_ state: ElevatorMotor.State, size: TerminalSize) -> [StyledLine] {
    let (floor, word): (Int, StyledLine) =
      switch state {
      case .idle(let floor): (floor, "at rest")
      case .moving(let from, let to):
        (from, StyledLine("\(to > from ? "↑" : "↓") to floor \(to)", .color(.yellow)))
      case .arrived(let floor): (floor, StyledLine("arrived", .color(.green)))
      }
    return [
      StyledLine("Floor \(floor)", .bold) + "  " + word, "", StyledLine("0-9 call it", .dim),
    ]
  }

  package static func event(
    for key: Key, in state: ElevatorMotor.State
  ) -> ElevatorMotor.Event? {
    if case .character(let digit) = key, let floor = digit.wholeNumberValue {
      .call(floor: floor)
    } else {
      nil
    }
  }
}

/// A view of the elevator's display.
package enum DisplayView: TerminalView {
  package static func body(_ state: FloorDisplay.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .showing(let floor, let persons):
      [
        StyledLine("  \(floor)  ", .bold, .reversed),
        StyledLine(persons == 1 ? "1 person" : "\(persons) persons"),
      ]
    }
  }
}

/// A view of the elevator's passengers. It has no keys.
package enum PassengersView: TerminalView {
  package static func body(_ state: Passengers.State, size: TerminalSize) -> [StyledLine] {
    let (text, round): (String, Int) =
      switch state {
      case .waiting(let round): ("wait for the door", round)
      case .boarding(1, let round): ("1 person boards", round)
      case .boarding(let persons, let round): ("\(persons) persons board", round)
      case .riding(let round): ("ride", round)
      }
    return [StyledLine(text, .bold), StyledLine("round \(round)", .dim)]
  }
}
