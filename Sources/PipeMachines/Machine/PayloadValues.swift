/// Sample values for one field of an event, chosen by the field's type.
///
/// For Booleans, cases without associated values, and optionals of these types, the list is
/// complete. For any other type, the list contains a few samples.
package struct PayloadValues: Hashable, Sendable {
  /// The values as JSON; empty if no value can be made.
  package var values: [JSONValue]
  /// Whether ``values`` contains all values of the type.
  package var isComplete: Bool

  /// Returns sample values for each field of the case `name`; empty if `type` has no such case.
  package static func fields<Value>(of type: Value.Type, case name: String) -> [PayloadValues] {
    let layout = EnumLayout.of(type)
    guard let tag = layout.cases.firstIndex(where: { $0.name == name }) else { return [] }
    return layout.payloadTypes.indices.contains(tag) ? layout.payloadTypes[tag].map { of($0) } : []
  }

  /// Returns sample values of a type.
  static func of(_ type: Any.Type) -> PayloadValues {
    switch type {
    case is Bool.Type: return PayloadValues(values: [false, true], isComplete: true)
    case is any BinaryInteger.Type, is any BinaryFloatingPoint.Type:
      return PayloadValues(values: [0, 1], isComplete: false)
    case is String.Type: return PayloadValues(values: ["", "a"], isComplete: false)
    case let type as any OptionalType.Type:
      let some = of(type.wrapped)
      return PayloadValues(values: [.null] + some.values, isComplete: some.isComplete)
    case let type as any ArrayType.Type:
      let elements = of(type.element).values.prefix(1).map { JSONValue.array([$0]) }
      return PayloadValues(values: [[]] + elements, isComplete: false)
    case let type as any Encodable.Type: return bareCases(type) ?? sample(type)
    default: return PayloadValues(values: [], isComplete: false)
    }
  }

  /// Returns all values of an enum type in which no case has associated values; `nil` for any other
  /// type.
  private static func bareCases<Value: Encodable>(_ type: Value.Type) -> PayloadValues? {
    let layout = EnumLayout.of(type)
    guard !layout.cases.isEmpty, layout.cases.indices.allSatisfy(layout.isBare) else { return nil }
    let values = layout.cases.indices.compactMap { tag in
      EnumCases<Value>.bareValue(tag: tag).flatMap { try? JSONValue(encoding: $0) }
    }
    return PayloadValues(values: values, isComplete: values.count == layout.cases.count)
  }

  private static func sample<Value: Encodable>(_ type: Value.Type) -> PayloadValues {
    let value = Sample.one(type).flatMap { try? JSONValue(encoding: $0) }
    return PayloadValues(values: value.map { [$0] } ?? [], isComplete: false)
  }
}

private protocol OptionalType {
  static var wrapped: Any.Type { get }
}

extension Optional: OptionalType {
  fileprivate static var wrapped: Any.Type { Wrapped.self }
}

private protocol ArrayType {
  static var element: Any.Type { get }
}

extension Array: ArrayType {
  fileprivate static var element: Any.Type { Element.self }
}
