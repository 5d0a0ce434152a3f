/// A running machine, as the sequence of its states: the initial state, then one state for each
/// step.
///
/// The machine starts when the sequence is made, and advances whether or not a task iterates over
/// the sequence. All iterators see the same run. The first iterator begins with the initial state.
/// If the machine has already entered more than ``bufferCapacity`` states, the first iterator
/// begins with the oldest of the last ``bufferCapacity`` states. Later iterators begin with the
/// current state.
///
/// An iterator misses no state: when an iterator lags ``bufferCapacity`` states behind, the machine
/// waits for the iterator. Therefore, do not await many sends in the body of the loop that reads
/// the machine's states, and release an iterator that you do not read. If an iterator blocks the
/// machine and reads no state for a second, the run writes a warning to standard error, once per
/// run.
///
/// The run ends with ``finish()``, when the sequence and its iterators are deallocated, or when the
/// task of the only iterator is cancelled. The run then cancels its effects and accepts no more
/// events.
public struct AsyncStateMachineSequence<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: AsyncSequence, Sendable {
  /// A state of the machine.
  public typealias Element = State
  /// The sequence does not fail.
  public typealias Failure = Never

  /// The number of states that an iterator may lag behind. Unit: states.
  public static var bufferCapacity: Int { PublishedStates<State>.capacity }

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

  /// Sends an event to the machine and waits until the machine has processed it.
  ///
  /// The machine processes the events of each task in the order in which the task sent them. Events
  /// of different tasks may arrive in any order. The event waits while a transition is running or
  /// while a pipe that the machine sends into is full.
  ///
  /// An idle machine processes the event on the caller's thread, and this function returns without
  /// suspending.
  /// - Returns: The outcome: the machine accepted the event, the machine refused the event, or the
  ///   run has ended.
  @discardableResult
  @inlinable
  @inline(__always)  // A call of an async function costs as much as all other work.
  nonisolated(nonsending)
    public func send(_ event: Event) async -> SendOutcome<State>
  {
    switch handle.run.sendNow(event) {
    case .accepted(let state, _)?: .accepted(state)
    case .refused(let refusal)?: .refused(refusal)
    case .pending?: await handle.run.transitionEnd()
    case nil: await handle.run.sendAfterCurrentStep(event)
    }
  }

  /// Queues an event behind the events sent before it, and returns without waiting for the machine
  /// to process it.
  public func post(_ event: Event) { handle.run.sendWithoutReply(event) }

  /// Ends the run and cancels its effects. Each iterator still returns the states in its buffer,
  /// and then ends.
  public func finish() { handle.run.finish() }

  /// Makes an iterator over the states of the run.
  @inlinable
  public func makeAsyncIterator() -> Iterator { Iterator(handle, skipsBacklog: false) }

  /// Makes an iterator that begins with the current state, even if there was no iterator before.
  func makeIteratorFromCurrentState() -> Iterator { Iterator(handle, skipsBacklog: true) }

  /// An iterator over the states of the run. Only one task may use it at a time.
  public struct Iterator: AsyncIteratorProtocol {
    @usableFromInline let handle: RunHandle<State, Event, Output>
    @usableFromInline let lifetime: StateReaderHandle<State>
    // Unmanaged, because otherwise each read would retain and release the reader.
    @usableFromInline let reader: Unmanaged<StateReader<State>>

    @inlinable
    init(_ handle: RunHandle<State, Event, Output>, skipsBacklog: Bool) {
      self.handle = handle
      lifetime = handle.run.addReader(skipsBacklog: skipsBacklog)
      reader = .passUnretained(lifetime.reader)
    }

    @inlinable
    func nextNow() -> State? {
      Task.isCancelled ? nil : reader._withUnsafeGuaranteedRef { $0.readNow() }
    }

    /// Returns the next state, or `nil` if the run has ended or the task is cancelled.
    @inlinable
    @inline(__always)
    nonisolated(nonsending)
      public func next() async -> State?
    {
      if let state = nextNow() { return state }
      return await handle.run.nextState(lifetime.reader)
    }

    /// Returns the next state, or `nil` if the run has ended or the task is cancelled.
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

/// The outcome of a send.
public enum SendOutcome<State: Sendable>: Sendable {
  /// The machine accepted or ignored the event, and was in this state afterwards.
  case accepted(State)
  /// The machine refused the event.
  case refused(Refusal)
  /// The run has ended.
  case finished
}

extension SendOutcome: Equatable where State: Equatable {}

/// Ends a run when its sequence and all its iterators are deallocated.
@usableFromInline
final class RunHandle<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  @usableFromInline let run: MachineRun<State, Event, Output>

  @usableFromInline
  init(_ run: MachineRun<State, Event, Output>) { self.run = run }

  deinit { run.finish() }
}
