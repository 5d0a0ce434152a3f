import Glibc
import PipeMachines

/// The difference of a state to an earlier state, both as JSON.
///
/// As text, a difference is a JSON array: first the size of the state, and then its parts in order. `[start,count]` is a
/// part of the earlier state, and a string is a text that the earlier state does not have there. Sizes and positions
/// count bytes.
///
/// ```json
/// [54,[0,21],"18",[23,31]]
/// ```
package enum StateDifference {
  /// An error for a difference that cannot be applied.
  package struct Unreadable: Error, Equatable {}

  /// The maximum number of texts that a difference inserts.
  private static let insertionLimit = 128

  // MARK: Computing a difference

  /// Returns the difference between two states; `nil` if it would have more than `limit` bytes.
  package static func make(from base: [UInt8], to state: [UInt8], limit: Int) -> [UInt8]? {
    base.withUnsafeBytes { base in
      state.withUnsafeBytes { state in
        var search = CommonParts(base: base, state: state, limit: limit)
        guard search.run() else { return nil }
        return text(of: search.parts, of: state, limit: limit)
      }
    }
  }

  private static func text(
    of parts: [CommonParts.Part], of state: UnsafeRawBufferPointer, limit: Int
  ) -> [UInt8]? {
    var text: [UInt8] = []
    text += "[\(state.count)".utf8
    var end = 0
    func appendInsertion(through next: Int) -> Bool {
      guard end < next else { return true }
      let inserted = UnsafeRawBufferPointer(rebasing: state[end..<next])
      // Only text can be a part of JSON.
      guard let string = String(validating: inserted, as: UTF8.self) else { return false }
      text.append(UInt8(ascii: ","))
      text += JSONValue.string(string).bytes
      return true
    }
    for var part in parts {
      // A part must begin and end between two characters.
      while part.count > 0, isInsideCharacter(part.start, of: state) { part.removeFirst() }
      while part.count > 0, isInsideCharacter(part.start + part.count, of: state) {
        part.count -= 1
      }
      guard part.count > 0 else { continue }
      guard appendInsertion(through: part.start) else { return nil }
      text += ",[\(part.baseStart),\(part.count)]".utf8
      end = part.start + part.count
      if text.count > limit { return nil }
    }
    guard appendInsertion(through: state.count) else { return nil }
    text.append(UInt8(ascii: "]"))
    return text.count <= limit ? text : nil
  }

  private static func isInsideCharacter(_ index: Int, of state: UnsafeRawBufferPointer) -> Bool {
    index < state.count && state[index] & 0xC0 == 0x80
  }

  // MARK: Applying a difference

  /// Returns the state with this difference to an earlier state.
  package static func apply(
    _ difference: some Collection<UInt8>, to base: [UInt8]
  ) throws(Unreadable) -> [UInt8] {
    guard case .array(let parts)? = try? JSONValue(parsing: Array(difference)),
      let count = parts.first?.integer.flatMap({ Int(exactly: $0) }), count >= 0
    else { throw Unreadable() }
    var state: [UInt8] = []
    // Not the count of a damaged difference.
    state.reserveCapacity(min(count, base.count + difference.count))
    for part in parts.dropFirst() {
      switch part {
      case .string(let text): state.append(contentsOf: text.utf8)
      case .array(let range):
        guard range.count == 2, let start = range[0].integer.flatMap({ Int(exactly: $0) }),
          let length = range[1].integer.flatMap({ Int(exactly: $0) }), start >= 0, length > 0,
          start <= base.count, length <= base.count - start
        else { throw Unreadable() }
        state.append(contentsOf: base[start..<(start + length)])
      case .null, .bool, .integer, .number, .object: throw Unreadable()
      }
      guard state.count <= count else { throw Unreadable() }
    }
    guard state.count == count else { throw Unreadable() }
    return state
  }
}

/// A search for the parts that two texts have in common, in order.
///
/// The search is linear in the size of the texts. At the first difference, it looks for a nearby position in each text
/// from which the texts agree again. It does not find the shortest difference, and finds no parts that moved.
struct CommonParts {
  /// A part of the second text that is also in the first text.
  struct Part {
    /// The position in the first text.
    var baseStart: Int
    /// The position in the second text.
    var start: Int
    var count: Int

    mutating func removeFirst() {
      baseStart += 1
      start += 1
      count -= 1
    }
  }

  private let base: UnsafeRawBufferPointer
  private let state: UnsafeRawBufferPointer
  /// The maximum size of the text outside of common parts. Unit: bytes.
  private let limit: Int
  /// The parts found so far, in order.
  private(set) var parts: [Part] = []

