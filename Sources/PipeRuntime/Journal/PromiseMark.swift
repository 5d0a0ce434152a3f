/// The step that a node has last promised to take together with others, in mapped memory beside its
/// journal: written there, it outlives the process as a record does, and costs a copy.
struct PromiseMark {
  /// Its part of the file. Unit: bytes.
  static let byteCount = 4096
  private let words: UnsafeMutablePointer<UInt64>

  // Words: whether the step is taken, checksum of what follows (0: none), epoch, sequence, version,
  // length of the state, length of the event, then both.
  private enum Word {
    static let taken = 0, checksum = 1, epoch = 2, sequence = 3, version = 4, state = 5, event = 6
    static let bytes = 7
  }

  private static let room = byteCount - Word.bytes * 8

  init(_ words: UnsafeMutablePointer<UInt64>) { self.words = words }

  /// Writes a promise; returns `false` where it is too large.
  func write(_ step: PreparedStep) -> Bool {
    let (state, event) = (step.move.state, step.event)
    guard state.count <= Self.room, event.count <= Self.room - state.count else { return false }
    words[Word.taken] = 0
    words[Word.epoch] = step.transaction.epoch
    words[Word.sequence] = step.transaction.sequence
    words[Word.version] = step.move.version
    words[Word.state] = UInt64(state.count)
    words[Word.event] = UInt64(event.count)
    let bytes = UnsafeMutableRawPointer(words + Word.bytes)
    state.withUnsafeBytes { copy($0, to: bytes) }
    event.withUnsafeBytes { copy($0, to: bytes + state.count) }
    // Of a promise that is half written, the checksum tells.
    words[Word.checksum] = checksum(byteCount: state.count + event.count)
    return true
  }

  /// The step of a transaction is about to be recorded; returns `false` where that was not promised
  /// here. Whether it was recorded, the record's version tells.
  func take(_ transaction: TransactionID) -> Bool {
    guard words[Word.epoch] == transaction.epoch, words[Word.sequence] == transaction.sequence
    else { return false }
    words[Word.taken] = 1
    return true
  }

  /// A step is given up; returns `false` where it was not promised here.
  func giveUp(_ transaction: TransactionID) -> Bool {
    guard words[Word.epoch] == transaction.epoch, words[Word.sequence] == transaction.sequence
    else { return false }
    words[Word.checksum] = 0
    return true
  }

  /// Whether the step was about to be recorded, or was.
  var isTaken: Bool { words[Word.taken] != 0 }

  /// The promise that is there; `nil` where none is whole.
  func read() -> PreparedStep? {
    let stateCount = Int(clamping: words[Word.state])
    let eventCount = Int(clamping: words[Word.event])
    guard words[Word.checksum] != 0, stateCount <= Self.room,
      eventCount <= Self.room - stateCount,
      words[Word.checksum] == checksum(byteCount: stateCount + eventCount)
    else { return nil }
    let bytes = UnsafeRawBufferPointer(start: words + Word.bytes, count: stateCount + eventCount)
    return PreparedStep(
      transaction: TransactionID(epoch: words[Word.epoch], sequence: words[Word.sequence]),
      event: Array(bytes[stateCount...]),
      move: ParticipantMove(version: words[Word.version], state: Array(bytes[..<stateCount])))
  }

  private func copy(_ source: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) {
    guard let start = source.baseAddress else { return }
    target.copyMemory(from: start, byteCount: source.count)
  }

  private func checksum(byteCount: Int) -> UInt64 {
    // FNV-1a, never 0.
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    let count = (Word.bytes - Word.epoch) * 8 + byteCount
    for byte in UnsafeRawBufferPointer(start: words + Word.epoch, count: count) {
      hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
    }
    return hash | 1
  }
}
