/// An enum that can stand in the machine language as a state, an event or an output.
public protocol DSLCompatible: Sendable {}

/// A state that can be observed from another process.
public protocol MachineState: DSLCompatible, Codable {}

/// An event that can travel through a pipe.
public protocol MachineEvent: DSLCompatible, Codable {}

/// What a machine asks its runtime to do.
public protocol MachineOutput: DSLCompatible {}

/// `Never` stands for the outputs of a machine that has none, or its events.
extension Never: MachineState, MachineEvent, MachineOutput {}
