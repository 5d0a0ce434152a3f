/// An event that a machine refused and its pipe recorded.
public struct DeadLetter: Codable, Hashable, Sendable {
  /// Its number in the node, from 1 on.
  public var id: UInt64
  /// The pipe it came by; `request` where a client sent it.
  public var pipe: String
  /// Its number in that pipe.
  public var sequence: UInt64
  /// The event as JSON, or as text where it did not decode.
  public var event: JSONValue
  /// Why it was not applied.
  public var reason: String
  /// The state that refused it, where there was one.
  public var state: JSONValue?
  /// The node's version then.
  public var version: UInt64
  /// Unit: nanoseconds since 1970.
  public var time: Int64
}

/// The dead letters of a node: all of them where it keeps a journal, else the most recent ones.
struct DeadLetters {
  /// How many are kept without a journal. Unit: letters.
  private static let kept = 100
  private let isRecorded: Bool
  /// Letters so far, those that are gone included.
  private(set) var count: UInt64 = 0
  private(set) var all: [DeadLetter] = []
  // Since the last record.
  private(set) var added: [DeadLetter] = []
  private(set) var removed: [UInt64] = []

  init(restored: [DeadLetter] = [], last: UInt64 = 0, isRecorded: Bool) {
    self.isRecorded = isRecorded
    all = restored
    count = last
  }

  subscript(id: UInt64) -> DeadLetter? { all.first { $0.id == id } }

  /// Keeps a letter under the next number.
  mutating func add(_ letter: DeadLetter) {
    count += 1
    var letter = letter
    letter.id = count
    if !isRecorded, all.count == Self.kept { all.removeFirst() }
    all.append(letter)
    if isRecorded { added.append(letter) }
  }

  /// Takes a letter out. Returns `false` where there is none of this number.
  @discardableResult
  mutating func remove(_ id: UInt64) -> Bool {
    guard let index = all.firstIndex(where: { $0.id == id }) else { return false }
    all.remove(at: index)
    guard isRecorded else { return true }
    if let index = added.firstIndex(where: { $0.id == id }) {
      added.remove(at: index)
    } else {
      removed.append(id)
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
