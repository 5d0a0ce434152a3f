import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("The check of how processes of a soak end", .timed)
struct EndCheckTests {
  /// What a log tells of a node's process, and of its end by this signal.
  private static func violations(
    of lines: [(LogStream, String)], endedBy signal: Int32, sending sent: Int32? = nil,
    to pid: Int32 = 7
  ) -> [String] {
    var check = EndCheck()
    if let sent { check.note(Signal(number: sent), to: "a", pid: pid) }
    let end = (LogStream.note, "\(NodeReport.exited(.signalled(number: signal)))")
    for (stream, text) in lines + [end] {
      check.take(
        LogEntry(node: "a", time: Timestamp(milliseconds: 0), stream: stream, text: text))
    }
    return check.violations
  }

  private static let spawned = (LogStream.note, "\(NodeReport.spawned(pid: 7))")

  @Test(
    "a signal that nobody has sent is found, whichever it is",
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
    "what a failpoint or the orchestrator has killed or ended is as it was told",
    arguments: [
      (SIGKILL, [(LogStream.err, "failpoint record.after: crash (hit 3)")]),
      (SIGKILL, [(.note, "\(NodeReport.killing(reason: "hung"))")]),
      (SIGKILL, [(.note, "\(NodeReport.replacing(reason: "its pipes were changed"))")]),
      (SIGTERM, [(.note, "\(NodeReport.stopping)")]),
      // Nobody read what it wrote.
      (SIGKILL, [(.note, "\(NodeReport.adopting(pid: 7))")]),
      (SIGKILL, [(.note, "3 log lines lost here")]),
    ] as [(Int32, [(LogStream, String)])])
  func told(signal: Int32, lines: [(LogStream, String)]) {
    #expect(Self.violations(of: [Self.spawned] + lines, endedBy: signal).isEmpty)
    #expect(Self.violations(of: [Self.spawned] + lines, endedBy: SIGSEGV).count == 1)
    // Only for the process that it was told of.
    #expect(
      Self.violations(of: [Self.spawned] + lines + [Self.spawned], endedBy: signal).count == 1)
  }

  @Test("what strikes one node of a process explains the ends of all in it, in any order")
  func shared() {
    let struck = (node: "host", stream: LogStream.err, text: "failpoint ack.after: crash (hit 3)")
    let ends = ["host", "lodger"].map { name in
      (
        node: name, stream: LogStream.note,
        text: "\(NodeReport.exited(.signalled(number: SIGKILL)))"
      )
    }
    for lines in [[struck] + ends, [ends[1], struck, ends[0]], ends] {
      var check = EndCheck()
      let spawned = ["host", "lodger"].map {
        (node: $0, stream: Self.spawned.0, text: Self.spawned.1)
      }
      for line in spawned + lines {
        check.take(
          LogEntry(
            node: line.node, time: Timestamp(milliseconds: 0), stream: line.stream,
            text: line.text))
      }
      #expect(check.violations.isEmpty == (lines.count == 3), "\(check.violations)")
    }
  }

  @Test("one that was adopted is heard again")
  func adopted() {
    let lines = [
      (LogStream.note, "\(NodeReport.adopting(pid: 7))"),
      (LogStream.note, "\(NodeReport.adopted(incarnation: 1))"),
    ]
    #expect(Self.violations(of: lines, endedBy: SIGKILL).count == 1)
  }

  @Test("of one without an orchestrator the system tells, once")
  func orphan() {
    var check = EndCheck()
    check.take(.signalled(number: SIGKILL), of: "a", pid: 7)
    check.take(.exited(code: 1), of: "a", pid: 8)
    #expect(check.violations.isEmpty)
    check.take(.signalled(number: SIGABRT), of: "a", pid: 9)
    check.take(.signalled(number: SIGABRT), of: "a", pid: 9)
    #expect(check.violations.count == 1)
  }

  @Test("what a process writes before it crashes is found")
  func words() {
    var check = EndCheck()
    let text = "Swift/Array.swift:423: Fatal error: Index out of range"
    check.take(LogEntry(node: "a", time: Timestamp(milliseconds: 0), stream: .err, text: text))
    #expect(check.violations == ["node 'a' wrote: \(text)"])
  }
}
