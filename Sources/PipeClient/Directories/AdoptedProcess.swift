import CProcess
import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// A process that is not a child of this process. It is held by a descriptor, so that a later
/// process with the same number is not mistaken for it.
package final class AdoptedProcess: Sendable {
  package let pid: Int32
  /// A descriptor that becomes readable once the process has ended.
  package let descriptor: Int32

  /// Finds the live process that a line of `/proc/PID/stat` describes; `nil` if the process has ended.
  /// - Throws: ``SystemError`` if the system cannot answer: it is out of descriptors, for example.
  package init?(statLine line: some Collection<UInt8>) throws(SystemError) {
    guard let recorded = ProcessStatus(line) else { return nil }
    let descriptor = pr_process_descriptor(recorded.pid)
    if descriptor < 0, errno == ESRCH || errno == EINVAL { return nil }
    guard descriptor >= 0 else {
      throw SystemError("pidfd_open", on: "process \(recorded.pid)", code: errno)
    }
    pid = recorded.pid
    self.descriptor = descriptor
    // The number may belong to another process since. Only the same start time proves that it is
    // the same process.
    guard try ProcessStatus.read(pid)?.startTime == recorded.startTime, !hasEnded else {
      return nil
    }
  }

  /// Finds a live process by its number.
  package init?(pid: Int32) {
    let descriptor = pr_process_descriptor(pid)
    guard descriptor >= 0 else { return nil }
    self.pid = pid
    self.descriptor = descriptor
  }

  deinit { close(descriptor) }

  package var hasEnded: Bool { Self.wait(for: [self], until: .now).isEmpty }

  /// Sends a signal, to the whole process group if asked.
  /// - Returns: Whether the process still existed.
  @discardableResult
  package func signal(_ signal: Signal, group: Bool = false) -> Bool {
    pr_process_signal(descriptor, signal.number, group ? 1 : 0) == 0
  }

  /// How the process ended, if the system reports that to processes other than its parent.
  package var exit: ProcessExit? {
    var status: Int32 = 0
    return pr_process_exit(descriptor, &status) == 0 ? ProcessExit(waitStatus: status) : nil
  }

  /// Waits until processes have ended. Returns the processes that have not ended in time.
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

/// The contents of the first line of `/proc/PID/stat`.
struct ProcessStatus: Hashable {
  var pid: Int32
  /// The start of the process, counted from the system's start. Unit: clock ticks.
  var startTime: UInt64

  /// Parses the line; `nil` if it is malformed. Source: proc(5).
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

  /// Reads the status of a process; `nil` if no process has this number.
  static func read(_ pid: Int32) throws(SystemError) -> ProcessStatus? {
    let path = "/proc/\(pid)/stat"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    if descriptor < 0, errno == ENOENT { return nil }
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    // The process may end before its file is read.
    return (try? FileSystem.read(descriptor, limit: 4096)).flatMap { ProcessStatus($0) }
  }
}

/// How a process ended.
package enum ProcessExit: Hashable, Sendable, CustomStringConvertible {
  case exited(code: Int32)
  case signalled(number: Int32)
  /// The process is gone, and the system reports its exit only to its parent. `saidGoodbye`:
  /// whether the process announced that it ends in order.
  case unreported(saidGoodbye: Bool)
  /// The process ran on another host, which does not report how it ended. If this is not certain,
  /// the host does not report whether it ended, either.
  case unobserved(isCertain: Bool)
  /// The process ran on another host, where it was killed when its lease ran out.
  case leaseExpired

  /// The exit of a node because of a full disk, which does not count against the restart limit:
  /// `EX_TEMPFAIL` of sysexits.h.
  package static let diskFull = ProcessExit.exited(code: NodeHandshake.diskFullCode)

  /// Parses the status word of waitpid(2).
  package init(waitStatus status: Int32) {
    let signal = status & 0x7F
    self = signal == 0 ? .exited(code: (status >> 8) & 0xFF) : .signalled(number: signal)
  }

  /// Whether the process ended by itself with code 0, or in order as far as that is known.
  package var isSuccess: Bool { self == .exited(code: 0) || self == .unreported(saidGoodbye: true) }

  package var description: String {
    switch self {
    case .exited(let code): "exit code \(code)"
    case .signalled(let number): "killed by \(Signal(number: number))"
    case .unreported(saidGoodbye: true):
      "stopped gracefully; exit code unknown (adopted process)"
    case .unreported(saidGoodbye: false): "ended; exit code unknown (adopted process)"
    case .unobserved(isCertain: true): "ended on another host; exit code unknown"
    case .leaseExpired: "lost contact to the process on another host; its lease has expired"
    case .unobserved(isCertain: false):
      "given up: the host does not report whether the process has "
        + "ended"
    }
  }
}
