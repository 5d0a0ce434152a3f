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
