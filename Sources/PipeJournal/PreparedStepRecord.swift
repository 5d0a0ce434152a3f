import PipeMachines
import PipeWire

/// The last prepared step of a node, in the step marker file. The file is mapped into memory. So a
/// write costs only a copy in memory, and the step survives a crash of the process.
struct PreparedStepRecord {
  /// The size of the prepared step's part of the step marker file. Unit: bytes.
  static let byteCount = 4096
  private let words: UnsafeMutablePointer<UInt64>

  // The layout in words: outcome, checksum of the following words (0: no step), epoch, sequence,
  // version, length of the state, length of the event, epoch and sequence of the last recorded
  // transaction, state, event. The upper half of the word with the event's length contains the
  // schema version of the machine; 0 for version 1.
  private enum Word {
    static let outcome = 0, checksum = 1, epoch = 2, sequence = 3, version = 4, state = 5, event = 6
    static let appliedEpoch = 7, appliedSequence = 8, bytes = 9
  }

  /// The outcome of the prepared step.
  enum Outcome: UInt64 {
    case unknown = 0
    /// The step was recorded, or was about to be recorded when the process ended.
    case taken = 1
    case aborted = 2
  }

  /// A prepared step and its outcome.
  struct Contents {
    var step: PreparedStep
    var outcome: Outcome
    /// The last transaction whose step had been recorded when this step was prepared.
    var lastApplied: TransactionID
  }

  private static let payloadCapacity = byteCount - Word.bytes * 8

  init(_ words: UnsafeMutablePointer<UInt64>) { self.words = words }

  /// Writes a prepared step. Returns `false` if the step is too large for this part of the file.
  /// - Parameters:
  ///   - applied: The last transaction whose step is recorded.
  ///   - schema: The schema version of the machine that has evaluated the step.
  func write(_ step: PreparedStep, applied: TransactionID, schema: Int) -> Bool {
    let (state, event) = (step.move.state, step.event)
    guard state.count <= Self.payloadCapacity, event.count <= Self.payloadCapacity - state.count
    else { return false }
    words[Word.outcome] = Outcome.unknown.rawValue
    words[Word.epoch] = step.transaction.epoch
    words[Word.sequence] = step.transaction.sequence
    words[Word.version] = step.move.recordedVersion
    words[Word.state] = UInt64(state.count)
    let recordedSchema = schema == 1 ? 0 : UInt64(UInt32(clamping: schema))
    words[Word.event] = UInt64(event.count) | recordedSchema << 32
    words[Word.appliedEpoch] = applied.epoch
    words[Word.appliedSequence] = applied.sequence
    let bytes = UnsafeMutableRawPointer(words + Word.bytes)
    state.withUnsafeBytes { copy($0, to: bytes) }
    event.withUnsafeBytes { copy($0, to: bytes + state.count) }
    // The checksum is written last, so it detects a partly written step.
    words[Word.checksum] = checksum(byteCount: state.count + event.count)
    return true
  }

  /// Marks the step of a transaction as about to be recorded. The version of the last record in the
  /// database shows whether the step was actually recorded. Returns `false` if the file contains
  /// the step of another transaction.
  func markTaken(_ transaction: TransactionID) -> Bool { setOutcome(transaction, .taken) }

  /// Marks the step of a transaction as aborted. Returns `false` if the file contains the step of
  /// another transaction.
  func markAborted(_ transaction: TransactionID) -> Bool { setOutcome(transaction, .aborted) }

  private func setOutcome(_ transaction: TransactionID, _ end: Outcome) -> Bool {
    guard words[Word.epoch] == transaction.epoch, words[Word.sequence] == transaction.sequence
    else { return false }
    words[Word.outcome] = end.rawValue
    return true
  }

  /// Deletes the step. Afterwards, its outcome is recorded only in the database.
  func erase() {
    for word in [Word.checksum, Word.outcome, Word.epoch, Word.sequence] { words[word] = 0 }
  }

  /// Returns the last prepared step. Returns `nil` if the file contains no complete step.
  func read() -> Contents? {
    let stateCount = Int(clamping: words[Word.state])
    let eventCount = Int(words[Word.event] & 0xFFFF_FFFF)
    let schema = Int(words[Word.event] >> 32)
    guard words[Word.checksum] != 0, stateCount <= Self.payloadCapacity,
      eventCount <= Self.payloadCapacity - stateCount,
      words[Word.checksum] == checksum(byteCount: stateCount + eventCount)
    else { return nil }
    let bytes = UnsafeRawBufferPointer(start: words + Word.bytes, count: stateCount + eventCount)
    let step = PreparedStep(
      transaction: TransactionID(epoch: words[Word.epoch], sequence: words[Word.sequence]),
      event: Array(bytes[stateCount...]),
      move: ParticipantMove(
        recordedVersion: words[Word.version], state: Array(bytes[..<stateCount])),
      schema: max(1, schema))
    return Contents(
      step: step, outcome: Outcome(rawValue: words[Word.outcome]) ?? .unknown,
      lastApplied: TransactionID(
        epoch: words[Word.appliedEpoch], sequence: words[Word.appliedSequence]))
  }

  /// The checksum of the last written step, which is odd; 0 if no step was written.
  var checksum: UInt64 { words[Word.checksum] }

  private func copy(_ source: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) {
    guard let start = source.baseAddress else { return }
    target.copyMemory(from: start, byteCount: source.count)
  }

  private func checksum(byteCount: Int) -> UInt64 {
    let count = (Word.bytes - Word.epoch) * 8 + byteCount
    // The checksum is odd, because 0 means that there is no step.
    return StepMarkerFile.hash(UnsafeRawBufferPointer(start: words + Word.epoch, count: count)) | 1
  }
}
