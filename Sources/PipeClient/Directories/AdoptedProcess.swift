import CProcess
import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// A process that another process has started. A pidfd identifies the process: unlike a process id,
/// a pidfd never refers to a later process.
package final class AdoptedProcess: Sendable {
  package let pid: Int32
  /// A descriptor that becomes readable once the process has ended.
  package let descriptor: Int32

  /// Finds the live process that a line of `/proc/PID/stat` describes. Returns `nil` if that
  /// process has ended.
  /// - Throws: ``SystemError`` if it is unknown whether the process has ended, for example because
  ///   no more descriptors are available.
  package init?(statLine line: some Collection<UInt8>) throws(SystemError) {
    guard let recorded = ProcessIdentity(line) else { return nil }
    let descriptor = pr_process_descriptor(recorded.pid)
    if descriptor < 0, errno == ESRCH || errno == EINVAL { return nil }
    guard descriptor >= 0 else {
      throw SystemError("pidfd_open", on: "process \(recorded.pid)", code: errno)
    }
    pid = recorded.pid
    self.descriptor = descriptor
    // The process id may now belong to another process. Only an equal start time proves that this
    // is the recorded process.
    guard try ProcessIdentity.read(pid)?.startTime == recorded.startTime, !hasEnded else {
      return nil
    }
  }

  /// Finds a live process by its process id; `nil` if there is none.
  package init?(pid: Int32) {
    let descriptor = pr_process_descriptor(pid)
    guard descriptor >= 0 else { return nil }
    self.pid = pid
    self.descriptor = descriptor
  }

  deinit { close(descriptor) }

  package var hasEnded: Bool { Self.wait(for: [self], until: .now).isEmpty }

  /// Sends a signal to the process, or to its whole process group.
  /// - Returns: Whether the process still exists.
  @discardableResult
  package func signal(_ signal: Signal, group: Bool = false) -> Bool {
    pr_process_signal(descriptor, signal.number, group ? 1 : 0) == 0
  }

  /// How the process ended; `nil` if the system reports the exit only to the parent process.
  package var exit: ProcessExit? {
    var status: Int32 = 0
    return pr_process_exit(descriptor, &status) == 0 ? ProcessExit(waitStatus: status) : nil
  }

  /// Waits until processes have ended. Returns the processes that have not ended by the deadline.
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

/// A process id with the start time of the process, which distinguishes the process from later
/// processes with the same id. Both are fields of the first line of `/proc/PID/stat`.
struct ProcessIdentity: Hashable {
  var pid: Int32
  /// The time from the boot of the system to the start of the process. Unit: clock ticks.
  var startTime: UInt64

  /// Parses the first line of `/proc/PID/stat`; `nil` if the line is malformed. Source: proc(5).
  init?(_ line: some Collection<UInt8>) {
    let text = String(decoding: line, as: UTF8.self)
    // The second field is the program's name in parentheses. The name can contain any characters.
    guard let bracket = text.lastIndex(of: ")") else { return nil }
    let rest = text[text.index(after: bracket)...].split(separator: " ")
    guard let pid = Int32(text.prefix { $0 != " " }), rest.count > 19,
      let startTime = UInt64(rest[19])
    else { return nil }
    self.pid = pid
    self.startTime = startTime
  }

  /// Reads the identity of a process; `nil` if no process has this process id.
  static func read(_ pid: Int32) throws(SystemError) -> ProcessIdentity? {
    let path = "/proc/\(pid)/stat"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    if descriptor < 0, errno == ENOENT { return nil }
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    // The process may end before its file is read.
    return (try? FileSystem.read(descriptor, limit: 4096)).flatMap { ProcessIdentity($0) }
  }
}

/// How a process ended.
package enum ProcessExit: Hashable, Sendable, CustomStringConvertible {
  case exited(code: Int32)
  case signalled(number: Int32)
  /// The process has ended, and the system reports the exit only to the parent of the process.
  /// `saidGoodbye`: whether the process announced a graceful exit.
  case unreported(saidGoodbye: Bool)
  /// The process ran on another host, which does not report how the process ended. If `isCertain`
  /// is false, the process may still be running.
  case unobserved(isCertain: Bool)
  /// The process ran on another host, where the kernel killed it when its lease expired.
  case leaseExpired

  /// The exit code of a node that ends because of a full disk: `EX_TEMPFAIL` of sysexits.h. Such an
  /// exit does not count against the restart limit.
  package static let diskFull = ProcessExit.exited(code: NodeHandshake.diskFullCode)

  /// Parses the status word of waitpid(2).
  package init(waitStatus status: Int32) {
    let signal = status & 0x7F
    self = signal == 0 ? .exited(code: (status >> 8) & 0xFF) : .signalled(number: signal)
  }

  /// Whether the process exited with code 0 or, if the code is unknown, announced a graceful exit.
  package var isSuccess: Bool { self == .exited(code: 0) || self == .unreported(saidGoodbye: true) }

  package var description: String {
    switch self {
    case .exited(let code): "exit code \(code)"
    case .signalled(let number): "killed by \(Signal(number: number))"
    case .unreported(saidGoodbye: true):
      "stopped gracefully; exit code unknown (adopted process)"
    case .unreported(saidGoodbye: false): "ended; exit code unknown (adopted process)"
    case .unobserved(isCertain: true): "ended on another host; exit code unknown"
    case .leaseExpired:
      "lost contact with the process on another host; the lease of the process has expired"
    case .unobserved(isCertain: false):
      "given up: the host does not report whether the process has "
        + "ended"
    }
  }
}
