/// The known cases of a type, by tag: the cases that the compiler has listed, and the cases that
/// have occurred in values so far.
struct ObservedCases: Sendable {
  private(set) var names: [String] = []
  private var tagsByName: [String: Int] = [:]
  /// Values of the cases without a payload, by tag.
  // The values have `Sendable` types, but `Any` hides this from the compiler.
  nonisolated(unsafe) var bareValuesByTag: [Int: Any] = [:]

  init(names: [String]) {
    for name in names { _ = add(name) }
  }

  /// Returns the tag of the case with this name. Adds the case if it has not occurred in a value
  /// before.
  mutating func tag(of name: String) -> Int { tagsByName[name] ?? add(name) }

  func existingTag(of name: String) -> Int? { tagsByName[name] }

  private mutating func add(_ name: String) -> Int {
    names.append(name)
    tagsByName[name] = names.count - 1
    return names.count - 1
  }
}

/// Returns the case name of an enum value. This is the Swift runtime's function with which the
/// standard library prints values.
@_silgen_name("swift_EnumCaseName")
private func caseName<Value>(_ value: Value) -> UnsafePointer<CChar>?

// Reading values by reflection, for compilers whose layout of values is not known.
extension EnumLayout {
  /// Returns the tag of a value.
  @usableFromInline
  func reflectedTag<Value>(of value: Value) -> Int {
    guard let name = caseName(value).map({ String(cString: $0) }) else {
      preconditionFailure(
        "\(Value.self) has no case names: compile it without -disable-reflection-metadata.")
    }
    return observedCases.withLock { cases in
      let tag = cases.tag(of: name)
      if cases.bareValuesByTag[tag] == nil, Self.payload(of: value) == nil {
        cases.bareValuesByTag[tag] = value
      }
      return tag
    }
  }

  /// Returns the payload of a value; `nil` if the case has no payload. A payload with labels or
  /// several values is a tuple.
  private static func payload<Value>(of value: Value) -> Any? {
    Mirror(reflecting: value).children.first?.value
  }

  /// Returns the payload of a value as these types; `nil` if the payload has other types or is
  /// missing.
  @usableFromInline
  static func reflectedPayload<Value, each Payload>(
    of value: Value, _: repeat (each Payload).Type
  ) -> (repeat each Payload)? {
    guard let payload = payload(of: value) else { return nil }
    var count = 0
    for _ in repeat (each Payload).self { count += 1 }
    let elements = Mirror(reflecting: payload)
    // A single value without a label is the payload itself, even if it is a tuple.
    if count == 1, let single = try? (repeat cast(payload, to: (each Payload).self)) {
      return single
    }
    guard elements.displayStyle == .tuple, elements.children.count == count else { return nil }
    let rest = elements.children.makeIterator()
    return try? (repeat cast(rest.next()!.value, to: (each Payload).self))
  }

  private struct TypeMismatch: Error {}

  /// Casts a value to `type`. The dynamic type of the value must be equal to `type`, unless `type`
  /// is a protocol type, a function type or a tuple type.
  private static func cast<Value>(_ value: Any, to type: Value.Type) throws -> Value {
    let hidden = [
      TypeMetadata.Kind.existential, TypeMetadata.Kind.existentialMetatype,
      TypeMetadata.Kind.function, TypeMetadata.Kind.tuple,
    ]
    guard Swift.type(of: value) == type || hidden.contains(TypeMetadata(type).kind),
      let cast = value as? Value
    else { throw TypeMismatch() }
    return cast
  }

  /// Returns the value of the case with this name; `nil` if the case has a payload or no value can
  /// be made.
  func reflectedBareValue<Value>(named name: String, as type: Value.Type) -> Value? {
    let known = observedCases.withLock { cases in
      cases.existingTag(of: name).flatMap { cases.bareValuesByTag[$0] }
    }
    if let known = known as? Value { return known }
    guard let value = Self.bareValue(named: name, of: type), Self.payload(of: value) == nil,
      caseName(value).map({ String(cString: $0) }) == name
    else { return nil }
    return value
  }

  private static func bareValue<Value>(named name: String, of type: Value.Type) -> Value? {
    if let type = type as? any CaseIterable.Type {
      func find<Cases: CaseIterable>(_ type: Cases.Type) -> Any? {
        type.allCases.first { caseName($0).map { String(cString: $0) } == name }
      }
      return find(type) as? Value
    }
    guard let type = type as? any Decodable.Type else { return nil }
    func decode<Decoded: Decodable>(_ type: Decoded.Type) -> Any? {
      let synthesized: JSONValue = .object([name: .object([:])])
      return (try? synthesized.decode(type)) ?? (try? JSONValue.string(name).decode(type))
    }
    return decode(type) as? Value
  }
}
