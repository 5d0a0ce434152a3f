import PipeMachines

/// A door and a motor that stop together, where the door opens only while the motor stands still.
enum Lift {
  enum Door: MachineState, Hashable { case closed, open(persons: Int), stopped }
  enum Motor: MachineState, Hashable { case standing(floor: Int), moving(to: Int), stopped }

  enum DoorEvent: MachineEvent, Hashable {
    case open, close, enter(persons: Int), emergencyStop(code: Int)
  }

  enum MotorEvent: MachineEvent, Hashable {
    case open, go(to: Int), arrive, emergencyStop(code: Int)
  }

  enum MotorOutput: MachineOutput { case drive(to: Int) }

  static var door: StateMachine<Door, DoorEvent, Never> {
    StateMachine(initial: Door.closed) {
      When(state: Door.closed) {
        On(event: DoorEvent.open) { Transition(to: Door.open(persons: 0)) }
        On(event: DoorEvent.emergencyStop(code:)) { _ in Transition(to: Door.stopped) }
      }
      When(state: Door.open(persons:)) { persons in
        On(event: DoorEvent.close) { Transition(to: Door.closed) }
        On(event: DoorEvent.enter(persons:)) { more in
          Guard(predicate: persons + more <= 4)
        } transition: { more in
          Transition(to: Door.open(persons: persons + more))
        }
        On(event: DoorEvent.emergencyStop(code:)) { code in
          Guard(predicate: code == 112)
        } transition: { _ in
          Transition(to: Door.stopped)
        }
      }
    }
  }

  static var motor: StateMachine<Motor, MotorEvent, MotorOutput> {
    StateMachine(initial: Motor.standing(floor: 0)) {
      When(state: Motor.standing(floor:)) { floor in
        On(event: MotorEvent.open) { Transition(to: Motor.standing(floor: floor)) }
        On(event: MotorEvent.go(to:)) { floor in Transition(to: Motor.moving(to: floor)) }
        On(event: MotorEvent.emergencyStop(code:)) { _ in Transition(to: Motor.stopped) }
      }
      When(state: Motor.moving(to:)) { floor in
        Execute(output: MotorOutput.drive(to: floor))
      } transitions: { floor in
        On(event: MotorEvent.arrive) { Transition(to: Motor.standing(floor: floor)) }
        On(event: MotorEvent.emergencyStop(code:)) { _ in Transition(to: Motor.stopped) }
      }
    }
  }
}

/// The projected state of the lift.
enum LiftState: CompositeState, Hashable {
  case boarding(persons: Int, floor: Int)
  case moving
  case waiting
  case stopped

  static let projection = Projection(LiftState.init(door:motor:))

  init(door: Lift.Door, motor: Lift.Motor) {
    switch (door, motor) {
    case (.stopped, _), (_, .stopped): self = .stopped
    case (.open(let persons), .standing(let floor)):
      self = .boarding(persons: persons, floor: floor)
    case (_, .moving): self = .moving
    case (.closed, .standing): self = .waiting
    }
  }

  var isStable: Bool { self != .moving }
}
