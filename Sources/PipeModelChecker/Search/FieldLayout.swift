/// Where in the words of a state the local state of each component stands.
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
  ///   - bits: For each component how many bits its local states take.
  ///   - order: The components, those that move together near to each other.
  ///   - wordBits: How much of a word is used: 64, or less to try what happens to large states.
  init(bits: [Int], order: [Int], wordBits: Int) {
    let total = bits.reduce(0, +)
    let fewest = max(1, (total + wordBits - 1) / wordBits)
    // Words of the same size are the halves of which the fewest are different.
    let evenly = (total + fewest - 1) / fewest
    let sizes = (min(evenly, wordBits)...wordBits).lazy.map {
      Self.words(bits: bits, order: order, size: $0)
    }
    let words = sizes.first { $0.count <= fewest } ?? sizes[sizes.index(before: sizes.endIndex)]
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

  /// The components of each word, in their order.
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

  /// The bits that so many local states need.
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

/// Moves the fields of states from the places of one layout to those of another one.
struct FieldMoves {
  /// Fields that stand side by side in both layouts.
  private struct Move {
    let source: Int
    let sourceShift: Int
    var bits: Int
    let target: Int
    let targetShift: Int
  }

  private var moves: [Move] = []
  private let targetWords: Int

  /// - Parameter target: Has a field for each one of `source`, with as many bits or more.
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

  /// Writes the words of a state as the other layout has them.
  func apply(_ words: UnsafePointer<UInt64>, to changed: UnsafeMutablePointer<UInt64>) {
    for word in 0..<targetWords { changed[word] = 0 }
    for move in moves {
      let mask = ~(0 as UInt64) >> UInt64(64 - move.bits)
      let value = (words[move.source] >> UInt64(move.sourceShift)) & mask
      changed[move.target] |= value << UInt64(move.targetShift)
    }
  }
}
