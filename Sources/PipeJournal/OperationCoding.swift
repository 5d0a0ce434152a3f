/// The encoding of a record as a sequence of operations. An operation consists of its number, the
/// number of its values, and the values. A value consists of a tag and its content. Integers are
/// little-endian.
enum OperationCoding {
  fileprivate static let integerTag: UInt8 = 0
  fileprivate static let textTag: UInt8 = 1
  fileprivate static let nullTag: UInt8 = 2

  static func append(_ operation: JournalOperation, _ values: [SQLValue], to bytes: inout [UInt8]) {
    bytes.append(operation.rawValue)
    bytes.append(UInt8(values.count))
    for value in values {
      switch value {
      case .integer(let integer):
        bytes.append(Self.integerTag)
        withUnsafeBytes(of: integer.littleEndian) { bytes += $0 }
      case .text(let text):
        bytes.append(Self.textTag)
        withUnsafeBytes(of: UInt32(text.count).littleEndian) { bytes += $0 }
        bytes += text
      case .null: bytes.append(nullTag)
      }
    }
  }
}

/// An encoded operation. Refers to the bytes of the record instead of copying them.
struct EncodedOperation {
  /// A value of an operation. Text refers to the bytes of the record.
  enum Value {
    case integer(Int64)
    case text(UnsafeRawBufferPointer)
    case null

    /// The integer; `nil` for any other value.
    var integer: Int64? { if case .integer(let integer) = self { integer } else { nil } }
  }

  let operation: JournalOperation
  /// The encoded values of the operation.
  private let bytes: UnsafeRawBufferPointer
  private let valueCount: Int

  /// Decodes the operations of a record.
  static func operations(
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
        guard let next = valueEnd(ofValueAt: offset, in: bytes) else { throw UnreadableRecord() }
        offset = next
      }
      operations.append(
        EncodedOperation(
          operation: operation, bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<offset]),
          valueCount: count))
    }
    return operations
  }

  /// The values, in order.
  var values: [Value] {
    var values: [Value] = []
    var offset = 0
    for _ in 0..<valueCount {
      let start = offset + 1
      switch bytes[offset] {
      case OperationCoding.integerTag:
        offset = start + 8
        values.append(
          .integer(Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: Int64.self))))
      case OperationCoding.textTag:
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

  /// Returns the bytes of the first `count` values, which identify a row. Equal values have equal
  /// bytes.
  func keyBytes(_ count: Int) -> [UInt8] {
    var offset = 0
    for _ in 0..<count { offset = Self.valueEnd(ofValueAt: offset, in: bytes) ?? offset }
    return Array(bytes[..<offset])
  }

  /// Returns the value at `index`. The value must be an integer.
  func integer(_ index: Int) -> Int64 {
    var offset = 0
    for _ in 0..<index { offset = Self.valueEnd(ofValueAt: offset, in: bytes) ?? offset }
    return Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 1, as: Int64.self))
  }

  private static func valueEnd(ofValueAt offset: Int, in bytes: UnsafeRawBufferPointer) -> Int? {
    guard offset < bytes.count else { return nil }
    let start = offset + 1
    let end: Int
    switch bytes[offset] {
    case OperationCoding.integerTag: end = start + 8
    case OperationCoding.textTag:
      guard start + 4 <= bytes.count else { return nil }
      end = start + 4 + textCount(at: start, in: bytes)
    case OperationCoding.nullTag: end = start
    default: return nil
    }
    return end <= bytes.count ? end : nil
  }

  private static func textCount(at offset: Int, in bytes: UnsafeRawBufferPointer) -> Int {
    Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
  }
}

/// The error for a complete record that contains an operation or a value that this program does not
/// know.
struct UnreadableRecord: Error, CustomStringConvertible {
  var description: String { "a record in the log of the journal cannot be read" }
}

/// The operations that must be executed to write several records. Omits each operation whose row a
/// later operation overwrites or deletes.
struct EffectiveOperations {
  /// The operations, in order.
  private(set) var operations: [EncodedOperation] = []

  /// The keys of the rows that later operations write, by table. Operations are examined last to
  /// first.
  private var laterKeys: [Table: Set<[UInt8]>] = [:]
  /// For each pipe, the number of the last event that a later operation deletes.
  private var trimmedEventNumbers: [[UInt8]: Int64] = [:]
  /// For each client, the lowest request number whose answer is not deleted by a later operation.
  private var acknowledgedRequestNumbers: [[UInt8]: Int64] = [:]
  /// The number of the first record that no later operation deletes.
  private var firstRecord = Int64.min
  private var hasVacuum = false

  private enum Table {
    case consumed, sent, effect, postponed, meta, request, client, applied, instance, instanceEffect
    case preparedInstance
  }

  init(_ records: [UnsafeRawBufferPointer]) throws(UnreadableRecord) {
    for record in records.reversed() {
      for operation in try EncodedOperation.operations(in: record).reversed()
      where isEffective(operation) {
        operations.append(operation)
      }
    }
    operations.reverse()
  }

  /// Whether an operation affects the final contents of the database. Call this for the operations
  /// in reverse order.
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
    case .instancePrepared, .instanceDecided: isLast(operation, 1, of: .preparedInstance)
    case .trim: isLastTrim(operation)
    case .queued: operation.integer(1) > trimmedEventNumbers[operation.keyBytes(1)] ?? .min
    case .deleteRecords: isLastDeletion(operation)
    case .moved, .movedFrom: operation.integer(0) >= firstRecord
    case .incrementalVacuum: isLastVacuum()
    // A dead letter is inserted even if a later operation deletes it. The insertion makes SQLite
    // store the id in `sqlite_sequence`, so that the id is never reused.
    case .deadLetter, .deadLetterRemoved, .prepared, .aborted, .coordinatorStarted, .committed,
      .acknowledged,
      .forgotten, .forgottenThrough:
      true
    }
  }

  /// Whether an operation is the last operation on its row of `table`. Earlier operations on this
  /// row have no effect on its final contents.
  /// - Parameter count: The number of leading values that form the key of the row.
  private mutating func isLast(_ operation: EncodedOperation, _ count: Int, of table: Table) -> Bool
  {
    laterKeys[table, default: []].insert(operation.keyBytes(count)).inserted
  }

  private mutating func isLastTrim(_ operation: EncodedOperation) -> Bool {
    let (pipe, last) = (operation.keyBytes(1), operation.integer(1))
    guard last > trimmedEventNumbers[pipe] ?? .min else { return false }
    trimmedEventNumbers[pipe] = last
    return true
  }

  /// Whether the database keeps the answer. `false` if a later operation deletes it together with
  /// other answers to the same client.
  private func isRetained(_ answer: EncodedOperation) -> Bool {
    let client = answer.keyBytes(1)
    return laterKeys[.client]?.contains(client) != true
      && answer.integer(1) >= acknowledgedRequestNumbers[client] ?? .min
  }

  private mutating func isLastAcknowledgement(_ operation: EncodedOperation) -> Bool {
    let (client, oldest) = (operation.keyBytes(1), operation.integer(1))
    guard laterKeys[.client]?.contains(client) != true,
      oldest > acknowledgedRequestNumbers[client] ?? .min
    else {
      return false
    }
    acknowledgedRequestNumbers[client] = oldest
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
