/// A case of an enum, identified by a value or by the case's constructor.
@usableFromInline
package struct CasePattern<Value>: Sendable {
  @usableFromInline package let tag: Int

  init(tag: Int) { self.tag = tag }

  /// Creates a pattern for the case of `value`. Associated values are ignored.
  @usableFromInline
  package init(value: Value) {
    Self.checkType()
    tag = withUnsafePointer(to: value) { EnumCases<Value>.tag(at: $0) }
  }

  /// Creates a pattern for the case that `constructor` makes. Traps if the case cannot be
  /// determined.
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

  /// Returns the tag of the case that `constructor` makes; `nil` if the case cannot be determined.
  ///
  /// Calls the constructor with sample values. If no samples can be made, searches for the cases
  /// whose payload has the types of the constructor's parameters. The result is `nil` unless there
  /// is exactly one such case.
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

// Access to the associated values of an enum value, in place.
extension EnumLayout {
  /// Calls `body` with a copy of the payload of the enum value that `value` points to.
  ///
  /// The caller ensures that the payload consists of values of the types `Payload`.
  /// - Parameter boxOffset: The offset of the payload in its heap box, or 0 if the payload is
  ///   stored in the value.
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

  /// Calls `body` with a copy of the payload of the enum value that `value` points to, without
  /// reflection.
  @inlinable
  static func withStoredPayload<Value, each Payload, Result>(
    of value: UnsafePointer<Value>, boxOffset: Int, _: repeat (each Payload).Type,
    body: (repeat each Payload) -> Result
  ) -> Result {
    withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { scratch in
      // Extracts the payload from a copy of the value's bits, because the extraction changes the
      // bits. The copy owns no references, so it must not be destroyed.
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

/// A reader for the payloads of one enum case. The initializer checks the payload's types once, so
/// that reading a value does not have to.
@usableFromInline
struct CaseAccessor<Value>: Sendable {
  @usableFromInline let tag: Int
  @usableFromInline let boxOffset: Int

  /// Creates a reader for the case that `constructor` makes. Traps if `constructor` is not the
  /// constructor of a case.
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
