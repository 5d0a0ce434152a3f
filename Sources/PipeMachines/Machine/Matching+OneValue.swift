// A case that carries one value; see On+OneValue.swift.
extension Matching {
  /// Calls `body` with the event's associated value, if the event is of the constructor's case.
  @inlinable
  static func matchingOne<Value>(
    _ constructor: (Value) -> Event, isGuarded: Bool = false, body: (Context, Value) -> Void
  ) {
    guard let context = open else { return }
    if context.pointee.status == .listing {
      context.pointee.listed?.takeUnretainedValue()
        .add(CasePattern<Event>.tag(of: constructor).map { [$0] }, isGuarded: isGuarded)
      return
    }
    if context.pointee.matchesOne(constructor) {
      EnumLayout.withPayload(
        of: context.pointee.event.assumingMemoryBound(to: Event.self),
        boxOffset: context.pointee.layout.boxOffsets[context.pointee.tag], as: Value.self
      ) { body(context, $0) }
    }
  }
}

extension MatchContext {
  /// Whether the event is of the case that the constructor makes; see ``matches(_:)``.
  @inlinable
  func matchesOne<Event, Value>(_ constructor: (Value) -> Event) -> Bool {
    guard layout.hasPayload(tag, Value.self) else { return false }
    return EnumLayout.withPayload(
      of: event.assumingMemoryBound(to: Event.self), boxOffset: layout.boxOffsets[tag],
      as: Value.self
    ) { value in
      withUnsafePointer(to: constructor(value)) { TypeMetadata(Event.self).tag(of: $0) }
    } == tag
  }
}

extension EnumLayout {
  /// Calls `body` with a copy of the payload of the value at `value`, which is one value.
  @inlinable
  static func withPayload<Value, Payload, Result>(
    of value: UnsafePointer<Value>, boxOffset: Int, as: Payload.Type, body: (Payload) -> Result
  ) -> Result {
    withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { scratch in
      let bits = UnsafeMutableRawPointer(scratch.baseAddress!)
      bits.copyMemory(from: value, byteCount: MemoryLayout<Value>.size)
      TypeMetadata(Value.self).project(bits)
      var payload = UnsafeRawPointer(bits)
      if boxOffset > 0 { payload = payload.load(as: UnsafeRawPointer.self) + boxOffset }
      return body(payload.assumingMemoryBound(to: Payload.self).pointee)
    }
  }
}
