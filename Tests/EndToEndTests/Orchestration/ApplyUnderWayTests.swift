import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Verbs during an 'apply' in progress", .timed)
struct ApplyUnderWayTests {
  /// A topology whose node `slow` suspends itself when it should stop.
  private static let slowWard = """
    topology: ward
    program: TestNodes
    timeouts: { stop: 600s }
    nodes:
      slow:
        machine: Button
        environment: { PIPERUNTIME_FAILPOINTS: "slow:drain.before=stop" }
      other: { machine: Button }
    """

  /// Starts an `apply` that waits for `slow` to stop.
  private func withUnfinished(
    _ body: (DetachedTopology, _ apply: LaunchedProgram, _ slow: Int32) async throws -> Void
  ) async throws {
    try await DetachedTopology.with(Self.slowWard) { ward in
      let slow = try #require(try await ward.pids()["slow"])
      try ward.write(
        Self.slowWard.replacing(
          #"environment: { PIPERUNTIME_FAILPOINTS: "slow:drain.before=stop" }"#,
          with: "durability: none"
        ).replacing("other:", with: "added: { machine: Button }\n  other:"))
      let apply = try ward.tool.start(["apply", "ward.yaml", "--timeout", "600s"])
      try await ward.await("the change to begin") {
        $0.phase == "changing" && $0[node: "slow"]?.phase == "stopping"
      }
      try await Self.awaitStandstill(of: slow)
      try await body(ward, apply, slow)
    }
  }

  /// Waits until a process has suspended itself: an earlier SIGCONT would be lost.
  private static func awaitStandstill(of pid: Int32) async throws {
    let standsStill: Bool? = try await poll(within: .seconds(20)) {
      let status = FileSystem.text(of: "/proc/\(pid)/status") ?? ""
      return status.contains("\nState:\tT") ? true : nil
    }
    #expect(standsStill == true)
  }

  @Test("During an 'apply', a second 'apply' and a manual start are refused, and 'ps' works")
  func second() async throws {
    try await withUnfinished { ward, apply, slow in
      for arguments in [["apply", "ward.yaml"], ["stop", "other"], ["start", "slow"]] {
        let other = try await ward.run(arguments, code: 1)
        #expect(other.error.contains("another change is in progress"), "\(other)")
      }
      let ps = try await ward.run("ps")
      #expect(!ps.output.contains("added"), "\(ps)")
      #expect(kill(slow, SIGCONT) == 0)
      try await ward.end(of: apply)
      let after = try await ward.directory()
      #expect(after.isRunning && after[node: "added"]?.isRunning == true)
      #expect(after[node: "slow"]?.incarnation == 2)
    }
  }

  @Test("'down' during an 'apply' stops the whole topology")
  func down() async throws {
    try await withUnfinished { ward, apply, slow in
      let down = try ward.tool.start(["down"])
      try await ward.await("the way down") { $0.phase == "stopping" }
      let result = try await ward.end(of: apply, code: 1)
      #expect(result.error.contains("the topology is stopping"), "\(result)")
      #expect(kill(slow, SIGCONT) == 0)
      #expect(try await ward.end(of: down).output == "ward: down\n")
      #expect(ward.tool.directory.processes.isEmpty)
    }
  }

  @Test("If the orchestrator is killed during an 'apply', the next 'up' completes the change")
  func killed() async throws {
    try await withUnfinished { ward, apply, slow in
      let other = try #require(try await ward.pids()["other"])
      try await ward.killOrchestrator()
      try await ward.end(of: apply, code: 1)
      #expect(kill(slow, SIGCONT) == 0)
      try await ward.up()
      let after = try await ward.directory()
      #expect(after.nodes.map(\.name) == ["slow", "added", "other"])
      #expect(after.isRunning)
      #expect(after[node: "other"]?.pid == other)
      #expect(after[node: "slow"]?.incarnation == 2)
    }
  }

  @Test("'apply' exits 124 when its timeout has passed, and the change continues")
  func late() async throws {
    try await DetachedTopology.with(Self.slowWard) { ward in
      let slow = try #require(try await ward.pids()["slow"])
      try ward.write(Self.slowWard.replacing("slow:\n", with: "slow:\n    durability: none\n"))
      // The timeout includes the time to load the file.
      let result = try await ward.apply("--timeout", "10s", code: 124)
      #expect(result.error.contains("\(TopologyClientError.timedOut("after "))"), "\(result)")
      try await Self.awaitStandstill(of: slow)
      #expect(kill(slow, SIGCONT) == 0)
      try await ward.await("the change to come through") {
        $0.isRunning && $0[node: "slow"]?.incarnation == 2
      }
    }
  }
}
