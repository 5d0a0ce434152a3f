/// A running machine, as the sequence of its states: the initial one, then one for every step.
///
/// The machine starts when the sequence is made, and advances whether or not anybody iterates. All
/// iterators see the same run. The first one begins with the initial state, unless more than
/// ``bufferCapacity`` states have gone by before it is made: then with the oldest of the last so
/// many. Later ones begin with the current state.
///
/// An iterator that lags ``bufferCapacity`` states behind makes the machine wait, so that it misses
/// none. Hence do not wait for many sends in the body of the loop that reads their states, and let go of
/// an iterator that you do not read: where one keeps the machine waiting without a read for a second, that
/// is said on standard error, once for each run.
///
/// The run ends with ``finish()``, when the sequence and its iterators are gone, or when the task
/// of the only iterator is cancelled. Its effects are cancelled then, and later events are not taken.
public struct AsyncStateMachineSequence<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: AsyncSequence, Sendable {
  /// The states.
  public typealias Element = State
  /// The sequence does not fail.
  public typealias Failure = Never

  /// How many states an iterator may lag behind. Unit: states.
  public static var bufferCapacity: Int { ShownStates<State>.capacity }

  @usableFromInline let handle: RunHandle<State, Event, Output>

  /// Starts a machine.
  @inlinable
  public init(
    stateMachine: StateMachine<State, Event, Output>,
    runtime: Runtime<State, Event, Output> = Runtime()
  ) {
    handle = RunHandle(MachineRun(machine: stateMachine, runtime: runtime))
  }

  /// The current state.
  public var state: State { handle.run.state }

  /// Has the machine take an event, and returns once it has.
  ///
  /// Events are taken in the order sent, those of several tasks each in its own order. Where a
  /// transition is running, or a pipe that the machine sends into is full, the event waits.
  /// Returns what became of it.
  ///
  /// An idle machine takes the event on the caller's thread, and this returns without suspending.
  @discardableResult
  @inlinable
  @inline(__always)  // A call of an async function costs as much as the rest.
  nonisolated(nonsending)
    public func send(_ event: Event) async -> SendOutcome<State>
  {
    switch handle.run.sendNow(event) {
    case .moved(let state, _)?: .moved(state)
    case .refused(let refusal)?: .refused(refusal)
    case .pending?: await handle.run.transitionEnd()
    case nil: await handle.run.sendLater(event)
    }
  }

  /// Has the machine take an event after those sent before it, and does not wait for that.
  public func post(_ event: Event) { handle.run.sendUnanswered(event) }

  /// Ends the run: cancels its effects; iterators end after the states that they still have.
  public func finish() { handle.run.finish() }

  /// Begins to read states.
  @inlinable
  public func makeAsyncIterator() -> Iterator { Iterator(handle, isLate: false) }

  /// Begins to read states with the current one, also where nobody has read yet.
  func makeLateIterator() -> Iterator { Iterator(handle, isLate: true) }

  /// Reads the states of the run, for one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    @usableFromInline let handle: RunHandle<State, Event, Output>
    @usableFromInline let lifetime: StateReaderHandle<State>
    // Without a count of its references: a machine's thread would have to pass it on and on.
    @usableFromInline let reader: Unmanaged<StateReader<State>>

    @inlinable
    init(_ handle: RunHandle<State, Event, Output>, isLate: Bool) {
      self.handle = handle
      lifetime = handle.run.addReader(isLate: isLate)
      reader = .passUnretained(lifetime.reader)
    }

    @inlinable
    func nextNow() -> State? {
      Task.isCancelled ? nil : reader._withUnsafeGuaranteedRef { $0.readNow() }
    }

    /// The next state; `nil` once the run has ended, or where the task is cancelled.
    @inlinable
    @inline(__always)
    nonisolated(nonsending)
      public func next() async -> State?
    {
      if let state = nextNow() { return state }
      return await handle.run.nextState(lifetime.reader)
    }

    /// The next state; `nil` once the run has ended, or where the task is cancelled.
    @inlinable
    @inline(__always)
    public func next(isolation actor: isolated (any Actor)?) async -> State? {
      if let state = nextNow() { return state }
      return await handle.run.nextState(lifetime.reader)
    }
  }
}

@available(*, unavailable)
extension AsyncStateMachineSequence.Iterator: Sendable {}

/// What became of an event that was sent.
public enum SendOutcome<State: Sendable>: Sendable {
  /// The machine has entered this state.
  case moved(State)
  /// The machine has not taken the event.
  case refused(Refusal)
  /// The run has ended.
  case finished
}

extension SendOutcome: Equatable where State: Equatable {}

/// Ends a run when nobody holds its sequence or an iterator any more.
@usableFromInline
final class RunHandle<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  @usableFromInline let run: MachineRun<State, Event, Output>

  @usableFromInline
  init(_ run: MachineRun<State, Event, Output>) { self.run = run }

  deinit { run.finish() }
}
