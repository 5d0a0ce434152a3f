import CProcess
import Glibc

/// Signals as a readable descriptor, for a poll loop. No handler runs.
///
/// A signal that would end the process and was ignored when the process started stays ignored: SIGHUP below nohup,
/// SIGINT in the background of a shell without job control.
///
/// Create it on the main thread before any other thread starts: the block is per thread, and later
/// threads inherit it.
package final class SignalDescriptor: Sendable {
  /// Readable while a signal waits.
  package let descriptor: Int32

  /// - Throws: ``SystemError`` where the system has no descriptor left.
  package init(_ signals: [Signal]) throws {
    descriptor = pr_signal_descriptor(signals.map(\.number), Int32(signals.count))
    guard descriptor >= 0 else { throw SystemError("signalfd", code: errno) }
  }

  deinit { close(descriptor) }

  /// Takes the next waiting signal, or `nil`. Several of one kind may come as one.
  package func next() -> Signal? {
    let number = pr_next_signal(descriptor)
    return number > 0 ? Signal(number: number) : nil
  }
}
