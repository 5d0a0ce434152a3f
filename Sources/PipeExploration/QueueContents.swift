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
