import PipeMachines

/// A validator for the part of JSON Schema 2020-12 that the topology schema uses.
///
/// An unknown keyword traps, so that the schema cannot outgrow the test.
struct JSONSchema {
  let root: JSONValue

  func accepts(_ value: JSONValue) -> Bool { accepts(value, root) }

  private func accepts(_ value: JSONValue, _ schema: JSONValue) -> Bool {
    if case .bool(let verdict) = schema { return verdict }
    guard case .object(let keywords) = schema else { fatalError("no schema: \(schema.text)") }
    return keywords.allSatisfy { holds($0.key, $0.value, of: value, in: keywords) }
  }

  private func holds(
    _ keyword: String, _ argument: JSONValue, of value: JSONValue, in schema: [String: JSONValue]
  ) -> Bool {
    switch keyword {
    case "$schema", "$defs", "title", "description", "then", "else": true
    case "properties":
      argument.members.allSatisfy { key, schema in
        value[key].map { accepts($0, schema) } ?? true
      }
    case "$ref": accepts(value, resolve(argument.string!))
    case "type":
      argument.strings.contains { isType($0, value) }
    case "enum": argument.elements.contains(value)
    case "pattern": value.string.map { matches($0, argument.string!) } ?? true
    case "minLength": value.string.map { $0.count >= argument.integer! } ?? true
    case "minimum": value.double.map { $0 >= argument.double! } ?? true
    case "maximum": value.double.map { $0 <= argument.double! } ?? true
    case "minItems": value.isArray ? value.elements.count >= argument.integer! : true
    case "uniqueItems": Set(value.elements).count == value.elements.count
    case "items": value.elements.allSatisfy { accepts($0, argument) }
    case "minProperties": value.isObject ? value.members.count >= argument.integer! : true
    case "maxProperties": value.members.count <= argument.integer!
    case "required": !value.isObject || argument.strings.allSatisfy { value[$0] != nil }
    case "propertyNames": value.members.keys.allSatisfy { accepts(.string($0), argument) }
    case "patternProperties":
      value.members.allSatisfy { key, value in
        argument.members.allSatisfy { !matches(key, $0.key) || accepts(value, $0.value) }
      }
    case "additionalProperties":
      value.members.allSatisfy { key, value in
        schema["properties"]?[key] != nil
          || schema["patternProperties"]?.members.keys.contains { matches(key, $0) } == true
          || accepts(value, argument)
      }
    case "allOf": argument.elements.allSatisfy { accepts(value, $0) }
    case "anyOf": argument.elements.contains { accepts(value, $0) }
    case "not": !accepts(value, argument)
    case "if": accepts(value, schema[accepts(value, argument) ? "then" : "else"] ?? true)
    default: fatalError("the test validator does not know '\(keyword)'")
    }
  }

  private func resolve(_ reference: String) -> JSONValue {
    let name = reference.split(separator: "/").last!
    return root["$defs"]![String(name)]!
  }

  private func isType(_ name: String, _ value: JSONValue) -> Bool {
    switch (name, value) {
    case ("null", .null), ("boolean", .bool), ("integer", .integer), ("number", .integer),
      ("number", .number), ("string", .string), ("array", .array), ("object", .object):
      true
    default: false
    }
  }

  private func matches(_ text: String, _ pattern: String) -> Bool {
    text.contains(try! Regex(pattern))
  }
}

extension JSONValue {
  fileprivate var elements: [JSONValue] {
    if case .array(let values) = self { values } else { [] }
  }
  fileprivate var members: [String: JSONValue] {
    if case .object(let members) = self { members } else { [:] }
  }
  fileprivate var double: Double? {
    switch self {
    case .integer(let value): Double(value)
    case .number(let value): value
    default: nil
    }
  }
  fileprivate var isArray: Bool { if case .array = self { true } else { false } }
  fileprivate var isObject: Bool { if case .object = self { true } else { false } }
  fileprivate var strings: [String] { string.map { [$0] } ?? elements.compactMap(\.string) }
}
