/// How a process ended.
package enum ProcessExit: Hashable, Sendable, CustomStringConvertible {
  case exited(code: Int32)
  case signalled(number: Int32)

  /// Reads the status word of waitpid(2).
  package init(waitStatus status: Int32) {
    let signal = status & 0x7F
    self = signal == 0 ? .exited(code: (status >> 8) & 0xFF) : .signalled(number: signal)
  }

  /// Whether the process ended by itself with code 0.
  package var isSuccess: Bool { self == .exited(code: 0) }

  package var description: String {
    switch self {
    case .exited(let code): "exit code \(code)"
    case .signalled(let number): "killed by \(Signal(number: number))"
    }
  }
}
