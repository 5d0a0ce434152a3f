import PipeSupport

/// Any number of running machines, as one composite or as several composites, which can overlap.
/// The sequence yields the initial state first, then one state for each step.
///
/// The rules of ``Product`` for events apply here, too. If a composite synchronizes an event,
/// either all of its participants accept the event, or none does. Any other event concerns only the
/// component that it is sent to. A synchronized event yields only one state. The components'
/// effects and pipes work as they do outside a composite. If an effect produces a synchronized
/// event, the event waits until all participants accept it, or until the effect is cancelled.
///
/// Only one step runs at a time. The run ends with ``finish()``, or when the sequence and its
/// iterators are deallocated.
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

  /// Starts the machines.
  /// - Throws: ``CompositionError`` with all errors of the composites.
  public init(
    _ name: String, _ components: [AnyCompositeComponent], composites: [CompositeDeclaration]
  ) throws(CompositionError) {
    handle = Handle(try CompositeRun(name, components, composites: composites))
  }

  /// The composition, which specifies the components that synchronize each event.
  public var composition: Composition { handle.run.composition }

  /// The current state, which is always the state after a complete step.
  public var state: ProductState { handle.run.publishedStates.withLock(\.state) }

  /// Whether only an event from outside can change the composite: no effect or transition is
  /// running, and no event is queued.
  public var isStable: Bool { handle.run.isStable }

  /// Sends an event to one component and waits until the component has processed it.
  /// - Throws: ``RoutingError`` if the event is synchronized for the component, or if the component
  ///   has no such event.
  @discardableResult
  public func send(
    _ event: any MachineEvent, to component: String
  ) async throws(RoutingError) -> SendOutcome<any MachineState> {
    let run = handle.run
    let position = try run.position(of: component)
    let name = Product.name(of: event)
    if let vector = composition.vectors(of: component, event: name).first {
      throw .requiresComposite(name, composite: vector.composite)
    }
    return await withCheckedContinuation { continuation in
      run.send(event, to: position) { continuation.resume(returning: $0) }
    }
  }

  /// Sends a synchronized event to all of its participants and returns the outcome. Either all
  /// participants accept the event, or none does.
  /// - Parameters:
  ///   - composite: The composite that synchronizes the event.
  ///   - mode: Whether to wait until the event is enabled. If the task is cancelled, the wait ends,
  ///     and the reply contains the reason of the last failed attempt.
  /// - Throws: ``RoutingError`` if the composite does not synchronize the event, or if a
  ///   participant cannot read the event's payload.
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
        _ = run.requestEvent(event, participants, waits: false) {
          continuation.resume(returning: $0)
        }
      }
    case .await(let deadline): limit = deadline
    }
    return await wait(for: event, participants, limit)
  }

  private func wait(
    for event: SynchronizedEvent, _ participants: [Int], _ limit: Duration?
  ) async -> SynchronizedReply {
    let waiting = CancellableWait()
    let timer = limit.map { limit in
      Task { [clock = handle.clock] in
        if (try? await clock.sleep(for: limit)) != nil { waiting.abandon() }
      }
    }
    defer { timer?.cancel() }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        waiting.begin(
          handle.run.requestEvent(event, participants, waits: true) {
            continuation.resume(returning: $0)
          })
      }
    } onCancel: {
      waiting.abandon()
    }
  }

  /// Ends the run and cancels its effects. Each iterator still returns the states in its buffer,
  /// and then ends.
  public func finish() { handle.run.finish() }

  /// Makes an iterator over the states of the run.
  public func makeAsyncIterator() -> Iterator { Iterator(handle) }

  /// An iterator over the states of the run. Only one task may use it at a time.
  public struct Iterator: AsyncIteratorProtocol {
    private let handle: Handle
    private let reader: StateReaderHandle<ProductState>

    init(_ handle: Handle) {
      self.handle = handle
      reader = handle.run.addReader()
    }

    /// Returns the next state, or `nil` if the run has ended or the task is cancelled.
    nonisolated(nonsending)
      public func next() async -> ProductState?
    {
      Task.isCancelled ? nil : await handle.run.nextState(reader.reader)
    }

    /// Returns the next state, or `nil` if the run has ended or the task is cancelled.
    public func next(isolation actor: isolated (any Actor)?) async -> ProductState? {
      Task.isCancelled ? nil : await handle.run.nextState(reader.reader)
    }
  }
}

@available(*, unavailable)
extension AsyncProductSequence.Iterator: Sendable {}

/// A wait that can be cancelled before it begins.
private final class CancellableWait: Sendable {
  private enum State {
    case notStarted
    case waiting(@Sendable () -> Void)
    case abandoned
  }

  private let state = Locked(State.notStarted)

  func begin(_ end: @escaping @Sendable () -> Void) {
    let isOver = state.withLock { state in
      if case .abandoned = state { return true }
      state = .waiting(end)
      return false
    }
    if isOver { end() }
  }

  func abandon() {
    let end = state.withLock { state -> (@Sendable () -> Void)? in
      defer { state = .abandoned }
      if case .waiting(let end) = state { return end }
      return nil
    }
    end?()
  }
}
