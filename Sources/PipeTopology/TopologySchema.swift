import PipeMachines
import PipeSupport

/// The JSON Schema of topology files, for editors; `orchestrator schema` prints it.
public enum TopologySchema {
  /// The schema as text. The file `topologies/topology.schema.json` has the same text, which a test
  /// checks.
  public static let text = text(
    of: TopologyKeys.topLevel, title: "Topology", shared: Array(sharedDefinitions.keys))

  /// Returns the schema of files with the given keys.
  /// - Parameter names: The names of the shared definitions that the schema refers to.
  static func text<Model>(
    of top: TopologyMapping<Model>, title: String, shared names: [String]
  ) -> String {
    guard case .object(var schema) = top.schema.withDescription(top.meaning) else { return "" }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = .string(title)
    let shared = sharedDefinitions.filter { names.contains($0.key) }
    schema["$defs"] = .object(top.schemaDefinitions.merging(shared) { first, _ in first })
    return JSONValue.object(schema).indented + "\n"
  }

  /// The definitions that several schemas refer to.
  private static let sharedDefinitions: [String: JSONValue] = [
    "variable": JSONValue.pattern("\\$\\{[A-Za-z_][A-Za-z0-9_]*(:?[-?+].*)?\\}").withDescription(
      "Text with '${NAME}' or '${NAME:-default}', which is replaced by the value of the variable."),
    "nodeName": .pattern(
      "^(?!(\(NamePattern.reservedNames.joined(separator: "|")))$)"
        + "[A-Za-z0-9][A-Za-z0-9_-]{0,\(NamePattern.maximumLength - 1)}$"),
    "nodeList": ["type": "array", "items": .nonemptyText, "uniqueItems": true],
    "caseName": JSONValue.casePattern.withDescription("The name of a Swift case."),
  ]
}

// The parts from which the schemas are composed.
extension JSONValue {
  static let nonemptyText: JSONValue = ["type": "string", "minLength": 1]
  static let variable = reference("variable")
  static let casePattern = pattern("^[\\p{L}_][\\p{L}0-9_]*$")

  static func reference(_ name: String) -> JSONValue { ["$ref": .string("#/$defs/\(name)")] }

  static func pattern(_ pattern: String) -> JSONValue {
    ["type": "string", "pattern": .string(pattern)]
  }

  static func orVariable(_ schema: JSONValue) -> JSONValue { ["anyOf": [schema, variable]] }

  static func nodeList(minItems: Int64) -> JSONValue {
    ["$ref": "#/$defs/nodeList", "minItems": .integer(minItems)]
  }

  static func list(of definition: String) -> JSONValue {
    ["type": "array", "items": reference(definition)]
  }

  /// Returns the schema of a mapping whose values have a named definition.
  static func mappingByName(_ definition: String, isEmpty: Bool = true) -> JSONValue {
    let mapping: JSONValue = [
      "type": "object", "propertyNames": reference("nodeName"),
      "additionalProperties": reference(definition),
    ]
    guard !isEmpty, case .object(let members) = mapping else { return mapping }
    return .object(members.merging(["minProperties": 1]) { first, _ in first })
  }

  /// JSON text of several lines, with sorted keys.
  fileprivate var indented: String {
    switch self {
    case .array(let values): Self.enclose(values.map(\.indented), in: ("[", "]"))
    case .object(let members):
      Self.enclose(
        members.sorted { $0.key < $1.key }
          .map { "\(JSONValue.string($0.key).text): \($0.value.indented)" }, in: ("{", "}"))
    case .null, .bool, .integer, .number, .string: text
    }
  }

  private static func enclose(_ parts: [String], in brackets: (String, String)) -> String {
    let line = "\(brackets.0) \(parts.joined(separator: ", ")) \(brackets.1)"
    if line.utf8.count <= 60, !line.contains("\n") { return line }
    let lines = parts.map { "  " + $0.replacing("\n", with: "\n  ") }.joined(separator: ",\n")
    return "\(brackets.0)\n\(lines)\n\(brackets.1)"
  }
}
