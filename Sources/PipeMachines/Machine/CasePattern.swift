/// A case of an enum, identified by a value or by the case's constructor.
@usableFromInline
package struct CasePattern<Value>: Sendable {
  @usableFromInline package let tag: Int

  init(tag: Int) { self.tag = tag }

  /// Creates a pattern for the case of `value`, whatever its associated values.
  @usableFromInline
  package init(value: Value) {
    Self.checkType()
    tag = withUnsafePointer(to: value) { EnumCases<Value>.tag(at: $0) }
  }

  /// Creates a pattern for the case that `constructor` makes.
  @usableFromInline
  package init<each Field>(constructor: (repeat each Field) -> Value) {
    Self.checkType()
    guard let tag = Self.tag(of: constructor) else {
      preconditionFailure(
        """
        \(Value.self): cannot determine the case that this constructor makes: no case, or more \
        than one case, has its payload types, and no sample of these types can be made. Pass the \
        constructor of a case, such as \
        \(Value.self).\(EnumCases<Value>.names.first ?? "name")(label:). If cases have a class, a \
        function or an 'any Protocol' as payload, use different payload types for each case.
        """)
    }
    self.tag = tag
  }

  @inlinable
  package func matches(_ value: Value) -> Bool {
    withUnsafePointer(to: value) { EnumCases<Value>.tag(at: $0) } == tag
  }

  /// Returns the tag of the case that `constructor` makes, if it can be determined.
  @usableFromInline
  package static func tag<each Field>(of constructor: (repeat each Field) -> Value) -> Int? {
    if let sample = Sample.constructorArguments(repeat (each Field).self) {
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
      "\(Value.self) is not an enum: the machine language accepts only enum cases.")
    precondition(
      TypeReading.current == .mirrorOnly || !EnumLayout.of(Value.self).cases.isEmpty,
      "\(Value.self) has no case names: compile it without -disable-reflection-metadata.")
  }
}

// Reading the associated values of an enum value in place.
extension EnumLayout {
  /// Calls `body` with a copy of the payload of the value at `value`.
  ///
  /// The caller ensures that the value's case has this payload, and that the payload is stored at
  /// `boxOffset`.
  @inlinable
  static func withPayload<Value, each Payload, Result>(
    of value: UnsafePointer<Value>, boxOffset: Int, _: repeat (each Payload).Type,
    body: (repeat each Payload) -> Result
  ) -> Result {
    if TypeReading.isReflective {
      let payload = reflectedPayload(of: value.pointee, repeat (each Payload).self)!
      return body(repeat each payload)
    }
    return withStoredPayload(
      of: value, boxOffset: boxOffset, repeat (each Payload).self, body: body)
  }

  /// Calls `body` with a copy of the payload of the value at `value`, read from memory.
  @inlinable
  static func withStoredPayload<Value, each Payload, Result>(
    of value: UnsafePointer<Value>, boxOffset: Int, _: repeat (each Payload).Type,
    body: (repeat each Payload) -> Result
  ) -> Result {
    withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { scratch in
      // Projects a copy of the value's bits. The copy owns nothing, so it is never destroyed.
      let bits = UnsafeMutableRawPointer(scratch.baseAddress!)
      bits.copyMemory(from: value, byteCount: MemoryLayout<Value>.size)
      TypeMetadata(Value.self).project(bits)
      var payload = UnsafeRawPointer(bits)
      if boxOffset > 0 { payload = payload.load(as: UnsafeRawPointer.self) + boxOffset }
      let values = payload.assumingMemoryBound(to: (repeat each Payload).self).pointee
      return body(repeat each values)
    }
  }
}

extension EnumLayout {
  @usableFromInline
  func fail(_ tag: Int, _ type: Any.Type) -> Never {
    preconditionFailure(
      "\(type): the payload of case '\(cases[tag].name)' does not match the constructor.")
  }
}

/// A case whose payload types are known to match the constructor that it was created from.
@usableFromInline
struct CaseAccessor<Value>: Sendable {
  @usableFromInline let tag: Int
  @usableFromInline let boxOffset: Int

  /// Finds the case. Traps if the constructor is not one of the enum's own.
  @inlinable
  init<each Field>(constructor: (repeat each Field) -> Value) {
    let layout = EnumLayout.of(Value.self)
    let tag = CasePattern(constructor: constructor).tag
    guard layout.hasPayload(tag, repeat (each Field).self) else { layout.fail(tag, Value.self) }
    self.tag = tag
    boxOffset = layout.boxOffset(tag)
  }

  /// Calls `body` with the payload of a value of this case.
  @inlinable
  func withPayload<each Field, Result>(
    of value: UnsafePointer<Value>, _ types: repeat (each Field).Type,
    body: (repeat each Field) -> Result
  ) -> Result {
    EnumLayout.withPayload(
      of: value, boxOffset: boxOffset, repeat (each Field).self, body: body)
  }
}

extension CaseAccessor {
  /// Returns the payload of a value of this case.
  func payload<each Field>(
    of value: Value, _ types: repeat (each Field).Type
  ) -> (repeat each Field) {
    withUnsafePointer(to: value) {
      EnumLayout.withPayload(of: $0, boxOffset: boxOffset, repeat (each Field).self) {
        (fields: repeat each Field) in (repeat each fields)
      }
    }
  }
}
