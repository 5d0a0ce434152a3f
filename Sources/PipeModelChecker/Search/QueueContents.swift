/// The contents of one queue, each of them a local state with a number. The first are those at the start.
struct QueueContents: Sendable {
  let capacity: Int
  private(set) var contents: [[Int]]
  private var numbers: [[Int]: Int]
  /// The memory of all contents. Unit: bytes.
  private(set) var byteCount = 0

  init(capacity: Int, initial: [Int]) {
    self.capacity = capacity
    contents = [initial]
    numbers = [initial: 0]
  }

  /// Whether a queue with the contents of a local state has no room.
  func isFull(in state: Int) -> Bool { contents[state].count >= capacity }

  /// The local state of these contents, a new one where they were not met before.
  mutating func number(of symbols: [Int]) -> Int {
    if let number = numbers[symbols] { return number }
    numbers[symbols] = contents.count
    contents.append(symbols)
    // The symbols, the head of their array, and what list and dictionary hold of it.
    byteCount += 8 * symbols.capacity + 32 + 8 + 32
    return contents.count - 1
  }

  /// The same where the contents after it were met before.
  func knownNumber(after operation: QueueOperation, in state: Int) -> Int? {
    operation.result(for: contents[state], capacity: capacity).flatMap { numbers[$0] }
  }

  /// The local state after an operation, or `nil` where it is not permitted.
  mutating func number(after operation: QueueOperation, in state: Int) -> Int? {
    operation.result(for: contents[state], capacity: capacity).map { number(of: $0) }
  }
}

/// What a vector does to the contents of a queue.
///
/// Whether there is room is asked before anything is taken or appended, so that a step that begins below
/// the capacity may end above it, as a node's does.
package struct QueueOperation: Equatable, Sendable {
  /// The symbol that is taken out, or `nil`. The vector is permitted only while it is the first of its kind.
  package var taken: Int?
  /// The symbols among which `taken` has to be the first; those before it stay. `nil`: all, so that it has
  /// to be the head.
  package var amongst: Set<Int>?
  /// The symbols that are appended, in this order.
  package var appended: [Int]
  /// Whether the vector is permitted only while the queue is below its capacity.
  package var needsRoom: Bool

  package init(
    taken: Int? = nil, amongst: Set<Int>? = nil, appended: [Int] = [], needsRoom: Bool = false
  ) {
    self.taken = taken
    self.amongst = amongst
    self.appended = appended
    self.needsRoom = needsRoom
  }

  /// Takes the head of a queue.
  package static func take(_ symbol: Int) -> QueueOperation { QueueOperation(taken: symbol) }

  /// Takes the first queued symbol that is one of `symbols`, if it is this one.
  package static func take(_ symbol: Int, amongst symbols: Set<Int>) -> QueueOperation {
    QueueOperation(taken: symbol, amongst: symbols)
  }

  /// Appends symbols while the queue is below its capacity.
  package static func append(_ symbols: Int...) -> QueueOperation {
    QueueOperation(appended: symbols, needsRoom: true)
  }

  /// The contents after this operation, or `nil` where it is not permitted.
  func result(for contents: [Int], capacity: Int) -> [Int]? {
    if needsRoom && contents.count >= capacity { return nil }
    var contents = contents
    if let taken {
      let first = contents.firstIndex { amongst?.contains($0) ?? true }
      guard let first, contents[first] == taken else { return nil }
      contents.remove(at: first)
    }
    return contents + appended
  }
}
