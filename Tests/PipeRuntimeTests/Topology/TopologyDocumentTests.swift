import PipeRuntime
import Testing

@Suite("docs/TOPOLOGY.md")
struct TopologyDocumentTests {
  /// The keys of the table under a heading.
  private func keys(under heading: String) throws -> Set<String> {
    let text = String(decoding: try packageFile("docs/TOPOLOGY.md"), as: UTF8.self)
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let start = try #require(lines.firstIndex { $0 == "## \(heading)" })
    let section = lines[(start + 1)...].prefix { !$0.hasPrefix("## ") }
    return Set(
      section.filter { $0.hasPrefix("| `") }
        .map { String($0.dropFirst(3).prefix { $0 != "`" }) })
  }

  @Test(
    "has every key of the JSON Schema, and no other",
    arguments: [
      ("Top level", ["properties"]), ("A node", ["$defs", "node", "properties"]),
      ("A pipe", ["$defs", "pipe", "properties"]),
      ("A composite", ["$defs", "composite", "properties"]),
      ("A monitor", ["$defs", "monitor", "properties"]),
    ])
  func keys(heading: String, pointer: [String]) throws {
    var schema = try JSONValue(parsing: TopologySchema.text.utf8)
    for key in pointer { schema = try #require(schema[key]) }
    guard case .object(let members) = schema else {
      Issue.record("no properties at \(pointer)")
      return
    }
    #expect(try keys(under: heading) == Set(members.keys))
  }
}
