import PipeSupport

/// A rule that sends into a pipe on entering a state, or on taking an event.
struct Sender<Cause: DSLCompatible>: Sendable {
  /// How a topology refers to the pipe, if it can.
  let port: PortDescription?
  /// The tags of the cases that the rule is about; `nil` where that cannot be told.
  let cases: [Int]?
  /// Sends, if the state or event is one that the rule is about.
  let fire: @Sendable (Cause) -> Void
  let pipe: SentPipe

  /// - Parameters:
  ///   - cases: The tags of those that it is about, where it is not about others.
  ///   - sent: The one that is sent, where it is always of one case.
  ///   - sends: Those that are sent, as declared, where it is not.
  init<Other>(
    _ pipe: EventPipe<Other>, on cases: [Int]? = nil, sent: Other? = nil,
    sends: OneOf<Other>? = nil, _ event: @escaping @Sendable (Cause) -> Other?
  ) {
    self.cases = cases
    let sent = sent.flatMap { EnumCases<Other>.name(of: $0) }.map { [$0] } ?? sends?.names
    port = pipe.name.map {
      PortDescription(
        name: $0, eventType: TypeName.of(Other.self), events: EnumCases<Other>.descriptions,
        sent: sent)
    }
    fire = { if let event = event($0) { pipe.send(event) } }
    self.pipe = SentPipe(pipe)
  }

  /// Where its pipe is among those that the machine sends into.
  func place(in pipes: [SentPipe]) -> Int {
    var place = 0
    while pipes[place].id != pipe.id { place += 1 }
    return place
  }
}

extension Runtime {
  /// Sends `event` into the pipe on each entry into the case that `state` is.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, when state: State, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: [CasePattern(value: state).tag])
  }

  /// Sends `event` into the pipe on each entry into the case of this constructor.
  public func connectAsSender<Other, each Value>(
    to pipe: EventPipe<Other>, when state: (repeat each Value) -> State, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: [CasePattern(constructor: state).tag])
  }

  /// Sends the event made from the associated values on each entry into the case.
  /// - Parameter sends: The cases that it may be, for `check`; `nil` for any.
  public func connectAsSender<Other, each Value>(
    to pipe: EventPipe<Other>, when state: (repeat each Value) -> State,
    sends: OneOf<Other>? = nil, send event: @escaping @Sendable (repeat each Value) -> Other
  ) -> Self {
    let place = CasePlace<State>(constructor: state)
    let pattern = CasePattern<State>(tag: place.tag)
    return sending(into: pipe, on: [place.tag], sends) { state in
      guard pattern.matches(state) else { return nil }
      let values = place.payload(of: state, repeat (each Value).self)
      return event(repeat each values)
    }
  }

  /// Sends `event` into the pipe on each entry into one of several cases.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, when states: OneOf<State>, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: states.tags)
  }

  /// Sends the event made from the state on each entry into one of several cases.
  /// - Parameter sends: The cases that it may be, for `check`; `nil` for any.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, when states: OneOf<State>, sends: OneOf<Other>? = nil,
    send event: @escaping @Sendable (State) -> Other
  ) -> Self {
    sending(into: pipe, on: states.tags, sends) { states.contains($0) ? event($0) : nil }
  }

  /// Sends the event made of each state that is entered; nothing where that is `nil`.
  /// - Parameter sends: The cases that it may be, for `check`; `nil` for any.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, sends: OneOf<Other>? = nil,
    forEachState event: @escaping @Sendable (State) -> Other?
  ) -> Self { sending(into: pipe, on: nil, sends, event) }

  /// Sends the event made of each event that the machine takes, once its state is entered; nothing
  /// where that is `nil`.
  ///
  /// After the rules that go by states.
  /// - Parameter sends: The cases that it may be, for `check`; `nil` for any.
  public func connectAsSender<Other>(
    to pipe: EventPipe<Other>, sends: OneOf<Other>? = nil,
    forEachEvent event: @escaping @Sendable (Event) -> Other?
  ) -> Self {
    var runtime = self
    runtime.eventSenders.append(Sender(pipe, sends: sends, event))
    return runtime
  }

  /// Takes the events that come through the pipe.
  public func connectAsReceiver(to pipe: EventPipe<Event>) -> Self {
    var runtime = self
    if !runtime.receivers.contains(where: { $0 === pipe }) { runtime.receivers.append(pipe) }
    return runtime
  }

  /// Sends what the function makes of a state of these cases; of any, where they are `nil`.
  func sending<Other>(
    into pipe: EventPipe<Other>, on cases: [Int]? = nil, _ sends: OneOf<Other>? = nil,
    _ event: @escaping @Sendable (State) -> Other?
  ) -> Self {
    var runtime = self
    runtime.senders.append(Sender(pipe, on: cases, sends: sends, event))
    return runtime
  }

  /// Sends the same event on each entry into one of these cases.
  func sending<Other>(_ event: Other, into pipe: EventPipe<Other>, on cases: [Int]) -> Self {
    var runtime = self
    runtime.senders.append(
      Sender(pipe, on: cases, sent: event) { state in
        guard let tag = EnumCases<State>.tag(of: state), cases.contains(tag) else { return nil }
        return event
      })
    return runtime
  }
}