  /// The maximum number of common parts.
  private static let partLimit = 128
  /// The number of bytes that must agree where the texts continue after a difference.
  private static let probeByteCount = 16
  /// The distances of the positions that are looked for, and how far from there: first nearby, then farther away.
  private static let searches = [
    (offsets: stride(from: 0, to: 64, by: 1), window: 512),
    (offsets: stride(from: 0, to: 256, by: 32), window: 32 << 10),
  ]

  init(base: UnsafeRawBufferPointer, state: UnsafeRawBufferPointer, limit: Int) {
    self.base = base
    self.state = state
    self.limit = limit
  }

  /// Finds the common parts; returns `false` if there are too many of them, or too much text is outside of them.
  mutating func run() -> Bool {
    let prefix = commonPrefix(from: 0, 0, through: base.count, state.count)
    let suffix = commonSuffix(upTo: min(base.count, state.count) - prefix)
    let (baseEnd, end) = (base.count - suffix, state.count - suffix)
    var (baseIndex, index) = (prefix, prefix)
    add(Part(baseStart: 0, start: 0, count: prefix))
    var inserted = 0
    while baseIndex < baseEnd, index < end {
      guard let (nextBase, next) = resume(after: baseIndex, index, before: baseEnd, end) else {
        break
      }
      inserted += next - index
      guard inserted <= limit, parts.count < Self.partLimit else { return false }
      let count = commonPrefix(from: nextBase, next, through: baseEnd, end)
      add(Part(baseStart: nextBase, start: next, count: count))
      (baseIndex, index) = (nextBase + count, next + count)
    }
    inserted += end - index
    add(Part(baseStart: baseEnd, start: end, count: suffix))
    return inserted <= limit
  }

  private mutating func add(_ part: Part) { if part.count > 0 { parts.append(part) } }

  /// Returns positions after a difference from which the texts agree again; `nil` if there are none nearby.
  private func resume(
    after baseIndex: Int, _ index: Int, before baseEnd: Int, _ end: Int
  ) -> (base: Int, state: Int)? {
    for search in Self.searches {
      for offset in search.offsets {
        if let found = find(base, baseIndex + offset, baseEnd, in: state, index, end, search.window)
        {
          return (baseIndex + offset, found)
        }
        if let found = find(state, index + offset, end, in: base, baseIndex, baseEnd, search.window)
        {
          return (found, index + offset)
        }
      }
    }
    return nil
  }

  /// Looks for the bytes at a position of one text in a window of the other text.
  private func find(
    _ text: UnsafeRawBufferPointer, _ start: Int, _ end: Int, in other: UnsafeRawBufferPointer,
    _ otherStart: Int, _ otherEnd: Int, _ window: Int
  ) -> Int? {
    let last = otherStart + min(window, otherEnd - otherStart) - Self.probeByteCount
    guard end - start >= Self.probeByteCount, otherStart <= last else { return nil }
    func word(_ text: UnsafeRawBufferPointer, _ index: Int) -> UInt64 {
      text.loadUnaligned(fromByteOffset: index, as: UInt64.self)
    }
    let (first, second) = (word(text, start), word(text, start + 8))
    var index = otherStart
    while index <= last {
      if word(other, index) == first, word(other, index + 8) == second { return index }
      index += 1
    }
    return nil
  }

  /// Returns the number of equal bytes from two positions on.
  private func commonPrefix(from baseStart: Int, _ start: Int, through baseEnd: Int, _ end: Int)
    -> Int
  {
    let limit = min(baseEnd - baseStart, end - start)
    guard limit > 0, let first = base.baseAddress, let second = state.baseAddress else { return 0 }
    let (left, right) = (first + baseStart, second + start)
    var count = 0
    // The library compares many bytes at a time, but does not report where they differ.
    while limit - count >= Self.blockByteCount,
      memcmp(left + count, right + count, Self.blockByteCount) == 0
    { count += Self.blockByteCount }
    while limit - count >= 8,
      left.loadUnaligned(fromByteOffset: count, as: UInt64.self)
        == right.loadUnaligned(fromByteOffset: count, as: UInt64.self)
    { count += 8 }
    while count < limit,
      left.load(fromByteOffset: count, as: UInt8.self)
        == right.load(fromByteOffset: count, as: UInt8.self)
    { count += 1 }
    return count
  }

  /// Returns the number of equal bytes at the ends of both texts, up to a limit.
  private func commonSuffix(upTo limit: Int) -> Int {
    guard limit > 0, let first = base.baseAddress, let second = state.baseAddress else { return 0 }
    let (left, right) = (first + base.count, second + state.count)
    var count = 0
    while limit - count >= Self.blockByteCount,
      memcmp(
        left - count - Self.blockByteCount, right - count - Self.blockByteCount,
        Self.blockByteCount) == 0
    { count += Self.blockByteCount }
    while count < limit,
      (left - count - 1).load(as: UInt8.self) == (right - count - 1).load(as: UInt8.self)
    {
      count += 1
    }
    return count
  }

  private static let blockByteCount = 1_024
}
