import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The dead letters of a node: the most recent ones, and with a journal, which has them all, any
/// other when it is asked for.
///
/// A journal keeps so many, and the oldest stay; of what comes after those there is the count.
package struct DeadLetters {
  private let journal: Journal?
  /// Dead letters so far, those that are gone included.
  package private(set) var count: UInt64 = 0
  /// Dead letters that there are.
  package private(set) var present = 0
  /// Those that were none, since there were too many.
  package private(set) var lost: UInt64 = 0
  package private(set) var recent: [DeadLetter] = []
  /// What those that there are take in the journal. Unit: bytes.
  private var byteCount = 0
  // Since the last record.
  private var added: [DeadLetter] = []
  private var removed: Set<UInt64> = []
  private var recordedLost: UInt64 = 0

  package init(journal: Journal?) {
    self.journal = journal
    guard let contents = journal?.contents else { return }
    recent = contents.deadLetters
    present = contents.deadLetterCount
    byteCount = contents.deadLetterBytes
    count = contents.lastDeadLetter
    lost = contents.lostDeadLetters
    recordedLost = lost
  }

  package subscript(id: UInt64) -> DeadLetter? {
    if let letter = recent.first(where: { $0.id == id }) ?? added.first(where: { $0.id == id }) {
      return letter
    }
    return removed.contains(id) ? nil : journal?.deadLetter(id)
  }

  /// Keeps a dead letter under the next number. Returns `false` where there are too many: then it is counted.
  @discardableResult
  package mutating func add(_ letter: DeadLetter) -> Bool {
    let size = journal == nil ? 0 : letter.byteCount
    guard journal == nil || hasRoom(for: size) else {
      lost += 1
      return false
    }
    count += 1
    var letter = letter
    letter.id = count
    if recent.count == DeadLetter.keptInMemory { recent.removeFirst() }
    recent.append(letter)
    if journal != nil {
      added.append(letter)
      present += 1
      byteCount += size
    } else {
      present = recent.count
    }
    return true
  }

  /// - Parameter size: Unit: bytes.
  private func hasRoom(for size: Int) -> Bool {
    present < DeadLetter.limit && byteCount + size <= DeadLetter.byteLimit
  }

  /// Takes a dead letter out. Returns `false` where there is none of this number.
  @discardableResult
  package mutating func remove(_ id: UInt64) -> Bool {
    guard let letter = self[id] else { return false }
    present -= 1
    byteCount -= letter.byteCount
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
    status.letters = UInt64(present)
    status.lettersLost = lost > 0 ? lost : nil
    status.recentLetters = Array(recent.suffix(5))
  }

  package var hasUnrecorded: Bool { !added.isEmpty || !removed.isEmpty || lost > recordedLost }

  package func record(into journal: Journal) throws {
    for letter in added { try journal.deadLetterAdded(letter) }
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
  /// The pipe that brought it; `request` where a client sent it.
  let pipe: String
  let sequence: UInt64
  /// As JSON, or as text where it did not decode.
  let event: JSONValue
  let reason: String
  /// The state that refused it, where it is one node's.
  var state: JSONValue?
  /// The same for people.
  var stateText: String?
  var version: UInt64 = 0

  private var wording: String {
    "pipe '\(pipe)': event \(sequence) \(event.text): \(reason)"
      + (stateText.map { ", in state \($0)" } ?? "")
  }

  /// Does what its pipe says of an event that no other state will take.
  /// - Returns: Why the node has to fail; `nil` where the event is among the dead letters now.
  func dispose(
    _ policy: RefusalPolicy, in letters: inout DeadLetters, log: NodeLog
  ) -> String? {
    switch policy {
    case .fail: return wording + ", and the pipe says 'on_refused: fail'"
    case .record, .postpone:
      let isKept = letters.add(
        DeadLetter(
          id: 0, pipe: pipe, sequence: sequence, event: event, reason: reason, state: state,
          version: version, time: WallClock.nanoseconds))
      if !isKept, letters.lost.isWorthLogging {
        log.warning(
          "\(wording). It is not kept: there are \(letters.present) dead letters, the most that a "
            + "node keeps (\(letters.lost) lost so far). 'orchestrator letters' lists, resends and "
            + "drops them")
      } else if isKept, letters.count.isWorthLogging {
        log.warning("\(wording) (\(letters.count) dead letters so far)")
      }
      return nil
    }
  }
}
