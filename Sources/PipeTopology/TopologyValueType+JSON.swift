import PipeMachines
import PipeSupport
import PipeWire

// The types of values that the runtime passes to programs: states, events, parameters and
// environment variables.
extension TopologyValueType<JSONValue> {
  /// The type of a mapping with any contents. If the mapping is empty, the writer omits it.
  static var object: Self {
    Self(schema: ["type": "object"], writeValue: { $0 == [:] ? nil : .literal($0) }) {
      $0.object($1)
    }
  }

  /// The type of a machine's state.
  static var state: Self {
    let payload: JSONValue = [
      "type": "object", "minProperties": 1, "maxProperties": 1, "propertyNames": .casePattern,
      "additionalProperties": ["type": "object"],
    ]
    let kind = Self(
      schema: ["anyOf": [.casePattern, .variable, payload]], writeValue: OrderedValue.literal
    ) { $0.readCase($1, noun: "a state") }
    return kind.withDefinition("case", "A bare label, or {label: {field: value}}.")
  }

  /// The type of an event, or of a template in which `$name` stands for a value of the state.
  static var event: Self {
    let template: JSONValue = [
      "anyOf": [
        ["type": ["null", "boolean", "number"]],
        .pattern("^([^$]|\\$\\$|\\$[\\p{L}_]|\\$\\{[^}]*\\})*$"),
        ["type": "array", "items": .reference("template")],
        ["type": "object", "additionalProperties": .reference("template")],
      ]
    ]
    var definitions = state.schemaDefinitions
    definitions["template"] = template.withDescription(
      "Any value. '$name' is the state's value of that name, '$$' a dollar sign.")
    let fields: JSONValue = ["if": ["type": "object"], "then": .reference("template")]
    return Self(
      schema: ["allOf": [.reference("case"), fields]], schemaDefinitions: definitions,
      writeValue: OrderedValue.leaf
    ) { reading, cursor in
      guard let json = reading.readCase(cursor, noun: "an event") else { return nil }
      do throws(PayloadTemplateError) {
        _ = try PayloadTemplate(json)
        return json
      } catch {
        reading.report(.badTemplate, cursor, error.description)
        return nil
      }
    }
  }
}

extension TopologyValueType<[String: String]> {
  /// The type of a mapping of environment variables. Numbers and Booleans keep their spelling in
  /// the file.
  static var environment: Self {
    let schema: JSONValue = [
      "type": "object", "propertyNames": ["pattern": "^[A-Za-z_][A-Za-z0-9_]*$"],
      "additionalProperties": ["type": ["string", "number", "boolean"]],
    ]
    let kind = Self(schema: schema, writeValue: OrderedValue.environment) { reading, cursor in
      var environment: [String: String] = [:]
      for member in reading.members(of: cursor) ?? [] {
        if !isVariableName(member.key) {
          reading.report(
            .badName, at: member.position,
            "\(cursor.title): '\(member.key)' is not a valid variable name; use A-Z a-z 0-9 _, not "
              + "starting with a digit")
        } else if let scalar = member.value.node.scalar,
          scalar.value != .null || scalar.writtenText != nil, !scalar.text.utf8.contains(0)
        {
          environment[member.key] = scalar.text
        } else {
          reading.report(
            .badValue, member.value,
            "must be text, not \(member.value.node.summary); write '' for an empty variable")
        }
      }
      return environment
    }
    return kind.withDefinition("environment", "Variables added to the environment of a process.")
  }
}

extension OrderedValue {
  fileprivate static func environment(_ environment: [String: String]) -> OrderedValue? {
    named(environment.sorted { $0.key < $1.key }.map { ($0.key, .text($0.value)) })
  }
}

extension TopologyReading {
  /// Returns a value of any kind as JSON.
  mutating func json(_ cursor: TopologyCursor) -> JSONValue? {
    switch cursor.node.content {
    case .scalar(let scalar):
      if scalar.isBroken { return nil }
      if scalar.isIntegerOutOfRange {
        report(
          .badValue, cursor,
          "cannot be \(scalar.text): integers range from \(Int64.min) to \(Int64.max); write the "
            + "number with an exponent if it may be rounded, or in quotes as text")
        return nil
      }
      if case .number(let value) = scalar.value, !value.isFinite {
        report(.badValue, cursor, "cannot be \(scalar.text), which JSON does not support")
        return nil
      }
      return scalar.value
    case .sequence:
      guard let elements = elements(of: cursor, hint: "a list") else { return nil }
      let values = elements.map { json($0) }
      return values.contains(nil) ? nil : .array(values.compactMap(\.self))
    case .mapping:
      return object(cursor)
    }
  }

  /// Returns a mapping as a JSON object.
  fileprivate mutating func object(_ cursor: TopologyCursor) -> JSONValue? {
    guard let members = members(of: cursor) else { return nil }
    var object: [String: JSONValue] = [:]
    for member in members {
      guard let value = json(member.value) else { continue }
      object[member.key] = value
    }
    return object.count == members.count ? .object(object) : nil
  }

  /// Returns an enum case as JSON: its name, or `{name: {field: value}}`.
  mutating func readCase(_ cursor: TopologyCursor, noun: String) -> JSONValue? {
    let form = "a label, or {label: {field: value}}"
    guard let value = json(cursor) else { return nil }
    if let name = value.caseName, value.caseMembers != nil {
      if isIdentifier(name) { return value }
      report(
        .badValue, cursor,
        "must name \(noun): '\(name)' is not a valid Swift case name; write \(form)")
    } else if let name = value.caseName {
      report(
        .badValue, cursor,
        "must be \(form); name the field for the value of '\(name)', or write '_0' if the field "
          + "has no label")
    } else {
      refuse(cursor, wanted: form)
    }
    return nil
  }
}
