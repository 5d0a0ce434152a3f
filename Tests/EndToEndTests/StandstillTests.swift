import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestNodes
import TestTraits
import Testing

@Suite("Hung processes", .timed)
struct StandstillTests {
  @Test("A suspended node is detected by its missing heartbeat, killed and replaced")
  func heartbeat() async throws {
    try await withTopology(yaml: FragileTopology.yaml(timeouts: "{ heartbeat: 2s }")) { ward in
      let before = try await ward.status("patient")
      try await ward.pause("patient")
      let after = try await ward.expectStatus(of: "patient", "a new process") {
        $0.isRunning && $0.incarnation == 2
      }
      #expect(after.pid != before.pid)
      #expect(kill(before.pid ?? 0, 0) != 0)
      try await ward.expectLog(
        "patient", contains: "hung: \(MissedDeadline.heartbeat(within: .seconds(2)))")
    }
  }

  @Test("A node that gets hardly any CPU time is not considered hung")
  func starved() async throws {
    // Four programs that never pause, on the one processor that the node may use. A limit of CPU
    // time ends them if the test cannot.
    let burners = try (0..<4).map { _ in
      try LaunchedProgram(
        "/bin/sh", ["-c", "ulimit -t 120; while :; do :; done"], environment: [:])
    }
    defer { for burner in burners { burner.signal(.kill) } }
    for burner in burners { try await pin(burner.pid) }
    try await withTopology(yaml: FragileTopology.yaml(timeouts: "{ heartbeat: 200ms }")) { ward in
      let pid = try #require(try await ward.status("patient").pid)
      try await pin(pid)
      try await run("/usr/bin/chrt", "--idle", "-p", "0", String(pid))
      let before = try #require(RunQueueSampler.threads(of: pid)[pid])
      let hasWaited = try await poll(every: .milliseconds(20), within: .seconds(60)) {
        guard let now = RunQueueSampler.threads(of: pid)[pid] else { return false }
        return now.queueTime - before.queueTime > .seconds(3) ? true : nil
      }
      #expect(hasWaited == true)
      try await run("/usr/bin/chrt", "--other", "-p", "0", String(pid))
      #expect(try await ward.status("patient").incarnation == 1)
      #expect(!ward.logs("patient").contains { $0.contains("no heartbeat") })
    }
  }

  @Test("An orchestrator that was suspended does not consider its nodes hung")
  func stalled() async throws {
    try await withTopology(yaml: FragileTopology.yaml(timeouts: "{ heartbeat: 2s }")) { ward in
      // Suspends the orchestrator for several durations: from the time of the next ping until it is
      // certain that the orchestrator was silent. The node has the rest of its heartbeat timeout
      // after a ping to answer, which must not be short on a busy machine.
      for time in stride(from: 1_200, through: 3_000, by: 300) {
        ward.orchestrator.signal(.stop)
        let end = ContinuousClock.now + .milliseconds(time)
        let hasPassed = try await poll(every: .milliseconds(5), within: .seconds(20)) {
          ContinuousClock.now >= end ? true : nil
        }
        #expect(hasPassed == true)
        ward.orchestrator.signal(.resume)
        #expect(try await ward.status("patient").incarnation == 1, "after \(time) ms")
      }
      #expect(!ward.logs("patient").contains { $0.contains("no heartbeat") })
    }
  }

  @Test("A node whose step never returns is replaced, and its client gets the outcome 'unknown'")
  func deadlock() async throws {
    try await withTopology(yaml: FragileTopology.yaml(timeouts: "{ heartbeat: 2s }")) { ward in
      await #expect(throws: TopologyClientError.unknownOutcome("patient", after: nil)) {
        try await ward.send("patient", Fragile.Event.hang)
      }
      try await ward.expectStatus(of: "patient", "a new process") {
        $0.isRunning && $0.incarnation == 2
      }
    }
  }

  /// Restricts a process to the first processor that this process may use.
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
}
