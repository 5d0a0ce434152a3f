// Reading the associated values of an enum value in place.
extension EnumLayout {
  /// Calls `body` with a copy of the payload of the value at `value`.
  ///
  /// The caller has made sure that the value is of case `tag`, whose payload types these are.
  @inlinable
  static func withPayload<Value, each Payload, Result>(
    of value: UnsafePointer<Value>, boxOffset: Int, _: repeat (each Payload).Type,
    body: (repeat each Payload) -> Result
  ) -> Result {
    withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { scratch in
      // The bits are borrowed: the scratch copy is projected and forgotten, never destroyed.
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
      "\(type): the values of case \(cases[tag].name) are not those of the constructor.")
  }
}

/// A case whose payload types are known to be those of the constructor that made this.
@usableFromInline
struct CasePlace<Value>: Sendable {
  @usableFromInline let tag: Int
  @usableFromInline let boxOffset: Int

  /// Finds the case; a constructor that is not one of the enum's own is a programmer's error.
  @inlinable
  init<each Field>(constructor: (repeat each Field) -> Value) {
    let layout = EnumLayout.of(Value.self)
    let tag = CasePattern(constructor: constructor).tag
    guard layout.hasPayload(tag, repeat (each Field).self) else { layout.fail(tag, Value.self) }
    self.tag = tag
    boxOffset = layout.boxOffsets[tag]
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
