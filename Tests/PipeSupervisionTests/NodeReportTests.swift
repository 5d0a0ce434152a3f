import PipeSupervision
import Testing

@Suite("The wording of reports about nodes")
struct NodeReportTests {
  @Test(
    "Each report says what happened to the node, and what follows",
    arguments: [
      (.starting(incarnation: 1), "starting"),
      (.starting(incarnation: 2), "starting (incarnation 2)"),
      (.spawned(pid: 7), "spawned, pid 7"),
      (.adopting(pid: 7), "still running as pid 7; reconnecting"),
      (
        .adopted(incarnation: 2),
        "adopted (incarnation 2); output from the time without an orchestrator is lost"
      ),
      (.replacing(reason: "why"), "not adopted: why; the process is replaced"),
      (.killing(reason: "hung"), "killed: hung"), (.exited(.exited(code: 3)), "ended: exit code 3"),
      (
        .restarting(after: .seconds(1), attempt: 2, limit: 5, reason: "exit code 3"),
        "exit code 3; restart 2 of 5 in 1 s"
      ),
      (
        .waitingForSpace(after: .seconds(1), reason: "full"),
        "full; next start in 1 s, not counted as a restart"
      ),
      (.ungracefulStop(reason: "exit code 3"), "did not stop gracefully: exit code 3"),
      (.failed(reason: "exit code 3"), "failed: exit code 3"),
      (
        .unkillable(pid: 7), "pid 7 did not exit after SIGKILL; check for a blocked device or disk"
      ),
      (.awaitingAgent, "waits for its agent to connect"),
      (.moving(from: "a", to: "b"), "moves from lost host 'a' to host 'b'"),
    ] as [(NodeReport, String)])
  func reports(report: NodeReport, text: String) {
    #expect(report.description == text)
  }

  @Test(
    "A missed deadline is reported with its time",
    arguments: [
      (.answer(within: .seconds(2)), "the process did not answer within 2 s"),
      (.connection(within: .seconds(2)), "the process did not connect within 2 s"),
      (.readiness(within: .seconds(2)), "the process was not ready within 2 s"),
      (.heartbeat(within: .seconds(2)), "no heartbeat for 2 s"),
      (.stop(within: .seconds(2)), "the process did not stop within 2 s"),
    ] as [(MissedDeadline, String)])
  func deadlines(deadline: MissedDeadline, text: String) {
    #expect(deadline.description == text)
  }
}
