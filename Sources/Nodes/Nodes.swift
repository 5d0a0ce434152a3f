import PipeRuntime

/// The example machines, in one program.
@main struct Nodes: NodeProgram {
  static let machines: [any Machine.Type] = [
    ElevatorDoor.self, ElevatorMotor.self, FloorDisplay.self, Passengers.self,
    WashingMachine.self, WasherPanel.self,
    Relay.self, Tally.self,
  ]
  static let monitors: [any Monitor.Type] = [StateLog.self]
}
