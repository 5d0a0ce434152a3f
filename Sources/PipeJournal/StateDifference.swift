import Glibc
import PipeMachines

/// The difference between a state and an earlier state, each given as JSON.
///
/// In text form, a difference is a JSON array. The first element is the size of the state. The
/// other elements are the parts of the state, in order: `[start,count]` is a range of the earlier
/// state, and a string is new text. Sizes and positions are in bytes.
///
/// ```json
/// [54,[0,21],"18",[23,31]]
/// ```
package enum StateDifference {
  /// The error for a difference that does not fit the earlier state.
  package struct UnreadableError: Error, Equatable {}

  // MARK: Computing a difference

  /// Returns the difference from `base` to `state`. Returns `nil` if the difference would exceed
  /// `limit` bytes.
  package static func make(from base: [UInt8], to state: [UInt8], limit: Int) -> [UInt8]? {
    base.withUnsafeBytes { base in
      state.withUnsafeBytes { state in
        var search = CommonParts(base: base, state: state, limit: limit)
        guard search.run() else { return nil }
        return differenceText(of: search.parts, of: state, limit: limit)
      }
    }
  }

  private static func differenceText(
    of parts: [CommonParts.Part], of state: UnsafeRawBufferPointer, limit: Int
  ) -> [UInt8]? {
    var text: [UInt8] = []
    text += "[\(state.count)".utf8
    var end = 0
    func appendInsertion(through next: Int) -> Bool {
      guard end < next else { return true }
      let inserted = UnsafeRawBufferPointer(rebasing: state[end..<next])
      // A string in JSON must be valid UTF-8.
      guard let string = String(validating: inserted, as: UTF8.self) else { return false }
      text.append(UInt8(ascii: ","))
      text += JSONValue.string(string).bytes
      return true
    }
    for var part in parts {
      // A part must begin and end at the boundary of a character.
      while part.byteCount > 0, isInsideCharacter(part.stateStart, of: state) { part.removeFirst() }
      while part.byteCount > 0, isInsideCharacter(part.stateStart + part.byteCount, of: state) {
        part.byteCount -= 1
      }
      guard part.byteCount > 0 else { continue }
      guard appendInsertion(through: part.stateStart) else { return nil }
      text += ",[\(part.baseStart),\(part.byteCount)]".utf8
      end = part.stateStart + part.byteCount
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

  /// Applies a difference to an earlier state, and returns the new state.
  package static func apply(
    _ difference: some Collection<UInt8>, to base: [UInt8]
  ) throws(UnreadableError) -> [UInt8] {
    guard case .array(let parts)? = try? JSONValue(parsing: Array(difference)),
      let count = parts.first?.integer.flatMap({ Int(exactly: $0) }), count >= 0
    else { throw UnreadableError() }
    var state: [UInt8] = []
    // Limits the capacity, because `count` may be wrong in a damaged difference.
    state.reserveCapacity(min(count, base.count + difference.count))
    for part in parts.dropFirst() {
      switch part {
      case .string(let text): state.append(contentsOf: text.utf8)
      case .array(let range):
        guard range.count == 2, let start = range[0].integer.flatMap({ Int(exactly: $0) }),
          let length = range[1].integer.flatMap({ Int(exactly: $0) }), start >= 0, length > 0,
          start <= base.count, length <= base.count - start
        else { throw UnreadableError() }
        state.append(contentsOf: base[start..<(start + length)])
      case .null, .bool, .integer, .number, .object: throw UnreadableError()
      }
      guard state.count <= count else { throw UnreadableError() }
    }
    guard state.count == count else { throw UnreadableError() }
    return state
  }
}

/// A search for the parts that two texts have in common, in order.
///
/// The search takes linear time. Where the texts differ, it looks a limited distance ahead for the
/// next positions from which both texts are equal again. It does not find the shortest difference,
/// or parts whose order has changed.
struct CommonParts {
  /// A part of the second text that is also in the first text.
  struct Part {
    /// The position in the first text.
    var baseStart: Int
    /// The position in the second text.
    var stateStart: Int
    var byteCount: Int

    mutating func removeFirst() {
      baseStart += 1
      stateStart += 1
      byteCount -= 1
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
  /// The number of equal bytes with which a common part must begin.
  private static let probeByteCount = 16
  /// The searches for the next equal bytes of two texts that differ at the current positions, in
  /// order. Each search tries several offsets from these positions: it takes the bytes at the
  /// offset in one text, and searches the next `window` bytes of the other text for them. Unit:
  /// bytes.
  private static let searches = [
    (offsets: stride(from: 0, to: 64, by: 1), window: 512),
    (offsets: stride(from: 0, to: 256, by: 32), window: 32 << 10),
  ]

  init(base: UnsafeRawBufferPointer, state: UnsafeRawBufferPointer, limit: Int) {
    self.base = base
    self.state = state
    self.limit = limit
  }

  /// Finds the common parts. Returns `false` if there are more than `partLimit` common parts, or if
  /// the text outside of the common parts exceeds `limit`.
  mutating func run() -> Bool {
    let prefix = commonPrefix(from: 0, 0, through: base.count, state.count)
    let suffix = commonSuffix(upTo: min(base.count, state.count) - prefix)
    let (baseEnd, end) = (base.count - suffix, state.count - suffix)
    var (baseIndex, index) = (prefix, prefix)
    add(Part(baseStart: 0, stateStart: 0, byteCount: prefix))
    var inserted = 0
    while baseIndex < baseEnd, index < end {
      guard let (nextBase, next) = resume(after: baseIndex, index, before: baseEnd, end) else {
        break
      }
      inserted += next - index
      guard inserted <= limit, parts.count < Self.partLimit else { return false }
      let count = commonPrefix(from: nextBase, next, through: baseEnd, end)
      add(Part(baseStart: nextBase, stateStart: next, byteCount: count))
      (baseIndex, index) = (nextBase + count, next + count)
    }
    inserted += end - index
    add(Part(baseStart: baseEnd, stateStart: end, byteCount: suffix))
    return inserted <= limit
  }

  private mutating func add(_ part: Part) { if part.byteCount > 0 { parts.append(part) } }

  /// Returns the next positions from which both texts are equal again. Returns `nil` if the search
  /// finds no such positions within its windows.
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

  /// Searches a window of `other` for the bytes that begin at `start` in `text`.
  private func find(
    _ text: UnsafeRawBufferPointer, _ start: Int, _ end: Int, in other: UnsafeRawBufferPointer,
    _ otherStart: Int, _ otherEnd: Int, _ window: Int
  ) -> Int? {
    let last = otherStart + min(window, otherEnd - otherStart) - Self.probeByteCount
    guard end - start >= Self.probeByteCount, otherStart <= last else { return nil }
    func loadWord(_ text: UnsafeRawBufferPointer, _ index: Int) -> UInt64 {
      text.loadUnaligned(fromByteOffset: index, as: UInt64.self)
    }
    let (first, second) = (loadWord(text, start), loadWord(text, start + 8))
    var index = otherStart
    while index <= last {
      if loadWord(other, index) == first, loadWord(other, index + 8) == second { return index }
      index += 1
    }
    return nil
  }

  /// Returns the length of the common text that begins at the two start positions. Unit: bytes.
  private func commonPrefix(from baseStart: Int, _ start: Int, through baseEnd: Int, _ end: Int)
    -> Int
  {
    let limit = min(baseEnd - baseStart, end - start)
    guard limit > 0, let first = base.baseAddress, let second = state.baseAddress else { return 0 }
    let (left, right) = (first + baseStart, second + start)
    var count = 0
    // `memcmp` compares many bytes at a time, but does not report the position of a difference.
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

  /// Returns the length of the common text at the ends of both texts, but at most `limit`. Unit:
  /// bytes.
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
