import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Monitors of a running topology", .timed)
struct MonitorTests {
  private static let buttons = """
    topology: buttons
    program: TestNodes
    nodes:
      left: { machine: Button }
      right: { machine: Button }
    """

  /// Returns the changes of a node, up to a version, as a separate client receives them.
  private static func watch(
    _ topology: String, _ control: String, node: String, through version: UInt64
  ) async throws -> [StateChange] {
    let client = try TopologyClient(
      topology: topology, control: control, answerTimeout: TopologyHarness.clientTimeout)
    defer { client.close() }
    var changes: [StateChange] = []
    for await change in try await client.states(of: [node]) {
      changes.append(change)
      if change.version >= version { break }
    }
    return changes
  }

  @Test("Each of many monitors gets the current state at once, and then every change")
  func everyChange() async throws {
    try await withTopology(yaml: Self.buttons) { topology in
      let control = topology.control
      let name = topology.topology
      let last: UInt64 = 200
      try await withThrowingTaskGroup(of: [StateChange].self) { group in
        for press in 1...last {
          if press % 20 == 0 {
            group.addTask {
              try await Self.watch(name, control, node: "left", through: last)
            }
          }
          try await topology.send("left", Button.Event.press)
        }
        var count = 0
        for try await changes in group {
          count += 1
          let first = try #require(changes.first).version
          #expect(changes.map(\.version) == Array(first...last))
          #expect(changes.allSatisfy { $0.missedCount == 0 && $0.node == "left" })
          for change in changes {
            #expect(change.state == ["pressed": ["times": .integer(Int64(change.version))]])
          }
        }
        #expect(count == 10)
      }
    }
  }

  @Test("Monitors that attach and detach do not affect the nodes")
  func comeAndGo() async throws {
    try await withTopology(yaml: Self.buttons) { topology in
      for times in 1...30 {
        let client = try TopologyClient(
          topology: topology.topology, control: topology.control,
          answerTimeout: TopologyHarness.clientTimeout)
        var states = try await client.states(of: ["right"]).makeAsyncIterator()
        #expect(await states.next()?.state == ["pressed": ["times": .integer(Int64(times - 1))]])
        try await topology.send("right", Button.Event.press)
        #expect(await states.next()?.version == UInt64(times))
        client.close()
      }
      let right = try await topology.status("right")
      #expect(right.incarnation == 1)
      #expect(right.status?.version == 30)
      #expect(right.status?.invalidFrames == 0)
      #expect(!topology.orchestratorOutput.contains("warning"))
    }
  }

  @Test("A state stream continues across a node's restart and ends with the topology")
  func restartsAndEnd() async throws {
    try await withTopology(yaml: Self.buttons) { topology in
      var states = try await topology.states(of: ["left"]).makeAsyncIterator()
      #expect(await states.next()?.incarnation == 1)
      try await topology.kill("left")
      let again = try #require(await states.next())
      #expect(again.incarnation == 2)
      #expect(again.state == ["pressed": ["times": 0]])
      topology.orchestrator.signal(.terminate)
      #expect(await states.next() == nil)
      let code = try await topology.expectEnd()
      #expect(code == 0)
    }
  }

  @Test("A topology's monitor runs in its own process and gets the current states and every change")
  func monitorNode() async throws {
    let watched =
      Self.buttons + """

        monitors:
          audit: { monitor: Census, watch: [left] }
        """
    try await withTopology(yaml: watched) { topology in
      try await topology.expectLog("audit", contains: "left 1.0")
      for _ in 1...5 { try await topology.send("left", Button.Event.press) }
      try await topology.send("right", Button.Event.press)
      try await topology.expectLog("audit", contains: "left 1.5")
      let lines = topology.logs("audit").filter { $0.contains(" out ") }
        .map { $0.dropFirst(Timestamp.textLength + 5) }
      #expect(lines == (0...5).map { "left 1.\($0) {\"pressed\":{\"times\":\($0)}}" })
      let audit = try await topology.status("audit")
      #expect(audit.kind == .monitor)
      #expect(audit.isRunning)
      #expect(try await topology.status("left").pid != audit.pid)
    }
  }

  @Test("A failed monitor is restarted without affecting the nodes")
  func monitorFails() async throws {
    let watched =
      Self.buttons + """

        monitors:
          audit: { monitor: Census }
        """
    try await withTopology(yaml: watched) { topology in
      for _ in 1...9 { try await topology.send("left", Button.Event.press) }
      try await topology.expectStatus(of: "audit", "a second start") { $0.incarnation >= 2 }
      try await topology.expectLog("audit", contains: "monitor 'Census' failed: Enough()")
      let outcome = try await topology.send("left", Button.Event.press)
      #expect(outcome == .accepted(version: 10, state: ["pressed": ["times": 10]]))
      #expect(try await topology.status("left").incarnation == 1)
    }
  }

  @Test("A killed monitor is restarted and continues with the current states")
  func monitorKilled() async throws {
    let watched =
      Self.buttons + """

        monitors:
          audit: { monitor: Census, watch: [right] }
        """
    try await withTopology(yaml: watched) { topology in
      try await topology.expectLog("audit", contains: "right 1.0")
      try await topology.kill("audit")
      try await topology.send("right", Button.Event.press)
      try await topology.expectLog("audit", contains: "right 1.1")
      #expect(try await topology.status("audit").incarnation == 2)
    }
  }

  @Test("A monitor can be attached manually, and exits 0 when the topology ends")
  func byHand() async throws {
    let named = Self.buttons.replacing("topology: buttons", with: "topology: by-hand")
    try await withTopology(yaml: named) { topology in
      let tool = CommandLineTool(beside: topology)
      let monitor = try tool.start(
        program: CommandLineTool.products + "/nodes",
        ["monitor", "StateLog", "-p", "by-hand", "--watch", "left"])
      #expect(try await monitor.waitForOutput(containing: "left {\"pressed\":{\"times\":0}}"))
      try await topology.send("left", Button.Event.press)
      #expect(
        try await monitor.waitForOutput(
          containing: "left {\"pressed\":{\"times\":1}} after request"))
      topology.orchestrator.signal(.terminate)
      let code = try await topology.expectEnd()
      #expect(code == 0)
      let result = try await tool.end(of: monitor)
      #expect(result.output.split(separator: "\n").count == 2)
      #expect(result.error == "")
    }
  }
}
