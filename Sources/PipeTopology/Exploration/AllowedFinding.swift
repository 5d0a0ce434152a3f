import PipeMachines

/// Findings of a search that are expected, with the reason: they are counted, and do not fail the check.
public struct AllowedFinding: Hashable, Sendable {
  /// The kinds of findings that a file may allow.
  public enum Kind: String, CaseIterable, Hashable, Sendable {
    case deadlock, stuck
    case fullPipes = "full-pipes"
    case deadLetter = "dead-letter"
    case fatalRefusal = "fatal-refusal"
    case neverEnabled = "never-enabled"
    case unreachableState = "unreachable-state"
  }

  /// The kind, by its code.
  public var finding: Kind
  /// The node, or the composite, that is concerned; `nil`: any.
  public var node: String?
  /// The pipe, by its name; `nil`: any.
  public var pipe: String?
  /// The label of the event; `nil`: any.
  public var event: String?
  /// The label of the state; `nil`: any.
  public var state: String?
  /// Why it is expected.
  public var reason: String

  /// Makes an entry.
  public init(
    _ finding: Kind, node: String? = nil, pipe: String? = nil, event: String? = nil,
    state: String? = nil, reason: String
  ) {
    self.finding = finding
    self.node = node
    self.pipe = pipe
    self.event = event
    self.state = state
    self.reason = reason
  }

  /// Whether it allows a finding.
  package func allows(_ kind: ExplorationFinding.Kind) -> Bool {
    switch kind {
    case .deadlock: return matches(.deadlock)
    case .stuck(let pipes): return matches(.stuck, pipes: pipes)
    case .fullPipes(let nodes): return matches(.fullPipes, nodes: nodes)
    case .deadLetter(let pipe, let node, let event, let state, _):
      return matches(
        .deadLetter, nodes: [node], pipes: [pipe], event: event.caseName, state: state.caseName)
    case .fatalRefusal(let pipe, let node, let event, let state, _):
      return matches(
        .fatalRefusal, nodes: [node], pipes: [pipe], event: event.caseName, state: state.caseName)
    case .neverEnabled(let owner, let event):
      return matches(.neverEnabled, nodes: [owner], event: event)
    case .unreachable(let node, let state):
      return matches(.unreachableState, nodes: [node], state: state)
    case .violated, .crash, .impure, .brokenFold, .badAnswer, .lateAnswer: return false
    }
  }

  private func matches(
    _ kind: Kind, nodes: [String] = [], pipes: [String] = [], event: String? = nil,
    state: String? = nil
  ) -> Bool {
    finding == kind && (node.map(nodes.contains) ?? true)
      // Where events wait in another pipe as well, that is not allowed by this.
      && (pipe.map { pipe in !pipes.isEmpty && pipes.allSatisfy { $0 == pipe } } ?? true)
      && (self.event.map { $0 == event } ?? true) && (self.state.map { $0 == state } ?? true)
  }
}

extension ExplorationReport {
  /// Takes out the findings that the file allows, and says how many there were.
  package mutating func allow(_ allowed: [AllowedFinding]) {
    var counts = allowed.map { _ in 0 }
    findings.removeAll { finding in
      guard let index = allowed.firstIndex(where: { $0.allows(finding.kind) }) else { return false }
      counts[index] += 1 + finding.similarCount
      return true
    }
    for (entry, count) in zip(allowed, counts) {
      verdict.remarks.append(.allowed(entry, count: count))
    }
  }
}
