/// A running machine, as the sequence of its states: the initial one, then one for every step.
///
/// The machine starts when the sequence is made, and advances whether or not anybody iterates. All
/// iterators see the same run. The first one begins with the initial state, unless more than
/// ``bufferCapacity`` states have gone by before it is made: then with the oldest of the last so
/// many. Later ones begin with the current state.
///
/// An iterator that lags ``bufferCapacity`` states behind makes the machine wait, so that it misses
/// none. Hence do not wait for many sends in the body of the loop that reads their states.
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
  public static var bufferCapacity: Int { 1024 }

  private let handle: RunHandle<State, Event, Output>

  /// Starts a machine.
  /// - Precondition: The runtime maps each output once.
  public init(
    stateMachine: StateMachine<State, Event, Output>,
    runtime: Runtime<State, Event, Output> = Runtime()
  ) {
    precondition(runtime.problems.isEmpty, runtime.problems.joined(separator: "\n"))
    handle = RunHandle(MachineRun(machine: stateMachine, runtime: runtime))
  }

  /// The current state.
  public var state: State { handle.run.state }

  /// Has the machine take an event, and returns once it has.
  ///
  /// Events are taken in the order sent. Where a transition is running, or a pipe that the machine
  /// sends into is full, the event waits. Returns what became of it.
  @discardableResult
  public func send(_ event: Event) async -> SendOutcome<State> { await handle.run.send(event) }

  /// Ends the run: cancels its effects; iterators end after the states that they still have.
  public func finish() { handle.run.finish() }

  /// Begins to read states.
  public func makeAsyncIterator() -> Iterator { Iterator(handle) }

  /// Reads the states of the run.
  public struct Iterator: AsyncIteratorProtocol, Sendable {
    private let handle: RunHandle<State, Event, Output>
    private let reader: StateReaderHandle<State>

    fileprivate init(_ handle: RunHandle<State, Event, Output>) {
      self.handle = handle
      reader = StateReaderHandle(handle.run.addReader())
    }

    /// The next state; `nil` once the run has ended.
    public func next() async -> State? {
      let run = handle.run
      let reader = reader.reader
      return await withTaskCancellationHandler {
        await reader.next()
      } onCancel: {
        run.cancel(reader)
      }
    }
  }
}

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
final class RunHandle<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  let run: MachineRun<State, Event, Output>

  init(_ run: MachineRun<State, Event, Output>) { self.run = run }

  deinit { run.finish() }
}
