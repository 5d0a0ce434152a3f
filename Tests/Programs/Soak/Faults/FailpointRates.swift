import PipeRuntime

/// The rates at which failpoints act in a soak.
///
/// Some failpoints are passed at each burst of events, others once in the life of a node. In each
/// round, a few failpoints act more often, so that each of them acts at some time.
package enum FailpointRates {
  /// The number of failpoints that act more often in a round.
  private static let focusCount = 4
  private static let focusFactor = 6

  /// Returns the value of the failpoint variable for a round.
  /// - Parameter rateDivisor: The factor by which all failpoints act less often.
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

  /// Returns the probability that a failpoint acts when it is passed. Unit: millionths.
  private static func millionths(_ point: Failpoint) -> Int {
    switch point {
    case .stepBefore, .stepAfter, .recordAfter, .recordError, .effectBefore, .effectAfter,
      .ackAfter, .sendBefore, .sendAfter, .trimAfter:
      3_000
    case .openAfter, .welcomeAfter, .restoreAfter: 10_000
    case .replyBefore, .replyAfter, .writeBefore, .writeAfter: 30_000
    // A filter passes `deadLetterAfter` with every tenth number. A node passes the others once,
    // when it starts or stops.
    case .deadLetterAfter, .startAfter, .drainBefore, .shardsRouted, .shardCopied, .shardTrimmed,
      .shardRemoved, .programCopied, .upgradeRecorded, .upgradeCopied, .upgradeSwitched,
      .upgradeReady, .upgradeRestored, .backupPaused, .backupTaken, .backupWritten,
      .renameRecorded, .renameCopied, .renameWritten, .renameMoved, .renameCommitted,
      .renameRestored:
      120_000
    case .prepareBefore, .evaluateAfter, .prepareRecorded, .yesAfter, .commitReceived,
      .stepRecorded, .acknowledgeAfter, .synchronizeReceived, .prepareSent, .commitBefore,
      .commitRecorded, .commitSent, .commitFinished:
      6_000
    // Passed after a refusal or another failure.
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
