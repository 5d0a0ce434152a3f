/// A state that tells whether something is under way in it: of a model, of a composite.
public protocol StateProtocol: Sendable {
  /// Whether nothing is under way in this state, so that a model may start in it. Default: `true`.
  var isStable: Bool { get }
}

extension StateProtocol {
  /// Stable.
  public var isStable: Bool { true }

  /// The state itself, for a model to start in.
  /// - Throws: ``UnstableStateError`` where it is not stable.
  public func stable() throws(UnstableStateError) -> Self {
    guard isStable else { throw UnstableStateError(state: "\(self)") }
    return self
  }
}

/// A model was to start in a state in which something is under way.
public struct UnstableStateError: Error, Hashable, CustomStringConvertible {
  /// The state.
  public let state: String

  /// What is wrong, and what to do.
  public var description: String {
    "state '\(state)' is not stable, and a model starts only in a stable one; start it in a state "
      + "whose 'isStable' is true"
  }
}

// Values that a view and a model share.
extension String: StateProtocol {}
extension Bool: StateProtocol {}
extension Int: StateProtocol {}
extension Double: StateProtocol {}
extension Optional: StateProtocol where Wrapped: StateProtocol {
  /// Whether what there is is stable.
  public var isStable: Bool { self?.isStable ?? true }
}
extension Array: StateProtocol where Element: StateProtocol {
  /// Whether all of it is stable.
  public var isStable: Bool { allSatisfy(\.isStable) }
}

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
