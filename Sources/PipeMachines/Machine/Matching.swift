/// The comparison of an `On` with the event of the current thread's step.
@usableFromInline
enum Matching<State: DSLCompatible, Event: DSLCompatible> {
  @usableFromInline
  typealias Context = UnsafeMutablePointer<MatchContext>

  /// The context of the current thread; `nil` if an `On` has already answered the event.
  @inlinable
  static var unansweredContext: Context? {
    guard let context = MatchThread.current else { trapOnMisplacedTransition() }
    guard context.pointee.isUnanswered || context.pointee.status == .listing else { return nil }
    guard context.pointee.eventType == TypeMetadata(Event.self).pointer,
      context.pointee.stateType == TypeMetadata(State.self).pointer
    else { trapOnMisplacedTransition() }
    return context
  }

  /// Traps. Called if transitions are read outside the `When`s of a machine whose state and event
  /// types are `State` and `Event`.
  @usableFromInline
  static func trapOnMisplacedTransition() -> Never {
    preconditionFailure(
      """
      The transitions of \(State.self) on \(Event.self) are listed outside of the closure of a \
      'When'. Call the function that lists them within that closure, or make a list of 'On's.
      """)
  }

  /// Returns the context if its event has the same case as `event`; otherwise `nil`. If this thread
  /// is listing a machine's events, adds the case to the list and returns `nil`.
  @inlinable
  static func matching(_ event: Event, isGuarded: Bool = false) -> Context? {
    guard let context = unansweredContext else { return nil }
    let tag = withUnsafePointer(to: event) { EnumCases<Event>.tag(at: $0) }
    if context.pointee.status == .listing {
      context.pointee.eventList?.takeUnretainedValue().add([tag], isGuarded: isGuarded)
      return nil
    }
    return tag == context.pointee.tag ? context : nil
  }

  /// Returns the context if its event has one of the cases in `events`; otherwise `nil`. If this
  /// thread is listing a machine's events, adds the cases to the list and returns `nil`.
  @inlinable
  static func matching(_ events: OneOf<Event>, isGuarded: Bool = false) -> Context? {
    guard let context = unansweredContext else { return nil }
    if context.pointee.status == .listing {
      context.pointee.eventList?.takeUnretainedValue()
        .add(events.tags, isGuarded: isGuarded)
      return nil
    }
    return events.matches(context) ? context : nil
  }

  /// Calls `body` with the event's associated values if the event has the case that the constructor
  /// makes.
  @inlinable
  static func matching<each Value>(
    _ constructor: (repeat each Value) -> Event, isGuarded: Bool = false,
    body: (Context, (repeat each Value)) -> Void
  ) {
    guard let context = unansweredContext else { return }
    if context.pointee.status == .listing {
      context.pointee.eventList?.takeUnretainedValue()
        .add(CasePattern<Event>.tag(of: constructor).map { [$0] }, isGuarded: isGuarded)
      return
    }
    if context.pointee.matches(constructor) {
      EnumLayout.withPayload(
        of: context.pointee.event.assumingMemoryBound(to: Event.self),
        boxOffset: context.pointee.layout.boxOffset(context.pointee.tag),
        repeat (each Value).self
      ) { (values: repeat each Value) in body(context, (repeat each values)) }
    }
  }

  @inlinable
  static func event(of context: Context) -> Event {
    context.pointee.event.assumingMemoryBound(to: Event.self).pointee
  }

  @inlinable
  static func finish(_ context: Context, _ transition: Transition<State>) {
    context.pointee.nextState.initializeMemory(as: State.self, to: transition.state)
    context.pointee.status = transition.isInternal ? .stayed : .matched
  }

  @inlinable
  static func ignore(_ context: Context) { context.pointee.status = .ignored }

  @inlinable
  static func passes(_ guard: Guard, _ context: Context) -> Bool {
    if !`guard`.passes { context.pointee.status = .refusedByGuard }
    return `guard`.passes
  }

  static func suspend(_ context: Context, _ run: @escaping () async throws -> Transition<State>) {
    context.pointee.suspension = .passRetained(Suspension(run))
    context.pointee.status = .suspended
  }

