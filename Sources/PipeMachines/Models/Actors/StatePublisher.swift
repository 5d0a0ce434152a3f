import PipeSupport

/// States as they come: the current one to whoever subscribes, then every further one.
///
/// It is a sequence that any number of tasks may read, each from its own beginning on:
///
/// ```swift
/// for await state in model.stateDidChange { … }
/// ```
///
/// The publisher waits for nobody: of an iterator that lags more than ``bufferCapacity`` states behind
/// the oldest of these give way, never the last.
public struct StatePublisher<State: Sendable>: AsyncSequence, Sendable {
  /// The states.
  public typealias Element = State
  /// The sequence does not fail.
  public typealias Failure = Never
  /// Takes a subscription back.
  typealias Cancellation = @Sendable () -> Void

  /// How many states an iterator may lag behind before the oldest give way. Unit: states.
  public static var bufferCapacity: Int { 1024 }

  /// Calls `receive` with the current state and then with every further one, and `end` after the last.
  let subscribe:
    @Sendable (
      _ receive: @escaping @Sendable (State) -> Void, _ end: @escaping @Sendable () -> Void
    ) -> Cancellation

  /// One state for ever: what a constant model publishes.
  public static func constant(_ state: State) -> Self {
    Self { receive, _ in
      receive(state)
      return {}
    }
  }

  /// The elements of a sequence, which is made anew, and read by a task, for each subscription.
  public init<States: AsyncSequence & SendableMetatype>(
    _ states: @escaping @Sendable () -> States
  ) where States.Element == State, States.Failure == Never, States.AsyncIterator: SendableMetatype {
    subscribe = { receive, end in
      let task = Task {
        for await state in states() { receive(state) }
        end()
      }
      return { task.cancel() }
    }
  }

  init(
    subscribe:
      @escaping @Sendable (
        _ receive: @escaping @Sendable (State) -> Void, _ end: @escaping @Sendable () -> Void
      ) -> Cancellation
  ) {
    self.subscribe = subscribe
  }

  /// Begins to read, with the current state.
  public func makeAsyncIterator() -> AsyncStream<State>.Iterator { begun().makeAsyncIterator() }

  /// The states from now on, however late a task reads them.
  func begun() -> AsyncStream<State> {
    AsyncStream(bufferingPolicy: .bufferingNewest(Self.bufferCapacity)) { continuation in
      let cancel = subscribe({ continuation.yield($0) }, { continuation.finish() })
      continuation.onTermination = { _ in cancel() }
    }
  }
}

extension StatePublisher {
  /// What is made of each state.
  public func projected<Other>(
    _ project: @escaping @Sendable (State) -> Other
  ) -> StatePublisher<Other> {
    let subscribe = subscribe
    return StatePublisher<Other> { receive, end in
      subscribe({ receive(project($0)) }, end)
    }
  }

  /// What is made of the latest states of two publishers, whenever one of them has another.
  ///
  /// Two models that take an event one after the other are seen in between. Where that must not be,
  /// let them be a composite: ``AsyncCompositeSequence``.
  public func combineLatest<Other, Whole>(
    _ other: StatePublisher<Other>, _ combine: @escaping @Sendable (State, Other) -> Whole
  ) -> StatePublisher<Whole> {
    let (first, second) = (subscribe, other.subscribe)
    return StatePublisher<Whole> { receive, end in
      let latest = Locked<(first: State?, second: Other?, ended: Int)>((nil, nil, 0))
      // Under the lock, so that no older pair comes after a newer one.
      let ended: @Sendable () -> Void = {
        let count = latest.withLock { latest in
          latest.ended += 1
          return latest.ended
        }
        if count == 2 { end() }
      }
      let cancelFirst = first(
        { state in
          latest.withLock { latest in
            latest.first = state
            if let other = latest.second { receive(combine(state, other)) }
          }
        }, ended)
      let cancelSecond = second(
        { other in
          latest.withLock { latest in
            latest.second = other
            if let state = latest.first { receive(combine(state, other)) }
          }
        }, ended)
      return {
        cancelFirst()
        cancelSecond()
      }
    }
  }
}
