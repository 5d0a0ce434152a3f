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
