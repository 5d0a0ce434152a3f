import PipeClient
import PipeSupport
import Testing

@Suite("The keys in a terminal's input")
struct KeyParserTests {
  static let sequences: [(String, [Key])] = [
    ("aé戸👍", [.character("a"), .character("é"), .character("戸"), .character("👍")]),
    ("\r\n\t", [.enter, .enter, .tab]),
    ("\u{7F}\u{8}", [.backspace, .backspace]),
    ("\u{3}\u{1A}\u{0}\u{1C}", [.control("c"), .control("z"), .control(" "), .control("\\")]),
    ("\u{1B}[A\u{1B}[B\u{1B}[C\u{1B}[D", [.up, .down, .right, .left]),
    ("\u{1B}OA\u{1B}OH\u{1B}OF\u{1B}OP", [.up, .home, .end, .function(1)]),
    ("\u{1B}[1;5A\u{1B}[H\u{1B}[4~", [.up, .home, .end]),
    ("\u{1B}[2~\u{1B}[3~\u{1B}[5~\u{1B}[6;2~", [.insert, .delete, .pageUp, .pageDown]),
    (
      "\u{1B}[11~\u{1B}[15~\u{1B}[17~\u{1B}[21~\u{1B}[24~",
      [.function(1), .function(5), .function(6), .function(10), .function(12)]
    ),
    ("\u{1B}[[B\u{1B}[Z", [.function(2), .backTab]),
    ("\u{1B}x\u{1B}é", [.alternate("x"), .alternate("é")]),
    ("\u{1B}[200~a\u{1B}[?1;2cb\u{1B}[99999999999999999999~c", "abc".map(Key.character)),
    ("\u{1B}[1\u{1B}[Aq", [.up, .character("q")]),
    ("\u{1B}\u{1B}[A", [.escape, .up]),
  ]

  @Test(
    "Escape sequences are parsed to keys, whether they arrive whole or byte by byte",
    arguments: sequences)
  func keys(text: String, keys: [Key]) {
    var parser = KeyParser()
    #expect(parser.take(text.utf8) == keys)
    #expect(!parser.isWaiting)
    #expect(text.utf8.flatMap { parser.take([$0]) } == keys)
    #expect(!parser.isWaiting)
    for split in 1..<text.utf8.count {
      let bytes = Array(text.utf8)
      #expect(parser.take(bytes[..<split]) + parser.take(bytes[split...]) == keys)
    }
  }

  @Test("ESC counts as a key if no byte follows")
  func escape() {
    var parser = KeyParser()
    #expect(parser.take([0x1B]) == [])
    #expect(parser.isWaiting)
    #expect(parser.handlePause() == [.escape])
    #expect(!parser.isWaiting)
    #expect(parser.take("\u{1B}[".utf8) == [])
    #expect(parser.handlePause() == [.alternate("[")])
    #expect(parser.take("\u{1B}[12".utf8) == [])
    #expect(parser.handlePause() == [])
    #expect(parser.take("a".utf8) == [.character("a")])
  }

  @Test("Bytes that are not text are ignored, and later bytes are parsed")
  func garbage() {
    var parser = KeyParser()
    #expect(
      parser.take([0xFF, 0xC3, 0x41, 0x80, 0xE6, 0x88, 0x1B, 0x5B, 0x42]) == [
        .character("A"), .down,
      ])
    #expect(parser.take([0xED, 0xA0, 0x80, 0x42]) == [.character("B")])
    let long = "\u{1B}[" + String(repeating: "1", count: 100)
    #expect(parser.take(long.utf8).count <= 100)
    _ = parser.handlePause()
    #expect(parser.take("z".utf8) == [.character("z")])
    var random = SplitMix64(seed: 7)
    for _ in 0..<20_000 { _ = parser.take([UInt8(truncatingIfNeeded: random.next())]) }
    _ = parser.handlePause()
    #expect(parser.take("z".utf8) == [.character("z")])
  }
}
