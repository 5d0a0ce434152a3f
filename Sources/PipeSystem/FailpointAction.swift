import Glibc
import PipeSupport

/// What a failpoint does.
package enum FailpointAction: Hashable, Sendable, CustomStringConvertible {
  /// SIGKILL to this process.
  case crash
  /// Ends the process with code 70, without any cleanup.
  case exit
  /// SIGSTOP to this process, which somebody else continues or kills.
  case stop
  case delay(Duration)
  /// The caller cuts its connection.
  case cut
  /// The caller fails.
  case error

  package static let names = ["crash", "exit", "stop", "delay:20ms", "cut", "error"]

  /// Reads `crash`, `delay:20ms` and so on; `nil` where the text is none.
  package init?(_ text: some StringProtocol) {
    switch text {
    case "crash": self = .crash
    case "exit": self = .exit
    case "stop": self = .stop
    case "cut": self = .cut
    case "error": self = .error
    default:
      guard text.hasPrefix("delay:"),
        let duration = DurationText.parse(String(text.dropFirst("delay:".count)))
      else { return nil }
      self = .delay(duration)
    }
  }

  /// Whether the code at this place can do it.
  package func isPossible(at point: Failpoint) -> Bool {
    switch self {
    case .crash, .exit, .stop, .delay: point != .recordError
    case .cut:
      point.isOfSynchronizedEvents || [.sendBefore, .sendAfter, .openAfter].contains(point)
    case .error: point == .recordError
    }
  }

  package var description: String {
    switch self {
    case .crash: "crash"
    case .exit: "exit"
    case .stop: "stop"
    case .delay(let duration): "delay:" + DurationText.write(duration)
    case .cut: "cut"
    case .error: "error"
    }
  }

  /// Does what needs no help of the caller.
  func perform() {
    switch self {
    // Raised in this thread, which therefore does not take another step.
    case .crash: raise(SIGKILL)
    case .exit: _exit(70)
    case .stop: raise(SIGSTOP)
    case .delay(let duration):
      let (seconds, attoseconds) = duration.components
      var time = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
      var rest = time
      while nanosleep(&time, &rest) < 0, errno == EINTR { time = rest }
    case .cut, .error: break
    }
  }
}
