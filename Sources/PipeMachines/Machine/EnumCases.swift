/// The cases of an enum, in the order of their tags. Cases with a payload come first, then cases
/// without a payload, each group in the order of declaration.
///
/// If `Value` is not an enum, there are no cases: the lists are empty, and lookups return `nil`.
@usableFromInline
package enum EnumCases<Value> {
  /// The names of the cases.
  package static var names: [String] { descriptions.map(\.name) }

  /// The names and fields of the cases.
  package static var descriptions: [CaseDescription] { EnumLayout.of(Value.self).cases }

  /// Returns the tag of `value`; `nil` if `Value` is not an enum.
  @inlinable
  package static func tag(of value: Value) -> Int? {
    guard TypeMetadata(Value.self).isEnum else { return nil }
    return withUnsafePointer(to: value) { tag(at: $0) }
  }

  /// Returns the tag of the value that the pointer `value` points to. The type must be an enum.
  @inlinable
  package static func tag(at value: UnsafePointer<Value>) -> Int {
    if TypeReading.isReflective {
      return EnumLayout.of(Value.self).reflectedTag(of: value.pointee)
    }
    return TypeMetadata(Value.self).tag(of: value)
  }

  /// Returns the name of the case of `value`; `nil` if `Value` is not an enum.
  package static func name(of value: Value) -> String? {
    guard let tag = tag(of: value) else { return nil }
    let cases = EnumLayout.of(Value.self).cases
    return tag < cases.count ? cases[tag].name : nil
  }

  /// Returns the value of the case with this tag; `nil` if the case has associated values or does
  /// not exist.
  package static func bareValue(tag: Int) -> Value? {
    let layout = EnumLayout.of(Value.self)
    guard layout.cases.indices.contains(tag), layout.isBare(tag) else { return nil }
    if TypeReading.isReflective {
      return layout.reflectedBareValue(named: layout.cases[tag].name, as: Value.self)
    }
    return withUnsafeTemporaryAllocation(
      byteCount: max(1, MemoryLayout<Value>.size), alignment: MemoryLayout<Value>.alignment
    ) { bytes in
      bytes.initializeMemory(as: UInt8.self, repeating: 0)
      let memory = bytes.baseAddress!
      TypeMetadata(Value.self).inject(tag, into: memory)
      return memory.assumingMemoryBound(to: Value.self).move()
    }
  }

  /// Returns the value of the case with this name; `nil` if the case has associated values or does
  /// not exist.
  package static func bareValue(named name: String) -> Value? {
    if TypeReading.isReflective {
      return EnumLayout.of(Value.self).reflectedBareValue(named: name, as: Value.self)
    }
    return names.firstIndex(of: name).flatMap(bareValue(tag:))
  }
}
