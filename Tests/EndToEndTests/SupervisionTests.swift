import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestNodes
import TestTraits
import Testing

@Suite("Supervision of processes", .timed)
struct SupervisionTests {
  @Test("A killed node is restarted in its initial state, after a growing pause")
  func restarts() async throws {
    try await withTopology(yaml: FragileTopology.yaml()) { ward in
      try await ward.send("patient", Fragile.Event.touch)
      for attempt in 1...3 {
        let before = try await ward.status("patient")
        try await ward.kill("patient")
        let state = try await ward.expect("patient", is: ["well": ["steps": 0]])
        #expect(state.incarnation == UInt64(attempt + 1))
        #expect(state.version == 0)
        let after = try await ward.expectStatus(of: "patient", "running") { $0.isRunning }
        #expect(after.incarnation == before.incarnation + 1)
        #expect(after.pid != before.pid)
        #expect(after.restarts == UInt64(attempt))
      }
      let log = ward.logs("patient")
      for (attempt, pause) in [(1, 20), (2, 40), (3, 80)] {
        #expect(
          log.contains {
            $0.hasSuffix("killed by SIGKILL; restart \(attempt) of 5 in \(pause) ms")
          }, "\(log)")
      }
      #expect(try await ward.status("nurse").incarnation == 1)
    }
  }

  @Test(
    "A node without CPU time for longer than its heartbeat timeout is not considered hung",
    .needsProcessorQuota)
  func starved() async throws {
    try await withTopology(yaml: FragileTopology.yaml(timeouts: "{ heartbeat: 1s }")) { ward in
      let pid = try #require(try await ward.status("patient").pid)
      let quota = try ProcessorQuota()
      defer { quota.remove() }
      try quota.add(pid)
      // With a millisecond per second the node answers a few requests and then waits for the
      // processor.
      let waited: Bool? = try await poll(within: .seconds(120)) {
        ProcessorQuota.waitingTime(of: pid) > 5 ? true : nil
      }
      #expect(waited == true)
      try quota.free(pid)
      let status = try await ward.status("patient")
      #expect(status.pid == pid && status.restarts == 0, "\(ward.logs("patient"))")
      try await ward.send("patient", Fragile.Event.touch)
    }
  }

  @Test(
    "A node that ends by itself is restarted according to the node's restart policy",
    arguments: [
      ("never", 3, "failed"), ("never", 0, "completed"), ("on-failure", 3, "running"),
      ("on-failure", 0, "completed"), ("always", 3, "running"), ("always", 0, "running"),
    ] as [(String, Int, String)])
  func policies(policy: String, code: Int, phase: String) async throws {
    let restart = "{ policy: \(policy), backoff: { initial: 1ms } }"
    try await withTopology(yaml: FragileTopology.yaml(restart)) { ward in
      await #expect(throws: TopologyClientError.unknownOutcome("patient", after: nil)) {
        try await ward.send("patient", Fragile.Event.exit(code: code))
      }
      let start: UInt64 = phase == "running" ? 2 : 1
      try await ward.expectStatus(of: "patient", "phase \(phase) of start \(start)") {
        $0.phase == phase && $0.incarnation == start
      }
      #expect(try await ward.status("nurse").isRunning)
    }
  }

  @Test("A node that keeps dying fails after 'max' restarts, and the others continue")
  func givesUp() async throws {
    let restart = "{ max: 2, window: 60s, backoff: { initial: 1ms } }"
    let dying = FragileTopology.yaml(restart).replacing(
      "machine: Fragile", with: "machine: Fragile\n    parameters: { diesAtStart: true }")
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    try await withTopology(yaml: dying, options: options) { ward in
      let patient = try await ward.expectStatus(of: "patient", "failure") { $0.phase == "failed" }
      #expect(patient.incarnation == 3)
      #expect(patient.reason == "exit code 9; given up after 2 restarts within 1 min")
      #expect(try await ward.status("nurse").isRunning)
      let outcome = try await ward.send("nurse", Button.Event.press)
      #expect(outcome == .accepted(version: 1, state: ["pressed": ["times": 1]]))
      await #expect(throws: TopologyClientError.self) {
        try await ward.send("patient", Fragile.Event.touch)
      }
    }
  }

  @Test("A required node's failure stops the topology with exit code 1 and the reason")
  func required() async throws {
    let restart = "{ policy: never }"
    try await withTopology(yaml: FragileTopology.yaml(restart, required: true)) { ward in
      try await ward.kill("patient")
      #expect(try await ward.expectEnd() == 1)
      #expect(
        ward.orchestratorOutput.contains("required node 'patient' failed: killed by SIGKILL"),
        "\(ward.orchestratorOutput)")
      #expect(
        ward.logs("nurse").contains { $0.hasSuffix("note \(NodeReport.exited(.exited(code: 0)))") })
    }
  }

  @Test("A node's last output is in its log, even if the node crashes by a trap")
  func lastWords() async throws {
    try await withTopology(yaml: FragileTopology.yaml(), options: .crashing("patient")) { ward in
      try await ward.send("patient", Fragile.Event.shout(lines: 500))
      _ = try? await ward.send("patient", Fragile.Event.trap)
      try await ward.expectLog("patient", contains: "killed by SIGABRT")
      let lines = ward.logs("patient").filter { $0.contains(" out line ") }
      #expect(lines.count == 500)
      #expect(lines.last?.hasSuffix(" out line 500") == true)
    }
  }

  @Test("Nodes stop gracefully, each before its dependencies")
  func orderedStop() async throws {
    let chain = """
      topology: chain
      program: TestNodes
      nodes:
        first: { machine: Button }
        second: { machine: Button, depends_on: { first: ready } }
        third: { machine: Button, depends_on: { second: ready } }
      """
    try await withTopology(yaml: chain) { chain in
      chain.orchestrator.signal(.interrupt)
      #expect(try await chain.expectEnd() == 0)
      var ends: [String] = []
      for node in ["first", "second", "third"] {
        let log = chain.logs(node)
        #expect(
          log.contains { $0.hasSuffix("note \(NodeReport.exited(.exited(code: 0)))") }, "\(log)")
        let stopping = try #require(log.first { $0.hasSuffix("note stopping") })
        let ended = try #require(log.first { $0.contains("note ended") })
        ends += [stopping, ended].map { String($0.prefix(Timestamp.textLength)) }
      }
      // 'third' stops and ends before 'second' stops, and so on.
      #expect(ends[5] <= ends[2] && ends[3] <= ends[0], "\(ends)")
    }
  }

  @Test(
    "SIGTERM, or the end of input with '--lifeline', stops a topology gracefully",
    arguments: ["SIGTERM", "lifeline"])
  func stopRequests(by cause: String) async throws {
    try await withTopology(yaml: FragileTopology.yaml()) { ward in
      if cause == "SIGTERM" {
        ward.orchestrator.signal(.terminate)
      } else {
        ward.orchestrator.closeInput()
      }
      let code = try await ward.expectEnd()
      #expect(code == 0)
      #expect(
        ward.logs("patient").contains {
          $0.hasSuffix("note \(NodeReport.exited(.exited(code: 0)))")
        })
      #expect(ward.directory.leftoverPaths.isEmpty)
    }
  }

  @Test("A second ^C kills the nodes, with exit code 130")
  func forced() async throws {
    // A suspended node does not react to a stop request.
    try await withTopology(yaml: FragileTopology.yaml(timeouts: "{ heartbeat: 60s, stop: 60s }")) {
      ward in
      try await ward.pause("patient")
      ward.orchestrator.signal(.interrupt)
      try await ward.expectStatus(of: "patient", "it is asked to stop") { $0.phase == "stopping" }
      ward.orchestrator.signal(.interrupt)
      #expect(try await ward.expectEnd(within: .seconds(10)) == 130)
      #expect(ward.directory.processes.isEmpty)
      #expect(ward.directory.leftoverPaths.isEmpty)
    }
  }

  @Test("A node that does not stop in time is terminated and then killed")
  func stopTimeout() async throws {
    try await withTopology(yaml: FragileTopology.yaml(timeouts: "{ heartbeat: 60s, stop: 2s }")) {
      ward in
      try await ward.pause("patient")
      await #expect {
        try await ward.stop("patient")
      } throws: { error in
        "\(error)".contains(
          "\(NodeReport.ungracefulStop(reason: "\(MissedDeadline.stop(within: .seconds(2)))"))")
      }
      let patient = try await ward.status("patient")
      #expect(patient.phase == "stopped")
      #expect(patient.pid == nil)
      #expect(
        ward.logs("patient").contains {
          $0.contains("\(MissedDeadline.stop(within: .seconds(2)))")
        })
    }
  }

  @Test("A killed orchestrator leaves no process behind, and the topology can start again")
  func orchestratorKilled() async throws {
    try await withTopology(yaml: FragileTopology.yaml()) { ward in
      #expect(ward.directory.processes.count >= 3)
      ward.orchestrator.signal(.kill)
      #expect(try await ward.expectEnd() == 137)
      let isEmpty: Bool? = try await poll(within: .seconds(5)) {
        ward.directory.processes.isEmpty ? true : nil
      }
      #expect(isEmpty == true, "\(ward.directory.processes)")
      // The former run's sockets and lock file still exist and do not prevent the start.
      #expect(!ward.directory.leftoverPaths.isEmpty)
      let tool = CommandLineTool(beside: ward)
      let again = try tool.start(["run", "--plain", "topology.yaml"])
      #expect(try await again.waitForOutput(containing: "2 nodes running"), "\(again.errorText)")
      again.signal(.terminate)
      #expect(try await again.waitForExit(within: .seconds(10)) == .exited(code: 0))
      #expect(ward.directory.leftoverPaths.isEmpty)
    }
  }

  @Test("A stopped node stays stopped until it is started, and the topology continues")
  func stopAndStart() async throws {
    try await withTopology(yaml: FragileTopology.yaml()) { ward in
      try await ward.stop("patient", "nurse")
      for node in ["patient", "nurse"] {
        #expect(try await ward.status(node).phase == "stopped")
      }
      await #expect(throws: TopologyClientError.self) {
        try await ward.send("patient", Fragile.Event.touch)
      }
      try await ward.start("patient", "nurse")
      #expect(try await ward.status("patient").incarnation == 2)
      let outcome = try await ward.send("patient", Fragile.Event.touch)
      #expect(outcome == .accepted(version: 1, state: ["well": ["steps": 1]]))
    }
  }
}
