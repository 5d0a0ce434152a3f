import PipeRuntime

/// The topic of a soak.
package enum SoakTopic: String, CaseIterable, Sendable {
  case pipes, composites
  /// Composites with some models among their members.
  case models

  /// Whether the topic is about synchronized events.
  package var involvesComposites: Bool { self != .pipes }

  /// The failpoints that must act in a long run.
  package var failpointsToCover: [Failpoint] {
    Failpoint.allCases.filter { point in
      point.isOfSynchronizedEvents == involvesComposites
        // This one acts only after an asynchronous transition.
        && (point != .evaluateAfter || self == .models)
    }
  }

  /// The time between two faults from outside. Unit: microseconds.
  var gap: ClosedRange<Int> {
    switch self {
    case .pipes: 0...20_000
    // An event requires all its participants at once, and their coordinator.
    case .composites, .models: 0...60_000
    }
  }

  /// The required progress after some faults.
  var requiredProgress: Int {
    switch self {
    case .pipes: 1
    // Each meeting has at least two members.
    case .composites, .models: 20
    }
  }

  /// The number of faults from outside after which there must be progress.
  var faultsPerProgressCheck: Int {
    switch self {
    case .pipes: 6
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
    }
  }
}

/// A random topology of a soak, with its load.
protocol SoakSubject: Sendable {
  /// A description in words.
  var summary: String { get }
  /// All nodes, in words.
  var details: String { get }
  var topic: SoakTopic { get }
  /// The nodes that faults strike. A node that is listed twice is struck twice as often.
  var faultTargets: [String] { get }
  /// The carrier nodes, by the nodes that live in their processes.
  var hosts: [String: String] { get }
  /// The participants of synchronized events, with the coordinators that may get namesakes.
  var memberCoordinators: [MemberCoordinator] { get }
  /// Returns a number that grows while events arrive.
  func progress(_ directory: TopologyDirectory) -> Int
  func topology(
    name: String, program: String, environment: [String: String], durability: Durability,
    heartbeat: Duration
  ) -> Topology
  /// Returns the load that keeps the topology busy while it runs.
  func load(_ client: ReattachingClient, _ durability: Durability, seed: UInt64) -> any SoakLoad
}

/// A member of a composite, and the node that coordinates it.
struct MemberCoordinator: Sendable {
  var member: String
  var coordinator: String
}

/// Keeps a topology busy, and knows the expected results.
protocol SoakLoad: AnyObject, Sendable {
  /// Sends events until it is stopped.
  func run() async throws
  /// Stops sending events. The pending ones complete.
  func stop()
  /// Waits until everything has come to rest, and adds all violations.
  func verify(_ outcome: inout SoakOutcome) async throws
  /// Inspects the files that the nodes have left after their end.
  func inspect(_ directories: RuntimeDirectories, _ outcome: inout SoakOutcome)
}

/// The findings about one topology, or about several.
struct SoakOutcome: Sendable {
  var counts = FaultCounts()
  var arrived = 0
  var lost = 0
  var repeated = 0
  var reordered = 0
  var meetings = MeetingCounts()
  var violations: [String] = []
  /// The kept directory, if there was a violation.
  var directory: String?

  /// Adds the numbers of another outcome, but not its violations, which are reported where they are
  /// found.
  static func += (left: inout SoakOutcome, right: SoakOutcome) {
    left.counts += right.counts
    left.arrived += right.arrived
    left.lost += right.lost
    left.repeated += right.repeated
    left.reordered += right.reordered
    left.meetings += right.meetings
  }
}
