import PipeSupport

/// A deadline that the process of a node has missed.
package enum MissedDeadline: Hashable, Sendable {
  /// A process of a former supervisor did not answer.
  case answer(within: Duration)
  case connection(within: Duration)
  case readiness(within: Duration)
  case heartbeat(within: Duration)
  case stop(within: Duration)
}

extension MissedDeadline: CustomStringConvertible {
  package var description: String {
    switch self {
    case .answer(let time): "the process did not answer within \(time.shortText)"
    case .connection(let time): "the process did not connect within \(time.shortText)"
    case .readiness(let time): "the process was not ready within \(time.shortText)"
    case .heartbeat(let time): "no heartbeat for \(time.shortText)"
    case .stop(let time): "the process did not stop within \(time.shortText)"
    }
  }
}
