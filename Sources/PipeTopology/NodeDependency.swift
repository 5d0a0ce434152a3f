/// A node that another one starts after, and when that may be.
public struct NodeDependency: Hashable, Sendable {
  /// What must hold of the node before the other one goes.
  public enum Condition: Hashable, Sendable {
    /// It runs, or has ended by itself with code 0.
    case running
    /// It does, and has been in this state since the other one was started.
    case state(StateCondition)
  }

  /// The node's name.
  public var node: String
  /// What must hold of it.
  public var condition: Condition

  /// Makes a dependency.
  public init(_ node: String, _ condition: Condition = .running) {
    self.node = node
    self.condition = condition
  }

  /// The state that is waited for; `nil` where it is enough that the node runs.
  package var state: StateCondition? {
    if case .state(let state) = condition { state } else { nil }
  }
}

extension NodeDependency: ExpressibleByStringLiteral {
  /// A node that must run.
  public init(stringLiteral node: String) { self.init(node) }
}

extension NodeSpecification {
  /// The nodes that this one starts after.
  var dependencyNames: Set<String> { Set(dependsOn.map(\.node)) }
}
