import PipeMachines

/// The limits and options of a search of a topology.
package struct ExplorationSettings: Sendable {
  /// The time limit; `nil` for no limit.
  package var time: Duration?
  /// Unit: bytes.
  package var memory = 1 << 30
  package var threads = 2
  /// The only properties to check; if empty, all properties and every other kind of finding.
  package var properties: [String] = []
  /// Whether a search for properties alone continues after the first violation.
  package var continuesAfterViolation = false
  /// Whether partial-order reduction is used: the search skips steps that only reorder other steps,
  /// where the results stay the same.
  package var isReduced = true
  /// Whether states are stored as 64-bit fingerprints.
  package var isHashed = false
  /// Whether the report includes the graph of all states, if the graph is small.
  package var includesGraph = false
  /// The number of states of one node at which the search ends.
  package var nodeStateLimit = 10_000

  package init() {}
}

/// The progress of a search.
package struct ExplorationProgress: Sendable {
  package var states: Int
  package var steps: Int
  package var depth: Int
  /// Unit: bytes.
  package var byteCount: Int

  package init(states: Int, steps: Int, depth: Int, byteCount: Int) {
    self.states = states
    self.steps = steps
    self.depth = depth
    self.byteCount = byteCount
  }
}

/// The result of a search of a topology.
package struct ExplorationReport: Sendable {
  package var verdict: ExplorationVerdict
  /// The findings in no particular order; several findings of a kind are sorted by the length of
  /// their counterexamples.
  package var findings: [ExplorationFinding]
  package var totals: ExplorationProgress
  package var duration: Duration
  /// Whether partial-order reduction skipped steps and states.
  package var isReduced: Bool
  /// All reachable states and steps; `nil` unless the search was complete and the graph is small.
  package var graph: ExploredGraph?

  package init(
    verdict: ExplorationVerdict, findings: [ExplorationFinding], totals: ExplorationProgress,
    duration: Duration, isReduced: Bool = false, graph: ExploredGraph? = nil
  ) {
    self.verdict = verdict
    self.findings = findings
    self.totals = totals
    self.duration = duration
    self.isReduced = isReduced
    self.graph = graph
  }
}

extension ExplorationReport {
  /// Adds the findings of another search of the topology, with larger pipes, that a limit ended.
  ///
  /// Those findings are certain. The other search did not prove that anything is impossible.
  package mutating func add(findingsOf other: ExplorationReport) {
    let known = Set(findings.map(\.kind))
    findings += other.findings.filter { !known.contains($0.kind) }
  }
}

/// Every state and step of a small topology.
package struct ExploredGraph: Sendable {
  package struct Step: Hashable, Sendable {
    package var source: Int
    package var target: Int
    package var label: String

    package init(source: Int, target: Int, label: String) {
      self.source = source
      self.target = target
      self.label = label
    }
  }

  /// The text of each state, with one line for each node and each non-empty pipe. The first state
  /// is the initial state.
  package var states: [[String]]
  package var steps: [Step]

  package init(states: [[String]], steps: [Step]) {
    self.states = states
    self.steps = steps
  }

  /// The number of states of the largest graph that is drawn.
  package static let limit = 500
}

/// An entry for expected findings, with the reason. They are counted, but do not fail the check.
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

  /// The kind of the findings, by its code.
  public var finding: Kind
  /// The node or composite of the finding; `nil` matches any.
  public var node: String?
  /// The name of the pipe; `nil` matches any.
  public var pipe: String?
  /// The label of the event; `nil` matches any.
  public var event: String?
  /// The label of the state; `nil` matches any.
  public var state: String?
  /// The reason why the findings are expected.
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

  /// Returns whether the entry allows a finding.
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
      // The entry does not allow findings where events wait in other pipes, too.
      && (pipe.map { pipe in !pipes.isEmpty && pipes.allSatisfy { $0 == pipe } } ?? true)
      && (self.event.map { $0 == event } ?? true) && (self.state.map { $0 == state } ?? true)
  }
}

extension ExplorationReport {
  /// Removes the findings that the file allows, and adds a remark with the count for each entry.
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
