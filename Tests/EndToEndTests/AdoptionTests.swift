import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestNodes
import TestTraits
import Testing

@Suite("Detached nodes whose orchestrator is killed", .timed)
struct AdoptionTests {
  /// A ward where each press of the nurse's button touches the patient, including the press at the
  /// start.
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      patient: { machine: Fragile, restart: { backoff: { initial: 20ms } } }
      nurse: { machine: Button }
    pipes:
      - { from: nurse, when: pressed, to: patient, send: touch, name: bell }
    """

  @Test(
    "Nodes that a new orchestrator adopts keep their process, state and pipes")
  func adopts() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let before = try await ward.directory()
      let pids = try await ward.pids()
      let former = try ward.client()
      defer { former.close() }
      try await former.send("nurse", Button.Event.press)
      try await former.send("patient", Fragile.Event.touch)
      try await ward.killOrchestrator()

      // No process reads the node's output now. The node must continue nevertheless.
      let outcome = try await former.send("patient", Fragile.Event.shout(lines: 10))
      guard case .accepted = outcome else {
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

      // The new orchestrator reads the node's output again and reports the gap.
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
        FileSystem.entryNames(of: try ward.directories.runtime).allSatisfy {
          !$0.hasSuffix(".out") && !$0.hasSuffix(".err")
        })

      // The orchestrator notices the node's exit and restarts it as a new incarnation. The pipe
      // continues.
      try await client.send("patient", Fragile.Event.touch)
      try await ward.run("kill", "patient")
      let restarted = try await ward.await("the patient is restarted") {
        $0[node: "patient"]?.isRunning == true && $0[node: "patient"]?.incarnation == 2
      }
      #expect(restarted[node: "patient"]?.pid != pids["patient"])
      #expect(restarted[node: "patient"]?.restarts == 1)
      #expect(restarted[node: "nurse"]?.pid == pids["nurse"])
      // Events sent before the pipe is open again are lost, and the loss is reported.
      let hasArrived: Bool? = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        try await client.send("nurse", Button.Event.press)
        let state = try await client.directory()[node: "patient"]?.status?.state
        return state != nil && state != ["well": ["steps": 0]] ? true : nil
      }
      #expect(hasArrived == true)

      let down = try await ward.run("down")
      #expect(down.output == "ward: down\n", "\(down)")
      #expect(ward.tool.directory.processes.isEmpty)
      #expect(ward.tool.directory.leftoverPaths.isEmpty)
    }
  }

  @Test("'ls' and 'status' show orphaned nodes, and 'down' ends these nodes and no other processes")
  func down() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      // The bystander runs in the same directory with the same environment, next to the record of a
      // former process.
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
        status.output.hasPrefix("ward: orphaned: 2 nodes ")
          && status.output.contains("'orchestrator up /"),
        "\(status)")
      #expect(status.output.contains("  patient  pid \(pids["patient"] ?? 0)\n"))
      let list = try await ward.tool.run("ls")
      #expect(list.output.contains("ward  orphaned: 2 nodes "), "\(list)")
      let send = try await ward.run("send", "nurse", "press", code: 3)
      #expect(send.error.contains("2 nodes "), "\(send)")

      let down = try await ward.run("down")
      #expect(down.output == "ward: down; the orchestrator was killed, 2 nodes ended\n")
      #expect(ward.alive(pids.values).isEmpty)
      #expect(ward.tool.directory.processes.map(\.pid) == [bystander.pid])
      #expect(ward.tool.directory.leftoverPaths.isEmpty)
      // The nodes were asked to stop first: each wrote its last log line.
      #expect(try ward.log("patient").contains { $0.contains("ended by 'orchestrator down'") })
      try await ward.run("down", code: 3)
    }
  }

  @Test("'down --force' kills orphaned nodes that are suspended")
  func force() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let pids = try await ward.pids()
      for pid in pids.values { kill(pid, SIGSTOP) }
      try await ward.killOrchestrator()
      try await ward.run("down", "--force")
      #expect(ward.alive(pids.values).isEmpty)
      #expect(ward.tool.directory.leftoverPaths.isEmpty)
    }
  }

  @Test("A new orchestrator restarts a changed node after the node's former process has ended")
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
        try ward.log("changed").contains {
          $0.contains("\(NodeReport.replacing(reason: "\(ProcessRecord.Difference.environment)"))")
        })
      #expect(
        try ward.log("gone").contains { $0.contains("the node was removed from the topology") })
      try await ward.run("down")
      #expect(ward.tool.directory.processes.isEmpty)
    }
  }

  @Test("A new orchestrator replaces an orphaned node that does not answer")
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
        try ward.log("patient").contains {
          $0.contains("\(MissedDeadline.answer(within: .seconds(10)))")
        })
      try await ward.run("down")
    }
  }

  @Test("'run' adopts orphaned nodes, and the adopted nodes end when 'run' is killed")
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

  @Test("If an orchestrator is killed during a start, the next orchestrator finds every process")
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
        // Round N waits until N records exist, so that each round kills a little later.
        let pid: Int32? = try await poll(every: .milliseconds(1), within: .seconds(20)) {
          let records = FileSystem.entryNames(of: runtime).count { $0.hasSuffix(".process") }
          return records >= round ? RunningTopology.find(try ward.directories)?.pid : nil
        }
        try await ward.killOrchestrator(try #require(pid))
        _ = try await up.waitForExit(within: .seconds(20))
        if round.isMultiple(of: 2) {
          try await ward.up()
          let nodes = try await ward.directory().nodes
          // Each node has one process, and no other process runs.
          #expect(nodes.count { $0.isRunning } == count)
          let known = Set(nodes.compactMap(\.pid))
          let own = RunningTopology.find(try ward.directories)?.pid
          let others = tool.directory.processes.filter { $0.pid != own && !known.contains($0.pid) }
          #expect(others.isEmpty)
        }
        let down = try await tool.run("down")
        // If no process had started yet, 'down' has nothing to end.
        #expect(down.code == 0 || down.code == 3, "\(down)")
        #expect(tool.directory.processes.isEmpty)
      }
    }
  }

  @Test("An incarnation number is never reused, even by a later run")
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
