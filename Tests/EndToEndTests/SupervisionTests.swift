import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Supervision of processes", .timed)
struct SupervisionTests {
  /// One node that can be made to die or hang.
  private static func fragile(
    _ restart: String = "{ backoff: { initial: 20ms, max: 1s, jitter: 0 } }",
    required: Bool = false, timeouts: String = "{ heartbeat: 30s }",
    durability: Durability = .volatile, more: String = ""
  ) -> String {
    """
    topology: ward
    program: TestNodes
    nodes:
      patient:
        machine: Fragile
        restart: \(restart)
        required: \(required)
        durability: \(durability.rawValue)
      nurse: { machine: Button }
    \(more)
    timeouts: \(timeouts)
    """
  }

  @Test("a killed node is started again after a growing pause, in its initial state")
  func restarts() async throws {
    try await withTopology(yaml: Self.fragile()) { ward in
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
    "a node that ends by itself is restarted as its policy says",
    arguments: [
      ("never", 3, "failed"), ("never", 0, "completed"), ("on-failure", 3, "running"),
      ("on-failure", 0, "completed"), ("always", 3, "running"), ("always", 0, "running"),
    ] as [(String, Int, String)])
  func policies(policy: String, code: Int, phase: String) async throws {
    let restart = "{ policy: \(policy), backoff: { initial: 1ms } }"
    try await withTopology(yaml: Self.fragile(restart)) { ward in
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

  @Test("a node that keeps dying is failed after `max` restarts, and the others go on")
  func givesUp() async throws {
    let restart = "{ max: 2, window: 60s, backoff: { initial: 1ms } }"
    let dying = Self.fragile(restart).replacing(
      "machine: Fragile", with: "machine: Fragile\n    parameters: { diesAtStart: true }")
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    try await withTopology(yaml: dying, options: options) { ward in
      let patient = try await ward.expectStatus(of: "patient", "failure") { $0.phase == "failed" }
      #expect(patient.incarnation == 3)
      #expect(patient.reason == "exit code 9; given up after 2 restarts within 1 min")
      #expect(try await ward.status("nurse").isRunning)
      let outcome = try await ward.send("nurse", Button.Event.press)
      #expect(outcome == .moved(version: 1, state: ["pressed": ["times": 1]]))
      await #expect(throws: TopologyClientError.self) {
        try await ward.send("patient", Fragile.Event.touch)
      }
    }
  }

  @Test("a required node's failure takes the topology down with exit code 1, and says why")
  func required() async throws {
    let restart = "{ policy: never }"
    try await withTopology(yaml: Self.fragile(restart, required: true)) { ward in
      try await ward.kill("patient")
      #expect(try await ward.expectEnd() == 1)
      #expect(
        ward.orchestratorOutput.contains("required node 'patient' failed: killed by SIGKILL"),
        "\(ward.orchestratorOutput)")
      #expect(ward.logs("nurse").contains { $0.hasSuffix("note ended: exit code 0") })
    }
  }

  @Test("a node that stands still is found by its missing heartbeat, killed and replaced")
  func heartbeat() async throws {
    try await withTopology(yaml: Self.fragile(timeouts: "{ heartbeat: 2s }")) { ward in
      let before = try await ward.status("patient")
      try await ward.pause("patient")
      let after = try await ward.expectStatus(of: "patient", "a new process") {
        $0.isRunning && $0.incarnation == 2
      }
      #expect(after.pid != before.pid)
      #expect(kill(before.pid ?? 0, 0) != 0)
      try await ward.expectLog("patient", contains: "hung: no sign of life for 2 s")
    }
  }

  @Test("a node that gets hardly any processor is not taken for one that stands still")
  func starved() async throws {
    // Four programs that never pause, on the one processor that the node may use.
    let burners = try (0..<4).map { _ in
      try LaunchedProgram("/bin/sh", ["-c", "while :; do :; done"], environment: [:])
    }
    defer { for burner in burners { burner.signal(.kill) } }
    for burner in burners { try await pin(burner.pid) }
    try await withTopology(yaml: Self.fragile(timeouts: "{ heartbeat: 200ms }")) { ward in
      let pid = try #require(try await ward.status("patient").pid)
      try await pin(pid)
      try await run("/usr/bin/chrt", "--idle", "-p", "0", String(pid))
      let before = try #require(ProcessorQueue.threads(of: pid)[pid])
      let hasWaited = try await poll(every: .milliseconds(20), within: .seconds(60)) {
        guard let now = ProcessorQueue.threads(of: pid)[pid] else { return false }
        return now.queued - before.queued > .seconds(3) ? true : nil
      }
      #expect(hasWaited == true)
      try await run("/usr/bin/chrt", "--other", "-p", "0", String(pid))
      #expect(try await ward.status("patient").incarnation == 1)
      #expect(!ward.logs("patient").contains { $0.contains("no sign of life") })
    }
  }

  @Test("an orchestrator that stood still itself takes no node for one that does")
  func stalled() async throws {
    try await withTopology(yaml: Self.fragile(timeouts: "{ heartbeat: 500ms }")) { ward in
      // From when the next ping is due until so late that it is plain whose silence it was.
      for time in stride(from: 300, through: 750, by: 50) {
        ward.orchestrator.signal(.stop)
        let end = ContinuousClock.now + .milliseconds(time)
        let hasPassed = try await poll(every: .milliseconds(5), within: .seconds(20)) {
          ContinuousClock.now >= end ? true : nil
        }
        #expect(hasPassed == true)
        ward.orchestrator.signal(.resume)
        #expect(try await ward.status("patient").incarnation == 1, "after \(time) ms")
      }
      #expect(!ward.logs("patient").contains { $0.contains("no sign of life") })
    }
  }

  /// Lets a process use the first processor that this one may use, and no other.
  private func pin(_ pid: Int32) async throws {
    let status = try #require(FileSystem.text(of: "/proc/self/status"))
    let line = status.split(separator: "\n").first { $0.hasPrefix("Cpus_allowed_list:") }
    let first = try #require(
      line?.split(whereSeparator: { " \t,-".contains($0) }).dropFirst().first)
    try await run("/usr/bin/taskset", "-cp", String(first), String(pid))
  }

