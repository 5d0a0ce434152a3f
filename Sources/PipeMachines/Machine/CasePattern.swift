/// A case of an enum, told by a bare value or by its constructor.
@usableFromInline
package struct CasePattern<Value>: Sendable {
  @usableFromInline package let tag: Int

  init(tag: Int) { self.tag = tag }

  /// The case that `value` is, whatever its associated values.
  @usableFromInline
  package init(value: Value) {
    Self.checkType()
    tag = withUnsafePointer(to: value) { TypeMetadata(Value.self).tag(of: $0) }
  }

  /// The case that `constructor` makes.
  @usableFromInline
  package init<each Field>(constructor: (repeat each Field) -> Value) {
    Self.checkType()
    guard let tag = Self.tag(of: constructor) else {
      preconditionFailure(
        """
        \(Value.self): cannot tell which case this constructor makes: several have the same \
        payload types, or none has, and no sample of them can be made. Pass a case's own \
        constructor, such as \(Value.self).\(EnumCases<Value>.names.first ?? "name")(label:), and \
        give cases that carry a class, a function or an 'any Protocol' payloads of different types.
        """)
    }
    self.tag = tag
  }

  @inlinable
  package func matches(_ value: Value) -> Bool {
    withUnsafePointer(to: value) { TypeMetadata(Value.self).tag(of: $0) } == tag
  }

  /// The tag of the case that `constructor` makes, if that can be found out.
  @usableFromInline
  package static func tag<each Field>(of constructor: (repeat each Field) -> Value) -> Int? {
    if let sample = Sample.parts(repeat (each Field).self) {
      let value = constructor(repeat each sample)
      return EnumCases<Value>.tag(of: value)
    }
    var types: [Any.Type] = []
    for type in repeat (each Field).self { types.append(type) }
    let candidates = EnumLayout.of(Value.self).tags(withPayload: types)
    return candidates.count == 1 ? candidates[0] : nil
  }

  private static func checkType() {
    precondition(
      TypeMetadata(Value.self).isEnum,
      "\(Value.self) is not an enum: only enum cases can stand in the machine language.")
    precondition(
      !EnumLayout.of(Value.self).cases.isEmpty,
      "\(Value.self) has no case names: compile it without -disable-reflection-metadata.")
  }
}
