import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("The soak test's check of process exits", .timed)
struct EndCheckTests {
  /// Returns the violations found in the log of a node's process that this signal ends.
  private static func violations(
    of lines: [(LogStream, String)], endedBy signal: Int32, sending sent: Int32? = nil,
    to pid: Int32 = 7
  ) -> [String] {
    var check = UnexpectedExitChecker()
    if let sent { check.note(Signal(number: sent), to: "a", pid: pid) }
    let end = (LogStream.note, "\(NodeReport.exited(.signalled(number: signal)))")
    for (stream, text) in lines + [end] {
      check.add(
        LogEntry(node: "a", time: Timestamp(milliseconds: 0), stream: stream, text: text))
    }
    return check.violations
  }

  private static let spawned = (LogStream.note, "\(NodeReport.spawned(pid: 7))")

  @Test(
    "A process death by any signal that the soak test did not send is a violation",
    arguments: [SIGABRT, SIGSEGV, SIGILL, SIGTRAP, SIGBUS, SIGTERM, SIGKILL])
  func unsent(signal: Int32) {
    let name = Signal(number: signal)
    #expect(
      Self.violations(of: [Self.spawned], endedBy: signal)
        == ["process 7 of node 'a' ended by \(name), which nobody had sent"])
    #expect(Self.violations(of: [Self.spawned], endedBy: signal, sending: signal).isEmpty)
    #expect(Self.violations(of: [Self.spawned], endedBy: signal, sending: signal, to: 6).count == 1)
  }

  @Test(
    "A process death announced by a failpoint or the orchestrator is not a violation",
    arguments: [
      (SIGKILL, [(LogStream.err, "failpoint record.after: crash (hit 3)")]),
      (SIGKILL, [(.note, "\(NodeReport.killing(reason: "hung"))")]),
      (SIGKILL, [(.note, "\(NodeReport.replacing(reason: "its pipes were changed"))")]),
      (SIGTERM, [(.note, "\(NodeReport.stopping)")]),
      // The process may have announced its death in output that was lost.
      (SIGKILL, [(.note, "\(NodeReport.adopting(pid: 7))")]),
      (SIGKILL, [(.note, "3 log lines lost here")]),
    ] as [(Int32, [(LogStream, String)])])
  func reported(signal: Int32, lines: [(LogStream, String)]) {
    #expect(Self.violations(of: [Self.spawned] + lines, endedBy: signal).isEmpty)
    #expect(Self.violations(of: [Self.spawned] + lines, endedBy: SIGSEGV).count == 1)
    // The announcement holds only for the process that made it.
    #expect(
      Self.violations(of: [Self.spawned] + lines + [Self.spawned], endedBy: signal).count == 1)
  }

  @Test("A crash of one node explains the exits of all nodes in the same process, in any order")
  func shared() {
    let faultTargets = (
      node: "host", stream: LogStream.err, text: "failpoint ack.after: crash (hit 3)"
    )
    let ends = ["host", "embedded"].map { name in
      (
        node: name, stream: LogStream.note,
        text: "\(NodeReport.exited(.signalled(number: SIGKILL)))"
      )
    }
    for lines in [[faultTargets] + ends, [ends[1], faultTargets, ends[0]], ends] {
      var check = UnexpectedExitChecker()
      let spawned = ["host", "embedded"].map {
        (node: $0, stream: Self.spawned.0, text: Self.spawned.1)
      }
      for line in spawned + lines {
        check.add(
          LogEntry(
            node: line.node, time: Timestamp(milliseconds: 0), stream: line.stream,
            text: line.text))
      }
      #expect(check.violations.isEmpty == (lines.count == 3), "\(check.violations)")
    }
  }

  @Test("An unexplained death of an adopted process is a violation")
  func adopted() {
    let lines = [
      (LogStream.note, "\(NodeReport.adopting(pid: 7))"),
      (LogStream.note, "\(NodeReport.adopted(incarnation: 1))"),
    ]
    #expect(Self.violations(of: lines, endedBy: SIGKILL).count == 1)
  }

  @Test("An unexplained death of an orphaned process is reported once")
  func orphan() {
    var check = UnexpectedExitChecker()
    check.add(.signalled(number: SIGKILL), of: "a", pid: 7)
    check.add(.exited(code: 1), of: "a", pid: 8)
    #expect(check.violations.isEmpty)
    check.add(.signalled(number: SIGABRT), of: "a", pid: 9)
    check.add(.signalled(number: SIGABRT), of: "a", pid: 9)
    #expect(check.violations.count == 1)
  }

  @Test("A fatal error that a process writes before it crashes is a violation")
  func words() {
    var check = UnexpectedExitChecker()
    let text = "Swift/Array.swift:423: Fatal error: Index out of range"
    check.add(LogEntry(node: "a", time: Timestamp(milliseconds: 0), stream: .err, text: text))
    #expect(check.violations == ["node 'a' wrote: \(text)"])
  }
}
