import PipeRuntime

/// The state of a lift: the combined states of its door and its motor.
package enum LiftState: CompositeState, Hashable {
  case waiting(floor: Int)
  case boarding(persons: Int, floor: Int)
  case moving(from: Int, to: Int)
  case stopped(floor: Int)
  /// The motor moves while the door is open, or only the motor or only the door is stopped. This
  /// state cannot be reached, because the events `open`, `go`, `emergencyStop` and `reset` are
  /// synchronized.
  case unsafe

  package static let projection = Projection(LiftState.init(door:motor:))

  package init(door: LiftDoor.State, motor: LiftMotor.State) {
    switch (door, motor) {
    case (.closed, .standing(let floor)): self = .waiting(floor: floor)
    case (.open(let persons), .standing(let floor)):
      self = .boarding(persons: persons, floor: floor)
    case (.closed, .moving(let from, let to)): self = .moving(from: from, to: to)
    case (.stopped, .stopped(let floor)): self = .stopped(floor: floor)
    case (.open, .moving), (.open, .stopped), (.closed, .stopped), (.stopped, .standing),
      (.stopped, .moving):
      self = .unsafe
    }
  }

  package var isStable: Bool {
    if case .moving = self { false } else { true }
  }
}

/// A view of a lift, which shows the state of the composite.
package enum LiftView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 44, rows: 3)

  package static func body(_ state: LiftState, size: TerminalSize) -> [StyledLine] {
    let (floor, text): (Int?, StyledLine) =
      switch state {
      case .waiting(let floor): (floor, "the door is closed")
      case .boarding(let persons, let floor):
        (floor, StyledLine("the door is open, \(persons) inside", .color(.green)))
      case .moving(let from, let to):
        (from, StyledLine("\(to > from ? "↑" : "↓") to floor \(to)", .color(.yellow)))
      case .stopped(let floor): (floor, StyledLine("stopped", .bold, .color(.red)))
      case .unsafe: (nil, StyledLine("unsafe: it moves with an open door", .bold, .color(.red)))
      }
    return [
      StyledLine(floor.map { "Floor \($0)  " } ?? "", .bold) + text, "",
      StyledLine("0-9 go, o open, c close, e enter, s stop, r", .dim),
    ]
  }

  package static func event(for key: Key, in state: LiftState) -> LiftDoor.Event? {
    switch key {
    case .character("o"): .open
    case .character("c"): .close
    case .character("e"): .enter(persons: 1)
    case .character("s"): .emergencyStop
    case .character("r"): .reset
    case .character(let digit): digit.wholeNumberValue.map { .go(floor: $0) }
    default: nil
    }
  }
}