  private func run(_ program: String, _ arguments: String...) async throws {
    let exit = try await LaunchedProgram(program, arguments, environment: [:])
      .waitForExit(within: .seconds(20))
    #expect(exit?.isSuccess == true, "\(program) \(arguments)")
  }

  @Test("a node whose step never returns is replaced, and its caller is not told a lie")
  func deadlock() async throws {
    try await withTopology(yaml: Self.fragile(timeouts: "{ heartbeat: 2s }")) { ward in
      await #expect(throws: TopologyClientError.unknownOutcome("patient", after: nil)) {
        try await ward.send("patient", Fragile.Event.hang)
      }
      try await ward.expectStatus(of: "patient", "a new process") {
        $0.isRunning && $0.incarnation == 2
      }
    }
  }

  @Test("what a node writes last is in its log, also when it dies by a trap")
  func lastWords() async throws {
    try await withTopology(yaml: Self.fragile(), options: .crashing("patient")) { ward in
      try await ward.send("patient", Fragile.Event.shout(lines: 500))
      _ = try? await ward.send("patient", Fragile.Event.trap)
      try await ward.expectLog("patient", contains: "killed by SIGABRT")
      let lines = ward.logs("patient").filter { $0.contains(" out line ") }
      #expect(lines.count == 500)
      #expect(lines.last?.hasSuffix(" out line 500") == true)
    }
  }

  @Test("nodes stop before those that they depend on, each in order")
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
        #expect(log.contains { $0.hasSuffix("note ended: exit code 0") }, "\(log)")
        let stopping = try #require(log.first { $0.hasSuffix("note stopping") })
        let ended = try #require(log.first { $0.contains("note ended") })
        ends += [stopping, ended].map { String($0.prefix(Timestamp.textLength)) }
      }
      // third stops and ends before second stops, and so on.
      #expect(ends[5] <= ends[2] && ends[3] <= ends[0], "\(ends)")
    }
  }

  @Test("SIGTERM and the end of the lifeline stop in order", arguments: ["SIGTERM", "lifeline"])
  func stopRequests(by cause: String) async throws {
    try await withTopology(yaml: Self.fragile()) { ward in
      if cause == "SIGTERM" {
        ward.orchestrator.signal(.terminate)
      } else {
        ward.orchestrator.closeInput()
      }
      let code = try await ward.expectEnd()
      #expect(code == 0)
      #expect(ward.logs("patient").contains { $0.hasSuffix("note ended: exit code 0") })
      #expect(ward.directory.sockets.isEmpty)
    }
  }

  @Test("the second ^C kills, with exit code 130")
  func forced() async throws {
    // A node that stands still does not stop when it is asked.
    try await withTopology(yaml: Self.fragile(timeouts: "{ heartbeat: 60s, stop: 60s }")) { ward in
      try await ward.pause("patient")
      ward.orchestrator.signal(.interrupt)
      try await ward.expectStatus(of: "patient", "it is asked to stop") { $0.phase == "stopping" }
      ward.orchestrator.signal(.interrupt)
      #expect(try await ward.expectEnd(within: .seconds(10)) == 130)
      #expect(ward.directory.processes.isEmpty)
      #expect(ward.directory.sockets.isEmpty)
    }
  }

  @Test("a node that does not stop is terminated, and then killed")
  func stopTimeout() async throws {
    try await withTopology(yaml: Self.fragile(timeouts: "{ heartbeat: 60s, stop: 2s }")) {
      ward in
      try await ward.pause("patient")
      await #expect {
        try await ward.stop("patient")
      } throws: { error in
        "\(error)".contains(
          "node 'patient' did not stop in order: it did not stop within 2 s")
      }
      let patient = try await ward.status("patient")
      #expect(patient.phase == "stopped")
      #expect(patient.pid == nil)
      #expect(
        ward.logs("patient").contains { $0.contains("it did not stop within 2 s") })
    }
  }

  @Test("kill -9 of the orchestrator leaves no process behind, and the topology can start again")
  func orchestratorKilled() async throws {
    try await withTopology(yaml: Self.fragile()) { ward in
      #expect(ward.directory.processes.count >= 3)
      ward.orchestrator.signal(.kill)
      #expect(try await ward.expectEnd() == 137)
      let isEmpty: Bool? = try await poll(within: .seconds(5)) {
        ward.directory.processes.isEmpty ? true : nil
      }
      #expect(isEmpty == true, "\(ward.directory.processes)")
      // Its sockets and its lock are still there, and in nobody's way.
      #expect(!ward.directory.sockets.isEmpty)
      let tool = CommandLineTool(beside: ward)
      let again = try tool.start(["run", "--plain", "topology.yaml"])
      #expect(try await again.waitForOutput(containing: "2 nodes running"), "\(again.errorText)")
      again.signal(.terminate)
      #expect(try await again.waitForExit(within: .seconds(10)) == .exited(code: 0))
      #expect(ward.directory.sockets.isEmpty)
    }
  }

  /// A node program that answers a description and cannot be executed any more afterwards.
  private func vanishingProgram(in tool: CommandLineTool) throws {
    let script = """
      #!/bin/sh
      "\(CommandLineTool.products)/TestNodes" "$@"
      chmod -x "$0"
      """
    try tool.directory.write(script, to: "vanishing", mode: 0o700)
  }

  @Test("of many nodes, those whose program does not run fail with its reason, and the others run")
  func manySpawns() async throws {
    try await CommandLineTool.launching { tool in
      try vanishingProgram(in: tool)
      let nodes = (0..<30).map { index in
        "  n\(index): { machine: Button\(index.isMultiple(of: 2) ? ", program: ./vanishing" : "") }\n"
      }
      try tool.directory.write(
        "topology: ward\nprogram: TestNodes\ntimeouts: { start: 60s, stop: 60s }\nnodes:\n"
          + nodes.joined(), to: "ward.yaml")
      let up = try await tool.run("up", "--wait", "ward.yaml", within: .seconds(60), code: 1)
      #expect(up.error.contains("ward: 15 of 30 nodes failed. "), "\(up)")
      let client = try TopologyClient(
        topology: "ward",
        control: RuntimeDirectories(topology: "ward", roots: tool.directory.roots)
          .endpoint(.control))
      defer { client.close() }
      for (index, node) in try await client.directory().nodes.enumerated() {
        if index.isMultiple(of: 2) {
          #expect(node.phase == "failed" && node.pid == nil)
          #expect(
            node.reason?.hasSuffix(
              "/vanishing': Permission denied; make it executable with chmod +x")
              == true, "\(node.reason ?? "")")
        } else {
          #expect(node.isRunning, "\(node)")
        }
      }
      #expect(tool.directory.processes.count == 16)
      try await tool.run("down", code: 0)
      #expect(tool.directory.processes.isEmpty && tool.directory.sockets.isEmpty)
    }
  }

  @Test("a node that says in its hello that it cannot run is failed for good, with its reason")
  func problem() async throws {
    try await CommandLineTool.launching { tool in
      // The process is a shell that only waits; what a node would say is said here.
      let script = """
        #!/bin/sh
        [ "$1" = run ] && exec sleep 60
        exec "\(CommandLineTool.products)/TestNodes" "$@"
        """
      try tool.directory.write(script, to: "mute", mode: 0o700)
      let yaml = """
        topology: ward
        program: ./mute
        nodes: { patient: { machine: Button, restart: { policy: always }, required: true } }
        timeouts: { start: 60s }
        """
      try tool.directory.write(yaml, to: "ward.yaml")
      let run = try tool.start(["run", "--plain", "ward.yaml"])
      let directories = try RuntimeDirectories(topology: "ward", roots: tool.directory.roots)
      let client = try TopologyClient(topology: "ward", control: directories.endpoint(.control))
      defer { client.close() }
      let spawned: NodeInformation? = try await poll(within: .seconds(20)) {
        // The orchestrator may not be there yet.
        let node = try? await client.directory(fresh: false)[node: "patient"]
        return node?.pid == nil ? nil : node
      }
      let node = try #require(spawned, "\(run.errorText)")
      let description = try #require(try await describe("patient", client))
      let hello = NodeHello(
        node: "patient", pid: try #require(node.pid), incarnation: 1, description: description,
        problem: "its journal is damaged")
      let control = try Socket(.dealer, in: Context())
      try control.setRoutingID("node/patient")
      try control.connect(directories.endpoint(.control))
      control.send(FrameHeader(.hello, number: 1), body: try JSONValue(encoding: hello).bytes)
      control.setLinger(milliseconds: 1000)
      #expect(try await run.waitForExit(within: .seconds(20)) == .exited(code: 1))
      #expect(
        run.errorText.contains("required node 'patient' failed: its journal is damaged"),
        "\(run.errorText)")
    }
  }

  private func describe(
    _ node: String, _ client: TopologyClient
  ) async throws -> MachineDescription? {
    guard case .description(let description) = try await client.command(.describe(node: node))
    else { return nil }
    return description
  }

  @Test("a stopped node stays stopped until it is started, and the topology stays too")
  func stopAndStart() async throws {
    try await withTopology(yaml: Self.fragile()) { ward in
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
      #expect(outcome == .moved(version: 1, state: ["well": ["steps": 1]]))
    }
  }
}
