import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestNodes
import TestTraits
import Testing

@Suite("Coordinators embedded in a participant", .timed)
struct LodgingRunTests {
  /// Returns a topology of two parties with a composite.
  /// - Parameter place: The key that places its coordinator.
  private static func file(_ place: String = ", within: left") -> String {
    """
    topology: ward
    program: TestNodes
    nodes:
      left: { machine: Party, restart: { max: 100, backoff: { initial: 5ms, max: 20ms } } }
      right: { machine: Party, restart: { max: 100, backoff: { initial: 5ms, max: 20ms } } }
    composites:
      pair: { components: [left, right], synchronize: [meet]\(place) }
    """
  }

  private static func met(_ count: Int) throws -> JSONValue {
    try JSONValue(encoding: Party.State.willing(met: count, steps: 0))
  }

  /// Requests a synchronized event, and waits until both parties report this number of meetings.
  private static func meet(_ ward: DetachedTopology, count: Int) async throws {
    let sent = try await ward.run("send", "pair", "meet", "--await", "20s")
    #expect(sent.output.contains("committed"), "\(sent)")
    let state = try met(count)
    try await ward.await("\(count) meetings") { directory in
      ["left", "right"].allSatisfy { directory[node: $0]?.status?.state == state }
    }
  }

  @Test("An embedded coordinator can be stopped and restarted without its carrier node")
  func own() async throws {
    try await DetachedTopology.with(Self.file()) { ward in
      let before = try await ward.pids()
      #expect(before["pair"] == before["left"] && before["pair"] != before["right"])
      #expect(try await ward.directory()[node: "pair"]?.within == "left")
      try await Self.meet(ward, count: 1)
      let page = try await ward.run("describe", "pair")
      #expect(page.output.contains("within left"), "\(page)")

      try await ward.run("restart", "pair")
      #expect(try await ward.pids() == before)
      let restarted = try await ward.directory()
      #expect(restarted[node: "pair"]?.incarnation == 2)
      #expect(restarted[node: "left"]?.incarnation == 1)
      try await Self.meet(ward, count: 2)

      try await ward.run("stop", "pair")
      let stopped = try await ward.directory()
      #expect(stopped[node: "pair"]?.phase == "stopped" && stopped[node: "pair"]?.pid == nil)
      #expect(stopped[node: "left"]?.isRunning == true)
      try await ward.run("send", "pair", "meet", "--timeout", "100ms", code: 1)
      try await ward.run("start", "pair")
      #expect(try await ward.pids() == before)
      try await Self.meet(ward, count: 3)
      #expect(try ward.log("pair").contains { $0.hasSuffix("note running") })
      #expect(try ward.log("left").allSatisfy { !$0.contains("[pair]") })

      let down = try await ward.run("down")
      #expect(down.output == "ward: down\n", "\(down)")
      #expect(ward.tool.directory.processes.isEmpty)
      #expect(ward.tool.directory.leftoverPaths.isEmpty)
    }
  }

