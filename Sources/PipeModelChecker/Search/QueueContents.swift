/// All known contents of one queue. Each of these contents has a number, which is the local state
/// of the queue. Number 0 stands for the initial contents.
struct QueueContents: Sendable {
  let capacity: Int
  private(set) var contents: [[Int]]
  private var numbersByContents: [[Int]: Int]
  /// The keys of symbols. Symbols without keys are removed in order.
  private var keysBySymbol: [Int: SymbolKeys] = [:]
  /// The memory of all contents. Unit: bytes.
  private(set) var byteCount = 0

  init(capacity: Int, initial: [Int]) {
    self.capacity = capacity
    contents = [initial]
    numbersByContents = [initial: 0]
  }

  /// Sets the keys of a symbol, before the symbol is in the queue.
  mutating func setKeys(ofSymbol symbol: Int, to keys: SymbolKeys) { keysBySymbol[symbol] = keys }

  /// Returns whether the queue is full in a local state.
  func isFull(in state: Int) -> Bool { contents[state].count >= capacity }

  /// Returns the local state for these contents, and adds a local state if the contents are new.
  mutating func number(of symbols: [Int]) -> Int {
    if let number = numbersByContents[symbols] { return number }
    numbersByContents[symbols] = contents.count
    contents.append(symbols)
    // An estimate: the symbols, the array's header, and the entries in the list and in the dictionary.
    byteCount += 8 * symbols.capacity + 32 + 8 + 32
    return contents.count - 1
  }

  /// Returns the local state after an operation; `nil` if the operation is not permitted, or if the
  /// resulting contents are not known.
  func knownNumber(after operation: QueueOperation, in state: Int) -> Int? {
    result(of: operation, in: state).flatMap { numbersByContents[$0] }
  }

  /// Returns the local state after an operation; `nil` if the operation is not permitted. Adds the
  /// resulting contents if they are new.
  mutating func number(after operation: QueueOperation, in state: Int) -> Int? {
    result(of: operation, in: state).map { number(of: $0) }
  }

  private func result(of operation: QueueOperation, in state: Int) -> [Int]? {
    operation.result(for: contents[state], capacity: capacity, keys: keysBySymbol)
  }
}

/// The keys that permit a symbol in a queue to be removed before an earlier symbol.
package struct SymbolKeys: Hashable, Sendable {
  /// The key of the receiver. Symbols for different receivers can overtake each other. `nil` if the
  /// order matters for all receivers.
  package var receiver: Int?
  /// The key of the sender; `nil` if all symbols have the same sender.
  package var sender: Int?
  /// Whether the sender may append the symbol late, so that symbols of other senders can overtake
  /// the symbol.
  package var isDelayed = false

  package init(receiver: Int? = nil, sender: Int? = nil, isDelayed: Bool = false) {
    self.receiver = receiver
    self.sender = sender
    self.isDelayed = isDelayed
  }

  /// Returns whether this symbol can be removed before a symbol that was appended earlier.
  package func canOvertake(_ earlier: SymbolKeys) -> Bool {
    func differ(_ first: Int?, _ second: Int?) -> Bool {
      guard let first, let second else { return false }
      return first != second
    }
    return differ(receiver, earlier.receiver) || earlier.isDelayed && differ(sender, earlier.sender)
  }
}

/// The effect of a vector, which is a step of the model, on the contents of a queue.
///
/// The capacity is checked before symbols are removed or appended. So the queue may be below its
/// capacity before the step, and above its capacity afterwards. Nodes behave in the same way.
package struct QueueOperation: Equatable, Sendable {
  /// The symbol to remove from the queue; `nil` removes none. The vector is permitted only if this
  /// symbol is the first symbol in the queue that is one of `candidateSymbols`.
  package var removedSymbol: Int?
  /// The symbols among which `removedSymbol` must come first in the queue. Other symbols may come before
  /// `removedSymbol`, and stay in the queue.
  ///
  /// `nil` means all symbols, so that `removedSymbol` must be the head of the queue.
  package var candidateSymbols: Set<Int>?
  /// The symbols to append, in order.
  package var appendedSymbols: [Int]
  /// Whether the vector is permitted only while the queue is below its capacity.
  package var requiresCapacity: Bool

  package init(
    taken: Int? = nil, candidates: Set<Int>? = nil, appended: [Int] = [],
    requiresCapacity: Bool = false
  ) {
    self.removedSymbol = taken
    self.candidateSymbols = candidates
    self.appendedSymbols = appended
    self.requiresCapacity = requiresCapacity
  }

  /// Returns an operation that removes the head of a queue. Permitted only if the head is this
  /// symbol.
  package static func removeHead(_ symbol: Int) -> QueueOperation { QueueOperation(taken: symbol) }

  /// Returns an operation that removes this symbol. Permitted only if, among `symbols`, this symbol
  /// comes first in the queue.
  package static func removeFirst(_ symbol: Int, candidates symbols: Set<Int>) -> QueueOperation {
    QueueOperation(taken: symbol, candidates: symbols)
  }

  /// Returns an operation that appends symbols. Permitted only if the queue is below its capacity.
  package static func append(_ symbols: Int...) -> QueueOperation {
    QueueOperation(appended: symbols, requiresCapacity: true)
  }

  /// Returns the contents after this operation; `nil` if the operation is not permitted.
  /// - Parameter keys: The keys of symbols.
  func result(
    for contents: [Int], capacity: Int, keys: [Int: SymbolKeys] = [:]
  ) -> [Int]? {
    if requiresCapacity && contents.count >= capacity { return nil }
    var contents = contents
    if let removedSymbol {
      let first = contents.firstIndex { symbol in
        if let own = keys[removedSymbol], let other = keys[symbol], own.canOvertake(other) {
          return false
        }
        return candidateSymbols?.contains(symbol) ?? true
      }
      guard let first, contents[first] == removedSymbol else { return nil }
      contents.remove(at: first)
    }
    return contents + appendedSymbols
  }
}
