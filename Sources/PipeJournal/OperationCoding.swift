/// The operations of one record as bytes, one after the other: its number, the count of its values, and each
/// value as a tag and what it holds. Numbers are little endian.
enum OperationCoding {
  fileprivate static let integer: UInt8 = 0
  fileprivate static let text: UInt8 = 1
  fileprivate static let null: UInt8 = 2

  static func append(_ operation: JournalOperation, _ values: [SQLValue], to bytes: inout [UInt8]) {
    bytes.append(operation.rawValue)
    bytes.append(UInt8(values.count))
    for value in values {
      switch value {
      case .integer(let integer):
        bytes.append(Self.integer)
        withUnsafeBytes(of: integer.littleEndian) { bytes += $0 }
      case .text(let text):
        bytes.append(Self.text)
        withUnsafeBytes(of: UInt32(text.count).littleEndian) { bytes += $0 }
        bytes += text
      case .null: bytes.append(null)
      }
    }
  }
}

/// One operation where it lies.
struct EncodedOperation {
  /// A value where it lies.
  enum Value {
    case integer(Int64)
    case text(UnsafeRawBufferPointer)
    case null
  }

  let operation: JournalOperation
  /// Its values, encoded.
  private let bytes: UnsafeRawBufferPointer
  private let count: Int

  /// The operations of a record.
  static func all(
    in bytes: UnsafeRawBufferPointer
  ) throws(UnreadableRecord) -> [EncodedOperation] {
    var operations: [EncodedOperation] = []
    var place = 0
    while place < bytes.count {
      guard place + 2 <= bytes.count, let operation = JournalOperation(rawValue: bytes[place])
      else { throw UnreadableRecord() }
      let count = Int(bytes[place + 1])
      let start = place + 2
      place = start
      for _ in 0..<count {
        guard let next = end(ofValueAt: place, in: bytes) else { throw UnreadableRecord() }
        place = next
      }
      operations.append(
        EncodedOperation(
          operation: operation, bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<place]),
          count: count))
    }
    return operations
  }

  /// Its values, in their order.
  var values: [Value] {
    var values: [Value] = []
    var place = 0
    for _ in 0..<count {
      let start = place + 1
      switch bytes[place] {
      case OperationCoding.integer:
        place = start + 8
        values.append(
          .integer(Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: Int64.self))))
      case OperationCoding.text:
        let count = Self.textCount(at: start, in: bytes)
        place = start + 4 + count
        values.append(.text(UnsafeRawBufferPointer(rebasing: bytes[(start + 4)..<place])))
      default:
        place = start
        values.append(.null)
      }
    }
    return values
  }

  /// Its first values as they are encoded, which are the same for the same values.
  func key(_ count: Int) -> [UInt8] {
    var place = 0
    for _ in 0..<count { place = Self.end(ofValueAt: place, in: bytes) ?? place }
    return Array(bytes[..<place])
  }

  /// A value that is a number.
  func integer(_ index: Int) -> Int64 {
    var place = 0
    for _ in 0..<index { place = Self.end(ofValueAt: place, in: bytes) ?? place }
    return Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: place + 1, as: Int64.self))
  }

  private static func end(ofValueAt place: Int, in bytes: UnsafeRawBufferPointer) -> Int? {
    guard place < bytes.count else { return nil }
    let start = place + 1
    let end: Int
    switch bytes[place] {
    case OperationCoding.integer: end = start + 8
    case OperationCoding.text:
      guard start + 4 <= bytes.count else { return nil }
      end = start + 4 + textCount(at: start, in: bytes)
    case OperationCoding.null: end = start
    default: return nil
    }
    return end <= bytes.count ? end : nil
  }

  private static func textCount(at place: Int, in bytes: UnsafeRawBufferPointer) -> Int {
    Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self)))
  }
}

/// A record whose bytes are whole and that has something this program does not know.
struct UnreadableRecord: Error, CustomStringConvertible {
  var description: String { "a record in its log cannot be read" }
}
