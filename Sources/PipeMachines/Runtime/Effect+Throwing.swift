// Effects that can fail. `catch` says what a failure means to the machine: without it, an effect that
// throws compiles only where the events are `FailureEvent`s. A cancelled effect's failure is of no
// interest, and no event is taken.

extension Runtime {
  /// Executes `effect` when `output` is produced, and takes the event that it or `catch` returns.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map(
    output: Output, to effect: sending @escaping () async throws -> Event?,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let tag = CasePattern(value: output).tag
    return adding(
      gives,
      Effect(tag: tag, priority: priority, strategy: strategy) { _, deliver in
        let answer: Event?
        do { answer = try await effect() } catch { answer = event(error) }
        if let answer { _ = await deliver(answer, .last) }
      })
  }

  /// Executes `effect` on the associated values, and takes the event that it or `catch` returns.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Event?,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy) { output, deliver in
        let values = place.payload(of: output, repeat (each Value).self)
        let answer: Event?
        do { answer = try await effect(repeat each values) } catch { answer = event(error) }
        if let answer { _ = await deliver(answer, .last) }
      })
  }

  /// Executes `effect`, and takes every event of its sequence; a failure ends it.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<Events: AsyncSequence & SendableMetatype>(
    output: Output, to effect: sending @escaping () async throws -> Events,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    nonisolated(unsafe) let effect = effect
    let tag = CasePattern(value: output).tag
    return adding(
      gives,
      Effect(tag: tag, priority: priority, strategy: strategy, isSequence: true) { _, deliver in
        do {
          for try await event in try await effect() {
            guard await deliver(event, .oneOfMany) else { return }
          }
        } catch {
          if let answer = event(error) { _ = await deliver(answer, .last) }
        }
      })
  }

  /// Executes `effect` on the associated values, and takes every event of its sequence; a failure
  /// ends it.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<Events: AsyncSequence & SendableMetatype, each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Events,
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
        let values = place.payload(of: output, repeat (each Value).self)
        do {
          for try await event in try await effect(repeat each values) {
            guard await deliver(event, .oneOfMany) else { return }
          }
        } catch {
          if let answer = event(error) { _ = await deliver(answer, .last) }
        }
      })
  }
}
