/// The log of the records that the database lacks, in the step marker file. The file is mapped into
/// memory. So a write costs only a copy in memory, and the record survives a crash of the process.
///
/// Records are numbered consecutively, and the database stores the number of the last record that
/// it contains. A reader of the log uses these numbers to skip the records that are already in the
/// database. The numbers also show where the log ends and the remains of older records begin.
struct RecordLog {
  /// The size of the log's part of the step marker file. Unit: bytes.
  static let byteCount = 512 << 10

  // A record in the log consists of a header of three words, and the bytes of the record, padded
  // with zeros to a full word.
  private enum Word { static let count = 0, number = 1, checksum = 2, bytes = 3 }

  private let words: UnsafeMutablePointer<UInt64>
  /// The initial value of each checksum: the id of the journal. If the file still contains records
  /// of another journal, their checksums do not match.
  private let checksumSeed: UInt64
  /// The position of the next record. Unit: words.
  private var endPosition = 0
  /// The number of the last record.
  private(set) var lastNumber: UInt64
  /// The number of the last record in the database.
  private(set) var lastWrittenNumber: UInt64

  /// - Parameters:
  ///   - words: The part of the step marker file that contains the log.
  ///   - stream: The random id of the journal.
  ///   - lastWrittenNumber: The number of the last record in the database.
  init(_ words: UnsafeMutablePointer<UInt64>, stream: UInt64, lastWrittenNumber: UInt64) {
    self.words = words
    checksumSeed = stream
    self.lastWrittenNumber = lastWrittenNumber
    lastNumber = lastWrittenNumber
    let remaining = Self.records(
      words, count: Self.byteCount / 8, stream: stream, after: lastWrittenNumber)
    lastNumber += UInt64(remaining.count)
    if !remaining.isEmpty { endPosition = Self.byteCount / 8 }
  }

  /// Whether the database has all records.
  var isEmpty: Bool { lastNumber == lastWrittenNumber }

  /// Appends a record. Returns `false` if the log has no space for the record.
  mutating func append(_ record: [UInt8]) -> Bool {
    let length = (record.count + 7) / 8
    guard endPosition + Word.bytes + length <= Self.byteCount / 8 else { return false }
    let start = words + endPosition
    record.withUnsafeBytes { bytes in
      guard let first = bytes.baseAddress else { return }
      start[Word.bytes + length - 1] = 0
      UnsafeMutableRawPointer(start + Word.bytes).copyMemory(from: first, byteCount: bytes.count)
    }
    lastNumber += 1
    start[Word.number] = lastNumber
    start[Word.count] = UInt64(record.count)
    // The checksum detects a partly written record.
    start[Word.checksum] = Self.checksum(start, length: length, seed: checksumSeed)
    endPosition += Word.bytes + length
    return true
  }

  /// Returns the bytes of the records that the database lacks. The pointers are valid until the
  /// next `append`.
  func records() -> [UnsafeRawBufferPointer] {
    Self.records(words, count: endPosition, stream: checksumSeed, after: lastWrittenNumber)
  }

  /// Empties the log after all its records were written into the database.
  mutating func clear() {
    lastWrittenNumber = lastNumber
    endPosition = 0
  }

  /// Empties the log, and counts a record that was written directly into the database.
  mutating func skip() {
    lastNumber += 1
    clear()
  }

  /// Returns the records of a log after record `number`. `words` may be a copy of a log.
  static func records(
    _ words: UnsafePointer<UInt64>, count: Int, stream seed: UInt64, after number: UInt64
  ) -> [UnsafeRawBufferPointer] {
    var records: [UnsafeRawBufferPointer] = []
    var offset = 0
    var nextNumber: UInt64?
    while offset + Word.bytes < count {
      let start = words + offset
      let byteCount = Int(clamping: start[Word.count])
      guard byteCount > 0, byteCount <= (count - offset - Word.bytes) * 8 else { break }
      let length = (byteCount + 7) / 8
      let record = start[Word.number]
      guard record == nextNumber ?? record, nextNumber != nil || record <= number &+ 1,
        start[Word.checksum] == checksum(start, length: length, seed: seed)
      else { break }
      if record > number {
        records.append(UnsafeRawBufferPointer(start: start + Word.bytes, count: byteCount))
      }
      nextNumber = record + 1
      offset += Word.bytes + length
    }
    return records
  }

  /// Returns the checksum of a record. Computes the checksum in words instead of bytes, because a
  /// record may have many kilobytes.
  private static func checksum(
    _ start: UnsafePointer<UInt64>, length: Int, seed: UInt64
  ) -> UInt64 {
    var sum = seed ^ start[Word.count] &* 0x9E37_79B9_7F4A_7C15 ^ start[Word.number]
    for offset in Word.bytes..<(Word.bytes + length) {
      sum = (sum ^ start[offset]) &* 0xD6E8_FEB8_6659_FD93
      sum ^= sum >> 32
    }
    return sum
  }
}