  /// Sets the time limit of the asynchronous transition that has suspended the step.
  static func limit(_ context: Context, to limit: Duration) {
    let suspension = context.pointee.suspension?.takeUnretainedValue()
    (suspension as? Suspension<State>)?.limit = limit
  }
}

extension MatchContext {
  /// Returns whether the event has the case that the constructor makes.
  ///
  /// A constructor does not reveal its case. So this function calls the constructor with the
  /// event's own payload, and compares the case of the result with the case of the event.
  @inlinable
  func matches<Event, each Value>(_ constructor: (repeat each Value) -> Event) -> Bool {
    guard layout.hasPayload(tag, repeat (each Value).self) else { return false }
    if TypeReading.isReflective,
      EnumLayout.reflectedPayload(
        of: event.assumingMemoryBound(to: Event.self).pointee, repeat (each Value).self) == nil
    {
      return false
    }
    return EnumLayout.withPayload(
      of: event.assumingMemoryBound(to: Event.self), boxOffset: layout.boxOffset(tag),
      repeat (each Value).self
    ) { (values: repeat each Value) in
      withUnsafePointer(to: constructor(repeat each values)) {
        EnumCases<Event>.tag(at: $0)
      }
    } == tag
  }
}

// Functions for a case with one value. On.swift explains why these functions are separate.
extension Matching {
  /// Calls `body` with the event's associated value if the event has the case that the constructor
  /// makes.
  @inlinable
  static func matchingOne<Value>(
    _ constructor: (Value) -> Event, isGuarded: Bool = false, body: (Context, Value) -> Void
  ) {
    guard let context = unansweredContext else { return }
    if context.pointee.status == .listing {
      context.pointee.eventList?.takeUnretainedValue()
        .add(CasePattern<Event>.tag(of: constructor).map { [$0] }, isGuarded: isGuarded)
      return
    }
    if context.pointee.matchesOne(constructor) {
      EnumLayout.withPayload(
        of: context.pointee.event.assumingMemoryBound(to: Event.self),
        boxOffset: context.pointee.layout.boxOffset(context.pointee.tag), as: Value.self
      ) { body(context, $0) }
    }
  }
}

extension MatchContext {
  /// Returns whether the event has the case that the constructor makes; see ``matches(_:)``.
  @inlinable
  func matchesOne<Event, Value>(_ constructor: (Value) -> Event) -> Bool {
    guard layout.hasPayload(tag, Value.self) else { return false }
    if TypeReading.isReflective,
      EnumLayout.reflectedPayload(
        of: event.assumingMemoryBound(to: Event.self).pointee, Value.self) == nil
    {
      return false
    }
    return EnumLayout.withPayload(
      of: event.assumingMemoryBound(to: Event.self), boxOffset: layout.boxOffset(tag),
      as: Value.self
    ) { value in
      withUnsafePointer(to: constructor(value)) { EnumCases<Event>.tag(at: $0) }
    } == tag
  }
}

extension EnumLayout {
  /// Calls `body` with a copy of the payload of the enum value that `value` points to. The payload
  /// is a single value.
  @inlinable
  static func withPayload<Value, Payload, Result>(
    of value: UnsafePointer<Value>, boxOffset: Int, as: Payload.Type, body: (Payload) -> Result
  ) -> Result {
    if TypeReading.isReflective {
      return body(reflectedPayload(of: value.pointee, Payload.self)!)
    }
    return withUnsafeTemporaryAllocation(of: Value.self, capacity: 1) { scratch in
      let bits = UnsafeMutableRawPointer(scratch.baseAddress!)
      bits.copyMemory(from: value, byteCount: MemoryLayout<Value>.size)
      TypeMetadata(Value.self).project(bits)
      var payload = UnsafeRawPointer(bits)
      if boxOffset > 0 { payload = payload.load(as: UnsafeRawPointer.self) + boxOffset }
      return body(payload.assumingMemoryBound(to: Payload.self).pointee)
    }
  }
}
