/// Records that are not in the database yet, in mapped memory beside it: written there, a record outlives the
/// process, and costs a copy.
///
/// Records are numbered. The database tells up to which one it has them, so that those that are in both are
/// passed over, and what was left of an earlier round of the log is told apart from what follows it.
struct RecordLog {
  /// Its part of the file. Unit: bytes.
  static let byteCount = 512 << 10

  // Each record: the words of a header, then its bytes, and zeros up to the next word.
  private enum Word { static let count = 0, number = 1, checksum = 2, bytes = 3 }

  private let words: UnsafeMutablePointer<UInt64>
  /// Makes records of another journal's file none of this one's.
  private let seed: UInt64
  /// Where the next record goes. Unit: words.
  private var end = 0
  /// The number of the last record.
  private(set) var last: UInt64
  /// That of the last one that the database has.
  private var written: UInt64

  /// - Parameters:
  ///   - words: Its part of the file.
  ///   - stream: The journal's own random number.
  ///   - written: The number of the last record that the database has.
  init(_ words: UnsafeMutablePointer<UInt64>, stream: UInt64, written: UInt64) {
    self.words = words
    seed = stream
    self.written = written
    last = written
    let left = Self.records(words, count: Self.byteCount / 8, stream: stream, after: written)
    last += UInt64(left.count)
    if !left.isEmpty { end = Self.byteCount / 8 }
  }

  /// Whether the database has all records.
  var isEmpty: Bool { last == written }

  /// Adds a record; returns `false` where there is no room for it.
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
    // Of one that is half written, the checksum tells.
    start[Word.checksum] = Self.checksum(start, length: length, seed: seed)
    end += Word.bytes + length
    return true
  }

  /// The bytes of the records that the database lacks; they are valid until the next `append`.
  func records() -> [UnsafeRawBufferPointer] {
    Self.records(words, count: end, stream: seed, after: written)
  }

  /// The database has all records.
  mutating func clear() {
    written = last
    end = 0
  }

  /// The database has the next record, which never was in the log, and all before it.
  mutating func skip() {
    last += 1
    clear()
  }

  /// The records after the one of this number in a log, or in a copy of one.
  static func records(
    _ words: UnsafePointer<UInt64>, count: Int, stream seed: UInt64, after number: UInt64
  ) -> [UnsafeRawBufferPointer] {
    var found: [UnsafeRawBufferPointer] = []
    var place = 0
    var next: UInt64?
    while place + Word.bytes < count {
      let start = words + place
      let byteCount = Int(clamping: start[Word.count])
      guard byteCount > 0, byteCount <= (count - place - Word.bytes) * 8 else { break }
      let length = (byteCount + 7) / 8
      let record = start[Word.number]
      guard record == next ?? record, next != nil || record <= number &+ 1,
        start[Word.checksum] == checksum(start, length: length, seed: seed)
      else { break }
      if record > number {
        found.append(UnsafeRawBufferPointer(start: start + Word.bytes, count: byteCount))
      }
      next = record + 1
      place += Word.bytes + length
    }
    return found
  }

  /// Word by word: a record may have many kilobytes.
  private static func checksum(
    _ start: UnsafePointer<UInt64>, length: Int, seed: UInt64
  ) -> UInt64 {
    var sum = seed ^ start[Word.count] &* 0x9E37_79B9_7F4A_7C15 ^ start[Word.number]
    for place in Word.bytes..<(Word.bytes + length) {
      sum = (sum ^ start[place]) &* 0xD6E8_FEB8_6659_FD93
      sum ^= sum >> 32
    }
    return sum
  }
}
