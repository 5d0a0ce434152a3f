/// The encoding of a record's operations, one after the other. Each has its number, the count of
/// its values, and each value as a tag and its content. Numbers are little-endian.
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

/// An encoded operation, without a copy of its bytes.
struct EncodedOperation {
  /// A value, without a copy of its bytes.
  enum Value {
    case integer(Int64)
    case text(UnsafeRawBufferPointer)
    case null

    /// The integer; `nil` for any other value.
    var integer: Int64? { if case .integer(let integer) = self { integer } else { nil } }
  }

  let operation: JournalOperation
  /// The encoded values.
  private let bytes: UnsafeRawBufferPointer
  private let count: Int

  /// Returns the operations of a record.
  static func all(
    in bytes: UnsafeRawBufferPointer
  ) throws(UnreadableRecord) -> [EncodedOperation] {
    var operations: [EncodedOperation] = []
    var offset = 0
    while offset < bytes.count {
      guard offset + 2 <= bytes.count, let operation = JournalOperation(rawValue: bytes[offset])
      else { throw UnreadableRecord() }
      let count = Int(bytes[offset + 1])
      let start = offset + 2
      offset = start
      for _ in 0..<count {
        guard let next = end(ofValueAt: offset, in: bytes) else { throw UnreadableRecord() }
        offset = next
      }
      operations.append(
        EncodedOperation(
          operation: operation, bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<offset]),
          count: count))
    }
    return operations
  }

  /// The values, in order.
  var values: [Value] {
    var values: [Value] = []
    var offset = 0
    for _ in 0..<count {
      let start = offset + 1
      switch bytes[offset] {
      case OperationCoding.integer:
        offset = start + 8
        values.append(
          .integer(Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: Int64.self))))
      case OperationCoding.text:
        let count = Self.textCount(at: start, in: bytes)
        offset = start + 4 + count
        values.append(.text(UnsafeRawBufferPointer(rebasing: bytes[(start + 4)..<offset])))
      default:
        offset = start
        values.append(.null)
      }
    }
    return values
  }

  /// Returns the encoding of the first values. Equal values have the same encoding.
  func key(_ count: Int) -> [UInt8] {
    var offset = 0
    for _ in 0..<count { offset = Self.end(ofValueAt: offset, in: bytes) ?? offset }
    return Array(bytes[..<offset])
  }

  /// Returns the value at this index, which must be an integer.
  func integer(_ index: Int) -> Int64 {
    var offset = 0
    for _ in 0..<index { offset = Self.end(ofValueAt: offset, in: bytes) ?? offset }
    return Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 1, as: Int64.self))
  }

  private static func end(ofValueAt offset: Int, in bytes: UnsafeRawBufferPointer) -> Int? {
    guard offset < bytes.count else { return nil }
    let start = offset + 1
    let end: Int
    switch bytes[offset] {
    case OperationCoding.integer: end = start + 8
    case OperationCoding.text:
      guard start + 4 <= bytes.count else { return nil }
      end = start + 4 + textCount(at: start, in: bytes)
    case OperationCoding.null: end = start
    default: return nil
    }
    return end <= bytes.count ? end : nil
  }

  private static func textCount(at offset: Int, in bytes: UnsafeRawBufferPointer) -> Int {
    Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
  }
}

/// The error that a record is complete but has an operation or a value that this program does not
/// know.
struct UnreadableRecord: Error, CustomStringConvertible {
  var description: String { "a record in the log of the journal cannot be read" }
}

/// The operations of some records that determine the final contents of the database. Rows that are
/// overwritten or deleted again before they are visible in the database need not be written.
struct EffectiveOperations {
  /// The operations, in order.
  private(set) var operations: [EncodedOperation] = []

  /// The keys that later operations write, by table.
  private var laterKeys: [Table: Set<[UInt8]>] = [:]
  /// The last event that a later operation trims, by pipe.
  private var trimmed: [[UInt8]: Int64] = [:]
  /// The request before which a later operation deletes all answers, by client.
  private var acknowledged: [[UInt8]: Int64] = [:]
  /// The record before which a later operation deletes all records.
  private var firstRecord = Int64.min
  private var hasVacuum = false

  private enum Table {
    case consumed, sent, effect, postponed, meta, request, client, applied, instance, instanceEffect
  }

  init(_ records: [UnsafeRawBufferPointer]) throws(UnreadableRecord) {
    for record in records.reversed() {
      for operation in try EncodedOperation.all(in: record).reversed() where isEffective(operation)
      {
        operations.append(operation)
      }
    }
    operations.reverse()
  }

  /// Whether an operation lasts, given the operations after it.
  private mutating func isEffective(_ operation: EncodedOperation) -> Bool {
    switch operation.operation {
    case .consumed: isLast(operation, 1, of: .consumed)
    case .sent: isLast(operation, 1, of: .sent)
    case .effectStarted, .effectEnded: isLast(operation, 2, of: .effect)
    case .postponed, .postponedRemoved: isLast(operation, 1, of: .postponed)
    case .meta, .metaRemoved: isLast(operation, 1, of: .meta)
    case .answered, .answerForgotten: isRetained(operation) && isLast(operation, 2, of: .request)
    case .requestsAcknowledged: isLastAcknowledgement(operation)
    case .clientForgotten: isLast(operation, 1, of: .client)
    case .applied: isLast(operation, 0, of: .applied)
    case .instanceChanged, .instanceRemoved: isLast(operation, 1, of: .instance)
    case .instanceEffectStarted, .instanceEffectEnded: isLast(operation, 3, of: .instanceEffect)
    case .trim: isLastTrim(operation)
    case .queued: operation.integer(1) > trimmed[operation.key(1)] ?? .min
    case .deleteRecords: isLastDeletion(operation)
    case .moved, .movedFrom: operation.integer(0) >= firstRecord
    case .incrementalVacuum: isLastVacuum()
    // The numbers of dead letters are never reused, and the table remembers them.
    case .deadLetter, .deadLetterRemoved, .prepared, .aborted, .coordinatorStarted, .committed,
      .acknowledged,
      .forgotten, .forgottenThrough:
      true
    }
  }

  /// - Parameter count: The number of leading values that form the key. On such a table, the last
  ///   operation on a key alone determines its row.
  private mutating func isLast(_ operation: EncodedOperation, _ count: Int, of table: Table) -> Bool
  {
    laterKeys[table, default: []].insert(operation.key(count)).inserted
  }

  private mutating func isLastTrim(_ operation: EncodedOperation) -> Bool {
    let (pipe, last) = (operation.key(1), operation.integer(1))
    guard last > trimmed[pipe] ?? .min else { return false }
    trimmed[pipe] = last
    return true
  }

  /// Whether no later operation deletes an answer together with others of its client.
  private func isRetained(_ answer: EncodedOperation) -> Bool {
    let client = answer.key(1)
    return laterKeys[.client]?.contains(client) != true
      && answer.integer(1) >= acknowledged[client] ?? .min
  }

  private mutating func isLastAcknowledgement(_ operation: EncodedOperation) -> Bool {
    let (client, oldest) = (operation.key(1), operation.integer(1))
    guard laterKeys[.client]?.contains(client) != true, oldest > acknowledged[client] ?? .min else {
      return false
    }
    acknowledged[client] = oldest
    return true
  }

  private mutating func isLastDeletion(_ operation: EncodedOperation) -> Bool {
    let first = operation.integer(0)
    guard first > firstRecord else { return false }
    firstRecord = first
    return true
  }

  private mutating func isLastVacuum() -> Bool {
    defer { hasVacuum = true }
    return !hasVacuum
  }
}
