import PipeMachines

/// A document to write as JSON or YAML. Its mappings keep their order.
package enum OrderedValue: Sendable {
  /// A value of any kind, written on one line.
  case leaf(JSONValue)
  /// A text with several lines, which YAML writes as a literal block.
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
