import PipeSupport

/// The functions that hash a state's JSON for the logs of recorded runs.
package enum StateHash: String, Codable, Hashable, Sendable {
  /// The 64-bit FNV-1a hash of the JSON text. Used if equal states always have the same JSON text.
  case fnv1a
  /// A hash that depends neither on the order of an object's members nor on the order of an array's
  /// elements. Swift orders the elements of sets and dictionaries differently in each process.
  case unordered

  /// Returns the hash of a state's JSON.
  @inline(__always)
  package func hash(of text: UnsafeRawBufferPointer) -> UInt64 {
    self == .fnv1a ? FNV.hash64(of: text) : Self.unorderedHash(of: text)
  }

  /// Returns the hash of a state's JSON.
  package func hash(of text: [UInt8]) -> UInt64 { text.withUnsafeBytes { hash(of: $0) } }

  /// Returns a hash that does not depend on the order of members and elements.
  package static func unorderedHash(of text: UnsafeRawBufferPointer) -> UInt64 {
    var tokens = JSONTokens()
    guard tokens.read(text) else { return FNV.hash64(of: text) }
    return hash(of: 0, in: tokens, text)
  }

  /// Returns the unordered hash of one value in a text that was read into tokens.
  package static func unorderedHash(
    at index: Int, in tokens: JSONTokens, _ text: UnsafeRawBufferPointer
  ) -> UInt64 { hash(of: index, in: tokens, text) }

  private static func hash(
    of index: Int, in tokens: JSONTokens, _ text: UnsafeRawBufferPointer
  ) -> UInt64 {
    let token = tokens.list[index]
    guard token.kind == .object || token.kind == .array else {
      return FNV.hash64(of: UnsafeRawBufferPointer(rebasing: text[token.range]))
    }
    // Sums do not depend on the order. The mixing makes sums of different parts differ.
    var sum = UInt64(token.childCount) &+ (token.kind == .object ? 0x6F62 : 0x6172)
    var position = index + 1
    while position < token.nextIndex {
      if token.kind == .object {
        let key = hash(of: position, in: tokens, text)
        let value = hash(of: position + 1, in: tokens, text)
        sum &+= mix(mix(key) ^ value)
        position = Int(tokens.list[position + 1].nextIndex)
      } else {
        sum &+= mix(hash(of: position, in: tokens, text))
        position = Int(tokens.list[position].nextIndex)
      }
    }
    return mix(sum)
  }

  /// The finalizer of SplitMix64.
  private static func mix(_ value: UInt64) -> UInt64 {
    var mixed = value &+ 0x9E37_79B9_7F4A_7C15
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
