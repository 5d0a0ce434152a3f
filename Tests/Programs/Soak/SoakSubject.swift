import PipeRuntime

/// The topic of a soak, which determines its random topologies.
package enum SoakTopic: String, CaseIterable, Sendable {
  case pipes, composites
  /// Composites in which some members are written as actors.
  case models
  /// Keyed nodes, whose shards change while the topology runs.
  case instances

  /// Whether the topic concerns synchronized events.
  package var involvesComposites: Bool { self == .composites || self == .models }

  /// The failpoints that must act in a long run.
  package var failpointsToCover: [Failpoint] {
    Failpoint.allCases.filter { point in
      point.isOfSynchronizedEvents == involvesComposites
        // This failpoint acts only after an asynchronous transition.
        && (point != .evaluateAfter || self == .models)
        // The orchestrator of a soak has no failpoints. It is killed during moves of instances.
        && !point.isOfOrchestrator
        // No event of keyed nodes becomes a dead letter.
        && (point != .deadLetterAfter || self != .instances)
    }
  }

  /// The range of the time between two faults from outside. Unit: microseconds.
  var gap: ClosedRange<Int> {
    switch self {
    case .pipes, .instances: 0...20_000
    // Faults are rarer, because an event needs all its participants and their coordinator at the
    // same time.
    case .composites, .models: 0...60_000
    }
  }

  /// The progress that is required after ``faultsPerProgressCheck`` faults.
  var requiredProgress: Int {
    switch self {
    case .pipes, .instances: 1
    // Each meeting has at least two members.
    case .composites, .models: 20
    }
  }

  /// The number of faults from outside after which the topology must have made progress.
  var faultsPerProgressCheck: Int {
    switch self {
    case .pipes, .instances: 6
    case .composites, .models: 3
    }
  }

  /// Returns a random topology.
  func subject(round: Int, using generator: inout SplitMix64) -> any SoakSubject {
    switch self {
    case .pipes:
      let shapes = SoakPlan.Shape.allCases
      return SoakPlan(shapes[round % shapes.count], using: &generator)
    case .composites: return MeetingPlan(using: &generator)
    case .models: return MeetingPlan(hasModels: true, using: &generator)
    case .instances: return InstancesPlan(using: &generator)
    }
  }
}

/// A random topology of a soak.
protocol SoakSubject: Sendable {
  /// A short description of the topology, for people.
  var summary: String { get }
  /// A description of all nodes, for people.
  var details: String { get }
  var topic: SoakTopic { get }
  /// The names of the nodes that faults strike. A name that is listed twice is struck twice as
  /// often.
  var faultTargets: [String] { get }
  /// For each embedded node, its carrier node.
  var hosts: [String: String] { get }
  /// The participants of synchronized events, with their coordinators, for faults that connect
  /// namesakes.
  var memberCoordinators: [MemberCoordinator] { get }
  /// Returns a number that grows while events arrive.
  func progress(_ directory: TopologyDirectory) -> Int
  func topology(
    name: String, program: String, environment: [String: String], durability: Durability,
    heartbeat: Duration
  ) -> Topology
  /// Returns a load that keeps the topology busy.
  func load(_ client: ReattachingClient, _ durability: Durability, seed: UInt64) -> any SoakLoad
}

/// A member of a composite, and its coordinator.
struct MemberCoordinator: Sendable {
  var member: String
  var coordinator: String
}

/// Keeps a topology busy, and checks the results at the end.
protocol SoakLoad: AnyObject, Sendable {
  /// Sends events until ``stop()`` is called.
  func run() async throws
  /// Stops sending events. Pending events continue.
  func stop()
  /// Waits until no event is in flight, and adds all violations to the outcome.
  func verify(_ outcome: inout SoakOutcome) async throws
  /// Checks the files that the nodes leave after their end, and adds all violations to the outcome.
  func inspect(_ directories: RuntimeDirectories, _ outcome: inout SoakOutcome)
}

/// The findings about one or more topologies.
struct SoakOutcome: Sendable {
  var counts = FaultCounts()
  var arrived = 0
  var lost = 0
  var repeated = 0
  var reordered = 0
  var meetings = MeetingCounts()
  var violations: [String] = []
  /// The path of the directory that is kept after a violation.
  var directory: String?

  /// Adds the counts of another outcome. The violations are not added, because they are already
  /// reported.
  static func += (left: inout SoakOutcome, right: SoakOutcome) {
    left.counts += right.counts
    left.arrived += right.arrived
    left.lost += right.lost
    left.repeated += right.repeated
    left.reordered += right.reordered
    left.meetings += right.meetings
  }
}
