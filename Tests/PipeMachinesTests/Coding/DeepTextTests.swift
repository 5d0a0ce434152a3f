import PipeMachines
import Testing

@Suite("Deeply nested JSON")
struct DeepTextTests {
  // Foundation traps on text that ends at too great a depth.
  @Test(
    "JSON that is nested too deeply is refused, even if the text is cut off",
    arguments: [501, 512, 513, 514, 100_000], ["", "1", "]", " "])
  func deep(depth: Int, tail: String) {
    for bracket in ["[", "{\"a\":"] {
      let text = String(repeating: bracket, count: depth) + tail
      #expect(throws: DecodingError.self) { try JSONValue(parsing: text.utf8) }
      let codec = EventCodec<JSONValue>()
      #expect(throws: (any Error).self) {
        try Array(text.utf8).withUnsafeBytes { try codec.decode($0) }
      }
    }
  }

  @Test("Brackets in strings do not count as nesting")
  func texts() throws {
    let text = "{\"a\\\"b\":[\"" + String(repeating: "[", count: 600) + "\",1.5e400]}"
    #expect(throws: DecodingError.self) { try JSONValue(parsing: text.utf8) }
    let deep = String(repeating: "[", count: 500) + "]"
    #expect(throws: DecodingError.self) { try JSONValue(parsing: deep.utf8) }
  }
}
