import PipeSupport

/// A publisher of states: each subscriber receives the current state, then every further state.
///
/// Any number of tasks can iterate over the publisher, each with its own subscription:
///
/// ```swift
/// for await state in model.stateDidChange { … }
/// ```
///
/// The publisher never waits for an iterator. If an iterator lags more than ``bufferCapacity``
/// states behind, its oldest states are discarded, but never the newest state.
public struct StatePublisher<State: Sendable>: AsyncSequence, Sendable {
  /// A state.
  public typealias Element = State
  /// The sequence does not fail.
  public typealias Failure = Never
  /// Cancels a subscription.
  typealias Cancellation = @Sendable () -> Void

  /// The number of states that an iterator may lag behind before its oldest states are discarded.
  /// Unit: states.
  public static var bufferCapacity: Int { 1024 }

  /// Calls `receive` with the current state and then with every further state. Calls `end` after
  /// the last state.
  let subscribe:
    @Sendable (
      _ receive: @escaping @Sendable (State) -> Void, _ end: @escaping @Sendable () -> Void
    ) -> Cancellation

  /// Makes a publisher that publishes one state and never ends, for constant models.
  public static func constant(_ state: State) -> Self {
    Self { receive, _ in
      receive(state)
      return {}
    }
  }

  /// Makes a publisher of the elements of a sequence. For each subscription, a task reads the
  /// elements of a new instance of the sequence.
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

  /// Makes an iterator that begins with the current state.
  public func makeAsyncIterator() -> AsyncStream<State>.Iterator {
    subscribedStates().makeAsyncIterator()
  }

  /// Returns the current state and every further state. The subscription begins with this call, so
  /// the stream contains all states even if a task reads it later.
  func subscribedStates() -> AsyncStream<State> {
    AsyncStream(bufferingPolicy: .bufferingNewest(Self.bufferCapacity)) { continuation in
      let cancel = subscribe({ continuation.yield($0) }, { continuation.finish() })
      continuation.onTermination = { _ in cancel() }
    }
  }
}

extension StatePublisher {
  /// Returns a publisher of the values that `project` makes from the states.
  public func projected<Other>(
    _ project: @escaping @Sendable (State) -> Other
  ) -> StatePublisher<Other> {
    let subscribe = subscribe
    return StatePublisher<Other> { receive, end in
      subscribe({ receive(project($0)) }, end)
    }
  }

  /// Returns a publisher that combines the latest states of two publishers whenever one of the two
  /// states changes.
  ///
  /// If two models process an event one after the other, an inconsistent combination is visible in
  /// between. To prevent that, use the machines of an ``AsyncCompositeSequence``.
  public func combineLatest<Other, Whole>(
    _ other: StatePublisher<Other>, _ combine: @escaping @Sendable (State, Other) -> Whole
  ) -> StatePublisher<Whole> {
    let (first, second) = (subscribe, other.subscribe)
    return StatePublisher<Whole> { receive, end in
      let latest = Locked<(first: State?, second: Other?, ended: Int)>((nil, nil, 0))
      // Delivers under the lock, so that an older pair never follows a newer pair.
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
