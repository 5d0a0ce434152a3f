@_spi(Reflection) import Swift

/// Makes sample values of any decodable type.
///
/// A constructor does not reveal its case, and a `When` does not reveal its transitions. But both
/// can be called with sample values.
@usableFromInline
enum Sample {
  /// Returns one value of each type; `nil` if no value can be made for one of the types.
  @usableFromInline
  static func values<each Value>(_: repeat (each Value).Type) -> (repeat each Value)? {
    do {
      return (repeat try value((each Value).self))
    } catch {
      return nil
    }
  }

  /// Returns one value; `nil` if no value can be made.
  @usableFromInline
  static func one<Value>(_ type: Value.Type) -> Value? {
    do { return try value(type) } catch { return nil }
  }

  struct NoSampleError: Error {}

  /// Returns the simplest value of the type: zero, an empty string, `false`, or the first case
  /// without a payload.
  static func value<Value>(_ type: Value.Type, depth: Int = 0) throws -> Value {
    guard depth < 16 else { throw NoSampleError() }
    if let plain = plainValue(type) { return plain }
    if let bare = firstBareCase(type) { return bare }
    guard let decodable = type as? any Decodable.Type else { throw NoSampleError() }
    func decode<Wanted: Decodable>(_ wanted: Wanted.Type) throws -> Any {
      try Wanted(from: SampleDecoder(type: wanted, depth: depth + 1))
    }
    guard let value = try decode(decodable) as? Value else { throw NoSampleError() }
    return value
  }

  /// Returns a sample of one of the most common types; `nil` for any other type. For the common
  /// types, a cast to `any Decodable.Type` would work, too, but it is slow: such a cast searches
  /// all conformances of the program.
  private static func plainValue<Value>(_ type: Value.Type) -> Value? {
    if type == Int.self { return 0 as? Value }
    if type == String.self { return "" as? Value }
    if type == Double.self { return 0.0 as? Value }
    return type == Bool.self ? false as? Value : nil
  }

  private static func firstBareCase<Value>(_ type: Value.Type) -> Value? {
    let layout = EnumLayout.of(type)
    return layout.cases.indices.first(where: layout.isBare)
      .flatMap(EnumCases<Value>.bareValue(tag:))
  }
}

/// A decoder that returns a sample for every value.
private struct SampleDecoder: Decoder {
  let type: Any.Type
  let depth: Int
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy: Key.Type) -> KeyedDecodingContainer<Key> {
    KeyedDecodingContainer(SampleFields(decoder: self))
  }

  func unkeyedContainer() -> any UnkeyedDecodingContainer { SampleElements(decoder: self) }

  func singleValueContainer() -> any SingleValueDecodingContainer { self }
}

extension SampleDecoder: SingleValueDecodingContainer {
  func decodeNil() -> Bool { true }

  func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    let plain: Any? =
      switch type {
      case is Bool.Type: false
      case is String.Type: ""
      case let type as any BinaryInteger.Type: zero(type)
      case let type as any BinaryFloatingPoint.Type: zero(type)
      default: nil
      }
    if let plain = plain as? Value { return plain }
    return try Sample.value(type, depth: depth)
  }

  private func zero<Value: Numeric>(_ type: Value.Type) -> Value { .zero }
}

private struct SampleFields<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let decoder: SampleDecoder
  var codingPath: [any CodingKey] { [] }

  /// The name of the enum's first case. The decoder of an enum expects a single key, which names
  /// the case.
  var allKeys: [Key] {
    EnumLayout.of(decoder.type).cases.first.flatMap { Key(stringValue: $0.name) }.map { [$0] } ?? []
  }

  func contains(_ key: Key) -> Bool { true }
  func decodeNil(forKey key: Key) -> Bool { true }

  func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
    try decoder.decode(type)
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy: Nested.Type, forKey key: Key
  ) -> KeyedDecodingContainer<Nested> { decoder.container(keyedBy: keyedBy) }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedDecodingContainer {
    decoder.unkeyedContainer()
  }

  func superDecoder() -> any Decoder { decoder }
  func superDecoder(forKey key: Key) -> any Decoder { decoder }
}

