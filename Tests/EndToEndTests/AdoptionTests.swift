import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Nodes in the background whose orchestrator is killed", .timed)
struct AdoptionTests {
  /// Each press of the nurse's touches the patient, the one at the start included.
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      patient: { machine: Fragile, restart: { backoff: { initial: 20ms } } }
      nurse: { machine: Button }
    pipes:
      - { from: nurse, when: pressed, to: patient, send: touch, name: bell }
    """

  @Test("they go on, and are adopted as they are: process, state, pipes; and supervised again")
  func adopts() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let before = try await ward.directory()
      let pids = try await ward.pids()
      let former = try ward.client()
      defer { former.close() }
      try await former.send("nurse", Button.Event.press)
      try await former.send("patient", Fragile.Event.touch)
      try await ward.killOrchestrator()

      // Nobody reads what it writes now: that must not end it.
      let outcome = try await former.send("patient", Fragile.Event.shout(lines: 10))
      guard case .moved = outcome else {
        Issue.record("a node without an orchestrator answered \(outcome)")
        return
      }
      try await former.send("nurse", Button.Event.press)
      #expect(ward.alive(pids.values) == Set(pids.values))

      #expect(try await ward.up().hasPrefix("ward: running, 2 nodes adopted, orchestrator pid "))
      #expect(try await ward.pids() == pids)
      let after = try await ward.await("all steps are kept") {
        $0[node: "patient"]?.status?.state == ["well": ["steps": 5]]
          && $0[node: "nurse"]?.status?.state == ["pressed": ["times": 2]]
      }
      for node in after.nodes {
        #expect(node.incarnation == 1 && node.restarts == 0 && node.phase == "running")
        #expect(node.startedAt == before[node: node.name]?.startedAt)
      }

      // What it writes is read again, and the gap is told.
      let client = try ward.client()
      defer { client.close() }
      try await client.send("nurse", Button.Event.press)
      try await client.send("patient", Fragile.Event.shout(lines: 20))
      let isLogged: Bool? = try await poll(within: .seconds(10)) {
        try ward.log("patient").last?.hasSuffix(" out line 20") == true ? true : nil
      }
      let log = try ward.log("patient")
      #expect(isLogged == true, "\(log)")
      #expect(
        log.contains { $0.contains("note adopted (incarnation 1)") && $0.contains("is lost") })
      #expect(log.count { $0.contains(" out line ") } == 20)
      #expect(
        FileSystem.entries(of: try ward.directories.runtime).allSatisfy {
          !$0.hasSuffix(".out") && !$0.hasSuffix(".err")
        })

      // Its end is seen, and it is started again under a new number; its pipe goes on.
      try await client.send("patient", Fragile.Event.touch)
      try await ward.run("kill", "patient")
      let restarted = try await ward.await("the patient is restarted") {
        $0[node: "patient"]?.isRunning == true && $0[node: "patient"]?.incarnation == 2
      }
      #expect(restarted[node: "patient"]?.pid != pids["patient"])
      #expect(restarted[node: "patient"]?.restarts == 1)
      #expect(restarted[node: "nurse"]?.pid == pids["nurse"])
      // What is sent before the pipe is open again is lost, and told.
      let hasArrived: Bool? = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        try await client.send("nurse", Button.Event.press)
        let state = try await client.directory()[node: "patient"]?.status?.state
        return state != nil && state != ["well": ["steps": 0]] ? true : nil
      }
      #expect(hasArrived == true)

      let down = try await ward.run("down")
      #expect(down.output == "ward: down\n", "\(down)")
      #expect(ward.tool.directory.processes.isEmpty)
      #expect(ward.tool.directory.sockets.isEmpty)
    }
  }

  @Test("'ls' and 'status' tell that they are orphaned; 'down' ends them and nobody else")
  func down() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      // In the same directory, with the same environment, and with a record of a former process.
      let bystander = try ward.tool.start(program: "/bin/sleep", ["60"])
      defer { bystander.signal(.kill) }
      let pids = try await ward.pids()
      try await ward.killOrchestrator()
      let record = try ProcessRecord(
        node: "ghost", incarnation: 1,
        launch: .init(program: "", arguments: [], environment: [:], configuration: .init()),
        isDetached: true, dependencies: [], stopTimeout: .seconds(1)
      ).write(in: ward.directories)
      defer { close(record) }
      let fields = "\(bystander.pid) (sleep) S" + String(repeating: " 1", count: 49) + "\n"
      #expect(write(record, fields, fields.utf8.count) == fields.utf8.count)

      let status = try await ward.run("status", code: 3)
      #expect(
        status.output.hasPrefix("ward: orphaned: 2 nodes live; 'orchestrator up /"), "\(status)")
      #expect(status.output.contains("  patient  pid \(pids["patient"] ?? 0)\n"))
      let list = try await ward.tool.run("ls")
      #expect(list.output.contains("ward  orphaned: 2 nodes live"), "\(list)")
      let send = try await ward.run("send", "nurse", "press", code: 3)
      #expect(send.error.contains("was killed and 2 nodes live on"), "\(send)")

      let down = try await ward.run("down")
      #expect(down.output == "ward: down; its orchestrator had been killed, 2 nodes ended\n")
      #expect(ward.alive(pids.values).isEmpty)
      #expect(ward.tool.directory.processes.map(\.pid) == [bystander.pid])
      #expect(ward.tool.directory.sockets.isEmpty)
      // They were asked first: each told its last words.
      #expect(try ward.log("patient").contains { $0.contains("ended by 'orchestrator down'") })
      try await ward.run("down", code: 3)
    }
  }

  @Test("'down --force' kills those that stand still")
  func force() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let pids = try await ward.pids()
      for pid in pids.values { kill(pid, SIGSTOP) }
      try await ward.killOrchestrator()
      try await ward.run("down", "--force")
      #expect(ward.alive(pids.values).isEmpty)
      #expect(ward.tool.directory.sockets.isEmpty)
    }
  }

  @Test("a node that the file has changed is started anew, after its former process has ended")
  func changedFile() async throws {
    try await DetachedTopology.with(Ward.file) { ward in
      let before = try await ward.pids()
      try await ward.killOrchestrator()
      try ward.write(
        Ward.file.replacing("machine: Fragile", with: "machine: Fragile, environment: { WARD: b }")
          .replacing("gone:", with: "added:"))
      try await ward.up()
      let after = try await ward.directory()
      #expect(after[node: "same"]?.pid == before["same"])
      #expect(after[node: "same"]?.incarnation == 1)
      #expect(after[node: "changed"]?.pid != before["changed"])
      #expect(after[node: "changed"]?.incarnation == 2)
      #expect(after[node: "changed"]?.restarts == 0)
      #expect(after[node: "added"]?.incarnation == 1)
      #expect(ward.alive([before["changed"], before["gone"]].compactMap { $0 }).isEmpty)
      #expect(
        try ward.log("changed").contains { $0.contains("not adopted: its environment was changed") }
      )
      #expect(
        try ward.log("gone").contains { $0.contains("the node was removed from the topology") })
      try await ward.run("down")
      #expect(ward.tool.directory.processes.isEmpty)
    }
  }

  @Test("one that does not answer is ended and started anew")
  func silent() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let before = try await ward.pids()
      kill(before["patient"] ?? 0, SIGSTOP)
      try await ward.killOrchestrator()
      try await ward.up()
      let after = try await ward.directory()
      #expect(after[node: "nurse"]?.pid == before["nurse"])
      #expect(after[node: "patient"]?.pid != before["patient"])
      #expect(after[node: "patient"]?.incarnation == 2)
      #expect(ward.alive([before["patient"] ?? 0]).isEmpty)
      #expect(
        try ward.log("patient").contains { $0.contains("the process did not answer within 10 s") })
      try await ward.run("down")
    }
  }

  @Test("a run in the foreground adopts them, too, and then they end with it")
  func foreground() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let pids = try await ward.pids()
      try await ward.killOrchestrator()
      let run = try ward.tool.start(["run", "--plain", "ward.yaml"])
      #expect(try await run.waitForOutput(containing: "2 nodes running"), "\(run.errorText)")
      #expect(run.outputText.contains("patient: adopted (incarnation 1)"), "\(run.outputText)")
      #expect(try await ward.pids() == pids)
      run.signal(.kill)
      #expect(try await run.waitForExit(within: .seconds(10)) == .signalled(number: SIGKILL))
      let isEmpty: Bool? = try await poll(within: .seconds(10)) {
        ward.tool.directory.processes.isEmpty ? true : nil
      }
      #expect(isEmpty == true, "\(ward.tool.directory.processes)")
      try await ward.run("status", code: 3)
    }
  }

  @Test("no process is forgotten, at whatever moment of the start its orchestrator is killed")
  func killedAtStart() async throws {
    try await LaunchLimit.shared.run {
      let count = 8
      let many =
        "topology: ward\nprogram: TestNodes\nnodes:\n"
        + (0..<count).map { "  n\($0): { machine: Button }\n" }.joined()
      let tool = try CommandLineTool()
      defer { tool.remove() }
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: many)
      let runtime = try ward.directories.runtime
      for round in 1...count {
        let up = try tool.start(["up", "-d", "ward.yaml"])
        // As many records as rounds: each round kills a little later.
        let pid: Int32? = try await poll(every: .milliseconds(1), within: .seconds(20)) {
          let records = FileSystem.entries(of: runtime).count { $0.hasSuffix(".process") }
          return records >= round ? RunningTopology.find(try ward.directories)?.pid : nil
        }
        try await ward.killOrchestrator(try #require(pid))
        _ = try await up.waitForExit(within: .seconds(20))
        if round.isMultiple(of: 2) {
          try await ward.up()
          let nodes = try await ward.directory().nodes
          // Each has one process, and each process is one of theirs.
          #expect(nodes.count { $0.isRunning } == count)
          let known = Set(nodes.compactMap(\.pid))
          let own = RunningTopology.find(try ward.directories)?.pid
          let others = tool.directory.processes.filter { $0.pid != own && !known.contains($0.pid) }
          #expect(others.isEmpty)
        }
        let down = try await tool.run("down")
        // Where none had come to life yet, there is nothing to end.
        #expect(down.code == 0 || down.code == 3, "\(down)")
        #expect(tool.directory.processes.isEmpty)
      }
    }
  }

  @Test("the number of a start is never given twice, also not by a later run")
  func numbers() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      try await ward.run("restart", "patient")
      try await ward.run("down")
      try await ward.up()
      let nodes = try await ward.directory().nodes
      #expect(nodes.map(\.incarnation) == [3, 2])
      #expect(nodes.map(\.restarts) == [0, 0])
      try await ward.run("down")
    }
  }
}
