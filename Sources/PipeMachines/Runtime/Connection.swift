import PipeSupport

/// A rule that sends an event into a pipe when the machine enters a state or accepts an event.
/// `Cause` is the type of the state or event.
struct SendRule<Cause: DSLCompatible>: Sendable {
  /// The port by which a topology refers to the pipe; `nil` if the pipe has no name.
  let port: PortDescription?
  /// The tags of the cases that the rule applies to; `nil` if they are unknown.
  let caseTags: [Int]?
  /// Sends the rule's event, if the rule applies to the given state or event.
  let fire: @Sendable (Cause) -> Void
  let pipe: SendTarget

  /// Creates a rule that sends the event that the closure `event` returns. If the closure returns
  /// `nil`, the rule sends nothing.
  /// - Parameters:
  ///   - cases: The tags of the cases that the rule applies to; `nil` if they are unknown.
  ///   - sent: The event that is sent, if the rule always sends the same event.
  ///   - sends: The declared events that can be sent, if the rule sends different events.
  init<Other>(
    _ pipe: EventPipe<Other>, on cases: [Int]? = nil, sent: Other? = nil,
    sends: OneOf<Other>? = nil, _ event: @escaping @Sendable (Cause) -> Other?
  ) {
    self.caseTags = cases
    let sent = sent.flatMap { EnumCases<Other>.name(of: $0) }.map { [$0] } ?? sends?.names
    port = pipe.name.map {
      PortDescription(
        name: $0, eventType: TypeName.of(Other.self), events: EnumCases<Other>.descriptions,
        sentEvents: sent, schema: pipe.schema)
    }
    fire = { if let event = event($0) { pipe.send(event) } }
    self.pipe = SendTarget(pipe)
  }

  /// Returns the index of the rule's pipe in `pipes`, the pipes that the machine sends into.
  func pipeIndex(in pipes: [SendTarget]) -> Int {
    var place = 0
    while pipes[place].id != pipe.id { place += 1 }
    return place
  }
}

extension Runtime {
  /// Sends `event` into the pipe each time the machine enters the case of `state`.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, when state: State, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: [CasePattern(value: state).tag])
  }

  /// Sends `event` into the pipe each time the machine enters the case that the constructor makes.
  public func connectAsSender<Other, each Value>(
    to pipe: EventPipe<Other>, when state: (repeat each Value) -> State, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: [CasePattern(constructor: state).tag])
  }

  /// Sends an event each time the machine enters the case that the constructor makes. The closure
  /// makes the event from the associated values.
  /// - Parameter sends: The events that can be sent, for `orchestrator check`; `nil` for any event.
  public func connectAsSender<Other, each Value>(
    to pipe: EventPipe<Other>, when state: (repeat each Value) -> State,
    sends: OneOf<Other>? = nil, send event: @escaping @Sendable (repeat each Value) -> Other
  ) -> Self {
    let place = CaseAccessor<State>(constructor: state)
    let pattern = CasePattern<State>(tag: place.tag)
    return sending(into: pipe, on: [place.tag], sends) { state in
      guard pattern.matches(state) else { return nil }
      let values = place.payload(of: state, repeat (each Value).self)
      return event(repeat each values)
    }
  }

  /// Sends `event` into the pipe each time the machine enters one of several cases.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, when states: OneOf<State>, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: states.tags)
  }

  /// Sends an event each time the machine enters one of several cases. The closure makes the event
  /// from the state.
  /// - Parameter sends: The events that can be sent, for `orchestrator check`; `nil` for any event.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, when states: OneOf<State>, sends: OneOf<Other>? = nil,
    send event: @escaping @Sendable (State) -> Other
  ) -> Self {
    sending(into: pipe, on: states.tags, sends) { states.contains($0) ? event($0) : nil }
  }

  /// Sends an event each time the machine enters a state. The closure makes the event from the
  /// state, or returns `nil` to send nothing.
  /// - Parameter sends: The events that can be sent, for `orchestrator check`; `nil` for any event.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, sends: OneOf<Other>? = nil,
    forEachState event: @escaping @Sendable (State) -> Other?
  ) -> Self { sending(into: pipe, on: nil, sends, event) }

  /// Sends an event each time the machine has accepted an event and entered the new state. The
  /// closure makes the event to send from the accepted event, or returns `nil` to send nothing.
  ///
  /// Such rules run after the rules that depend on states.
  /// - Parameter sends: The events that can be sent, for `orchestrator check`; `nil` for any event.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, sends: OneOf<Other>? = nil,
    forEachEvent event: @escaping @Sendable (Event) -> Other?
  ) -> Self {
    var runtime = self
    runtime.eventSendRules.append(SendRule(pipe, sends: sends, event))
    return runtime
  }

  /// Accepts the events that arrive through the pipe.
  public func connectAsReceiver(to pipe: EventPipe<Event>) -> Self {
    var runtime = self
    if !runtime.receivingPipes.contains(where: { $0 === pipe }) {
      runtime.receivingPipes.append(pipe)
    }
    return runtime
  }

  /// Adds a rule that sends an event each time the machine enters one of these cases. The closure
  /// makes the event from the state. If `cases` is `nil`, the rule applies to all states.
  func sending<Other>(
    into pipe: EventPipe<Other>, on cases: [Int]? = nil, _ sends: OneOf<Other>? = nil,
    _ event: @escaping @Sendable (State) -> Other?
  ) -> Self {
    var runtime = self
    runtime.stateSendRules.append(SendRule(pipe, on: cases, sends: sends, event))
    return runtime
  }

  /// Adds a rule that sends the same event each time the machine enters one of these cases.
  func sending<Other>(_ event: Other, into pipe: EventPipe<Other>, on cases: [Int]) -> Self {
    var runtime = self
    runtime.stateSendRules.append(
      SendRule(pipe, on: cases, sent: event) { state in
        guard let tag = EnumCases<State>.tag(of: state), cases.contains(tag) else { return nil }
        return event
      })
    return runtime
  }
}
