import CProcess
import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// A process that is not our child, held so that nobody else who may have its number by now is
/// mistaken for it.
package final class AdoptedProcess: Sendable {
  package let pid: Int32
  /// Readable once it has ended.
  package let descriptor: Int32

  /// The live process that a line of `/proc/PID/stat` tells of, or `nil` where that has ended.
  /// - Throws: ``SystemError`` where the system does not tell: it is out of descriptors, say.
  package init?(statLine line: some Collection<UInt8>) throws(SystemError) {
    guard let recorded = ProcessStatus(line) else { return nil }
    let descriptor = pr_process_descriptor(recorded.pid)
    if descriptor < 0, errno == ESRCH || errno == EINVAL { return nil }
    guard descriptor >= 0 else {
      throw SystemError("pidfd_open", on: "process \(recorded.pid)", code: errno)
    }
    pid = recorded.pid
    self.descriptor = descriptor
    // Whoever the number belonged to when it was opened: only the same start makes it the same one.
    guard try ProcessStatus.read(pid)?.startTime == recorded.startTime, !hasEnded else {
      return nil
    }
  }

  /// Any live process, by its number.
  package init?(pid: Int32) {
    let descriptor = pr_process_descriptor(pid)
    guard descriptor >= 0 else { return nil }
    self.pid = pid
    self.descriptor = descriptor
  }

  deinit { close(descriptor) }

  package var hasEnded: Bool { Self.wait(for: [self], until: .now).isEmpty }

  /// Sends a signal, to the whole process group if asked.
  /// - Returns: Whether there was still somebody to send it to.
  @discardableResult
  package func signal(_ signal: Signal, group: Bool = false) -> Bool {
    pr_process_signal(descriptor, signal.number, group ? 1 : 0) == 0
  }

  /// How it ended, where the system tells that to others than its parent.
  package var exit: ProcessExit? {
    var status: Int32 = 0
    return pr_process_exit(descriptor, &status) == 0 ? ProcessExit(waitStatus: status) : nil
  }

  /// Waits until processes have ended; returns those that have not in time.
  package static func wait(
    for processes: [AdoptedProcess], until deadline: ContinuousClock.Instant
  ) -> [AdoptedProcess] {
    var left = processes
    while !left.isEmpty {
      var items = left.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
      let wait = max(.zero, deadline - .now)
      let count = poll(
        &items, nfds_t(items.count), Int32(clamping: wait == .zero ? 0 : wait.wholeMilliseconds + 1)
      )
      if count > 0 { left = zip(left, items).filter { $0.1.revents == 0 }.map(\.0) }
      if count <= 0, ContinuousClock.now >= deadline { break }
    }
    return left
  }
}

/// What the first line of `/proc/PID/stat` tells of a process.
struct ProcessStatus: Hashable {
  var pid: Int32
  /// Since the system's start. Unit: clock ticks.
  var startTime: UInt64

  /// Reads the line; `nil` where it is not one. Source: proc(5).
  init?(_ line: some Collection<UInt8>) {
    let text = String(decoding: line, as: UTF8.self)
    // The second field is the program's name in brackets, and may hold any characters itself.
    guard let bracket = text.lastIndex(of: ")") else { return nil }
    let rest = text[text.index(after: bracket)...].split(separator: " ")
    guard let pid = Int32(text.prefix { $0 != " " }), rest.count > 19,
      let startTime = UInt64(rest[19])
    else { return nil }
    self.pid = pid
    self.startTime = startTime
  }

  /// What is told of a process, or `nil` where there is none of that number.
  static func read(_ pid: Int32) throws(SystemError) -> ProcessStatus? {
    let path = "/proc/\(pid)/stat"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    if descriptor < 0, errno == ENOENT { return nil }
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    // It may end before it is read.
    return (try? FileSystem.read(descriptor, limit: 4096)).flatMap { ProcessStatus($0) }
  }
}

/// How a process ended.
package enum ProcessExit: Hashable, Sendable, CustomStringConvertible {
  case exited(code: Int32)
  case signalled(number: Int32)
  /// It is gone, and the system tells only its parent how. `saidGoodbye`: whether it told us itself
  /// that it ends in order.
  case untold(saidGoodbye: Bool)
  /// It ran on another host, and nobody there tells how it ended; where that is not certain, nor whether it did.
  case unseen(isCertain: Bool)
  /// It ran on another host, where its lease has run out, and it has been killed so.
  case leaseRanOut

  /// The end of a node for which a full disk is to blame, and so no number of restarts: `EX_TEMPFAIL` of
  /// sysexits.h.
  package static let diskFull = ProcessExit.exited(code: NodeHandshake.diskFullCode)

  /// Reads the status word of waitpid(2).
  package init(waitStatus status: Int32) {
    let signal = status & 0x7F
    self = signal == 0 ? .exited(code: (status >> 8) & 0xFF) : .signalled(number: signal)
  }

  /// Whether the process ended by itself with code 0, or in order as far as that is known.
  package var isSuccess: Bool { self == .exited(code: 0) || self == .untold(saidGoodbye: true) }

  package var description: String {
    switch self {
    case .exited(let code): "exit code \(code)"
    case .signalled(let number): "killed by \(Signal(number: number))"
    case .untold(saidGoodbye: true):
      "ended in order; an adopted process, whose exit code is not known"
    case .untold(saidGoodbye: false): "gone; an adopted process, whose exit code is not known"
    case .unseen(isCertain: true): "gone from its host, with an exit code that is not known"
    case .leaseRanOut: "ended where nobody sees it: its lease has run out"
    case .unseen(isCertain: false): "given up: its host does not tell whether it has ended"
    }
  }
}
