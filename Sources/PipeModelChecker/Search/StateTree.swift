/// A tree that folds states of several words into 64-bit keys. Words that many states share are
/// stored once.
///
/// Each word is interned; then pairs of numbers are interned, up to the last pair, which is the
/// key.
///
/// The methods write through local copies of the pointers. With Thread Sanitizer, the compiler
/// (6.3) fails on a write through a pointer that a noncopyable value holds.
struct StateTree: ~Copyable {
  let wordCount: Int
  /// A table for each word, then one for each pair except the last.
  private let tables: UnsafeMutablePointer<KeyTable>
  private let tableCount: Int
  /// For each pair, the two nodes that it joins. Nodes are words, then pairs.
  private let left: [Int]
  private let right: [Int]

  init(wordCount: Int, budget: MemoryBudget) {
    self.wordCount = wordCount
    tableCount = 2 * wordCount - 2
    tables = .allocate(capacity: max(1, tableCount))
    for number in 0..<tableCount {
      (tables + number).initialize(to: KeyTable(budget: budget))
    }
    var left: [Int] = []
    var right: [Int] = []
    var level = Array(0..<wordCount)
    while level.count > 1 {
      var above: [Int] = []
      for position in stride(from: 0, to: level.count - 1, by: 2) {
        left.append(level[position])
        right.append(level[position + 1])
        above.append(wordCount + left.count - 1)
      }
      if level.count % 2 == 1 { above.append(level[level.count - 1]) }
      level = above
    }
    self.left = left
    self.right = right
  }

  deinit {
    for number in 0..<tableCount { (tables + number).deinitialize(count: 1) }
    tables.deallocate()
  }

  /// The number of nodes, for which ``unpack(_:into:numbers:)`` writes numbers.
  var nodeCount: Int { 2 * wordCount - 1 }

  /// Writes the words of a key, and the number of each node.
  func unpack(
    _ key: UInt64, into words: UnsafeMutablePointer<UInt64>, numbers: UnsafeMutablePointer<UInt32>
  ) {
    for pair in stride(from: left.count - 1, through: 0, by: -1) {
      let node = wordCount + pair
      let key = pair == left.count - 1 ? key : tables[node].key(Int(numbers[node]))
      numbers[left[pair]] = UInt32(truncatingIfNeeded: key)
      numbers[right[pair]] = UInt32(truncatingIfNeeded: key &>> 32)
    }
    for word in 0..<wordCount { words[word] = tables[word].key(Int(numbers[word])) }
  }

  /// Returns the key of words that differ in some places from another state, and interns new parts.
  /// - Parameter numbers: The node numbers of the other state; replaced by the numbers of this
  ///   state.
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

  /// Returns the key of words, and interns new parts.
  mutating func key(
    of words: UnsafePointer<UInt64>, numbers: UnsafeMutablePointer<UInt32>
  ) -> UInt64 {
    let tables = tables
    for word in 0..<wordCount { numbers[word] = tables[word].intern(words[word]) }
    return join(numbers, changed: ~0)
  }

  /// Returns the key of words, or `nil` if one of their parts was never interned.
  func knownKey(
    of words: UnsafePointer<UInt64>, numbers: UnsafeMutablePointer<UInt32>
  ) -> UInt64? {
    for word in 0..<wordCount {
      guard let number = tables[word].number(of: words[word]) else { return nil }
      numbers[word] = number
    }
    for pair in left.indices {
      let key = pairKey(pair, numbers)
      if pair == left.count - 1 { return key }
      guard let number = tables[wordCount + pair].number(of: key) else { return nil }
      numbers[wordCount + pair] = number
    }
    return nil
  }

  /// - Parameter changed: The bits of the nodes whose numbers have changed.
  private mutating func join(
    _ numbers: UnsafeMutablePointer<UInt32>, changed: UInt64
  ) -> UInt64 {
    let tables = tables
    var changed = changed
    let last = left.count - 1
    for pair in 0..<last {
      let node = wordCount + pair
      let below = 1 &<< UInt64(left[pair] & 63) | 1 &<< UInt64(right[pair] & 63)
      if changed & below == 0 { continue }
      numbers[node] = tables[node].intern(pairKey(pair, numbers))
      changed |= 1 &<< UInt64(node & 63)
    }
    return pairKey(last, numbers)
  }

  @inline(__always)
  private func pairKey(_ pair: Int, _ numbers: UnsafeMutablePointer<UInt32>) -> UInt64 {
    UInt64(numbers[left[pair]]) | UInt64(numbers[right[pair]]) &<< 32
  }
}
