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