  @Test("An embedded coordinator ends before its carrier node stops, and restarts with that node")
  func host() async throws {
    try await DetachedTopology.with(Self.file()) { ward in
      try await Self.meet(ward, count: 1)
      let before = try await ward.pids()
      try await ward.run("restart", "left")
      let after = try await ward.await("both run again") { directory in
        directory.isRunning && directory[node: "pair"]?.incarnation == 2
      }
      #expect(after[node: "left"]?.incarnation == 2)
      #expect(after[node: "left"]?.pid != before["left"])
      #expect(after[node: "pair"]?.pid == after[node: "left"]?.pid)
      try await Self.meet(ward, count: 2)

      try await ward.run("stop", "left")
      let stopped = try await ward.directory()
      #expect(stopped[node: "pair"]?.phase == "waiting")
      #expect(
        stopped[node: "pair"]?.reason
          == "waits for carrier node 'left', which is stopped")
      let refused = try await ward.run("restart", "pair", code: 1)
      #expect(refused.error.contains("waits for carrier node 'left'"), "\(refused)")
      try await ward.run("start", "left")
      try await Self.meet(ward, count: 3)
    }
  }

  @Test("An embedded coordinator and its carrier node crash together, and both are restarted")
  func kills() async throws {
    let file = Self.file() + "\ntimeouts: { heartbeat: 3s }\n"
    try await DetachedTopology.with(file) { ward in
      try await Self.meet(ward, count: 1)
      var incarnation: UInt64 = 1
      for (name, signal) in [("pair", "KILL"), ("left", "KILL"), ("pair", "STOP")] {
        incarnation += 1
        try await ward.run("kill", "-s", signal, name)
        let number = incarnation
        try await ward.await("both are started again") { directory in
          ["left", "pair"].allSatisfy {
            directory[node: $0].map { $0.isRunning && $0.incarnation == number } == true
          }
        }
        try await Self.meet(ward, count: Int(number))
      }
      #expect(try ward.log("pair").contains { $0.contains("carrier node 'left'") })
    }
  }

  @Test("A signal that terminates a process ends all nodes in the process gracefully")
  func terminated() async throws {
    try await DetachedTopology.with(Self.file()) { ward in
      try await Self.meet(ward, count: 1)
      try await ward.run("kill", "-s", "TERM", "left")
      try await ward.await("the host has ended") { $0[node: "left"]?.phase == "completed" }
      try await ward.run("start", "left", "pair")
      try await Self.meet(ward, count: 2)
      #expect(
        try ward.log("left").contains { $0.hasSuffix("\(NodeReport.exited(.exited(code: 0)))") })
    }
  }

  @Test("An embedded coordinator and its carrier are adopted after their orchestrator was killed")
  func adopted() async throws {
    try await DetachedTopology.with(Self.file()) { ward in
      try await Self.meet(ward, count: 1)
      let before = try await ward.pids()
      try await ward.killOrchestrator()
      #expect(try await ward.up().hasPrefix("ward: running, 3 nodes adopted, orchestrator pid "))
      #expect(try await ward.pids() == before)
      try await Self.meet(ward, count: 2)
      let after = try await ward.directory()
      #expect(after.nodes.allSatisfy { $0.incarnation == 1 && $0.phase == "running" })
      // Both are supervised again: the coordinator alone, and the process.
      try await ward.run("restart", "pair")
      #expect(try await ward.pids() == before)
      try await Self.meet(ward, count: 3)
      try await ward.run("kill", "left")
      try await ward.await("both are started again") { directory in
        ["left": 2, "pair": 3].allSatisfy { name, number in
          directory[node: name].map { $0.isRunning && $0.incarnation == number } == true
        }
      }
      try await Self.meet(ward, count: 4)
      try await ward.run("down")
      #expect(ward.tool.directory.processes.isEmpty)
    }
  }

  @Test("If one node of a process cannot be adopted, the process ends and all its nodes restart")
  func notAdopted() async throws {
    try await DetachedTopology.with(Self.file()) { ward in
      try await Self.meet(ward, count: 1)
      let before = try await ward.pids()
      try await ward.killOrchestrator()
      try ward.write(Self.file(", within: right"))
      #expect(try await ward.up().hasPrefix("ward: running, 1 node adopted"))
      let after = try await ward.pids()
      #expect(after["left"] != before["left"] && after["right"] == before["right"])
      #expect(after["pair"] == after["right"])
      #expect(ward.alive([before["left"]].compactMap { $0 }).isEmpty)
      try await Self.meet(ward, count: 2)
    }
  }

  @Test("'down' ends an orphaned process with all nodes in it")
  func orphans() async throws {
    try await DetachedTopology.with(Self.file()) { ward in
      try await Self.meet(ward, count: 1)
      try await ward.killOrchestrator()
      let down = try await ward.run("down")
      #expect(down.output.hasPrefix("ward: down; "), "\(down)")
      #expect(ward.tool.directory.processes.isEmpty)
      #expect(ward.tool.directory.leftoverPaths.isEmpty)
      try await ward.up()
      try await Self.meet(ward, count: 2)
    }
  }

  @Test(
    "'apply' moves a coordinator between carrier nodes and restarts only the coordinator")
  func moves() async throws {
    try await DetachedTopology.with(Self.file()) { ward in
      let before = try await ward.pids()
      let moves: [(place: String, process: String?, reason: String)] = [
        ("", nil, "\(ProcessRecord.Difference.host(wanted: nil))"),
        (", within: right", "right", "\(ProcessRecord.Difference.host(wanted: "right"))"),
        (", within: left", "left", "\(ProcessRecord.Difference.host(wanted: "left"))"),
      ]
      for (number, move) in moves.enumerated() {
        try ward.write(Self.file(move.place))
        let applied = try await ward.run("apply", "ward.yaml")
        #expect(
          applied.output == """
            ward: 1 node restarted, 2 unchanged
            ~ pair  restarts: \(move.reason)

            """)
        let pids = try await ward.pids()
        #expect(pids["left"] == before["left"] && pids["right"] == before["right"])
        let process = try #require(pids["pair"])
        #expect(
          move.process.map { pids[$0] == process } ?? !before.values.contains(process))
        try await Self.meet(ward, count: number + 1)
      }
      #expect(try await ward.run("apply", "ward.yaml").output == DetachedTopology.unchanged)
    }
  }

  @Test(
    "A program that is too old to embed a coordinator causes an error at the topology file's key")
  func older() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = """
      #!/bin/sh
      [ "$1" = describe ] || exec '\(CommandLineTool.products)/TestNodes' "$@"
      '\(CommandLineTool.products)/TestNodes' "$@" | sed 's/,"embedsCoordinators":true//'
      """
    try tool.directory.write(program, to: "older", mode: 0o755)
    try tool.directory.write(
      Self.file().replacing("program: TestNodes", with: "program: ./older"), to: "ward.yaml")
    let check = try await tool.run("check", "ward.yaml")
    #expect(check.code == 2)
    #expect(
      check.error.contains(
        "ward.yaml:7:67: error: composite 'pair': program './older' was built with a version of "
          + "PipeRuntime that does not support embedded coordinators; rebuild the program, or "
          + "remove 'within' [bad-host]"), "\(check)")
  }
}
