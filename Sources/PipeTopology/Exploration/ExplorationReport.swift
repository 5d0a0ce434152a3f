import PipeMachines

/// How far a search of a topology goes, and what it looks for.
package struct ExplorationSettings: Sendable {
  /// `nil`: no limit.
  package var time: Duration?
  /// Unit: bytes.
  package var memory = 1 << 30
  package var threads = 2
  /// The properties that are checked, and nothing else; none: all, and everything else that can be found.
  package var properties: [String] = []
  /// Whether a search that checks properties alone goes on behind the first violation.
  package var continuesAfterViolation = false
  /// Whether steps are left out that only change the order of others, as far as the answers are the same.
  package var isReduced = true
  /// States are stored as fingerprints of 64 bits.
  package var isHashed = false
  /// Whether the report has the graph of all states, where they are few.
  package var drawsGraph = false
  /// States of one node at which the search ends.
  package var nodeStateLimit = 10_000

  package init() {}
}

/// How far a search has got.
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

/// What a search of a topology has found out.
package struct ExplorationReport: Sendable {
  package var verdict: ExplorationVerdict
  /// In any order; nearest counterexamples first where there are several of a kind.
  package var findings: [ExplorationFinding]
  package var reached: ExplorationProgress
  package var duration: Duration
  /// Whether steps were left out that only change the order of others, and states with them.
  package var isReduced: Bool
  /// All reachable states and steps, of a search that was complete and of few states.
  package var graph: ExploredGraph?

  package init(
    verdict: ExplorationVerdict, findings: [ExplorationFinding], reached: ExplorationProgress,
    duration: Duration, isReduced: Bool = false, graph: ExploredGraph? = nil
  ) {
    self.verdict = verdict
    self.findings = findings
    self.reached = reached
    self.duration = duration
    self.isReduced = isReduced
    self.graph = graph
  }
}

extension ExplorationReport {
  /// Adds what another search of the topology has found with larger pipes before a limit ended it.
  ///
  /// All of that can happen; what happens never was not found out.
  package mutating func add(foundBeyond other: ExplorationReport) {
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

  /// What stands in each state, a line for each node and for each pipe that holds something; the first
  /// state is the initial one.
  package var states: [[String]]
  package var steps: [Step]

  package init(states: [[String]], steps: [Step]) {
    self.states = states
    self.steps = steps
  }

  /// The states of the largest graph that is drawn.
  package static let limit = 500
}

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
