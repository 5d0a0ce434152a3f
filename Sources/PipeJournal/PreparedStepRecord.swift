import PipeMachines
import PipeWire

/// The step that a node was last prepared to take together with others, in mapped memory beside its
/// journal. It outlives the process as a record does, at the cost of a copy.
struct PreparedStepRecord {
  /// The size of this part of the file. Unit: bytes.
  static let byteCount = 4096
  private let words: UnsafeMutablePointer<UInt64>

  // Words: the end, the checksum of the following words (0: none), epoch, sequence, version, length
  // of the state, length of the event, epoch and sequence of the transaction before, then state and
  // event.
  private enum Word {
    static let end = 0, checksum = 1, epoch = 2, sequence = 3, version = 4, state = 5, event = 6
    static let appliedEpoch = 7, appliedSequence = 8, bytes = 9
  }

  /// The outcome of the prepared step.
  enum Outcome: UInt64 {
    case unknown = 0
    /// The step was about to be recorded, or was.
    case taken = 1
    case aborted = 2
  }

  /// The contents of the mark.
  struct Contents {
    var step: PreparedStep
    var end: Outcome
    /// The last transaction before this one whose step was recorded.
    var applied: TransactionID
  }

  private static let payloadCapacity = byteCount - Word.bytes * 8

  init(_ words: UnsafeMutablePointer<UInt64>) { self.words = words }

  /// Writes a prepared step; returns `false` if it is too large.
  /// - Parameter applied: The last transaction whose step is recorded.
  func write(_ step: PreparedStep, applied: TransactionID) -> Bool {
    let (state, event) = (step.move.state, step.event)
    guard state.count <= Self.payloadCapacity, event.count <= Self.payloadCapacity - state.count
    else { return false }
    words[Word.end] = Outcome.unknown.rawValue
    words[Word.epoch] = step.transaction.epoch
    words[Word.sequence] = step.transaction.sequence
    words[Word.version] = step.move.version
    words[Word.state] = UInt64(state.count)
    words[Word.event] = UInt64(event.count)
    words[Word.appliedEpoch] = applied.epoch
    words[Word.appliedSequence] = applied.sequence
    let bytes = UnsafeMutableRawPointer(words + Word.bytes)
    state.withUnsafeBytes { copy($0, to: bytes) }
    event.withUnsafeBytes { copy($0, to: bytes + state.count) }
    // The checksum reveals a half-written step.
    words[Word.checksum] = checksum(byteCount: state.count + event.count)
    return true
  }

  /// Notes that the step of a transaction is about to be recorded. Returns `false` if the step
  /// was not prepared here. The version of the record shows whether the step was recorded.
  func take(_ transaction: TransactionID) -> Bool { end(transaction, .taken) }

  /// Notes that a step is aborted. Returns `false` if the step was not prepared here.
  func abort(_ transaction: TransactionID) -> Bool { end(transaction, .aborted) }

  private func end(_ transaction: TransactionID, _ end: Outcome) -> Bool {
    guard words[Word.epoch] == transaction.epoch, words[Word.sequence] == transaction.sequence
    else { return false }
    words[Word.end] = end.rawValue
    return true
  }

  /// Returns the prepared step; `nil` if there is no complete step.
  func read() -> Contents? {
    let stateCount = Int(clamping: words[Word.state])
    let eventCount = Int(clamping: words[Word.event])
    guard words[Word.checksum] != 0, stateCount <= Self.payloadCapacity,
      eventCount <= Self.payloadCapacity - stateCount,
      words[Word.checksum] == checksum(byteCount: stateCount + eventCount)
    else { return nil }
    let bytes = UnsafeRawBufferPointer(start: words + Word.bytes, count: stateCount + eventCount)
    let step = PreparedStep(
      transaction: TransactionID(epoch: words[Word.epoch], sequence: words[Word.sequence]),
      event: Array(bytes[stateCount...]),
      move: ParticipantMove(version: words[Word.version], state: Array(bytes[..<stateCount])))
    return Contents(
      step: step, end: Outcome(rawValue: words[Word.end]) ?? .unknown,
      applied: TransactionID(
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
    // Never 0.
    return StepMarkerFile.hash(UnsafeRawBufferPointer(start: words + Word.epoch, count: count)) | 1
  }
}