private struct SampleElements: UnkeyedDecodingContainer {
  let decoder: SampleDecoder
  var currentIndex = 0
  var codingPath: [any CodingKey] { [] }
  /// The container contains one element, because a machine may read the first element.
  var count: Int? { 1 }
  var isAtEnd: Bool { currentIndex > 0 }

  init(decoder: SampleDecoder) { self.decoder = decoder }

  mutating func decodeNil() -> Bool { false }

  mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    currentIndex += 1
    return try decoder.decode(type)
  }

  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy: Nested.Type
  ) -> KeyedDecodingContainer<Nested> { decoder.container(keyedBy: keyedBy) }

  mutating func nestedUnkeyedContainer() -> any UnkeyedDecodingContainer {
    decoder.unkeyedContainer()
  }

  mutating func superDecoder() -> any Decoder { decoder }
}

/// Sample arguments for the constructor of a case. The constructor only stores its arguments.
///
/// Each value is valid for its type. But a struct that cannot be decoded is filled field by field,
/// and so may violate rules between its fields. Closures that read their arguments never receive
/// such a struct.
extension Sample {
  /// Returns one value of each type; `nil` if no value can be made for one of the types.
  static func constructorArguments<each Value>(_: repeat (each Value).Type) -> (repeat each Value)?
  {
    do {
      return (repeat try constructorArgument((each Value).self, depth: 0))
    } catch {
      return nil
    }
  }

  private static func constructorArgument<Value>(_ type: Value.Type, depth: Int) throws -> Value {
    if let value = try? value(type, depth: depth) { return value }
    guard depth < 16 else { throw NoSampleError() }
    return try emptyValue(type) ?? boxedValue(type) ?? composedValue(type, depth)
  }

  /// Returns an empty collection if `type` is a collection type; otherwise `nil`.
  private static func emptyValue<Value>(_ type: Value.Type) -> Value? {
    func make(_ type: (some RangeReplaceableCollection).Type) -> Any { type.init() }
    func make(_ type: (some ExpressibleByDictionaryLiteral).Type) -> Any { type.init() }
    func make(_ type: (some SetAlgebra).Type) -> Any { type.init() }
    let value: Any? =
      switch type {
      case let type as any RangeReplaceableCollection.Type: make(type)
      case let type as any ExpressibleByDictionaryLiteral.Type: make(type)
      case let type as any SetAlgebra.Type: make(type)
      default: nil
      }
    return value as? Value
  }

  private struct Failure: Error {}

  /// Returns a value of a type such as `any Protocol`; `nil` if no sample value conforms to the
  /// protocol. The sample values are an error, an integer and a string.
  private static func boxedValue<Value>(_ type: Value.Type) -> Value? {
    switch TypeMetadata(type).kind {
    case TypeMetadata.Kind.existential:
      for value in [Failure(), 0, ""] as [Any] {
        if let value = value as? Value { return value }
      }
      return nil
    case TypeMetadata.Kind.existentialMetatype: return Int.self as? Value
    default: return nil
    }
  }

  /// Returns a struct or a tuple whose fields all contain samples. Throws if a field has no sample.
  private static func composedValue<Value>(_ type: Value.Type, _ depth: Int) throws -> Value {
    let kind = TypeMetadata(type).kind
    guard kind == TypeMetadata.Kind.structure || kind == TypeMetadata.Kind.tuple else {
      throw NoSampleError()
    }
    return try withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { storage in
      let bytes = UnsafeMutableRawPointer(storage.baseAddress!)
      var filled: [(offset: Int, type: Any.Type)] = []
      func fill<Field>(_ type: Field.Type, _ offset: Int) -> Bool {
        guard let sample = try? constructorArgument(type, depth: depth + 1) else { return false }
        (bytes + offset).initializeMemory(as: type, to: sample)
        return true
      }
      func empty<Field>(_ type: Field.Type, _ offset: Int) {
        (bytes + offset).assumingMemoryBound(to: type).deinitialize(count: 1)
      }
      let isComplete = _forEachField(of: type) { _, offset, type, _ in
        guard fill(type, offset) else { return false }
        filled.append((offset, type))
        return true
      }
      guard isComplete else {
        for field in filled { empty(field.type, field.offset) }
        throw NoSampleError()
      }
      return storage.moveElement(from: 0)
    }
  }
}
