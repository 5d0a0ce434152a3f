import PipeMachines
import PipeTopology
import Testing

@Suite("YAML text that the writer produces")
struct YAMLTextTests {
  private func read(_ value: OrderedValue) throws -> JSONValue {
    try #require(try YAMLDocument.parse(Array(value.yaml.utf8))).json
  }

  @Test(
    "A text with several lines is unchanged by writing and reading, at any position",
    arguments: [
      "a: 1\n", "a: 1", "  indented: 1\nb:\n\n\n", "\tx\n  \n y", "\nx\n", "a\r\nb\r\n",
      "\u{FEFF}a\nb\n", "a\u{2028}b\nc\n", "ünï: ☃\n# 𝄞\n", "a\n---\nb\n", "a\n  \n", "one line",
      "", "\n", "\u{85}\nb", "a\n  ",
    ])
  func block(text: String) throws {
    let value: OrderedValue = .mapping([
      ("a", .block(text)), ("b", .mapping([("c", .block(text))])),
      ("d", .list([.block(text), .mapping([("e", .block(text)), ("f", .leaf(1))])])),
    ])
    #expect(try read(value) == value.json)
    #expect(try read(.block(text)).string == text)
  }

  @Test("A block's lines are written unchanged")
  func lines() {
    let value: OrderedValue = .mapping([("a", .block("topology: t\n  # a\n\nnodes: {}\n"))])
    #expect(value.yaml == "a: |\n  topology: t\n    # a\n\n  nodes: {}\n")
    #expect(OrderedValue.mapping([("a", .block("b\nc"))]).yaml == "a: |-\n  b\n  c\n")
  }

  @Test(
    "Text that a YAML 1.1 reader would read as another type is quoted",
    arguments: ["1_000", "0b1", "2026-01-02", "0x1F", "010", "yes", "1e3", "n"])
  func old(text: String) throws {
    #expect(OrderedValue.leaf(.string(text)).yaml == "\"\(text)\"\n")
  }
}
