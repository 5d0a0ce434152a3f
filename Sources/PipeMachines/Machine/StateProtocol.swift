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
