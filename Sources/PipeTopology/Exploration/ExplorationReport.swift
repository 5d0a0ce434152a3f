import PipeMachines
import PipeWire

/// The limits and options of a search of a topology.
package struct ExplorationSettings: Sendable {
  /// The time limit; `nil` for no limit.
  package var timeLimit: Duration?
  /// The memory limit. Unit: bytes.
  package var memoryLimit = 1 << 30
  package var threadCount = 2
  /// The names of the properties to check. If empty, the search checks all properties, and reports
  /// findings of all other kinds as well.
  package var properties: [String] = []
  /// Whether a search that checks only properties continues after the first violation.
  package var continuesAfterViolation = false
  /// Whether the search is reduced (partial-order reduction): it omits interleavings that cannot
  /// change the verdict.
  package var isReduced = true
  /// Whether the search stores states as 64-bit hashes, which saves memory.
  package var isHashed = false
  /// Whether the report includes the graph of all states, if the graph is small.
  package var includesGraph = false
  /// Whether the report includes scenarios that cover all reachable transitions. The search is then
  /// not reduced.
  package var includesCover = false
  /// The maximum number of states of one node. The search ends when a node has more states.
  package var nodeStateLimit = 10_000

  package init() {}
}

/// The progress of a search.
package struct ExplorationProgress: Sendable {
  package var stateCount: Int
  package var stepCount: Int
  package var depth: Int
  /// The memory that the search uses. Unit: bytes.
  package var byteCount: Int

  package init(states: Int, steps: Int, depth: Int, byteCount: Int) {
    self.stateCount = states
    self.stepCount = steps
    self.depth = depth
    self.byteCount = byteCount
  }
}

/// The result of a search of a topology.
package struct ExplorationReport: Sendable {
  package var verdict: ExplorationVerdict
  /// The findings. Deadlocks are sorted by the length of their scenarios, and so are stuck states.
  /// Other findings are in no particular order.
  package var findings: [ExplorationFinding]
  package var totals: ExplorationProgress
  package var duration: Duration
  /// Whether the search skipped steps and states, by partial-order reduction or by symmetries.
  package var isReduced: Bool
  /// The graph of all reachable states and steps; `nil` if the search was incomplete or the graph
  /// is large.
  package var graph: ExploredGraph?
  /// The scenarios that cover all transitions; `nil` if they were not requested, or if the graph of
  /// all steps does not fit into memory.
  package var cover: ScenarioCover?

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
  /// Adds findings from the report of another search of the same topology. Omits findings that this
  /// report already contains.
  ///
  /// The other search used higher pipe capacities and ended at a limit. Its findings are certain,
  /// although the search is incomplete.
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
  package var stateTexts: [[String]]
  package var steps: [Step]

  package init(states: [[String]], steps: [Step]) {
    self.stateTexts = states
    self.steps = steps
  }

  /// The maximum number of states in a graph that is drawn.
  package static let maximumStateCount = 500
}

/// An entry of `allow`: a description of expected findings, with the reason. Matching findings are
/// counted, and do not fail the check.
public struct AllowedFinding: Hashable, Sendable {
  /// The kinds of findings that a file may allow.
  public enum Kind: String, CaseIterable, Hashable, Sendable {
    case deadlock, stuck
    case fullPipes = "full-pipes"
    case deadLetter = "dead-letter"
    case fatalRefusal = "fatal-refusal"
    case ignoredEvent = "ignored-event"
    case neverEnabled = "never-enabled"
    case unreachableState = "unreachable-state"
  }

  /// The kind of the expected findings.
  public var kind: Kind
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
    _ kind: Kind, node: String? = nil, pipe: String? = nil, event: String? = nil,
    state: String? = nil, reason: String
  ) {
    self.kind = kind
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
    case .ignoredEvent(let pipe, let node, let event, let state, _):
      return matches(
        .ignoredEvent, nodes: [node], pipes: [pipe], event: event.caseName, state: state.caseName)
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
    self.kind == kind
      && (node.map { node in nodes.contains { $0 == node || InstanceName($0)?.node == node } }
        ?? true)
      // An entry with a pipe does not match a finding in which events also wait in other pipes.
      && (pipe.map { pipe in !pipes.isEmpty && pipes.allSatisfy { $0 == pipe } } ?? true)
      && (self.event.map { $0 == event } ?? true) && (self.state.map { $0 == state } ?? true)
  }
}

extension ExplorationReport {
  /// Removes the findings that match an entry. Adds a remark for each entry, with the number of
  /// removed findings.
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
