/// Some of the places from 0 to a count, of which the next one is found without looking at each.
package struct PlaceSet: Sendable {
  private var words: [UInt64]

  package init(count: Int) { words = Array(repeating: 0, count: (count + 63) / 64) }

  package var isEmpty: Bool {
    for word in words where word != 0 { return false }
    return true
  }

  package mutating func insert(_ place: Int) { words[place >> 6] |= 1 << UInt64(place & 63) }

  package mutating func remove(_ place: Int) { words[place >> 6] &= ~(1 << UInt64(place & 63)) }

  /// The first one at or after a place; where there is none, the first of all.
  package func first(from start: Int) -> Int? {
    let first = start >> 6
    guard first < words.count else { return nil }
    let later = words[first] & (~0 << UInt64(start & 63))
    if later != 0 { return first << 6 + later.trailingZeroBitCount }
    for step in 1...words.count {
      let word = (first + step) % words.count
      if words[word] != 0 { return word << 6 + words[word].trailingZeroBitCount }
    }
    return nil
  }
}
