import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// Tests of nodes after a permanent loss of a host or of their orchestrator. Like ``SlurmTests``
/// they run one after the other, and each has separate hosts.
@Suite(
  "Nodes of a Slurm job after the loss of a host or an orchestrator", .timed, .needsSlurm,
  .serialized)
struct SlurmLossTests: OnSlurmHosts {}

// Nodes that may move to another host.
extension SlurmLossTests {
  static let spare = """
    engine: slurm
    address: 10.77.0.10
    journals: shared
    lease: 2s
    places:
      front: { hosts: [fh1] }
      back: { hosts: [fh2], spare: [fh3] }
    """

  private static let moving = "place: back, on_host_loss: move"
  private static let restart = "restart: { max: 100, backoff: { initial: 20ms } }"

  /// Runs a topology on the hosts, which share a directory `shared`, and ends the topology and the
  /// hosts.
  /// - Parameter yaml: A function that returns the topology file for the test's directory.
  func withShared(
    _ yaml: (_ directory: String) -> String, deployment: String = spare,
    _ body: (DetachedTopology, SlurmCluster) async throws -> Void
  ) async throws {
    try await SlurmCluster.with { tool, cluster in
      try FileSystem.makeDirectories(tool.directory.path + "/shared")
      var topology = try DetachedTopology(
        tool: tool, name: "ward", yaml: yaml(tool.directory.path))
      try topology.deploy(by: deployment)
      try await topology.up()
      try await body(topology, cluster)
      let names = try await topology.directory().nodes.map(\.name)
      try await topology.run("down")
      for name in names { #expect(processes(of: name, topology).isEmpty, "\(name)") }
    }
  }

  @Test("A movable node on a host that loses power resumes from its journal on another host")
  func move() async throws {
    let yaml = """
      topology: ward
      program: TestNodes
      timeouts: { heartbeat: 2s }
      nodes:
        source: { machine: Source, place: front }
        sink:
          { machine: Sink, \(Self.moving), durability: power, parameters: { work: 300 }, \(Self.restart) }
        stays: { machine: Party, place: back, \(Self.restart) }
      pipes:
        - { from: source.out, to: sink.in, name: numbers }
      """
    try await withShared({ _ in yaml }) { ward, cluster in
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await cluster.cutPower(2)
      try await ward.await("the sink runs on another host") {
        $0[node: "sink"]?.isRunning == true && $0[node: "sink"]?.hostName == "fh3"
      }
      let count = try await ward.endNumbers()
      try await ward.waitUntilAllArrived(count)
      let moved = try await ward.directory()
      #expect(moved[node: "sink"]?.incarnation == 2)
      #expect(moved[node: "stays"]?.phase == "lost" && moved[node: "stays"]?.hostName == "fh2")
      try await cluster.start(2)
      try await until("stays", is: "running", ward)
      let back = try await ward.directory()
      #expect(back[node: "stays"]?.hostName == "fh2" && back[node: "stays"]?.incarnation == 2)
      #expect(back[node: "sink"]?.hostName == "fh3" && back[node: "sink"]?.incarnation == 2)
      let busy = try await ward.run("journal", "sink", code: 1)
      #expect(busy.error.contains("cannot be read while the node is running"), "\(busy)")
      try await ward.run("stop", "sink")
      #expect(try await ward.run("journal", "sink").output.contains("last: \(count)"))
    }
  }

  private static func beacon(_ directory: String) -> String {
    """
    topology: ward
    program: TestNodes
    timeouts: { heartbeat: 2s }
    nodes:
      beacon:
        { machine: Beacon, \(moving), durability: none, parameters: { log: \(directory)/lives }, \(restart) }
    """
  }

  /// Returns the lifetimes of the processes in the log, in the order of their first lines, from the
  /// first instant to the last.
  private func lives(_ log: String) -> [ClosedRange<Int64>] {
    var lives: [String: ClosedRange<Int64>] = [:]
    let text = FileSystem.contents(of: log, limit: 1 << 24) ?? []
    for line in String(decoding: text, as: UTF8.self).split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count == 2, let time = Int64(words[1]) else { continue }
      let name = String(words[0])
      lives[name] =
        min(
          lives[name]?.lowerBound ?? time, time)...max(
          lives[name]?.upperBound ?? time, time)
    }
    return lives.values.sorted { $0.lowerBound < $1.lowerBound }
  }

