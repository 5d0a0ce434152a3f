import PipeRuntime

/// The rates at which failpoints act during the soak.
///
/// Some failpoints are hit at each burst of events, others once in a node's life. In each round
/// some are in focus and act more often, so that all of them get their turn.
package enum FailpointRates {
  /// The number of failpoints in focus in one round.
  private static let focusCount = 4
  private static let focusFactor = 6

  /// Returns the failpoint settings for a round's environment.
  /// - Parameter rateDivisor: The factor by which all of them act less often.
  package static func text(of topic: SoakTopic, round: Int, rateDivisor: Int = 1) -> String {
    let failpointsToCover = topic.failpointsToCover
    let focus = (0..<focusCount).map {
      failpointsToCover[(round * focusCount + $0) % failpointsToCover.count]
    }
    return Failpoint.allCases.flatMap { point -> [String] in
      guard failpointsToCover.contains(point) || !point.isOfSynchronizedEvents else { return [] }
      let rate =
        min(500_000, millionths(point) * (focus.contains(point) ? focusFactor : 1)) / rateDivisor
      let actions = actions(at: point)
      let sum = actions.reduce(0) { $0 + $1.weight }
      return actions.map { action in
        let share = max(1, rate * action.weight / sum)
        let digits = String(share)
        let probability = "0." + String(repeating: "0", count: 6 - digits.count) + digits
        return "\(point.rawValue)=\(action.action)%\(probability)"
      }
    }.joined(separator: ",")
  }

  /// Returns the probability that a hit acts. Unit: millionths.
  private static func millionths(_ point: Failpoint) -> Int {
    switch point {
    case .stepBefore, .stepAfter, .recordAfter, .recordError, .effectBefore, .effectAfter,
      .ackAfter, .sendBefore, .sendAfter, .trimAfter:
      3_000
    case .openAfter, .welcomeAfter, .restoreAfter: 10_000
    case .replyBefore, .replyAfter, .writeBefore, .writeAfter: 30_000
    // Hit by every tenth number of a filter, at the first start of a node, and when the node is
    // asked to stop.
    case .letterAfter, .startAfter, .drainBefore: 120_000
    case .prepareBefore, .evaluateAfter, .prepareRecorded, .yesAfter, .commitReceived,
      .stepRecorded, .acknowledgeAfter, .synchronizeReceived, .prepareSent, .commitBefore,
      .commitRecorded, .commitSent, .commitFinished:
      6_000
    // Hit when an event is refused, or after another failure.
    case .noAfter, .abortReceived, .abortBefore, .abortSent: 15_000
    case .querySent, .queryReceived: 50_000
    }
  }

  private static func actions(at point: Failpoint) -> [(action: FailpointAction, weight: Int)] {
    let all: [(action: FailpointAction, weight: Int)] = [
      (.crash, 10), (.exit, 2), (.delay(.milliseconds(5)), 2), (.stop, 1), (.cut, 10), (.error, 1),
      (.delay(.milliseconds(250)), point.isOfSynchronizedEvents ? 2 : 0),
    ]
    return all.filter { $0.weight > 0 && $0.action.isPossible(at: point) }
  }
}
