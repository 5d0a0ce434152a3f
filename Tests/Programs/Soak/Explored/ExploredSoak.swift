import Glibc
import PipeModelChecker
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision

/// Searches random topologies, runs them, and checks that each run is a path through the states
/// that the search has found.
struct ExploredSoak {
  private let options: SoakOptions
  private var generator: SplitMix64
  private var eventCounts = ExploredPath.EventCounts()
  private var problems: [String] = []

  /// The number of orders in which a run is replayed.
  private static let orders = 3
  /// The memory limit of a search. If a search needs more, another topology is generated. Unit:
  /// bytes.
  private static let memory = 24 << 20
  /// The number of topologies after which each kind of rare event must have occurred.
  private static let longRun = 50

  init(_ options: SoakOptions) {
    self.options = options
    generator = SplitMix64(seed: options.seed)
  }

  /// Runs the soak.
  /// - Returns: Whether the searches predicted every run.
  mutating func run() async throws -> Bool {
    let start = ContinuousClock.now
    printLine(
      "soak of \(SoakOptions.explored): seed \(options.seed), "
        + "durability \(options.durability.rawValue)")
    var count = 0
    while count < options.topologies,
      options.time.map({ ContinuousClock.now - start < $0 }) ?? true
    {
      count += 1
      var roundGenerator = SplitMix64(seed: generator.next())
      try await round(count, using: &roundGenerator)
    }
    if count >= Self.longRun {
      problems += eventCounts.missing.map { "never seen: \($0)" }
    }
    printLine(
      "\(count) topologies, \(eventCounts.steps) steps, \(eventCounts.effects) of them by effects, "
        + "\(eventCounts.refusals) dead letters, \(eventCounts.overtaking) events that overtook others, "
        + "\(eventCounts.overshooting) steps beyond the room in a pipe; "
        + (ContinuousClock.now - start).shortText)
    guard !problems.isEmpty else {
      printLine("verdict: as searched")
      return true
    }
    printLine(
      "verdict: VIOLATED, \(problems.count.counted("violation")); repeat with: soak \(options.text)"
    )
    return false
  }

  private mutating func round(_ number: Int, using generator: inout SplitMix64) async throws {
    let start = ContinuousClock.now
    let (plan, topology, explored) = try await search(using: &generator)
    let trace = try await RamblingRun.run(plan, topology, using: &generator)
    var failure = ""
    var itemCount = 0
    do {
      for order in 0..<Self.orders {
        var path = ExploredPath(explored, plan.pipes)
        let run = RunOrder(
          plan.nodes.map { trace.items(of: $0.name) },
          plan.pipes.map { pipe in
            RunOrder.Pipe(
              name: pipe.name, sender: pipe.sender, receiver: pipe.receiver,
              capacity: pipe.capacity, initialCount: path.count(of: pipe.name))
          })
        itemCount = run.count
        try path.replay(run.order(using: &generator))
        if order == 0 { eventCounts += path.eventCounts }
      }
    } catch {
      failure = "\(error)"
    }
    let states = explored.report.totals.stateCount
    printLine(
      "topology \(number): \(plan.summary), \(states) states; \(itemCount) steps and dead letters, "
        + "\((ContinuousClock.now - start).shortText): "
        + (failure.isEmpty ? "as searched" : "VIOLATED"))
    guard !failure.isEmpty else { return }
    problems.append(failure)
    printLine("  \(failure)")
    for node in plan.nodes {
      printLine("  steps of '\(node.name)':")
      for item in trace.items(of: node.name) { printLine("    \(item.version): \(item)") }
    }
    let keptDirectory = try TestDirectory()
    try keptDirectory.write(topology.yaml, to: "topology.yaml")
    printLine("  its file is kept in \(keptDirectory.path)")
  }

  /// Generates topologies until the search of one of them is complete.
  private func search(
    using generator: inout SplitMix64
  ) async throws -> (RamblingPlan, Topology, ExploredTopology) {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let program = try BinaryLocator.find("TestNodes")
    var settings = ExplorationSettings()
    settings.threadCount = 1
    settings.memoryLimit = Self.memory
    while true {
      let plan = RamblingPlan(using: &generator)
      let topology = plan.topology(
        name: "rambling", program: program, durability: options.durability)
      let file = try directory.write(topology.yaml, to: "topology.yaml")
      let loaded = try LoadedTopology.load(.file(file))
      let explored = try await TopologyExplorer(loaded, topology.explore, settings).explored()
      switch explored.report.verdict.degree {
      case .exact: return (plan, topology, explored)
      case .incomplete: continue
      case .sampled:
        throw SoakFailure("a search has assumed something: \(explored.report.verdict.remarks)")
      }
    }
  }
}
