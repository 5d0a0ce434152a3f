/// An enum that can stand in the machine language as a state, an event or an output.
public protocol DSLCompatible: Sendable {
  /// Whether it is a ``SynthesizedCodable``; not to be given by hand.
  static var _isSynthesizedCodable: Bool { get }
}

extension DSLCompatible {
  /// It does not say so.
  public static var _isSynthesizedCodable: Bool { false }
}

extension DSLCompatible where Self: SynthesizedCodable {
  /// It says so.
  public static var _isSynthesizedCodable: Bool { true }
}

/// A state that can be observed from another process.
public protocol MachineState: DSLCompatible, Codable {}

/// An event that can travel through a pipe.
public protocol MachineEvent: DSLCompatible, Codable {}

/// What a machine asks its runtime to do.
public protocol MachineOutput: DSLCompatible {}

/// `Never` stands for the outputs of a machine that has none, or its events.
extension Never: MachineState, MachineEvent, MachineOutput {}
