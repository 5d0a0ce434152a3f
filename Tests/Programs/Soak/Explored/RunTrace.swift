import PipeRuntime

/// What nodes have told of their steps, and the dead letters between them, as far as nothing is missing.
package struct RunTrace: Sendable {
  /// Something that a node has done.
  package struct Item: Hashable, Sendable {
    package enum Origin: Hashable, Sendable {
      case outside
      case pipe(String, number: UInt64)
      case effect
    }

    package var node: String
    /// The node's version behind it.
    package var version: UInt64
    package var event: JSONValue
    package var origin: Origin
    /// The node's state behind it; `nil` where the event was refused, and is a dead letter.
    package var state: JSONValue?
    /// What it has put into pipes, with the numbers there.
    package var sent: [NodeStep.Piped]

    package init(
      node: String, version: UInt64, event: JSONValue, origin: Origin, state: JSONValue? = nil,
      sent: [NodeStep.Piped] = []
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
    /// The place of the last step.
    var place: UInt64?
    /// The version of the last step, told or skipped.
    var version: UInt64 = 0
    /// Whether something is missing behind the items.
    var isCut = false
    var letters: [DeadLetter] = []
  }

  private var nodes: [String: Node] = [:]

  package init() {}

  /// Whether a node has told of a step.
  package func hasBegun(_ node: String) -> Bool { nodes[node]?.place != nil }

  /// The version of the last step that a node has told of, or of the last one that it has left out.
  package func version(of node: String) -> UInt64 { nodes[node]?.version ?? 0 }

  /// Takes what the feed of a node tells. What comes behind a gap is passed over.
  package mutating func take(_ step: NodeStep) {
    var node = nodes[step.node] ?? Node()
    defer { nodes[step.node] = node }
    node.version = max(node.version, step.version)
    // Before the first step that is told there may have been some that changed nothing.
    let follows =
      node.place.map { step.place == $0 + 1 }
      ?? (step.place == 1 || step.event == .string(RamblingPlan.tick))
    node.place = step.place
    guard !node.isCut, follows, step.skipped == nil, let event = step.event, let state = step.state
    else {
      node.isCut = true
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

  /// Takes the dead letters that a node has now, oldest first; those that are known already may be among them.
  package mutating func take(_ letters: [DeadLetter], of name: String) {
    var node = nodes[name] ?? Node()
    let known = node.letters.last?.id ?? 0
    node.letters += letters.filter { $0.id > known }
    nodes[name] = node
  }

  /// What a node has done, in order, up to where something is missing.
  package func items(of name: String) -> [Item] {
    guard let node = nodes[name] else { return [] }
    let letters = node.letters.enumerated().prefix { $0.element.id == UInt64($0.offset) + 1 }
      .map(\.element)
    // Of those that were forgotten before they were asked for, nothing is known, nor what came then.
    let end = letters.count < node.letters.count ? letters.last?.version ?? 0 : .max
    // Those behind the last step that is known may be behind others that are not.
    let last = node.items.last?.version ?? 0
    let refusals = letters.filter { $0.pipe != "request" && $0.version <= last }.map { letter in
      Item(
        node: name, version: letter.version, event: letter.event,
        origin: .pipe(letter.pipe, number: letter.sequence))
    }
    // A refusal leaves the version as it is, so that it comes behind the step that led to it.
    let all = (node.items + refusals).enumerated().sorted {
      ($0.element.version, $0.offset) < ($1.element.version, $1.offset)
    }.map(\.element)
    return Array(all.prefix { $0.version <= end })
  }
}
