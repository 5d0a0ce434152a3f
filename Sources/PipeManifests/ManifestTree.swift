import PipeMachines
import PipeTopology

/// A part of a manifest, whose mappings keep their order.
package typealias ManifestTree = OrderedValue

extension OrderedValue: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral,
  ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral
{
  package init(dictionaryLiteral members: (String, OrderedValue)...) {
    self = .mapping(members.map { (key: $0.0, value: $0.1) })
  }
  package init(arrayLiteral elements: OrderedValue...) { self = .list(elements) }
  package init(stringLiteral text: String) { self = .leaf(.string(text)) }
  package init(integerLiteral number: Int) { self = .leaf(.integer(Int64(number))) }
  package init(booleanLiteral value: Bool) { self = .leaf(.bool(value)) }
}

extension OrderedValue {
  package static func string(_ text: String) -> OrderedValue { .leaf(.string(text)) }
  static func strings(_ texts: [String]) -> OrderedValue { .list(texts.map { .string($0) }) }
  static func number(_ number: Int) -> OrderedValue { .leaf(.integer(Int64(number))) }

  /// Labels and the like, by their keys.
  package static func texts(_ texts: [String: String]) -> OrderedValue {
    .mapping(texts.sorted { $0.key < $1.key }.map { (key: $0.key, value: .string($0.value)) })
  }

  /// A mapping with further members, of which those that are `nil` are left out.
  func with(_ members: KeyValuePairs<String, OrderedValue?>) -> OrderedValue {
    guard case .mapping(let own) = self else { return self }
    return .mapping(own + members.compactMap { key, value in value.map { (key: key, value: $0) } })
  }
}
