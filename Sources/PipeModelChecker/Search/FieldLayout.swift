/// The positions of the components' local states in the words of a state.
struct FieldLayout: Equatable {
  struct Field: Equatable {
    let word: Int
    let shift: Int
    let bits: Int

    var mask: UInt64 { bits == 64 ? ~0 : (1 << UInt64(bits)) - 1 }
  }

  let fields: [Field]
  let wordCount: Int

  /// - Parameters:
  ///   - bits: The number of bits for the local states of each component.
  ///   - order: The components, with components that move together next to each other.
  ///   - wordBits: The number of bits used in a word: 64, or fewer to test the handling of large
  ///     states.
  init(bits: [Int], order: [Int], wordBits: Int) {
    let total = bits.reduce(0, +)
    let fewestWords = max(1, (total + wordBits - 1) / wordBits)
    // With words of the same size, the number of different words is smallest.
    let evenSize = (total + fewestWords - 1) / fewestWords
    let sizes = (min(evenSize, wordBits)...wordBits).lazy.map {
      Self.words(bits: bits, order: order, size: $0)
    }
    let words =
      sizes.first { $0.count <= fewestWords } ?? sizes[sizes.index(before: sizes.endIndex)]
    var fields = bits.map { Field(word: 0, shift: 0, bits: $0) }
    for (word, components) in words.enumerated() {
      var shift = 0
      for component in components {
        fields[component] = Field(word: word, shift: shift, bits: bits[component])
        shift += bits[component]
      }
    }
    self.fields = fields
    wordCount = max(1, words.count)
  }

  /// Returns the components of each word, in their order.
  private static func words(bits: [Int], order: [Int], size: Int) -> [[Int]] {
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

  /// Returns the number of bits for a number of local states.
  static func bits(for count: Int) -> Int {
    count <= 1 ? 0 : Int.bitWidth - (count - 1).leadingZeroBitCount
  }

  func encode(_ locals: [Int]) -> [UInt64] {
    var words = [UInt64](repeating: 0, count: wordCount)
    for (field, local) in zip(fields, locals) {
      words[field.word] |= UInt64(local) << UInt64(field.shift)
    }
    return words
  }

  func decode(_ words: [UInt64]) -> [Int] {
    fields.map { Int((words[$0.word] >> UInt64($0.shift)) & $0.mask) }
  }
}

/// Moves the fields of states from one layout to another.
struct FieldMoves {
  /// Fields that are adjacent in both layouts.
  private struct Move {
    let source: Int
    let sourceShift: Int
    var bits: Int
    let target: Int
    let targetShift: Int
  }

  private var moves: [Move] = []
  private let targetWords: Int

  /// - Parameter target: A layout with a field for each field of `source`, with at least as many bits.
  init(from source: FieldLayout, to target: FieldLayout) {
    targetWords = target.wordCount
    let pairs = zip(source.fields, target.fields).filter { $0.0.bits > 0 }
      .sorted { ($0.0.word, $0.0.shift) < ($1.0.word, $1.0.shift) }
    for (from, to) in pairs {
      if let last = moves.last, last.source == from.word, last.target == to.word,
        last.sourceShift + last.bits == from.shift, last.targetShift + last.bits == to.shift
      {
        moves[moves.count - 1].bits += from.bits
      } else {
        moves.append(
          Move(
            source: from.word, sourceShift: from.shift, bits: from.bits, target: to.word,
            targetShift: to.shift))
      }
    }
  }

  /// Writes the words of a state in the new layout.
  func apply(_ words: UnsafePointer<UInt64>, to changed: UnsafeMutablePointer<UInt64>) {
    for word in 0..<targetWords { changed[word] = 0 }
    for move in moves {
      let mask = ~(0 as UInt64) >> UInt64(64 - move.bits)
      let value = (words[move.source] >> UInt64(move.sourceShift)) & mask
      changed[move.target] |= value << UInt64(move.targetShift)
    }
  }
}
