/// The state of a model or of a composite, which reports whether work is in progress.
public protocol StateProtocol: Sendable {
  /// Whether no work is in progress in this state, so that a model can start in this state.
  /// Default: `true`.
  var isStable: Bool { get }
}

extension StateProtocol {
  /// Whether no work is in progress. The default implementation returns `true`.
  public var isStable: Bool { true }

  /// Returns this state if a model can start in this state.
  /// - Throws: ``UnstableStateError`` if the state is not stable.
  public func stable() throws(UnstableStateError) -> Self {
    guard isStable else { throw UnstableStateError(state: "\(self)") }
    return self
  }
}

/// An error for a model that was started in a state with work in progress.
public struct UnstableStateError: Error, Hashable, CustomStringConvertible {
  /// The text of the unstable state.
  public let state: String

  /// A description of the error, with the way to resolve it.
  public var description: String {
    "state '\(state)' is not stable; start the model in a state whose 'isStable' is true"
  }
}

// Common types that a view and a model share as states.
extension String: StateProtocol {}
extension Bool: StateProtocol {}
extension Int: StateProtocol {}
extension Double: StateProtocol {}
extension Optional: StateProtocol where Wrapped: StateProtocol {
  /// Whether the wrapped value is stable; `nil` is stable.
  public var isStable: Bool { self?.isStable ?? true }
}
extension Array: StateProtocol where Element: StateProtocol {
  /// Whether all elements are stable.
  public var isStable: Bool { allSatisfy(\.isStable) }
}

/// An enum that can be a state, an event or an output in the machine language.
public protocol DSLCompatible: Sendable {
  /// Whether the type is a ``SynthesizedCodable``. Do not implement this requirement manually.
  static var _isSynthesizedCodable: Bool { get }
}

extension DSLCompatible {
  /// `false`: the type is not a ``SynthesizedCodable``.
  public static var _isSynthesizedCodable: Bool { false }
}

extension DSLCompatible where Self: SynthesizedCodable {
  /// `true`: the type is a ``SynthesizedCodable``.
  public static var _isSynthesizedCodable: Bool { true }
}

/// A state that can be observed from another process.
public protocol MachineState: DSLCompatible, Codable {}

/// An event that can travel through a pipe.
public protocol MachineEvent: DSLCompatible, Codable {}

/// An output that a machine asks its runtime to execute.
public protocol MachineOutput: DSLCompatible {}

/// `Never` is the output type of a machine without outputs, and the event type of a machine without
/// events.
extension Never: MachineState, MachineEvent, MachineOutput {}
