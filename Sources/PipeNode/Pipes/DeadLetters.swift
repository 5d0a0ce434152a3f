import PipeJournal
import PipeWire

/// The dead letters of a node. The most recent dead letters are in memory. If the node has a
/// journal, older dead letters are loaded from the journal on request.
///
/// A journal stores a limited number of dead letters. When the limit is reached, further refused
/// events are only counted.
package struct DeadLetters {
  private let journal: Journal?
  /// The number of dead letters that were ever stored, including removed dead letters. Also the id
  /// of the last dead letter.
  package private(set) var lastID: UInt64 = 0
  /// The number of dead letters that exist now.
  package private(set) var currentCount = 0
  /// The number of refused events that were not stored, because the journal had the maximum number
  /// of dead letters.
  package private(set) var lostCount: UInt64 = 0
  package private(set) var recentDeadLetters: [DeadLetter] = []
  /// The size of the existing dead letters in the journal. Unit: bytes.
  private var byteCount = 0
  // The changes since the last record.
  private var addedDeadLetters: [DeadLetter] = []
  private var removedIDs: Set<UInt64> = []
  private var recordedLostCount: UInt64 = 0

  package init(journal: Journal?) {
    self.journal = journal
    guard let contents = journal?.contents else { return }
    recentDeadLetters = contents.deadLetters
    currentCount = contents.deadLetterCount
    byteCount = contents.deadLetterByteCount
    lastID = contents.lastDeadLetterID
    lostCount = contents.lostDeadLetterCount
    recordedLostCount = lostCount
  }

  package subscript(id: UInt64) -> DeadLetter? {
    if let deadLetter = recentDeadLetters.first(where: { $0.id == id })
      ?? addedDeadLetters.first(where: { $0.id == id })
    {
      return deadLetter
    }
    return removedIDs.contains(id) ? nil : journal?.deadLetter(id)
  }

  /// Stores a dead letter under the next id. Returns `false` if the journal already has the maximum
  /// number of dead letters; the event is then only counted as lost.
  @discardableResult
  package mutating func add(_ deadLetter: DeadLetter) -> Bool {
    let size = journal == nil ? 0 : deadLetter.byteCount
    guard journal == nil || hasCapacity(for: size) else {
      lostCount += 1
      return false
    }
    lastID += 1
    var deadLetter = deadLetter
    deadLetter.id = lastID
    if recentDeadLetters.count == DeadLetter.maximumInMemoryCount {
      recentDeadLetters.removeFirst()
    }
    recentDeadLetters.append(deadLetter)
    if journal != nil {
      addedDeadLetters.append(deadLetter)
      currentCount += 1
      byteCount += size
    } else {
      currentCount = recentDeadLetters.count
    }
    return true
  }

  private var retention: JournalRetention { journal?.retention ?? JournalRetention() }

  /// The number of dead letters at which an event was last lost: the maximum number or, if the size
  /// was exceeded, the current number.
  package var reachedLimit: Int { min(currentCount, retention.deadLetters) }

  /// Returns whether the journal can store another dead letter of `size` bytes.
  private func hasCapacity(for size: Int) -> Bool {
    currentCount < retention.deadLetters && byteCount + size <= retention.deadLetterByteLimit
  }

  /// Removes a dead letter. Returns `false` if there is no dead letter with this id.
  @discardableResult
  package mutating func remove(_ id: UInt64) -> Bool {
    guard let deadLetter = self[id] else { return false }
    currentCount -= 1
    byteCount -= deadLetter.byteCount
    recentDeadLetters.removeAll { $0.id == id }
    guard journal != nil else { return true }
    if let index = addedDeadLetters.firstIndex(where: { $0.id == id }) {
      addedDeadLetters.remove(at: index)
    } else {
      removedIDs.insert(id)
    }
    return true
  }

  package func fill(_ status: inout NodeStatus) {
    status.deadLetters = UInt64(currentCount)
    status.deadLettersLost = lostCount > 0 ? lostCount : nil
    status.recentDeadLetters = Array(recentDeadLetters.suffix(5))
  }

  package var hasUnrecordedChanges: Bool {
    !addedDeadLetters.isEmpty || !removedIDs.isEmpty || lostCount > recordedLostCount
  }

  package func record(into journal: Journal) throws {
    for deadLetter in addedDeadLetters { try journal.recordDeadLetter(deadLetter) }
    for id in removedIDs { try journal.removeDeadLetter(id) }
    if lostCount > recordedLostCount { try journal.recordLostDeadLetters(lostCount) }
  }

  package mutating func recorded() {
    addedDeadLetters = []
    removedIDs = []
    recordedLostCount = lostCount
  }
}
