import PipeClient
import PipeSupervision
import PipeSystem
import PipeWire
import Testing

@Suite("The state machine of an agent")
struct AgentStateMachineTests {
  private func launch(_ incarnation: UInt64) -> AgentLaunch {
    AgentLaunch(
      incarnation: incarnation, program: "/bin/nodes", arguments: ["run"], environment: [:],
      key: "")
  }

  /// Returns an agent that runs the third incarnation as process 17.
  private func running() -> AgentStateMachine {
    var agent = AgentStateMachine()
    #expect(agent.handle(.launch(launch(3))) == [.start(launch(3))])
    #expect(agent.handle(.started(pid: 17)) == [.report])
    return agent
  }

  @Test("An agent starts each incarnation at most once, and runs only one process at a time")
  func once() {
    var agent = running()
    #expect(agent.process == .init(incarnation: 3, .running(pid: 17)))
    #expect(agent.handle(.launch(launch(3))) == [.report])
    #expect(agent.handle(.launch(launch(4))) == [.report])
    #expect(agent.handle(.ended(.exited(code: 7))) == [.report])
    #expect(agent.process == .init(incarnation: 3, .exited(code: 7)))
    // An incarnation that was started is not started again, nor is an earlier one.
    #expect(agent.handle(.launch(launch(3))) == [.report])
    #expect(agent.handle(.launch(launch(2))) == [.report])
    #expect(agent.handle(.launch(launch(4))) == [.start(launch(4))])
    // A process counts as running before its start is confirmed.
    #expect(agent.process?.isRunning == true)
    #expect(agent.handle(.launch(launch(5))) == [.report])
    #expect(agent.handle(.startFailed(reason: "no such file")) == [.report])
    #expect(agent.process == .init(incarnation: 4, .notStarted(reason: "no such file")))
  }

  @Test("An agent sends a signal only to the incarnation that the signal is meant for")
  func signals() {
    var agent = running()
    #expect(agent.handle(.signal(.init(incarnation: 3, number: 15))) == [.kill(.terminate)])
    #expect(agent.handle(.signal(.init(incarnation: 3, number: 9))) == [.kill(.kill)])
    #expect(agent.handle(.signal(.init(incarnation: 2, number: 9))) == [.report])
    #expect(agent.handle(.ended(.signalled(number: 9))) == [.report])
    #expect(agent.handle(.signal(.init(incarnation: 3, number: 9))) == [.report])
    #expect(agent.process == .init(incarnation: 3, .signalled(number: 9)))
  }

  @Test("A leaving agent terminates its process, then kills it, and starts no other process")
  func leaves() {
    var agent = running()
    #expect(agent.handle(.leave) == [.report, .kill(.terminate)])
    #expect(agent.isLeaving)
    #expect(agent.handle(.leave) == [.report, .kill(.kill)])
    #expect(agent.handle(.launch(launch(4))) == [.report])
    #expect(agent.handle(.ended(.exited(code: 0))) == [.report, .end(isDisplaced: false)])
    #expect(agent.handle(.launch(launch(4))) == [.report])

    var idle = AgentStateMachine()
    #expect(idle.handle(.leave) == [.report, .end(isDisplaced: false)])
  }

  @Test("A displaced agent kills its process and then ends")
  func displaced() {
    var agent = running()
    #expect(agent.handle(.displaced) == [.kill(.kill)])
    #expect(agent.handle(.ended(.signalled(number: 9))) == [.report, .end(isDisplaced: true)])

    var idle = AgentStateMachine()
    #expect(idle.handle(.displaced) == [.end(isDisplaced: true)])

    // The same happens to a leaving agent.
    var leaving = running()
    _ = leaving.handle(.leave)
    #expect(leaving.handle(.displaced) == [.kill(.kill)])
    #expect(leaving.handle(.ended(.signalled(number: 9))) == [.report, .end(isDisplaced: true)])
  }
}

