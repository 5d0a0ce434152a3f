import CProcess
import Glibc

/// A POSIX signal. Users write `KILL`, `SIGKILL` or `9`.
package struct Signal: Hashable, Sendable, CustomStringConvertible {
  package let number: Int32

  package init(number: Int32) { self.number = number }

  /// Parses `SIGTERM`, `term` or `15`. Returns `nil` if there is no such signal.
  package init?(_ text: String) {
    if let number = Int32(text) {
      guard (1...64).contains(number) else { return nil }
      self.number = number
      return
    }
    let upper = text.uppercased()
    let name = upper.hasPrefix("SIG") ? String(upper.dropFirst(3)) : upper
    guard let known = Self.namedSignals.first(where: { $0.name == name }) else { return nil }
    number = known.number
  }

  /// The signal's name, such as `SIGKILL`; `signal 42` for a signal without a name.
  package var description: String {
    Self.namedSignals.first { $0.number == number }.map { "SIG" + $0.name } ?? "signal \(number)"
  }

  package static let interrupt = Signal(number: SIGINT)
  package static let hangUp = Signal(number: SIGHUP)
  package static let child = Signal(number: SIGCHLD)
  package static let terminate = Signal(number: SIGTERM)
  package static let kill = Signal(number: SIGKILL)
  package static let stop = Signal(number: SIGSTOP)
  package static let windowSize = Signal(number: SIGWINCH)
  package static let resume = Signal(number: SIGCONT)

  /// The signals that have a name, in the order of their numbers.
  package static let namedSignals: [(name: String, number: Int32)] = [
    ("HUP", SIGHUP), ("INT", SIGINT), ("QUIT", SIGQUIT), ("ILL", SIGILL), ("TRAP", SIGTRAP),
    ("ABRT", SIGABRT), ("BUS", SIGBUS), ("FPE", SIGFPE), ("KILL", SIGKILL), ("USR1", SIGUSR1),
    ("SEGV", SIGSEGV), ("USR2", SIGUSR2), ("PIPE", SIGPIPE), ("ALRM", SIGALRM),
    ("TERM", SIGTERM), ("CHLD", SIGCHLD), ("CONT", SIGCONT), ("STOP", SIGSTOP),
    ("TSTP", SIGTSTP), ("TTIN", SIGTTIN), ("TTOU", SIGTTOU), ("XCPU", SIGXCPU),
    ("XFSZ", SIGXFSZ), ("WINCH", SIGWINCH), ("SYS", SIGSYS),
  ]
}

/// A readable descriptor for signals, for use in a poll loop. No signal handler runs.
///
/// If a signal that would end the process was ignored when the process started, the signal stays
/// ignored. Examples: SIGHUP under nohup, and SIGINT in the background of a shell without job
/// control.
///
/// Create the descriptor on the main thread before the process starts any other thread: a thread
/// blocks signals only for itself, and for the threads that it starts later.
package final class SignalDescriptor: Sendable {
  /// The descriptor, which is readable while a signal is pending.
  package let descriptor: Int32

  /// Blocks the signals and opens the descriptor.
  /// - Throws: ``SystemError`` if the system has no descriptor left.
  package init(_ signals: [Signal]) throws {
    descriptor = pr_signal_descriptor(signals.map(\.number), Int32(signals.count))
    guard descriptor >= 0 else { throw SystemError("signalfd", code: errno) }
  }

  deinit { close(descriptor) }

  /// Removes and returns the next pending signal; `nil` if none is pending. Several signals of one
  /// kind may arrive as one signal.
  package func next() -> Signal? {
    let number = pr_next_signal(descriptor)
    return number > 0 ? Signal(number: number) : nil
  }
}
