/// The layout of a state in 64-bit words. Each component has a bit field, which contains its local
/// state.
struct FieldLayout: Equatable {
  struct Field: Equatable {
    let wordIndex: Int
    let shift: Int
    let bitCount: Int

    var mask: UInt64 { bitCount == 64 ? ~0 : (1 << UInt64(bitCount)) - 1 }
  }

  let fields: [Field]
  let wordCount: Int

  /// - Parameters:
  ///   - bits: The number of bits for the local states of each component.
  ///   - order: The components, with components that move together next to each other.
  ///   - wordBits: The number of bits used in a word. Tests use fewer than 64 bits, so that small
  ///     models have states of several words.
  init(bits: [Int], order: [Int], wordBits: Int) {
    let total = bits.reduce(0, +)
    let fewestWords = max(1, (total + wordBits - 1) / wordBits)
    // Distributes the bits evenly over all words. A word then has fewer different values, which
    // need less memory.
    let evenSize = (total + fewestWords - 1) / fewestWords
    let sizes = (min(evenSize, wordBits)...wordBits).lazy.map {
      Self.componentsByWord(bits: bits, order: order, size: $0)
    }
    let words =
      sizes.first { $0.count <= fewestWords } ?? sizes[sizes.index(before: sizes.endIndex)]
    var fields = bits.map { Field(wordIndex: 0, shift: 0, bitCount: $0) }
    for (word, components) in words.enumerated() {
      var shift = 0
      for component in components {
        fields[component] = Field(wordIndex: word, shift: shift, bitCount: bits[component])
        shift += bits[component]
      }
    }
    self.fields = fields
    wordCount = max(1, words.count)
  }

  /// Returns the components in each word, in order.
  private static func componentsByWord(bits: [Int], order: [Int], size: Int) -> [[Int]] {
    var words: [[Int]] = []
    var used = size + 1
    for component in order {
      if used + bits[component] > size {
        words.append([])
        used = 0
      }
      words[words.count - 1].append(component)
      used += bits[component]
    }
    return words
  }

  /// Returns the number of bits that a field for this number of local states requires.
  static func bits(for count: Int) -> Int {
    count <= 1 ? 0 : Int.bitWidth - (count - 1).leadingZeroBitCount
  }

  func encode(_ locals: [Int]) -> [UInt64] {
    var words = [UInt64](repeating: 0, count: wordCount)
    for (field, local) in zip(fields, locals) {
      words[field.wordIndex] |= UInt64(local) << UInt64(field.shift)
    }
    return words
  }

  func decode(_ words: [UInt64]) -> [Int] {
    fields.map { Int((words[$0.wordIndex] >> UInt64($0.shift)) & $0.mask) }
  }
}

/// A conversion of states from one layout to another, as a list of moves of bit fields.
struct FieldMoves {
  /// A move of one field, or of several fields that are adjacent in the old and in the new layout.
  private struct Move {
    let sourceWord: Int
    let sourceShift: Int
    var bitCount: Int
    let targetWord: Int
    let targetShift: Int
  }

  private var moves: [Move] = []
  private let targetWords: Int

  /// - Parameters:
  ///   - source: The old layout.
  ///   - target: The new layout. It has all fields of `source`, each with at least the same number
  ///     of bits.
  init(from source: FieldLayout, to target: FieldLayout) {
    targetWords = target.wordCount
    let pairs = zip(source.fields, target.fields).filter { $0.0.bitCount > 0 }
      .sorted { ($0.0.wordIndex, $0.0.shift) < ($1.0.wordIndex, $1.0.shift) }
    for (from, to) in pairs {
      if let last = moves.last, last.sourceWord == from.wordIndex, last.targetWord == to.wordIndex,
        last.sourceShift + last.bitCount == from.shift, last.targetShift + last.bitCount == to.shift
      {
        moves[moves.count - 1].bitCount += from.bitCount
      } else {
        moves.append(
          Move(
            sourceWord: from.wordIndex, sourceShift: from.shift, bitCount: from.bitCount,
            targetWord: to.wordIndex,
            targetShift: to.shift))
      }
    }
  }

  /// Converts the words of a state to the new layout.
  func apply(_ words: UnsafePointer<UInt64>, to changed: UnsafeMutablePointer<UInt64>) {
    for word in 0..<targetWords { changed[word] = 0 }
    for move in moves {
      let mask = ~(0 as UInt64) >> UInt64(64 - move.bitCount)
      let value = (words[move.sourceWord] >> UInt64(move.sourceShift)) & mask
      changed[move.targetWord] |= value << UInt64(move.targetShift)
    }
  }
}