@Suite("The registry of present agents")
struct AgentBookTests {
  private let start = AgentRegistry.Instant.now

  private func report(
    _ session: UInt64, running incarnation: UInt64? = nil, isLeaving: Bool = false
  ) -> AgentReport {
    AgentReport(
      node: "door", session: session, address: "10.0.0.7", host: "n1",
      process: incarnation.map { .init(incarnation: $0, .running(pid: 5)) }, isLeaving: isLeaving)
  }

  @Test("A silent agent is absent after four seconds, and present again when it reports")
  func silence() {
    var book = AgentRegistry()
    #expect(book.report(of: "door", at: start) == nil && !book.canStart("door", at: start))
    #expect(book.record(report(1), at: start) == .known)
    #expect(book.canStart("door", at: start + .milliseconds(3_999)))
    #expect(book.report(of: "door", at: start + .milliseconds(3_999)) == report(1))
    #expect(!book.canStart("door", at: start + .seconds(4)))
    #expect(book.report(of: "door", at: start + .seconds(4)) == nil)
    #expect(book.record(report(1), at: start + .seconds(10)) == .known)
    #expect(book.canStart("door", at: start + .seconds(11)))
  }

  @Test("The connection time of an agent starts at zero after a gap or with a new session")
  func connectionTime() {
    var book = AgentRegistry()
    for second in 0...5 { _ = book.record(report(1), at: start + .seconds(second)) }
    #expect(book.connectionTime("door", at: start + .seconds(6)) == .seconds(6))
    #expect(book.connectionTime("door", at: start + .seconds(9)) == .zero)
    _ = book.record(report(1), at: start + .seconds(9))
    #expect(book.connectionTime("door", at: start + .seconds(10)) == .seconds(1))
    _ = book.record(report(2), at: start + .seconds(10))
    #expect(book.connectionTime("door", at: start + .seconds(11)) == .seconds(1))
  }

  @Test("A second agent displaces the first agent permanently")
  func displaced() {
    var book = AgentRegistry()
    #expect(book.record(report(1, running: 3), at: start) == .known)
    #expect(book.record(report(2), at: start) == .replacement)
    #expect(book.record(report(1, running: 3), at: start) == .displaced)
    #expect(book.report(of: "door", at: start)?.session == 2)
    #expect(book.record(report(3), at: start) == .replacement)
    #expect(book.record(report(2), at: start) == .displaced)
    #expect(book.record(report(3), at: start) == .known)
  }

  @Test(
    "A displaced agent's process counts as ended when the agent reports the end or falls silent")
  func endOfDisplaced() {
    var book = AgentRegistry()
    func hasEnded(_ session: UInt64, after time: Int) -> Bool {
      book.hasEnded(session: session, of: "door", at: start + .milliseconds(time))
    }
    _ = book.record(report(1, running: 3), at: start)
    #expect(!hasEnded(1, after: 60_000))
    _ = book.record(report(2), at: start + .seconds(1))
    #expect(!hasEnded(1, after: 5_999) && hasEnded(1, after: 6_000))
    // The displaced agent and its process are still there.
    _ = book.record(report(1, running: 3), at: start + .seconds(2))
    #expect(!hasEnded(1, after: 6_999) && hasEnded(1, after: 7_000))
    _ = book.record(report(1), at: start + .seconds(3))
    #expect(hasEnded(1, after: 3_000))
    // An agent that only a former orchestrator has known.
    #expect(!hasEnded(7, after: 5_999) && hasEnded(7, after: 6_000))
  }

  @Test("An agent cannot start a process while it has one, or while it leaves")
  func busy() {
    var book = AgentRegistry()
    _ = book.record(report(1, running: 3), at: start)
    #expect(!book.canStart("door", at: start))
    _ = book.record(report(1, isLeaving: true), at: start)
    #expect(!book.canStart("door", at: start))
    _ = book.record(report(1), at: start)
    #expect(book.canStart("door", at: start))
  }
}
