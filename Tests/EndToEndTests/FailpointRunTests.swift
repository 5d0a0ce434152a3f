import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Failpoints in nodes", .timed, .enabled(if: RecordedNodes.arePossible))
struct FailpointRunTests {
  /// Returns a topology with a source of numbers, a sink that counts them, and failpoints.
  private static func numbers(
    _ rules: String, environment: [String: String] = [:], heartbeat: Duration = .seconds(60)
  ) -> Topology {
    let quick = RestartPolicy(backoff: Backoff(initial: .milliseconds(10)))
    var topology = Topology(
      name: "numbers", program: "TestNodes",
      environment: environment.merging(["PIPERUNTIME_FAILPOINTS": rules]) { own, _ in own },
      nodes: [
        .machine("Source", name: "source", restart: quick),
        .machine("Sink", name: "sink", restart: quick),
      ],
      pipes: [.ports(from: "source.out", to: "sink.in", capacity: 16)],
      timeouts: Timeouts(heartbeat: heartbeat))
    for index in topology.nodes.indices { topology.nodes[index].durability = .process }
    return topology
  }

  private static func hundred(_ topology: TopologyHarness) async throws {
    try await topology.send("source", Source.Event.go(count: 100))
    try await topology.expect(
      "sink", Sink.State.counting(last: 100, count: 100, wrong: 0), within: .seconds(20))
  }

  @Test(
    "A failpoint ends its node by a crash or an exit, and logs the hit",
    arguments: [("crash", "killed by SIGKILL"), ("exit", "exit code 70")])
  func ends(action: String, end: String) async throws {
    try await withTopology(Self.numbers("sink:ack.after=\(action)@1/1")) { topology in
      try await Self.hundred(topology)
      try await topology.expectLog("sink", contains: "ended: \(end)")
      #expect(try await topology.status("sink").incarnation == 2)
      try await topology.expectLog("sink", contains: "failpoint ack.after: \(action) (hit 1)")
      #expect(try await topology.status("source").incarnation == 1)
      #expect(!topology.logs("source").contains { $0.contains("failpoint") })
    }
  }

  @Test("A node suspended by a failpoint continues when it is resumed")
  func stop() async throws {
    try await withTopology(Self.numbers("sink:step.before=stop@1")) { topology in
      try await topology.send("source", Source.Event.go(count: 100))
      try await topology.expectLog("sink", contains: "failpoint step.before: stop (hit 1)")
      // The failpoint logs its action a moment before the process is suspended.
      let pid = try #require(try await topology.client.directory(fresh: false)[node: "sink"]?.pid)
      let standsStill: Bool? = try await poll(within: .seconds(10), of: topology.directory) {
        FileSystem.text(of: "/proc/\(pid)/stat")?.contains(") T ") == true ? true : nil
      }
      #expect(standsStill == true)
      try await topology.resume("sink")
      try await topology.expect(
        "sink", Sink.State.counting(last: 100, count: 100, wrong: 0))
      #expect(try await topology.status("sink").incarnation == 1)
    }
  }

  @Test("A node suspended by a failpoint is detected as hung if it is not resumed")
  func hung() async throws {
    let topology = Self.numbers("sink:step.before=stop@1/1", heartbeat: .seconds(2))
    try await withTopology(topology) { topology in
      try await Self.hundred(topology)
      try await topology.expectLog("sink", contains: "killed: hung")
    }
  }

  @Test(
    "A delay or a cut connection does not change the order of events",
    arguments: ["send.before=delay:1ms", "send.before=cut%0.2", "send.after=cut%0.2"])
  func goesOn(rule: String) async throws {
    try await withTopology(Self.numbers("source:\(rule)")) { topology in
      try await Self.hundred(topology)
      try await topology.expectLog("source", contains: "failpoint send.")
      #expect(try await topology.status("source").incarnation == 1)
    }
  }

  @Test("A failpoint with a switch file acts only while the file exists")
  func switchFile() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let file = directory.path + "/armed"
    let topology = Self.numbers(
      "sink:step.before=crash", environment: ["PIPERUNTIME_FAILPOINT_SWITCH": file])
    try await withTopology(topology) { topology in
      try await Self.hundred(topology)
      #expect(try await topology.status("sink").incarnation == 1)
      try directory.write("", to: "armed")
      try await topology.send("source", Source.Event.go(count: 1))
      try await topology.expectLog("sink", contains: "failpoint step.before: crash")
      FileSystem.removeTree(file)
      try await topology.expectStatus(of: "sink", "it runs again") {
        $0.isRunning && $0.incarnation > 1
      }
    }
  }

  @Test("Malformed failpoints end a node at its start with exit code 2 and an error")
  func malformed() async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment = ["PIPERUNTIME_FAILPOINTS": "recod.after=crash"]
    let arguments = NodeArguments(
      topology: "t", node: "gate", content: .machine("Gate", parameters: [:]),
      control: "ipc://control", inbox: "ipc://in", feed: "ipc://feed", incarnation: 1)
    let program = try tool.start(
      program: CommandLineTool.products + "/TestNodes", arguments.arguments)
    let result = try await tool.end(of: program, code: 2)
    #expect(
      result.error.contains(
        "PIPERUNTIME_FAILPOINTS: 'recod.after=crash': unknown failpoint 'recod.after'; "))
  }
}
