import PipeJournal
import PipeMachines
import PipeSupport
import Testing

@Suite("Differences between recorded states")
struct StateDifferenceTests {
  private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  /// Applies the difference between two states, and returns its size.
  @discardableResult
  private func expectDifference(
    _ base: [UInt8], _ state: [UInt8], limit: Int = .max / 4,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> Int {
    let difference = try #require(
      StateDifference.make(from: base, to: state, limit: limit), sourceLocation: sourceLocation)
    #expect(
      try StateDifference.apply(difference, to: base) == state, sourceLocation: sourceLocation)
    return difference.count
  }

  @Test("The text of a difference lists the common parts and the new texts")
  func format() throws {
    let (base, state) = (
      Self.bytes(#"{"a":{"count":17,"text":"x"}}"#), Self.bytes(#"{"a":{"count":18,"text":"x"}}"#)
    )
    let difference = try #require(StateDifference.make(from: base, to: state, limit: 1_000))
    #expect(String(decoding: difference, as: UTF8.self) == #"[29,[0,15],"8",[16,13]]"#)
  }

  @Test(
    "A change at the start, at the end, in the middle or of everything is restored exactly",
    arguments: [
      ("", ""), ("", "a"), ("a", ""), ("a", "b"), ("abc", "abc"), ("abc", "xabc"), ("abc", "abcx"),
      ("abc", "bc"), ("abc", "ab"), ("abc", "axc"), ("aaaa", "aaa"), ("aaa", "aaaa"),
      ("abab", "ab"),
      ("ab", "abab"), ("é", "è"), ("😀", "😁"), ("x😀y", "x😁y"), ("\"\\\n", "\\\"\t"), ("日本", "本日"),
      ("\u{0}", "\u{1F}"),
    ])
  func edges(base: String, state: String) throws {
    try expectDifference(Self.bytes(base), Self.bytes(state))
    let rest = String(repeating: "0123456789", count: 500)
    try expectDifference(Self.bytes(base + rest), Self.bytes(state + rest))
    try expectDifference(Self.bytes(rest + base), Self.bytes(rest + state))
    try expectDifference(Self.bytes(rest + base + rest), Self.bytes(rest + state + rest))
  }

  /// Returns the JSON of a dictionary.
  private static func dictionary(_ values: [Int]) -> [UInt8] {
    bytes(
      "{" + values.enumerated().map { "\"key-\($0)\":{\"reads\":\($1)}" }.joined(separator: ",")
        + "}")
  }

  @Test("A few changed entries of a large dictionary need a small difference")
  func entries() throws {
    var numbers = SplitMix64(seed: 3)
    let values = (0..<5_000).map(\.self)
    for count in [1, 2, 10, 50] {
      var changed = values
      for _ in 0..<count { changed[Int(numbers.next() % 5_000)] = Int(numbers.next() % 100_000) }
      let size = try expectDifference(Self.dictionary(values), Self.dictionary(changed))
      #expect(size < 20 + 60 * count)
    }
    let text = String(decoding: Self.dictionary(values), as: UTF8.self)
    let fewer = String(text.prefix(40_000)) + text.dropFirst(60_000)
    #expect(try expectDifference(Array(text.utf8), Array(fewer.utf8)) < 60)
    #expect(try expectDifference(Array(fewer.utf8), Array(text.utf8)) < 30_000)
    // All entries after the change differ.
    var shifted = values
    shifted.insert(7, at: 100)
    #expect(
      StateDifference.make(
        from: Self.dictionary(values), to: Self.dictionary(shifted), limit: 10_000) == nil)
  }

  @Test("No difference exceeds the size limit")
  func limit() {
    let base = [UInt8](repeating: UInt8(ascii: "a"), count: 10_000)
    let state = [UInt8](repeating: UInt8(ascii: "b"), count: 10_000)
    #expect(StateDifference.make(from: base, to: state, limit: 5_000) == nil)
    for limit in [0, 1, 10, 11, 12] {
      let difference = StateDifference.make(from: base, to: base, limit: limit)
      #expect(difference.map { $0.count <= limit } ?? true)
      #expect((difference != nil) == (limit >= "[10000,[0,10000]]".count))
    }
  }

  @Test(
    "Random edits of random bytes and texts are restored exactly from their differences",
    arguments: 0..<64)
  func random(seed: UInt64) throws {
    var numbers = SplitMix64(seed: seed)
    func number(below limit: Int) -> Int { Int(numbers.next() % UInt64(limit)) }
    let alphabet = ["a", "b", "\"", "\\", "\n", "é", "日", "😀", "{\"k\":1}", ","]
    func text(_ count: Int) -> [UInt8] {
      (0..<count).flatMap { _ in Array(alphabet[number(below: alphabet.count)].utf8) }
    }
    // Few different letters, so that probes match at wrong positions as well.
    let base = text(number(below: 6_000))
    var pieces = String(decoding: base, as: UTF8.self).map { Array(String($0).utf8) }
    for _ in 0..<number(below: 30) {
      let start = number(below: pieces.count + 1)
      let end = min(pieces.count, start + number(below: 200))
      switch number(below: 4) {
      case 0: pieces.removeSubrange(start..<end)
      case 1: pieces.insert(text(number(below: 300)), at: start)
      case 2: pieces.append(contentsOf: pieces[start..<end])
      default: pieces.replaceSubrange(start..<end, with: [text(number(below: 50))])
      }
    }
    let state = pieces.flatMap(\.self)
    if let difference = StateDifference.make(from: base, to: state, limit: .max / 4) {
      #expect(try StateDifference.apply(difference, to: base) == state)
    } else {
      // A difference is missing only if a large state has too many changes.
      #expect(base.count > 1_000)
    }
    // For bytes that are not text, a difference may be missing, but it is never wrong.
    let noise = (0..<number(below: 3_000)).map { _ in UInt8(truncatingIfNeeded: numbers.next()) }
    var other = noise
    for _ in 0..<number(below: 5) where !other.isEmpty {
      other[number(below: other.count)] = UInt8(truncatingIfNeeded: numbers.next())
    }
    for (first, second) in [(noise, other), (base, noise), (noise, base)] {
      guard let difference = StateDifference.make(from: first, to: second, limit: .max / 4) else {
        continue
      }
      #expect(try StateDifference.apply(difference, to: first) == second)
    }
  }

  @Test(
    "A damaged difference is refused with an error",
    arguments: [
      "", "[", "[]", "{}", "7", "[\"a\"]", "[-1]", "[1]", "[0,\"a\"]", "[2,\"a\"]", "[3,[0]]",
      "[3,[0,3,1]]", "[3,[-1,3]]", "[3,[0,4]]", "[3,[9,1]]", "[3,[0,0],[0,3]]", "[3,[0,2.5]]",
      "[3,null]", "[3,[\"0\",3]]", "[99999999999999999999]", "[9223372036854775807,[0,3]]",
      "[3,[9223372036854775807,9223372036854775807]]", "[3,[0,3]] x",
    ])
  func damaged(text: String) {
    #expect(throws: StateDifference.UnreadableError.self) {
      try StateDifference.apply(Self.bytes(text), to: Self.bytes("abc"))
    }
  }
}
