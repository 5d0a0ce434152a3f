import PipeSupport

/// The order of lines of several logs: that of their times, across steps of the clock.
package enum LogOrder {
  /// What the orchestrator notes in every log where the clock of its host was set back.
  package static let clockNote = "the clock was set back by "

  private struct Key: Comparable {
    /// The number of times that the clock was set back after the line, negated: all logs end in the same era.
    var era: Int
    /// Of the line, or the latest of a line before it in its log.
    var time: Timestamp
    var index: Int

    static func < (left: Key, right: Key) -> Bool {
      (left.era, left.time, left.index) < (right.era, right.time, right.index)
    }
  }

  /// Merges the entries of several logs; those of each one keep their order.
  package static func merged(_ entries: [LogEntry]) -> [LogEntry] {
    var steps: [String: Int] = [:]
    for entry in entries where entry.isClockNote { steps[entry.node, default: 0] += 1 }
    var latest: [String: Timestamp] = [:]
    let keys = entries.enumerated().map { index, entry in
      if entry.isClockNote {
        steps[entry.node, default: 0] -= 1
        latest[entry.node] = nil
      }
      let time = max(entry.time, latest[entry.node] ?? entry.time)
      latest[entry.node] = time
      return Key(era: -(steps[entry.node] ?? 0), time: time, index: index)
    }
    return keys.sorted().map { entries[$0.index] }
  }
}

extension LogEntry {
  fileprivate var isClockNote: Bool {
    stream == .note && text.hasPrefix(LogOrder.clockNote)
  }
}
