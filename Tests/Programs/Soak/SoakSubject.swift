import PipeRuntime

/// What a soak is about.
package enum SoakTopic: String, CaseIterable, Sendable {
  case pipes, composites
  /// Composites some of whose members are models.
  case models

  /// Whether it is about synchronized events.
  package var isOfComposites: Bool { self != .pipes }

  /// The failpoints that must strike in a long run.
  package var points: [Failpoint] {
    Failpoint.allCases.filter { point in
      point.isOfSynchronizedEvents == isOfComposites
        // Where a transition has taken its time.
        && (point != .evaluateAfter || self == .models)
    }
  }

  /// Between two faults from outside. Unit: microseconds.
  var gap: ClosedRange<Int> {
    switch self {
    case .pipes: 0...20_000
    // An event needs all its participants at once, and their coordinator.
    case .composites, .models: 0...60_000
    }
  }

  /// How far something must have got on after some faults.
  var advance: Int {
    switch self {
    case .pipes: 1
    // Each meeting is one of two members at least.
    case .composites, .models: 20
    }
  }

  /// Faults from outside after which something must have got on.
  var patience: Int {
    switch self {
    case .pipes: 6
    case .composites, .models: 3
    }
  }

  /// A random topology.
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

/// A random topology of a soak, and what it is to do.
protocol SoakSubject: Sendable {
  /// In words.
  var summary: String { get }
  /// All nodes, in words.
  var details: String { get }
  var topic: SoakTopic { get }
  /// The nodes that faults strike; one that stands here twice is struck twice as often.
  var struck: [String] { get }
  /// The nodes in whose processes others live, by these others.
  var hosts: [String: String] { get }
  /// Who takes part in synchronized events, and of whose coordinators there may be namesakes.
  var coordinated: [Coordinated] { get }
  /// A number that grows while events arrive.
  func progress(_ directory: TopologyDirectory) -> Int
  func topology(
    name: String, program: String, environment: [String: String], durability: Durability,
    heartbeat: Duration
  ) -> Topology
  /// What keeps the topology busy while it runs.
  func load(_ client: SteadyClient, _ durability: Durability, seed: UInt64) -> any SoakLoad
}

/// A member of a composite, and the node that coordinates it.
struct Coordinated: Sendable {
  var member: String
  var coordinator: String
}

/// Keeps a topology busy, and knows what must come of it.
protocol SoakLoad: AnyObject, Sendable {
  /// Gives it events until it is stopped.
  func run() async throws
  /// Lets what is under way come to an end.
  func stop()
  /// Waits until everything has come to rest, and tells what is not as it should be.
  func verify(_ outcome: inout SoakOutcome) async throws
  /// Looks at what the nodes have left, after their end.
  func inspect(_ directories: RuntimeDirectories, _ outcome: inout SoakOutcome)
}

/// What was found of one topology, or of several.
struct SoakOutcome: Sendable {
  var counts = FaultCounts()
  var arrived = 0
  var lost = 0
  var repeated = 0
  var reordered = 0
  var meetings = MeetingCounts()
  var violations: [String] = []
  /// What was kept, where something was wrong.
  var directory: String?

  /// Adds the numbers of another one; its violations are told of where they were found.
  static func += (left: inout SoakOutcome, right: SoakOutcome) {
    left.counts += right.counts
    left.arrived += right.arrived
    left.lost += right.lost
    left.repeated += right.repeated
    left.reordered += right.reordered
    left.meetings += right.meetings
  }
}
