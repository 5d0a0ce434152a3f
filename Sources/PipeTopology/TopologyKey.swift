import PipeMachines
import PipeSupport

/// One key of a topology file: its reader, the JSON Schema, what writes it and the documentation go by it.
package struct TopologyKey: Sendable {
  package let name: String
  /// What it takes, as a JSON Schema.
  let schema: JSONValue
  /// What it says, in one line; code stands between backquotes.
  let meaning: String
  /// What holds where it is left out; `nil` where it must not be.
  let standard: String?
  /// What the mapping has that it takes.
  let mapping: TopologyMapping?

  init(_ name: String, _ schema: JSONValue, _ meaning: String, standard: String?) {
    self.name = name
    self.schema = schema
    self.meaning = meaning
    self.standard = standard
    mapping = nil
  }

  /// A key that takes a mapping of other keys.
  init(_ name: String, mapping: TopologyMapping, _ meaning: String) {
    self.name = name
    self.schema = mapping.schema
    self.meaning = meaning
    standard = ""
    self.mapping = mapping
  }

  fileprivate var described: JSONValue {
    var text = meaning + "."
    if let standard, !standard.isEmpty { text += " Default: \(standard)." }
    return schema.described(text.replacing("`", with: ""))
  }

  /// The rows of the documentation, that of each key in its mapping included.
  fileprivate func rows(_ prefix: String) -> [String] {
    ["| `\(prefix)\(name)` | \(meaning) | \(standard ?? "needed") |"]
      + (mapping?.keys ?? []).flatMap { $0.rows("\(prefix)\(name).") }
  }
}

/// The keys that a mapping of a topology file has, in the order in which they are written.
package struct TopologyMapping: Sendable {
  package let keys: [TopologyKey]
  /// What a JSON Schema says of several keys together.
  private let rules: [String: JSONValue]

  init(_ keys: [TopologyKey], rules: [String: JSONValue] = [:]) {
    self.keys = keys
    self.rules = rules
  }

  var names: [String] { keys.map(\.name) }
  var required: [String] { keys.filter { $0.standard == nil }.map(\.name) }

  /// The mapping with these values, of which `nil` is left out.
  func ordered(_ values: KeyValuePairs<String, OrderedValue?>) -> OrderedValue {
    .mapping(
      names.compactMap { name in
        values.first { $0.key == name }?.value.map { (key: name, value: $0) }
      })
  }

  var schema: JSONValue {
    var schema: [String: JSONValue] = [
      "type": "object", "additionalProperties": false,
      "properties": .object(
        Dictionary(keys.map { ($0.name, $0.described) }) { first, _ in first }),
    ]
    if !required.isEmpty { schema["required"] = .texts(required) }
    return .object(schema.merging(rules) { _, rule in rule })
  }

  /// The rows of its table in docs/TOPOLOGY.md.
  package var rows: [String] { keys.flatMap { $0.rows("") } }
}

extension JSONValue {
  /// A schema with a description.
  func described(_ text: String) -> JSONValue {
    guard case .object(var members) = self else { return self }
    members["description"] = .string(text)
    return .object(members)
  }
}