  private func untilStopped(_ process: String, _ ward: DetachedTopology) async throws {
    let hasStopped: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
      FileSystem.text(of: "/proc/\(process)/stat")?.contains(") T ") == true ? true : nil
    }
    #expect(hasStopped == true)
  }

  private func untilHeard(_ count: Int, _ log: String, _ ward: DetachedTopology) async throws {
    let isHeard: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
      lives(log).count == count ? true : nil
    }
    #expect(isHeard == true)
  }

  private func expectOneAtATime(_ log: String, count: Int) {
    let lives = lives(log)
    #expect(lives.count == count)
    for (former, next) in zip(lives, lives.dropFirst()) {
      #expect(former.upperBound < next.lowerBound, "\(lives)")
    }
  }

  @Test(
    "A disconnected process, suspended or not, has ended before its successor starts",
    arguments: [false, true])
  func cutOff(isStopped: Bool) async throws {
    try await withShared(Self.beacon) { ward, cluster in
      let log = ward.tool.directory.path + "/lives"
      let first = try #require(processes(of: "beacon", ward).first)
      try await untilHeard(1, log, ward)
      if isStopped {
        // Slurm would freeze the process, and no signal reaches a frozen process.
        #expect(kill(try #require(Int32(first)), SIGSTOP) == 0)
        try await untilStopped(first, ward)
      }
      try await cluster.partition(2)
      try await ward.await("another one runs on another host") {
        $0[node: "beacon"]?.isRunning == true && $0[node: "beacon"]?.hostName == "fh3"
      }
      #expect(!processes(of: "beacon", ward).contains(first))
      try await untilHeard(2, log, ward)
      try await cluster.heal(2)
      // Waits until a former process would have had time for more lines.
      let end = try #require(lives(log).last?.upperBound) + 1_000_000_000
      let isOver: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
        lives(log).contains { $0.upperBound > end } ? true : nil
      }
      #expect(isOver == true)
      expectOneAtATime(log, count: 2)
    }
  }

  @Test("A node waits while no host of its place answers")
  func nowhere() async throws {
    try await withShared(Self.beacon) { ward, cluster in
      let log = ward.tool.directory.path + "/lives"
      try await untilHeard(1, log, ward)
      for host in [3, 2] { try await cluster.partition(host) }
      try await ward.await("it has tried the other host, and waits") {
        guard let beacon = $0[node: "beacon"], beacon.hostName == "fh3" else { return false }
        return beacon.phase == "lost" || beacon.reason?.contains("waits for host") == true
      }
      try await cluster.heal(3)
      try await until("beacon", is: "running", ward)
      #expect(try await ward.directory()[node: "beacon"]?.hostName == "fh3")
      try await cluster.heal(2)
      try await untilHeard(2, log, ward)
      expectOneAtATime(log, count: 2)
    }
  }

  @Test(
    "Processes of a killed orchestrator end when their lease expires, before a successor starts")
  func leftover() async throws {
    try await withShared(Self.beacon) { ward, _ in
      var ward = ward
      let log = ward.tool.directory.path + "/lives"
      try await untilHeard(1, log, ward)
      try await ward.killOrchestrator()
      for survivor in try Survivor.all(in: ward.directories) {
        survivor.process.signal(.kill, group: true)
      }
      #expect(processes(of: "beacon", ward).count == 1)
      // A node is not started if its former process is on a host that the new files do not use,
      // because nothing would end that process.
      let stray = Self.spare.replacing("hosts: [fh2], spare: [fh3]", with: "hosts: [fh3, fh1]")
      try ward.tool.directory.write(stray, to: "stray.yaml")
      let refused = try await ward.run("up", "ward.yaml", "--deployment", "stray.yaml", code: 2)
      #expect(
        refused.error.contains("had started node 'beacon' on host 'fh2', but these files"),
        "\(refused)")
      // The node is not started either if it is stopped while it waits for the end of that process.
      let waiting = try ward.tool.start([
        "run", "ward.yaml", "--deployment", "ward-deployment.yaml",
      ])
      let directories = try ward.directories
      let isWaiting: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
        RunningTopology.find(directories) == nil ? nil : true
      }
      #expect(isWaiting == true)
      waiting.signal(.terminate)
      _ = try await ward.tool.result(of: waiting, within: .seconds(60))
      #expect(FileSystem.exists(directories.state + "/leases"))
      let other = Self.spare.replacing("hosts: [fh2], spare: [fh3]", with: "hosts: [fh3, fh2]")
      try ward.deploy(by: other)
      try await ward.up()
      try await untilHeard(2, log, ward)
      expectOneAtATime(log, count: 2)
      #expect(processes(of: "beacon", ward).count == 1)
      let orchestratorLog =
        try FileSystem.contents(of: ward.directories.logs + "/orchestrator.log") ?? []
      #expect(
        String(decoding: orchestratorLog, as: UTF8.self).contains(
          "a former orchestrator of this topology was killed")
      )
    }
  }

  @Test(
    "A synchronized event stays atomic when its coordinator moves away from a lost host",
    arguments: ["commit.before", "commit.recorded"])
  func coordinator(point: String) async throws {
    let yaml = """
      topology: ward
      program: TestNodes
      timeouts: { heartbeat: 2s }
      environment: { PIPERUNTIME_FAILPOINTS: "pair:\(point)=stop/1" }
      nodes:
        left: { machine: Party, \(Self.moving), durability: power, \(Self.restart) }
        right: { machine: Party, place: front, durability: power, \(Self.restart) }
      composites:
        pair: { components: [left, right], synchronize: [meet], within: left }
      """
    try await withShared({ _ in yaml }) { ward, cluster in
      let first = try #require(processes(of: "left", ward).first)
      let asked = try ward.tool.start(
        CommandLineTool.withLongTimeout(["send", "pair", #""meet""#]))
      try await untilStopped(first, ward)
      try await cluster.cutPower(2)
      try await ward.await("the coordinator runs on another host") {
        $0[node: "pair"]?.isRunning == true && $0[node: "left"]?.hostName == "fh3"
      }
      _ = try await ward.tool.result(of: asked, within: .seconds(60))
      let hasMet: Bool? = try await poll(
        every: .milliseconds(100), within: .seconds(60), of: ward.tool.directory
      ) {
        let sent = try ward.tool.start(
          CommandLineTool.withLongTimeout(["send", "pair", #""meet""#]))
        return try await ward.tool.result(of: sent, within: .seconds(60)).code == 0 ? true : nil
      }
      #expect(hasMet == true)
      let directory = try await ward.await("both have met as often") {
        guard let left = $0[node: "left"]?.status?.state else { return false }
        return left == $0[node: "right"]?.status?.state
      }
      let met = try #require(directory[node: "left"]?.status?.state).decode(Party.State.self).met
      // A recorded event is committed. An unrecorded event is either aborted, or committed once.
      #expect(point == "commit.recorded" ? met == 2 : met == 1 || met == 2)
    }
  }
}
