import PipeMachines
import PipeTopology
import TestSupport
import Testing

@Suite("The JSON Schema of topologies")
struct TopologySchemaTests {
  static let schema = JSONSchema(root: try! JSONValue(parsing: TopologySchema.text.utf8))

  /// Returns a text as the JSON that an editor validates.
  private func json(_ text: [UInt8]) throws -> JSONValue {
    try #require(try YAMLDocument.parse(text)).json
  }

  @Test("The schema in the code equals the schema file")
  func sameText() throws {
    let file = try packageFile("topologies/topology.schema.json")
    #expect(TopologySchema.text == String(decoding: file, as: UTF8.self))
  }

  @Test(
    "Every example matches the schema and is read",
    arguments: [
      "elevator", "washing-machine", "relay", "lift", "composite", "philosophers",
      "vending-machine", "counter", "example", "kettles", "movies", "movies-pages", "quiz",
      "address", "washing-machine-reduced",
    ])
  func examples(name: String) throws {
    let text = try packageFile("topologies/\(name).yaml")
    #expect(Self.schema.accepts(try json(text)))
    let path = "\(packageRoot)/topologies/\(name).yaml"
    let (topology, _) = try TopologyReader.read(path: path)
    #expect(topology.name == name)
    #expect(Self.schema.accepts(topology.json))
    #expect(Self.schema.accepts(topology.resolved.json))
  }

  @Test(
    "The schema refuses the files that the reader refuses, except for wrong names",
    arguments: BadTopology.nodes + BadTopology.pipes + BadTopology.tops)
  func agreement(bad: BadTopology) throws {
    #expect(Self.schema.accepts(try json(Array(bad.text.utf8))) == !bad.isReportedBySchema)
  }

  @Test("The schema and the reader ignore extension sections")
  func sections() throws {
    let text = withNodes("a: { machine: M }", and: "x-y: [{ any: thing }, ${NONE}]\n")
    #expect(errors(text) == [])
    #expect(Self.schema.accepts(try json(Array(text.utf8))))
  }

  @Test("The schema accepts a variable wherever the reader accepts a variable")
  func variables() throws {
    let text = TopologyVariableTests.everywhere
    #expect(errors(text) == [])
    #expect(Self.schema.accepts(try json(Array(text.utf8))))
  }

  @Test("The schema and the reader have the same keys")
  func keys() throws {
    // A reader lists its valid keys in the error for an unknown key.
    let asked: [(pointer: [String], text: String)] = [
      (["properties"], withNodes("a: { machine: M }", and: "y-x: 1\n")),
      (["$defs", "node", "properties"], withNodes("a: { machine: M, x-y: 1 }")),
      (["$defs", "pipe", "properties"], withPipe("{ from: door.a, to: display, x-y: 1 }")),
      (
        ["$defs", "composite", "properties"],
        withNodes("a: { machine: M }", and: "composites: { c: { components: [a], x-y: 1 } }\n")
      ),
      (
        ["$defs", "node", "properties", "restart", "properties"],
        withNodes("a: { machine: M, restart: { x-y: 1 } }")
      ),
      (
        ["$defs", "explore", "properties"],
        withNodes(
          "a: { machine: M }",
          and: "explore: { x-y: "
            + "1 }\n")
      ),
      (
        ["$defs", "property", "properties"],
        withNodes("a: { machine: M }", and: "explore: { properties: { p: { x-y: 1 } } }\n")
      ),
      (
        ["$defs", "dependency", "properties"],
        withNodes("b: { machine: M }\na: { machine: M, depends_on: { b: { x-y: 1 } } }")
      ),
    ]
    for (pointer, text) in asked {
      guard
        case .object(let members)? = pointer.reduce(Optional(Self.schema.root), { $0?[$1] })
      else {
        Issue.record("the schema has no \(pointer)")
        continue
      }
      let message = try #require(errors(text).first)
      let list = message.split(separator: "valid keys are ")[1].split(separator: " [")[0]
      let names = list.split(separator: ", ").map { $0.filter { $0 != "'" } }
      #expect(Set(names) == Set(members.keys))
    }
  }
}

extension YAMLNode {
  /// The node as JSON. The last of equal keys wins, as in an editor.
  var json: JSONValue {
    switch content {
    case .scalar(let scalar): scalar.value
    case .sequence(let nodes): .array(nodes.map(\.json))
    case .mapping(let entries):
      .object(Dictionary(entries.map { ($0.key, $0.value.json) }) { _, last in last })
    }
  }
}
