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

/// Those operations of some records without which the database would not be the same in the end: what is
/// written over, or deleted again, before anybody sees it in the database needs not be written.
struct LastingOperations {
  /// In their order.
  private(set) var operations: [EncodedOperation] = []

  /// What later operations write, by the table and the key.
  private var later: [Table: Set<[UInt8]>] = [:]
  /// By the pipe: up to which event it is trimmed later.
  private var trimmed: [[UInt8]: Int64] = [:]
  /// By the client: before which request all answers are deleted later.
  private var acknowledged: [[UInt8]: Int64] = [:]
  /// Before which record all are deleted later.
  private var firstRecord = Int64.min
  private var givesBackPages = false

  private enum Table { case consumed, sent, effect, postponed, meta, request, client, applied }

  init(_ records: [UnsafeRawBufferPointer]) throws(UnreadableRecord) {
    for record in records.reversed() {
      for operation in try EncodedOperation.all(in: record).reversed() where lasts(operation) {
        operations.append(operation)
      }
    }
    operations.reverse()
  }

  /// Whether an operation lasts; those after it are known.
  private mutating func lasts(_ operation: EncodedOperation) -> Bool {
    switch operation.operation {
    case .consumed: isLast(operation, 1, of: .consumed)
    case .sent: isLast(operation, 1, of: .sent)
    case .effectStarted, .effectEnded: isLast(operation, 2, of: .effect)
    case .postponed, .unpostponed: isLast(operation, 1, of: .postponed)
    case .meta, .unmeta: isLast(operation, 1, of: .meta)
    case .answered, .answerForgotten: isNeeded(operation) && isLast(operation, 2, of: .request)
    case .requestsAcknowledged: acknowledges(operation)
    case .clientForgotten: isLast(operation, 1, of: .client)
    case .applied: isLast(operation, 0, of: .applied)
    case .trim: trims(operation)
    case .queued: operation.integer(1) > trimmed[operation.key(1)] ?? .min
    case .forgetRecords: forgets(operation)
    case .moved: operation.integer(0) >= firstRecord
    case .giveBackPages: givesBack()
    // The numbers of dead letters are never given twice, and the table remembers them.
    case .letter, .unletter, .prepared, .aborted, .coordinatorStarted, .committed, .acknowledged,
      .forgotten, .forgottenThrough:
      true
    }
  }

  /// - Parameter count: How many of its first values are the key. Each operation on such a table decides alone
  ///   what is there.
  private mutating func isLast(_ operation: EncodedOperation, _ count: Int, of table: Table) -> Bool
  {
    later[table, default: []].insert(operation.key(count)).inserted
  }

  private mutating func trims(_ operation: EncodedOperation) -> Bool {
    let (pipe, last) = (operation.key(1), operation.integer(1))
    guard last > trimmed[pipe] ?? .min else { return false }
    trimmed[pipe] = last
    return true
  }

  /// Whether an answer is not deleted later, with others of its client.
  private func isNeeded(_ answer: EncodedOperation) -> Bool {
    let client = answer.key(1)
    return later[.client]?.contains(client) != true
      && answer.integer(1) >= acknowledged[client] ?? .min
  }

  private mutating func acknowledges(_ operation: EncodedOperation) -> Bool {
    let (client, oldest) = (operation.key(1), operation.integer(1))
    guard later[.client]?.contains(client) != true, oldest > acknowledged[client] ?? .min else {
      return false
    }
    acknowledged[client] = oldest
    return true
  }

  private mutating func forgets(_ operation: EncodedOperation) -> Bool {
    let first = operation.integer(0)
    guard first > firstRecord else { return false }
    firstRecord = first
    return true
  }

  private mutating func givesBack() -> Bool {
    defer { givesBackPages = true }
    return !givesBackPages
  }
}
