import PipeJournal

/// The numbers of postponed events, and what the journal lacks of them.
struct PostponedRecords {
  private var last: Int64 = 0
  private var added: [(id: Int64, pipe: String, sequence: UInt64, event: [UInt8])] = []
  private var finished: [Int64] = []

  /// An event was postponed by an earlier process.
  mutating func restore(_ id: Int64) { last = max(last, id) }

  /// The number of the next event that is postponed.
  mutating func nextNumber() -> Int64 {
    last += 1
    return last
  }

  /// An event is postponed.
  mutating func add(_ id: Int64, _ pipe: String, _ sequence: UInt64, event: [UInt8]) {
    added.append((id, pipe, sequence, event))
  }

  /// A postponed event is applied, or refused for good.
  mutating func finish(_ id: Int64) {
    if let index = added.firstIndex(where: { $0.id == id }) {
      added.remove(at: index)
    } else {
      finished.append(id)
    }
  }

  /// Whether the journal lacks nothing.
  var isEmpty: Bool { added.isEmpty && finished.isEmpty }

  func record(into journal: Journal) throws {
    for event in added {
      try journal.postponed(event.id, event.pipe, event.sequence, event: event.event)
    }
    for id in finished { try journal.unpostponed(id) }
  }

  mutating func recorded() {
    added = []
    finished = []
  }
}
