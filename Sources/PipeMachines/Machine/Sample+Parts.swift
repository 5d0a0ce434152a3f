@_spi(Reflection) import Swift

/// Values for a constructor, which does no more with them than to pass them on.
///
/// They are valid, and no more: of a struct that cannot be decoded it is not known what its fields must be
/// to each other. Closures that look at what they are given get none of them.
extension Sample {
  /// One value of each type, or `nil` where some type has none that can be made.
  static func parts<each Value>(_: repeat (each Value).Type) -> (repeat each Value)? {
    do {
      return (repeat try part((each Value).self, depth: 0))
    } catch {
      return nil
    }
  }

  private static func part<Value>(_ type: Value.Type, depth: Int) throws -> Value {
    if let value = try? value(type, depth: depth) { return value }
    guard depth < 16 else { throw Unknown() }
    return try empty(type) ?? boxed(type) ?? composed(type, depth)
  }

  /// A collection without elements.
  private static func empty<Value>(_ type: Value.Type) -> Value? {
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

  /// A value of an `any Protocol` that the standard library's types conform to.
  private static func boxed<Value>(_ type: Value.Type) -> Value? {
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

  /// A struct or tuple of a sample in each field.
  private static func composed<Value>(_ type: Value.Type, _ depth: Int) throws -> Value {
    let kind = TypeMetadata(type).kind
    guard kind == TypeMetadata.Kind.structure || kind == TypeMetadata.Kind.tuple else {
      throw Unknown()
    }
    return try withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { room in
      let bytes = UnsafeMutableRawPointer(room.baseAddress!)
      var filled: [(offset: Int, type: Any.Type)] = []
      func fill<Field>(_ type: Field.Type, _ offset: Int) -> Bool {
        guard let sample = try? part(type, depth: depth + 1) else { return false }
        (bytes + offset).initializeMemory(as: type, to: sample)
        return true
      }
      func empty<Field>(_ type: Field.Type, _ offset: Int) {
        (bytes + offset).assumingMemoryBound(to: type).deinitialize(count: 1)
      }
      let isWhole = _forEachField(of: type) { _, offset, type, _ in
        guard fill(type, offset) else { return false }
        filled.append((offset, type))
        return true
      }
      guard isWhole else {
        for field in filled { empty(field.type, field.offset) }
        throw Unknown()
      }
      return room.moveElement(from: 0)
    }
  }
}
