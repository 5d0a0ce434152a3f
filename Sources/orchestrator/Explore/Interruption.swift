import Glibc
import PipeRuntime

/// SIGINT or SIGTERM, which ends a search: it then reports what it has found. A second signal ends the process.
final class Interruption {
  private let signals: SignalDescriptor
  private var isInterrupted = false

  private static let numbers: [Signal] = [.interrupt, .terminate]

  /// Create it before another thread starts: see `SignalDescriptor`.
  init() throws { signals = try SignalDescriptor(Self.numbers) }

  /// Whether a signal has come.
  func hasCome() -> Bool {
    guard !isInterrupted, signals.next() != nil else { return isInterrupted }
    isInterrupted = true
    var set = sigset_t()
    sigemptyset(&set)
    for signal in Self.numbers { sigaddset(&set, signal.number) }
    pthread_sigmask(SIG_UNBLOCK, &set, nil)
    return true
  }
}
