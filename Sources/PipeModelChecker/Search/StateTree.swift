/// A tree that converts states of several words to 64-bit keys and back. Words that many states
/// share are stored once.
///
/// Each word is interned: equal words get the same number. The numbers of two words form a pair,
/// which is interned as well, and so are pairs of pairs. The last pair is the key.
///
/// The methods write through local copies of the pointers: with Thread Sanitizer, Swift 6.3 fails
/// to compile a write through a pointer that is stored in a noncopyable value.
struct StateTree: ~Copyable {
  let wordCount: Int
  /// The tables of interned keys: one for each word, followed by one for each pair except the last.
  private let tables: UnsafeMutablePointer<KeyTable>
  private let tableCount: Int
  /// The left node of each pair. The nodes of a tree are numbered: the words first, then the pairs.
  private let leftNodes: [Int]
  /// The right node of each pair.
  private let rightNodes: [Int]

  init(wordCount: Int, budget: MemoryBudget) {
    self.wordCount = wordCount
    tableCount = 2 * wordCount - 2
    tables = .allocate(capacity: max(1, tableCount))
    for number in 0..<tableCount {
      (tables + number).initialize(to: KeyTable(budget: budget))
    }
    var leftNodes: [Int] = []
    var rightNodes: [Int] = []
    var level = Array(0..<wordCount)
    while level.count > 1 {
      var above: [Int] = []
      for position in stride(from: 0, to: level.count - 1, by: 2) {
        leftNodes.append(level[position])
        rightNodes.append(level[position + 1])
        above.append(wordCount + leftNodes.count - 1)
      }
      if level.count % 2 == 1 { above.append(level[level.count - 1]) }
      level = above
    }
    self.leftNodes = leftNodes
    self.rightNodes = rightNodes
  }

  deinit {
    for number in 0..<tableCount { (tables + number).deinitialize(count: 1) }
    tables.deallocate()
  }

  /// The number of nodes, which are words and pairs.
  var nodeCount: Int { 2 * wordCount - 1 }

  /// Converts a key to the words of its state. Writes the words to `words`, and the number of each
  /// node to `numbers`.
  func unpack(
    _ key: UInt64, into words: UnsafeMutablePointer<UInt64>, numbers: UnsafeMutablePointer<UInt32>
  ) {
    for pair in stride(from: leftNodes.count - 1, through: 0, by: -1) {
      let node = wordCount + pair
      let key = pair == leftNodes.count - 1 ? key : tables[node].key(Int(numbers[node]))
      numbers[leftNodes[pair]] = UInt32(truncatingIfNeeded: key)
      numbers[rightNodes[pair]] = UInt32(truncatingIfNeeded: key &>> 32)
    }
    for word in 0..<wordCount { words[word] = tables[word].key(Int(numbers[word])) }
  }

  /// Returns the key of a state that differs in some words from another state. Interns new words
  /// and pairs.
  /// - Parameter numbers: The node numbers of the other state. The method replaces them with the
  ///   node numbers of this state.
  mutating func key(
    of words: UnsafePointer<UInt64>, changedFrom others: UnsafePointer<UInt64>,
    numbers: UnsafeMutablePointer<UInt32>
  ) -> UInt64 {
    let tables = tables
    var changed: UInt64 = 0
    for word in 0..<wordCount where words[word] != others[word] {
      numbers[word] = tables[word].intern(words[word])
      changed |= 1 &<< UInt64(word & 63)
    }
    return join(numbers, changed: wordCount > 32 ? ~0 : changed)
  }

  /// Returns the key of a state. Interns new words and pairs.
  mutating func key(
    of words: UnsafePointer<UInt64>, numbers: UnsafeMutablePointer<UInt32>
  ) -> UInt64 {
    let tables = tables
    for word in 0..<wordCount { numbers[word] = tables[word].intern(words[word]) }
    return join(numbers, changed: ~0)
  }

  /// Returns the key of a state; `nil` if one of its words or pairs was never interned.
  func knownKey(
    of words: UnsafePointer<UInt64>, numbers: UnsafeMutablePointer<UInt32>
  ) -> UInt64? {
    for word in 0..<wordCount {
      guard let number = tables[word].number(of: words[word]) else { return nil }
      numbers[word] = number
    }
    for pair in leftNodes.indices {
      let key = pairKey(pair, numbers)
      if pair == leftNodes.count - 1 { return key }
      guard let number = tables[wordCount + pair].number(of: key) else { return nil }
      numbers[wordCount + pair] = number
    }
    return nil
  }

  /// Returns the key of a state, given the numbers of its words. Interns new pairs.
  /// - Parameter changed: A bit for each node whose number has changed.
  private mutating func join(
    _ numbers: UnsafeMutablePointer<UInt32>, changed: UInt64
  ) -> UInt64 {
    let tables = tables
    var changed = changed
    let last = leftNodes.count - 1
    for pair in 0..<last {
      let node = wordCount + pair
      let below = 1 &<< UInt64(leftNodes[pair] & 63) | 1 &<< UInt64(rightNodes[pair] & 63)
      if changed & below == 0 { continue }
      numbers[node] = tables[node].intern(pairKey(pair, numbers))
      changed |= 1 &<< UInt64(node & 63)
    }
    return pairKey(last, numbers)
  }

  @inline(__always)
  private func pairKey(_ pair: Int, _ numbers: UnsafeMutablePointer<UInt32>) -> UInt64 {
    UInt64(numbers[leftNodes[pair]]) | UInt64(numbers[rightNodes[pair]]) &<< 32
  }
}
