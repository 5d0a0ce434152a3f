import PipeRuntime

/// What a lift shows: its door and its motor as one.
package enum LiftState: CompositeState, Hashable {
  case waiting(floor: Int)
  case boarding(persons: Int, floor: Int)
  case moving(from: Int, to: Int)
  case stopped(floor: Int)
  /// Never shown while open and go are synchronized: the motor moves behind an open door.
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
