/// The contents of one queue, each numbered as a local state. Number 0 is the initial contents.
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

  /// Returns whether a queue is full in a local state.
  func isFull(in state: Int) -> Bool { contents[state].count >= capacity }

  /// Returns the local state for the given contents, and adds one if they are new.
  mutating func number(of symbols: [Int]) -> Int {
    if let number = numbers[symbols] { return number }
    numbers[symbols] = contents.count
    contents.append(symbols)
    // The symbols, the header of their array, and their entries in the list and the dictionary.
    byteCount += 8 * symbols.capacity + 32 + 8 + 32
    return contents.count - 1
  }

  /// Returns the local state after an operation; `nil` if the operation is not permitted, or its
  /// result is new.
  func knownNumber(after operation: QueueOperation, in state: Int) -> Int? {
    operation.result(for: contents[state], capacity: capacity).flatMap { numbers[$0] }
  }

  /// Returns the local state after an operation, or `nil` if the operation is not permitted.
  mutating func number(after operation: QueueOperation, in state: Int) -> Int? {
    operation.result(for: contents[state], capacity: capacity).map { number(of: $0) }
  }
}

/// The effect of a vector on the contents of a queue.
///
/// The capacity is checked before anything is taken or appended. So a step that begins below the
/// capacity may end above it, as in a node.
package struct QueueOperation: Equatable, Sendable {
  /// The symbol to take, or `nil`. The vector is permitted only while this symbol is the first of
  /// its kind.
  package var taken: Int?
  /// The symbols among which `taken` must be the first; earlier symbols stay in the queue.
  ///
  /// `nil` means all symbols, so that `taken` must be the head.
  package var candidates: Set<Int>?
  /// The symbols to append, in this order.
  package var appended: [Int]
  /// Whether the vector is permitted only while the queue is below its capacity.
  package var requiresCapacity: Bool

  package init(
    taken: Int? = nil, candidates: Set<Int>? = nil, appended: [Int] = [],
    requiresCapacity: Bool = false
  ) {
    self.taken = taken
    self.candidates = candidates
    self.appended = appended
    self.requiresCapacity = requiresCapacity
  }

  /// Takes the head of a queue.
  package static func take(_ symbol: Int) -> QueueOperation { QueueOperation(taken: symbol) }

  /// Takes the first queued symbol that is in `symbols`, if it is the given symbol.
  package static func take(_ symbol: Int, candidates symbols: Set<Int>) -> QueueOperation {
    QueueOperation(taken: symbol, candidates: symbols)
  }

  /// Appends symbols while the queue is below its capacity.
  package static func append(_ symbols: Int...) -> QueueOperation {
    QueueOperation(appended: symbols, requiresCapacity: true)
  }

  /// Returns the contents after this operation, or `nil` if the operation is not permitted.
  func result(for contents: [Int], capacity: Int) -> [Int]? {
    if requiresCapacity && contents.count >= capacity { return nil }
    var contents = contents
    if let taken {
      let first = contents.firstIndex { candidates?.contains($0) ?? true }
      guard let first, contents[first] == taken else { return nil }
      contents.remove(at: first)
    }
    return contents + appended
  }
}
