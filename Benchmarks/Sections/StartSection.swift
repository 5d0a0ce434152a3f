import PipeRuntime
import PipeSupervision

/// Measures the time until a single node is ready, and until a hundred nodes of an orchestrator are
/// ready.
struct StartSection {
  private let setting: Setting

  private static let nodeCount = 100

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    try Programs.check()
    try runOne(&report)
    try runMany(&report)
    report.note(
      "baselines: the same number of /bin/sleep, from the start of the first until each has")
    report.note(
      "executed. A node is ready when it has said so; \(Self.nodeCount) of them when up returns")
    report.note("durability is the default, \(Durability.standard.rawValue): each makes a journal")
    try measureSupervisord(&report)
  }

  private func runOne(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    let nodeLauncher = try NodeLauncher(in: directory)
    var ours = Samples()
    var baseline = Samples()
    var uses = ProcessorUses()
    for round in 0...setting.pick(21, quick: 5) {
      var node = try nodeLauncher.start(machine: "Relay", durability: .standard)
      node.process.end()
      let bare = try Self.spawnSleeping(count: 1)
      guard round > 0 else { continue }
      ours.add(node.readyAfter)
      uses.add(node.useUntilReady)
      baseline.add(bare)
    }
    report.add(
      Figure(
        name: "a node, from exec to ready; /bin/sleep", value: .seconds(ours.median),
        baseline: .seconds(baseline.median), target: .atMost(.seconds(0.05))))
    report.add(
      Figure(
        name: "processor time of it until then", value: uses.time,
        target: .atMost(.seconds(0.009))))
    report.note("by thread: \(uses.last)")
  }

  private func runMany(_ report: inout Report) throws {
    var ours = Samples()
    var baseline = Samples()
    for _ in 0..<setting.pick(5, quick: 1) {
      ours.add(try Self.startChain())
      baseline.add(try Self.spawnSleeping(count: Self.nodeCount))
    }
    report.add(
      Figure(
        name: "\(Self.nodeCount) relays: up -d --wait; /bin/sleep", value: .seconds(ours.median),
        baseline: .seconds(baseline.median), target: .atMost(.seconds(0.6))))
  }

  /// Starts the chain of relays.
  /// - Returns: The time that `orchestrator up -d --wait` took. Unit: seconds.
  private static func startChain() throws -> Double {
    let directory = try TemporaryDirectory()
    let file = try directory.write(chain, to: "chain.yaml")
    let orchestrator = OrchestratorCommand(directory: directory)
    let down: @Sendable () -> Void = { try? orchestrator.run(["down", "-p", "chain"]) }
    let cleanup = Cleanup.add(down)
    defer {
      Cleanup.remove(cleanup)
      down()
    }
    let start = Clock.nanoseconds
    try orchestrator.run(["up", "-d", "--wait", file])
    return Double(Clock.nanoseconds - start) / 1e9
  }

  /// Measures the same number of processes with supervisord, if it is installed.
  private func measureSupervisord(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    var times = Samples()
    for _ in 0..<setting.pick(5, quick: 1) {
      guard let time = try SupervisordPeer.start(Self.nodeCount, in: directory) else {
        return report.note(SupervisordPeer.missing)
      }
      times.add(time)
    }
    report.add(
      Figure(
        name: "supervisord: \(Self.nodeCount) /bin/sleep", value: .seconds(times.median)))
    report.note("from its own start until each has executed; it waits for nothing that they say")
  }

  /// Starts idle processes directly, as a baseline.
  /// - Returns: The time until all of them have called exec. Unit: seconds.
  static func spawnSleeping(count: Int) throws -> Double {
    var processes: [ChildProcess] = []
    defer { for index in processes.indices { processes[index].end() } }
    let start = Clock.nanoseconds
    for _ in 0..<count { processes.append(try ChildProcess.spawn(.sleep)) }
    return Double(Clock.nanoseconds - start) / 1e9
  }

  /// A topology of relays, each with a pipe to the next one, as YAML.
  private static var chain: String {
    let nodes = (1...nodeCount).map { "  n\($0): { machine: Relay }" }
    let pipes = (1..<nodeCount).map { "  - { from: n\($0).out, to: n\($0 + 1).in }" }
    return """
      topology: chain
      program: \(Programs.nodes)
      nodes:
      \(nodes.joined(separator: "\n"))
      pipes:
      \(pipes.joined(separator: "\n"))
      """
  }
}

/// Measures the verbs that concern all nodes, for growing numbers of nodes.
struct CommandsSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    try Programs.check()
    let sizes = setting.pick([10, 100, 500], quick: [10, 50])
    var before: (size: Int, times: RelayChain.Times)?
    for size in sizes {
      let times = try RelayChain(size).run(lists: 3)
      func add(_ verb: String, _ time: (RelayChain.Times) -> Double) {
        report.add(
          Figure(
            name: "\(verb), \(size) relays",
            value: .seconds(time(times)),
            baseline: before.map { .seconds(time($0.times) * Double(size) / Double($0.size)) },
            target: before.map { _ in .ratioAtMost(1.1) }))
      }
      add("up -d --wait") { $0.up }
      add("ps") { $0.ps.median }
      add("down") { $0.down }
      before = (size, times)
    }
    report.note(
      "baselines: what each node took with fewer of them, for as many: more than that is worse than linear"
    )
  }
}
