import PipeSupport

/// Any number of running machines as one composite, or several that overlap: the sequence of their
/// states, the initial one first, then one for every step.
///
/// What ``Product`` says of events holds here too: each is taken by one component alone, or, where a
/// composite synchronizes it, by all its participants or by none. A synchronized event yields one
/// state of the composite. Effects and pipes of the components work as they do alone. An effect's
/// synchronized event waits until all participants take it, or until the effect is cancelled.
///
/// There is one step at a time. The run ends with ``finish()``, or when the sequence and its iterators
/// are gone.
public struct AsyncProductSequence: AsyncSequence, Sendable {
  /// The states of all components.
  public typealias Element = ProductState
  /// The sequence does not fail.
  public typealias Failure = Never

  let handle: Handle

  final class Handle: Sendable {
    let run: CompositeRun
    let clock = EffectClock.current

    init(_ run: CompositeRun) { self.run = run }

    deinit { run.finish() }
  }

  /// Starts machines.
  /// - Throws: ``CompositionError`` with everything that is wrong with the composites.
  public init(
    _ name: String, _ components: [AnyCompositeComponent], composites: [CompositeDeclaration]
  ) throws(CompositionError) {
    handle = Handle(try CompositeRun(name, components, composites: composites))
  }

  /// Who takes what together.
  public var composition: Composition { handle.run.composition }

  /// The current state: that after one of the steps, never that between two.
  public var state: ProductState { handle.run.shown.withLock(\.state) }

  /// Whether only an event from outside moves it: no effect runs, no transition, no event waits.
  public var isStable: Bool { handle.run.isStable }

  /// Has one component take an event, and returns once it has.
  /// - Throws: ``RoutingError`` where the event is synchronized for the component, or is not its own.
  @discardableResult
  public func send(
    _ event: any MachineEvent, to component: String
  ) async throws(RoutingError) -> SendOutcome<any MachineState> {
    let run = handle.run
    let place = try run.place(of: component)
    let name = Product.name(of: event)
    if let vector = composition.vectors(of: component, event: name).first {
      throw .synchronizedOutside(name, composite: vector.composite)
    }
    return await withCheckedContinuation { continuation in
      run.send(event, to: place) { continuation.resume(returning: $0) }
    }
  }

  /// Has all participants of an event take it, or none, and says which.
  /// - Parameters:
  ///   - composite: The composite that synchronizes the event.
  ///   - mode: Whether to wait until it is enabled. Waiting ends also when the task is cancelled, with
  ///     the reason for which the event was not taken so far.
  /// - Throws: ``RoutingError`` where the composite does not synchronize the event, or where a
  ///   participant cannot read its payload.
  @discardableResult
  public func synchronizedEvent(
    _ event: SynchronizedEvent, of composite: String, _ mode: SynchronizedMode = .try
  ) async throws(RoutingError) -> SynchronizedReply {
    let run = handle.run
    let participants = try run.participants(of: event, in: composite)
    let limit: Duration?
    switch mode {
    case .try:
      return await withCheckedContinuation { continuation in
        _ = run.ask(event, participants, waits: false) { continuation.resume(returning: $0) }
      }
    case .await(let deadline): limit = deadline
    }
    return await wait(for: event, participants, limit)
  }

  private func wait(
    for event: SynchronizedEvent, _ participants: [Int], _ limit: Duration?
  ) async -> SynchronizedReply {
    let waiting = Waiting()
    let timer = limit.map { limit in
      Task { [clock = handle.clock] in
        if (try? await clock.sleep(for: limit)) != nil { waiting.giveUp() }
      }
    }
    defer { timer?.cancel() }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        waiting.begin(
          handle.run.ask(event, participants, waits: true) { continuation.resume(returning: $0) })
      }
    } onCancel: {
      waiting.giveUp()
    }
  }

  /// Ends the run: cancels effects; iterators end after the states that they still have.
  public func finish() { handle.run.finish() }

  /// Begins to read states.
  public func makeAsyncIterator() -> Iterator { Iterator(handle) }

  /// Reads the states of the run, for one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    private let handle: Handle
    private let reader: StateReaderHandle<ProductState>

    init(_ handle: Handle) {
      self.handle = handle
      reader = handle.run.addReader()
    }

    /// The next state; `nil` once the run has ended, or where the task is cancelled.
    nonisolated(nonsending)
      public func next() async -> ProductState?
    {
      Task.isCancelled ? nil : await handle.run.nextState(reader.reader)
    }

    /// The next state; `nil` once the run has ended, or where the task is cancelled.
    public func next(isolation actor: isolated (any Actor)?) async -> ProductState? {
      Task.isCancelled ? nil : await handle.run.nextState(reader.reader)
    }
  }
}

@available(*, unavailable)
extension AsyncProductSequence.Iterator: Sendable {}

/// The end of a wait that may come before its beginning.
private final class Waiting: Sendable {
  private enum State {
    case notBegun
    case waiting(@Sendable () -> Void)
    case givenUp
  }

  private let state = Locked(State.notBegun)

  func begin(_ end: @escaping @Sendable () -> Void) {
    let isOver = state.withLock { state in
      if case .givenUp = state { return true }
      state = .waiting(end)
      return false
    }
    if isOver { end() }
  }

  func giveUp() {
    let end = state.withLock { state -> (@Sendable () -> Void)? in
      defer { state = .givenUp }
      if case .waiting(let end) = state { return end }
      return nil
    }
    end?()
  }
}
