import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Nodes that start after a state of another node", .timed)
struct StartAfterStateTests {
  /// A topology whose `guest` starts once `gate` has been open.
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      guest:
        machine: Button
        restart: { backoff: { initial: 20ms } }
        depends_on: { gate: { state: open } }
      gate: { machine: Gate }
    """
  private static let wait = "waits for 'gate' to be open"

  /// Options that do not wait until all nodes run.
  private static var options: TopologyHarness.Options {
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    return options
  }

  /// Waits until one node has started and the other waits for it.
  private func expectWait(
    of dependent: String, for node: String, _ reason: String, in ward: TopologyHarness
  ) async throws {
    try await ward.expectStatus(of: node, "it has started") { $0.status?.state != nil }
    try await ward.expectStatus(of: dependent, reason) {
      $0.phase == "ready" && $0.reason == reason
    }
  }

  @Test("A node is shown as waiting until its dependency reaches the state, and then starts")
  func goes() async throws {
    try await withTopology(yaml: Self.ward, options: Self.options) { ward in
      try await expectWait(of: "guest", for: "gate", Self.wait, in: ward)
      #expect(try await !ward.directory().isRunning)
      try await ward.send("gate", Gate.Event.open)
      let guest = try await ward.expectStatus(of: "guest", "it runs") { $0.isRunning }
      #expect(guest.reason == nil)
      #expect(ward.logs("guest").contains { $0.hasSuffix("note " + Self.wait) })
      ward.orchestrator.signal(.interrupt)
      #expect(try await ward.expectEnd() == 0)
    }
  }

  @Test("A state that lasts only one step still starts a dependent node")
  func shortState() async throws {
    let relay = """
      topology: relay
      program: TestNodes
      nodes:
        source: { machine: Source }
        guest:
          machine: Button
          depends_on: { source: { state: { sending: { n: 4, until: 5 } } } }
      """
    try await withTopology(yaml: relay, options: Self.options) { relay in
      try await expectWait(
        of: "guest", for: "source", "waits for 'source' to be sending(n: 4, until: 5)", in: relay)
      try await relay.send("source", Source.Event.go(count: 2))
      try await relay.expect("source", Source.State.idle(sent: 2))
      #expect(try await relay.status("guest").phase == "ready")
      // The state is the second of three that follow each other at once.
      try await relay.send("source", Source.Event.go(count: 3))
      try await relay.expect("source", Source.State.idle(sent: 5))
      try await relay.expectStatus(of: "guest", "it runs") { $0.isRunning }
    }
  }

  @Test("The first state of a dependency, or a constant's state, starts a dependent node")
  func initialState() async throws {
    let initial = """
      topology: initial
      program: TestNodes
      nodes:
        guest:
          machine: Button
          depends_on: { gate: { state: { shut: { passed: 0 } } }, fixed: { state: closed } }
        gate: { machine: Gate }
        fixed: { constant: closed }
      """
    try await withTopology(yaml: initial) { initial in
      #expect(try await initial.directory().isRunning)
      // A node that is started later is notified of its dependencies' current states.
      try await initial.stop("guest")
      try await initial.start("guest")
      #expect(try await initial.status("guest").isRunning)
    }
  }

  @Test("A dependency on some fields of a struct ignores the other fields")
  func structState() async throws {
    let count = """
      topology: count
      nodes:
        counter: { program: nodes, machine: Counter }
        guest:
          program: TestNodes
          machine: Button
          depends_on: { counter: { state: { count: 2 } } }
      """
    try await withTopology(yaml: count, options: Self.options) { count in
      try await expectWait(
        of: "guest", for: "counter", "waits for 'counter' to be (count: 2)", in: count)
      for _ in 1...3 { try await count.send("counter", "increment") }
      try await count.expectStatus(of: "guest", "it runs") { $0.isRunning }
    }
  }

  @Test("When 'start' or 'up --wait' times out, the error names the state that the node waits for")
  func startsLate() async throws {
    try await withTopology(yaml: Self.ward, options: Self.options) { ward in
      try await expectWait(of: "guest", for: "gate", Self.wait, in: ward)
      let tool = CommandLineTool(beside: ward)
      for verb in [["start"], ["up", "--wait", "--wait-timeout", "200ms", "--name", "ward"]] {
        let timeout = verb == ["start"] ? ["--timeout", "200ms"] : []
        let program = try tool.start(verb + timeout + ["guest"])
        let late = try await tool.result(of: program)
        #expect(late.code == 124 && late.output.isEmpty, "\(late)")
        #expect(
          late.error.hasSuffix(
            "timed out after 200 ms, waiting for 'guest' to run; the orchestrator keeps trying: "
              + "'guest': waits for 'gate' to be open\n"), "\(late)")
      }
      ward.orchestrator.signal(.interrupt)
      #expect(try await ward.expectEnd() == 0)
    }
  }

  @Test("After a manual stop of a node, but not after a crash, the node waits for the state again")
  func restarts() async throws {
    try await withTopology(yaml: Self.ward, options: Self.options) { ward in
      try await expectWait(of: "guest", for: "gate", Self.wait, in: ward)
      try await ward.send("gate", Gate.Event.open)
      try await ward.expectStatus(of: "guest", "it runs") { $0.isRunning }
      try await ward.send("gate", Gate.Event.shut)
      try await ward.kill("guest")
      try await ward.expectStatus(of: "guest", "it runs again") {
        $0.isRunning && $0.incarnation == 2
      }
      try await ward.stop("guest")
      async let start: Void = ward.start("guest")
      try await expectWait(of: "guest", for: "gate", Self.wait, in: ward)
      try await ward.send("gate", Gate.Event.open)
      try await start
      #expect(try await ward.status("guest").isRunning)
    }
  }

  @Test("A node that waits for a dependency's state still waits after the dependency's restart")
  func dependencyRestarts() async throws {
    try await withTopology(yaml: Self.ward, options: Self.options) { ward in
      try await expectWait(of: "guest", for: "gate", Self.wait, in: ward)
      try await ward.restart("gate")
      try await expectWait(of: "guest", for: "gate", Self.wait, in: ward)
      try await ward.send("gate", Gate.Event.open)
      try await ward.send("gate", Gate.Event.shut)
      try await ward.expectStatus(of: "guest", "it runs") { $0.isRunning }
    }
  }

  @Test("'up --wait' and 'ps' show which node waits for which state")
  func upWaits() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.ward, to: "ward.yaml")
      var error = ""
      // On a slow machine, the timeout can pass before 'guest' waits for 'gate', so the test tries
      // longer timeouts.
      for seconds in [1, 4, 16, 64] {
        let up = try await tool.run(
          "up", "--wait", "--wait-timeout", "\(seconds)s", "ward.yaml", within: .seconds(120),
          code: 124)
        error = up.error
        if error.contains(Self.wait) { break }
        _ = try await tool.run("down", within: .seconds(60))
      }
      #expect(
        error.hasSuffix(
          ": 'guest' \(Self.wait); the topology continues to start; 'orchestrator status' "
            + "shows details, 'orchestrator down' stops the topology\n"), "\(error)")
      let ps = try await tool.run("ps", within: .seconds(60))
      #expect(ps.output.contains(Self.wait), "\(ps)")
      try await tool.run("start", "guest", "--timeout", "200ms", within: .seconds(60), code: 124)
      try await tool.run("send", "gate", "open", within: .seconds(60), code: 0)
      try await tool.run("wait", "guest=pressed", within: .seconds(60), code: 0)
      try await tool.run("down", within: .seconds(60), code: 0)
    }
  }

  @Test(
    "A node that waits when its orchestrator is killed still waits under the next orchestrator")
  func adopted() async throws {
    try await CommandLineTool.launching { tool in
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: Self.ward)
      try await ward.run("up", "-d", "ward.yaml")
      let before = try await ward.await("the guest waits") {
        $0[node: "guest"]?.reason == Self.wait && $0[node: "gate"]?.status?.state != nil
      }
      let client = try ward.client()
      defer { client.close() }
      try await client.send("gate", Gate.Event.open)
      try await ward.await("the guest runs") { $0[node: "guest"]?.isRunning == true }
      try await client.send("gate", Gate.Event.shut)
      try await ward.run("stop", "guest")
      // The timeout lets the orchestrator receive the state.
      try await ward.run("start", "guest", "--timeout", "2s", code: 124)
      let waiting = try await ward.await("the guest waits again") {
        $0[node: "guest"]?.reason == Self.wait
      }
      #expect(waiting[node: "guest"]?.pid != before[node: "guest"]?.pid)
      try await ward.killOrchestrator()
      try await client.send("gate", Gate.Event.open)
      #expect(try await ward.up().contains("2 nodes adopted"))
      let after = try await ward.directory()
      #expect(after[node: "guest"]?.isRunning == true)
      #expect(after[node: "guest"]?.pid == waiting[node: "guest"]?.pid)
      #expect(after[node: "gate"]?.pid == before[node: "gate"]?.pid)
      try await ward.run("down")
    }
  }
}
