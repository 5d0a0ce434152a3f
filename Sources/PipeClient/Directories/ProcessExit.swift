import PipeSystem
import PipeWire

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
