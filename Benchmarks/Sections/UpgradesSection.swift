import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupervision
import PipeSystem

/// Measures the upgrade of a running topology to another build of its program, the dry run before
/// it, and the cost of backups.
struct UpgradesSection {
  private let setting: Setting

  private static let nodeCount = 100
  /// The back-off before each restart. Unit: milliseconds.
  private static let backoff = 20

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    try addDryRun(&report)
    try addUpgrades(&report)
    try addPause(&report)
    try addBackups(&report)
  }

  /// Measures the dry run of an upgrade of a node with many instances. The new program decodes the
  /// state of each instance.
  private func addDryRun(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    var program = try UpgradableProgram(in: directory)
    let count = setting.pick(100_000, quick: 20_000) / KeySource.burst * KeySource.burst
    let topology = try TopologyRun(
      """
      topology: instances
      program: \(program.path)
      nodes:
        source: { machine: KeySource, durability: none }
        visitors: { machine: Visitor, key: key }
      pipes:
        - { from: source.out, to: visitors, capacity: 8192, on_refused: fail }
        - { from: source.again, to: source.in }
      """, named: "instances", in: directory)
    let client = topology.client
    _ = try Blocking.run {
      try await client.send("source", KeySource.Event.send(first: 0, end: count, times: 1))
    }
    try topology.wait(until: "all events are applied", isFresh: true) {
      $0[node: "visitors"]?.status?.version ?? 0 >= UInt64(count)
    }
    try program.rebuild()
    let command = OrchestratorCommand(directory: directory)
    let start = Clock.nanoseconds
    try command.run(["apply", "--dry-run", topology.file])
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    report.add(
      Figure(
        name: "states in the dry run of an upgrade", value: .perSecond(Double(count) / elapsed),
        target: .atLeast(.perSecond(50_000))))
    report.note("\(count.grouped) instances, with the start of the command and of the new program")
  }

  /// Measures the upgrade of all nodes of a topology, one node after the other.
  private func addUpgrades(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    var program = try UpgradableProgram(in: directory)
    let nodes = (1...Self.nodeCount).map { "\n  sink\($0): { machine: Sink }" }
    let topology = try TopologyRun(
      "topology: many\nprogram: \(program.path)\nnodes:\(nodes.joined())\n", named: "many",
      in: directory)
    var times = Samples()
    for _ in 0..<setting.pick(3, quick: 1) {
      try program.rebuild()
      let start = Clock.nanoseconds
      try OrchestratorCommand(directory: directory).run(["apply", topology.file])
      times.add(Double(Clock.nanoseconds - start) / 1e9)
    }
    report.add(
      Figure(name: "upgrade of \(Self.nodeCount) idle nodes", value: .seconds(times.median)))
  }

  /// Measures how long a node does not run during its upgrade, and how long it takes to start.
  private func addPause(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    var program = try UpgradableProgram(in: directory)
    let topology = try TopologyRun(
      """
      topology: one
      program: \(program.path)
      nodes:
        sink:
          machine: Sink
          restart:
            { max: 1000, window: 1s, backoff: { initial: \(Self.backoff)ms, max: \(Self.backoff)ms } }
      """, named: "one", in: directory)
    var starts = Samples()
    var pauses = Samples()
    for _ in 0..<setting.pick(11, quick: 3) {
      starts.add(try topology.killAndAwait(["sink"]) - Double(Self.backoff) / 1e3)
      try program.rebuild()
      pauses.add(try Self.pause(ofUpgrade: topology, in: directory))
    }
    report.add(
      Figure(
        name: "pause of a node in its upgrade; its start", value: .seconds(pauses.median),
        baseline: .seconds(starts.median), target: .ratioAtMost(1.5)))
  }

  /// Upgrades the only node of a topology.
  /// - Returns: The time from the end of the former process until the node runs again. Unit:
  ///   seconds.
  private static func pause(
    ofUpgrade topology: TopologyRun, in directory: TemporaryDirectory
  ) throws -> Double {
    guard let former = try topology.directory()[node: "sink"], let pid = former.pid else {
      throw HarnessError("the node does not run")
    }
    var process = try OrchestratorCommand(directory: directory).spawn(["apply", topology.file])
    // The orchestrator answers no requests while it copies the program, so its directory does not
    // show the end of the process in time.
    let deadline = ContinuousClock.now + TopologyRun.deadline
    while kill(pid, 0) == 0 {
      guard ContinuousClock.now < deadline else {
        throw HarnessError("'apply' did not end the former process of the node")
      }
      usleep(100)
    }
    let start = Clock.nanoseconds
    let incarnation = former.incarnation
    try topology.wait(until: "the node runs again") { directory in
      directory[node: "sink"].map { $0.isRunning && $0.incarnation > incarnation } ?? false
    }
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    guard process.wait() == .exited(code: 0) else { throw HarnessError("'apply' failed") }
    return elapsed
  }

  /// Measures the rate of a flow of recorded events with and without backups.
  private func addBackups(_ report: inout Report) throws {
    let count = setting.pick(400_000, quick: 80_000)
    let directory = try TemporaryDirectory()
    let flow = try Flow(durability: .process, count: count, in: directory)
    let command = OrchestratorCommand(directory: directory)
    var rates = (plain: Samples(), copied: Samples(), ratio: Samples())
    var durations = Samples()
    for round in 0...setting.pick(6, quick: 3) {
      let plain = Double(count) / (try flow.topology.measure("source"))
      let file = directory.uniquePath("backup") + ".tar"
      let start = Clock.nanoseconds
      var backup = try command.spawn(["backup", "-p", flow.topology.name, file])
      let copied = Double(count) / (try flow.topology.measure("source"))
      guard backup.wait() == .exited(code: 0) else { throw HarnessError("'backup' failed") }
      let elapsed = Double(Clock.nanoseconds - start) / 1e9
      FileSystem.removeTree(file)
      guard round > 0 else { continue }
      durations.add(elapsed)
      rates.plain.add(plain)
      rates.copied.add(copied)
      rates.ratio.add(copied / plain)
    }
    report.add(
      Figure(
        name: "recorded events during a backup; without", value: .perSecond(rates.copied.median),
        baseline: .perSecond(rates.plain.median)))
    report.add(
      Figure(
        name: "the rate during a backup, as a part of the other",
        value: .count(rates.ratio.median), target: .atLeast(.count(0.9))))
    report.note("a backup begins with each \(count.grouped) events")
  }
}

/// A copy of this program that can be replaced by another build with the same machines.
private struct UpgradableProgram {
  let path: String
  private let bytes: Data
  private var buildCount = 0

  init(in directory: TemporaryDirectory) throws {
    path = directory.path + "/program"
    bytes = try Data(contentsOf: URL(filePath: Programs.own))
    try rebuild()
  }

  /// Replaces the file. The system ignores the text at the end of a program, but the text changes
  /// the hash of the program.
  mutating func rebuild() throws {
    buildCount += 1
    let next = path + ".next"
    try (bytes + Data("build \(buildCount)".utf8)).write(to: URL(filePath: next))
    guard chmod(next, 0o755) == 0, rename(next, path) == 0 else {
      throw SystemError("rename", on: path, code: errno)
    }
  }
}
