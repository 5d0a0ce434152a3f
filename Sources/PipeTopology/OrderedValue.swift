import PipeMachines

/// A document whose mappings keep their order, from which JSON and YAML are written.
package enum OrderedValue: Sendable {
  /// Any value, written on one line.
  case leaf(JSONValue)
  /// A text of several lines, written as a literal block in YAML.
  case block(String)
  case list([OrderedValue])
  case mapping([(key: String, value: OrderedValue)])

  package var json: JSONValue {
    switch self {
    case .leaf(let value): return value
    case .block(let text): return .string(text)
    case .list(let values): return .array(values.map(\.json))
    case .mapping(let members):
      return .object(
        Dictionary(members.map { ($0.key, $0.value.json) }) { first, _ in first })
    }
  }
}
