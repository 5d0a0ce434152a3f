/// Records that are not in the database yet, in mapped memory beside it. A record outlives the
/// process there, at the cost of a copy.
///
/// Records are numbered, and the database knows the number of its last record. So records that are
/// in both places are skipped, and the rest of an earlier round of the log is distinguished from the
/// records after it.
struct RecordLog {
  /// The size of this part of the file. Unit: bytes.
  static let byteCount = 512 << 10

  // Each record: the words of a header, then its bytes, padded with zeros to the next word.
  private enum Word { static let count = 0, number = 1, checksum = 2, bytes = 3 }

  private let words: UnsafeMutablePointer<UInt64>
  /// Makes records in the file of another journal invalid here.
  private let seed: UInt64
  /// The position of the next record. Unit: words.
  private var end = 0
  /// The number of the last record.
  private(set) var last: UInt64
  /// The number of the last record in the database.
  private(set) var written: UInt64

  /// - Parameters:
  ///   - words: This part of the file.
  ///   - stream: The random id of the journal.
  ///   - written: The number of the last record in the database.
  init(_ words: UnsafeMutablePointer<UInt64>, stream: UInt64, written: UInt64) {
    self.words = words
    seed = stream
    self.written = written
    last = written
    let remaining = Self.records(words, count: Self.byteCount / 8, stream: stream, after: written)
    last += UInt64(remaining.count)
    if !remaining.isEmpty { end = Self.byteCount / 8 }
  }

  /// Whether the database has all records.
  var isEmpty: Bool { last == written }

  /// Adds a record. Returns `false` if the log has no capacity for it.
  mutating func append(_ record: [UInt8]) -> Bool {
    let length = (record.count + 7) / 8
    guard end + Word.bytes + length <= Self.byteCount / 8 else { return false }
    let start = words + end
    record.withUnsafeBytes { bytes in
      guard let first = bytes.baseAddress else { return }
      start[Word.bytes + length - 1] = 0
      UnsafeMutableRawPointer(start + Word.bytes).copyMemory(from: first, byteCount: bytes.count)
    }
    last += 1
    start[Word.number] = last
    start[Word.count] = UInt64(record.count)
    // The checksum reveals a half-written record.
    start[Word.checksum] = Self.checksum(start, length: length, seed: seed)
    end += Word.bytes + length
    return true
  }

  /// Returns the bytes of the records that the database lacks. They are valid until the next
  /// `append`.
  func records() -> [UnsafeRawBufferPointer] {
    Self.records(words, count: end, stream: seed, after: written)
  }

  /// Notes that the database has all records.
  mutating func clear() {
    written = last
    end = 0
  }

  /// Notes that the database has the next record, which never was in the log, and all records
  /// before it.
  mutating func skip() {
    last += 1
    clear()
  }

  /// Returns the records after this number in a log, or in a copy of a log.
  static func records(
    _ words: UnsafePointer<UInt64>, count: Int, stream seed: UInt64, after number: UInt64
  ) -> [UnsafeRawBufferPointer] {
    var found: [UnsafeRawBufferPointer] = []
    var offset = 0
    var next: UInt64?
    while offset + Word.bytes < count {
      let start = words + offset
      let byteCount = Int(clamping: start[Word.count])
      guard byteCount > 0, byteCount <= (count - offset - Word.bytes) * 8 else { break }
      let length = (byteCount + 7) / 8
      let record = start[Word.number]
      guard record == next ?? record, next != nil || record <= number &+ 1,
        start[Word.checksum] == checksum(start, length: length, seed: seed)
      else { break }
      if record > number {
        found.append(UnsafeRawBufferPointer(start: start + Word.bytes, count: byteCount))
      }
      next = record + 1
      offset += Word.bytes + length
    }
    return found
  }

  /// Computes the checksum word by word: a record may have many kilobytes.
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
