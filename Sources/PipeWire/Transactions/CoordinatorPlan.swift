/// What a coordinator is to know: the composites of its class, and where their nodes are.
package struct CoordinatorPlan: Codable, Hashable, Sendable {
  /// Where a node of the composites is.
  package struct Component: Codable, Hashable, Sendable {
    package var name: String
    package var inbox: String
    package var feed: String

    package init(name: String, inbox: String, feed: String) {
      self.name = name
      self.inbox = inbox
      self.feed = feed
    }
  }

  package var conflictClass: ConflictClassPlan
  package var components: [Component]
  /// The composites that pipes lead to, by the names of the pipes.
  package var pipes: [String: String]
  /// The nodes whose steps come through pipes, by the names of the pipes: those of the composites that
  /// pipes lead from.
  package var steps: [String: String]?

  package init(
    _ conflictClass: ConflictClassPlan, components: [Component], pipes: [String: String] = [:],
    steps: [String: String]? = nil
  ) {
    self.steps = steps
    self.conflictClass = conflictClass
    self.components = components
    self.pipes = pipes
  }
}
