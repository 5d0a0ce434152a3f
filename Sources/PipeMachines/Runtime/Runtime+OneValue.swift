// A case that carries one value; see On+OneValue.swift.
extension Runtime {
  /// Executes `effect` on the associated value of the output, and takes the event it returns.
  public func map<Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy) { output, deliver in
        if let event = await effect(place.one(of: output, as: Value.self)) {
          _ = await deliver(event, .last)
        }
      })
  }

  /// Executes `effect` on the associated value, and takes every event of its sequence.
  public func map<Events: AsyncSequence & SendableMetatype, Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async -> Events,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where
    Events.Element == Event, Events.Failure == Never, Events.AsyncIterator: SendableMetatype
  {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        for await event in await effect(place.one(of: output, as: Value.self)) {
          guard await deliver(event, .oneOfMany) else { return }
        }
      })
  }

  /// Executes `effect` on the associated value, and takes the event that it or `catch` returns.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async throws -> Event?,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy) { output, deliver in
        let value = place.one(of: output, as: Value.self)
        let answer: Event?
        do { answer = try await effect(value) } catch { answer = event(error) }
        if let answer { _ = await deliver(answer, .last) }
      })
  }

  /// Executes `effect` on the associated value, and takes every event of its sequence; a failure
  /// ends it.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<Events: AsyncSequence & SendableMetatype, Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async throws -> Events,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        do {
          for try await event in try await effect(place.one(of: output, as: Value.self)) {
            guard await deliver(event, .oneOfMany) else { return }
          }
        } catch {
          if let answer = event(error) { _ = await deliver(answer, .last) }
        }
      })
  }

  /// Sends `event` into the pipe on each entry into the case of this constructor.
  public func connectAsSender<Other, Value>(
    to pipe: EventPipe<Other>, when state: (Value) -> State, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: [CasePattern(constructor: state).tag])
  }

  /// Sends the event made from the associated value on each entry into the case.
  public func connectAsSender<Other, Value>(
    to pipe: EventPipe<Other>, when state: (Value) -> State,
    send event: @escaping @Sendable (Value) -> Other
  ) -> Self {
    let place = CasePlace<State>(constructor: state)
    let pattern = CasePattern<State>(tag: place.tag)
    return sending(into: pipe, on: [place.tag]) { state in
      pattern.matches(state) ? event(place.one(of: state, as: Value.self)) : nil
    }
  }
}

extension ExecutionStrategy {
  /// Is cancelled by an entry into the case of this constructor.
  public static func cancel<Value>(when state: (Value) -> State) -> Self {
    let pattern = CasePattern(constructor: state)
    return Self { pattern.matches($0) }
  }
}

extension ViewState where State: DSLCompatible {
  /// Sends an event and returns when the machine enters the case of this constructor.
  @discardableResult
  public func send<Value>(
    _ event: Event, resumeWhen state: (Value) -> State
  ) async -> SendOutcome<State> {
    let pattern = CasePattern(constructor: state)
    return await send(event) { pattern.matches($0) }
  }
}
