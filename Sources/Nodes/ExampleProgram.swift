import PipeRuntime

/// The example machines, in one program.
@main package struct ExampleProgram: NodeProgram {
  package static let machines: [any Machine.Type] = [
    ElevatorDoor.self, ElevatorMotor.self, FloorDisplay.self, Passengers.self,
    WashingMachine.self, WasherPanel.self,
    Relay.self, Tally.self,
  ]
  package static let monitors: [any Monitor.Type] = [StateLog.self]
}
