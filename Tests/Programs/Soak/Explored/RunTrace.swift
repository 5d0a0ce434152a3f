import PipeRuntime

/// The steps and dead letters that nodes have reported. For each node, the trace ends at the first
/// gap.
package struct RunTrace: Sendable {
  /// An action of a node: a step, or a refusal that became a dead letter.
  package struct Item: Hashable, Sendable {
    package enum Origin: Hashable, Sendable {
      case outside
      case pipe(String, number: UInt64)
      case effect
    }

    package var node: String
    /// The node's version after the action.
    package var version: UInt64
    package var event: JSONValue
    package var origin: Origin
    /// The node's state after a step; `nil` for a refusal.
    package var state: JSONValue?
    /// The events that the step has put into pipes, with their numbers.
    package var sent: [NodeStep.PipedEvent]

    package init(
      node: String, version: UInt64, event: JSONValue, origin: Origin, state: JSONValue? = nil,
      sent: [NodeStep.PipedEvent] = []
    ) {
      self.node = node
      self.version = version
      self.event = event
      self.origin = origin
      self.state = state
      self.sent = sent
    }
  }

  private struct Node {
    var items: [Item] = []
    /// The index of the last step in the node's feed.
    var lastStepIndex: UInt64?
    /// The version after the last step, even if the step was skipped.
    var version: UInt64 = 0
    /// Whether the feed has skipped steps after the last item.
    var hasGap = false
    var deadLetters: [DeadLetter] = []
  }

  private var nodes: [String: Node] = [:]

  package init() {}

  /// Returns whether a node has reported a step.
  package func hasBegun(_ node: String) -> Bool { nodes[node]?.lastStepIndex != nil }

  /// Returns a node's version after the last step that was reported or skipped.
  package func version(of node: String) -> UInt64 { nodes[node]?.version ?? 0 }

  /// Adds a step from a node's feed. Ignores steps after a gap.
  package mutating func add(_ step: NodeStep) {
    var node = nodes[step.node] ?? Node()
    defer { nodes[step.node] = node }
    node.version = max(node.version, step.version)
    // Before the first reported step, there may have been steps that did not change the state.
    let follows =
      node.lastStepIndex.map { step.index == $0 + 1 }
      ?? (step.index == 1 || step.event == .string(RamblingPlan.tick))
    node.lastStepIndex = step.index
    guard !node.hasGap, follows, step.skipped == nil, let event = step.event, let state = step.state
    else {
      node.hasGap = true
      return
    }
    let origin: Item.Origin =
      if let source = step.source {
        .pipe(source.pipe, number: source.number)
      } else if step.request != nil {
        .outside
      } else {
        .effect
      }
    node.items.append(
      Item(
        node: step.node, version: step.version, event: event, origin: origin, state: state,
        sent: step.sent ?? []))
  }

  /// Adds the dead letters that a node currently stores, oldest first. Ignores known dead letters.
  package mutating func add(_ deadLetters: [DeadLetter], of name: String) {
    var node = nodes[name] ?? Node()
    let known = node.deadLetters.last?.id ?? 0
    node.deadLetters += deadLetters.filter { $0.id > known }
    nodes[name] = node
  }

  /// Returns the actions of a node in order, up to the first gap.
  package func items(of name: String) -> [Item] {
    guard let node = nodes[name] else { return [] }
    let deadLetters = node.deadLetters.enumerated().prefix {
      $0.element.id == UInt64($0.offset) + 1
    }
    .map(\.element)
    // If a dead letter was dropped before it could be read, the trace ends before it.
    let end = deadLetters.count < node.deadLetters.count ? deadLetters.last?.version ?? 0 : .max
    // A dead letter after the last known step may also follow an unknown step, so it is omitted.
    let last = node.items.last?.version ?? 0
    let refusals = deadLetters.filter { $0.pipe != "request" && $0.version <= last }.map {
      deadLetter in
      Item(
        node: name, version: deadLetter.version, event: deadLetter.event,
        origin: .pipe(deadLetter.pipe, number: deadLetter.sequence))
    }
    // A refusal does not change the version, so it is sorted after the step with the same version.
    let all = (node.items + refusals).enumerated().sorted {
      ($0.element.version, $0.offset) < ($1.element.version, $1.offset)
    }.map(\.element)
    return Array(all.prefix { $0.version <= end })
  }
}
