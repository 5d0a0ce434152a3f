import PipeMachines
import PipeSupport

/// The JSON Schema of topology files, for editors; `orchestrator schema` prints it.
public enum TopologySchema {
  /// The text of `topologies/topology.schema.json`; a test holds the two to be equal.
  public static let text = json.indented + "\n"

  private static let json: JSONValue = {
    guard
      case .object(var schema) = TopologyKeys.top.schema.described(
        "Which state machines run as processes, and the pipes between them.")
    else { return .null }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Topology"
    schema["$defs"] = .object(definitions)
    return .object(schema)
  }()

  private static let definitions: [String: JSONValue] = [
    "node": TopologyKeys.node.schema.described(
      "One process: a machine, or a state that never changes."),
    "pipe": TopologyKeys.pipe.schema.described(
      "A bounded queue of events from one node to another."),
    "composite": TopologyKeys.composite.schema.described(
      "Nodes that take some events together, and all others each for itself."),
    "dependency": TopologyKeys.dependency.schema.described(
      "What a node waits for, beside that another one runs."),
    "monitor": TopologyKeys.monitor.schema.described("A read-only process that watches nodes."),
    "variable": JSONValue.pattern("\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}").described(
      "A text with '${NAME}' or '${NAME:-default}', which is put in before it is read."),
    "nodeName": .pattern("^[A-Za-z0-9][A-Za-z0-9_-]{0,\(NamePattern.lengthLimit - 1)}$"),
    "environment": [
      "description": "Variables added to the environment of a process.", "type": "object",
      "propertyNames": ["pattern": "^[A-Za-z_][A-Za-z0-9_]*$"],
      "additionalProperties": ["type": ["string", "number", "boolean"]],
    ],
    "duration": JSONValue.orVariable(.pattern(DurationText.pattern)).described(
      "A length of time with units: 200ms, 1.5s, 1m30s, 2h."),
    "positiveDuration": [
      "description": "A length of time above zero, with units: 200ms, 1.5s, 1m30s, 2h.",
      "$ref": "#/$defs/duration", "pattern": "[1-9]|\\$\\{",
    ],
    "nodeList": ["type": "array", "items": .someText, "uniqueItems": true],
    "caseName": caseName.described("The name of a Swift case."),
    "case": [
      "description": "A bare label, or {label: {field: value}}.",
      "anyOf": [
        caseName, .variable,
        [
          "type": "object", "minProperties": 1, "maxProperties": 1, "propertyNames": caseName,
          "additionalProperties": ["type": "object"],
        ],
      ],
    ],
    "template": [
      "description": "Any value. '$name' is the state's value of that name, '$$' a dollar.",
      "anyOf": [
        ["type": ["null", "boolean", "number"]],
        .pattern("^([^$]|\\$\\$|\\$[\\p{L}_]|\\$\\{[^}]*\\})*$"),
        ["type": "array", "items": .reference("template")],
        ["type": "object", "additionalProperties": .reference("template")],
      ],
    ],
  ]

  private static let caseName = JSONValue.pattern("^[\\p{L}_][\\p{L}0-9_]*$")
}

// Parts of a schema.
extension JSONValue {
  static let someText: JSONValue = ["type": "string", "minLength": 1]
  static let variable = reference("variable")

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

  /// A mapping from names to what a definition says.
  static func named(_ definition: String, isEmpty: Bool = true) -> JSONValue {
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
