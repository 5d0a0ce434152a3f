import PipeMachines
import PipeTopology
import Testing

@Suite("YAML that is written")
struct YAMLTextTests {
  private func read(_ value: OrderedValue) throws -> JSONValue {
    try #require(try YAMLDocument.parse(Array(value.yaml.utf8))).json
  }

  @Test(
    "a text of several lines reads back as it was, wherever it stands",
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

  @Test("lines are written as they are")
  func lines() {
    let value: OrderedValue = .mapping([("a", .block("topology: t\n  # a\n\nnodes: {}\n"))])
    #expect(value.yaml == "a: |\n  topology: t\n    # a\n\n  nodes: {}\n")
    #expect(OrderedValue.mapping([("a", .block("b\nc"))]).yaml == "a: |-\n  b\n  c\n")
  }

  @Test(
    "a text that readers of YAML 1.1 take for something else stands in quotes",
    arguments: ["1_000", "0b1", "2026-01-02", "0x1F", "010", "yes", "1e3", "n"])
  func old(text: String) throws {
    #expect(OrderedValue.leaf(.string(text)).yaml == "\"\(text)\"\n")
  }
}
