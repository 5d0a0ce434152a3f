import PipeJournal
import PipeWire

/// The dead letters of a node: the most recent ones, and with a journal, which has them all, any
/// other when it is asked for.
struct DeadLetters {
  private let journal: Journal?
  /// Letters so far, those that are gone included.
  private(set) var count: UInt64 = 0
  /// Letters that there are.
  private(set) var present = 0
  private(set) var recent: [DeadLetter] = []
  // Since the last record.
  private var added: [DeadLetter] = []
  private var removed: Set<UInt64> = []

  init(journal: Journal?) {
    self.journal = journal
    guard let contents = journal?.contents else { return }
    recent = contents.letters
    present = contents.letterCount
    count = contents.lastLetter
  }

  subscript(id: UInt64) -> DeadLetter? {
    if let letter = recent.first(where: { $0.id == id }) ?? added.first(where: { $0.id == id }) {
      return letter
    }
    return removed.contains(id) ? nil : journal?.letter(id)
  }

  /// Keeps a letter under the next number.
  mutating func add(_ letter: DeadLetter) {
    count += 1
    var letter = letter
    letter.id = count
    if recent.count == DeadLetter.keptInMemory { recent.removeFirst() }
    recent.append(letter)
    if journal != nil {
      added.append(letter)
      present += 1
    } else {
      present = recent.count
    }
  }

  /// Takes a letter out. Returns `false` where there is none of this number.
  @discardableResult
  mutating func remove(_ id: UInt64) -> Bool {
    guard self[id] != nil else { return false }
    present -= 1
    recent.removeAll { $0.id == id }
    guard journal != nil else { return true }
    if let index = added.firstIndex(where: { $0.id == id }) {
      added.remove(at: index)
    } else {
      removed.insert(id)
    }
    return true
  }

  var hasUnrecorded: Bool { !added.isEmpty || !removed.isEmpty }

  func record(into journal: Journal) throws {
    for letter in added { try journal.letterAdded(letter) }
    for id in removed { try journal.letterRemoved(id) }
  }

  mutating func recorded() {
    added = []
    removed = []
  }
}
