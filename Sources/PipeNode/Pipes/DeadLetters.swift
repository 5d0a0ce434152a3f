import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The dead letters of a node. The most recent ones are in memory. A journal has them all, and
/// loads the others on request.
///
/// A journal keeps a limited number of dead letters. When the limit is reached, the oldest stay,
/// and later ones are only counted.
package struct DeadLetters {
  private let journal: Journal?
  /// The number of dead letters so far, including removed ones.
  package private(set) var count: UInt64 = 0
  /// The number of dead letters that exist now.
  package private(set) var currentCount = 0
  /// The number of events that were not kept, since there were too many dead letters.
  package private(set) var lost: UInt64 = 0
  package private(set) var recent: [DeadLetter] = []
  /// The size of the existing dead letters in the journal. Unit: bytes.
  private var byteCount = 0
  // Changes since the last record.
  private var added: [DeadLetter] = []
  private var removed: Set<UInt64> = []
  private var recordedLost: UInt64 = 0

  package init(journal: Journal?) {
    self.journal = journal
    guard let contents = journal?.contents else { return }
    recent = contents.deadLetters
    currentCount = contents.deadLetterCount
    byteCount = contents.deadLetterBytes
    count = contents.lastDeadLetter
    lost = contents.lostDeadLetters
    recordedLost = lost
  }

  package subscript(id: UInt64) -> DeadLetter? {
    if let deadLetter = recent.first(where: { $0.id == id }) ?? added.first(where: { $0.id == id })
    {
      return deadLetter
    }
    return removed.contains(id) ? nil : journal?.deadLetter(id)
  }

  /// Keeps a dead letter under the next number. Returns `false` if there are too many: the event
  /// then only counts as lost.
  @discardableResult
  package mutating func add(_ deadLetter: DeadLetter) -> Bool {
    let size = journal == nil ? 0 : deadLetter.byteCount
    guard journal == nil || hasCapacity(for: size) else {
      lost += 1
      return false
    }
    count += 1
    var deadLetter = deadLetter
    deadLetter.id = count
    if recent.count == DeadLetter.keptInMemory { recent.removeFirst() }
    recent.append(deadLetter)
    if journal != nil {
      added.append(deadLetter)
      currentCount += 1
      byteCount += size
    } else {
      currentCount = recent.count
    }
    return true
  }

  /// - Parameter size: The size of the dead letter. Unit: bytes.
  private func hasCapacity(for size: Int) -> Bool {
    currentCount < DeadLetter.limit && byteCount + size <= DeadLetter.byteLimit
  }

  /// Removes a dead letter. Returns `false` if none has this number.
  @discardableResult
  package mutating func remove(_ id: UInt64) -> Bool {
    guard let deadLetter = self[id] else { return false }
    currentCount -= 1
    byteCount -= deadLetter.byteCount
    recent.removeAll { $0.id == id }
    guard journal != nil else { return true }
    if let index = added.firstIndex(where: { $0.id == id }) {
      added.remove(at: index)
    } else {
      removed.insert(id)
    }
    return true
  }

  package func fill(_ status: inout NodeStatus) {
    status.deadLetters = UInt64(currentCount)
    status.deadLettersLost = lost > 0 ? lost : nil
    status.recentDeadLetters = Array(recent.suffix(5))
  }

  package var hasUnrecordedChanges: Bool {
    !added.isEmpty || !removed.isEmpty || lost > recordedLost
  }

  package func record(into journal: Journal) throws {
    for deadLetter in added { try journal.deadLetterAdded(deadLetter) }
    for id in removed { try journal.deadLetterRemoved(id) }
    if lost > recordedLost { try journal.deadLettersLost(lost) }
  }

  package mutating func recorded() {
    added = []
    removed = []
    recordedLost = lost
  }
}

/// An event that is refused for good, by a machine or by a composite.
struct RefusedEvent {
  /// The pipe that delivered the event; `request` if a client sent it.
  let pipe: String
  let sequence: UInt64
  /// The event as JSON, or as text if it did not decode.
  let event: JSONValue
  let reason: String
  /// The state that refused the event, if the receiver is a single node.
  var state: JSONValue?
  /// The state as text, for log messages.
  var stateText: String?
  var version: UInt64 = 0

  private var wording: String {
    "pipe '\(pipe)': event \(sequence) \(event.text): \(reason)"
      + (stateText.map { ", in state \($0)" } ?? "")
  }

  /// Applies the pipe's refusal policy to the event, which no other state will take.
  /// - Returns: The reason why the node must fail; `nil` if the event is a dead letter now, or
  ///   counts as lost.
  func dispose(
    _ policy: RefusalPolicy, in deadLetters: inout DeadLetters, log: NodeLog
  ) -> String? {
    switch policy {
    case .fail: return wording + "; the pipe has 'on_refused: fail'"
    case .record, .ignore, .postpone:
      let isKept = deadLetters.add(
        DeadLetter(
          id: 0, pipe: pipe, sequence: sequence, event: event, reason: reason, state: state,
          version: version, time: WallClock.nanoseconds))
      if !isKept, deadLetters.lost.isWorthLogging {
        log.warning(
          "\(wording); the event is lost: the limit of \(deadLetters.currentCount) dead letters is reached "
            + "(\(deadLetters.lost) lost so far); 'orchestrator dead-letters' lists, resends and drops "
            + "dead letters")
      } else if isKept, deadLetters.count.isWorthLogging {
        log.warning("\(wording) (\(deadLetters.count) dead letters so far)")
      }
      return nil
    }
  }
}
