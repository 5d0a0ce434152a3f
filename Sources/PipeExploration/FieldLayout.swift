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
  ///   - wordBits: How much of a word is used: 64, or less to try what happens to large states.
  init(bits: [Int], wordBits: Int) {
    var used: [Int] = []
    fields = bits.map { bits in
      var word = used.firstIndex { $0 + bits <= wordBits }
      if word == nil {
        used.append(0)
        word = used.count - 1
      }
      let place = word ?? 0
      defer { used[place] += bits }
      return Field(word: place, shift: used[place], bits: bits)
    }
    wordCount = max(1, used.count)
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
