import Synchronization

/// A machine that runs in this process: an engine behind a mailbox.
///
/// Whoever puts something into an idle mailbox becomes its drainer and takes the steps on its own
/// thread; the others leave theirs in the mailbox. So there is no task per event, and user code
/// never runs under the lock.
final class MachineRun<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>:
  @unchecked Sendable  // `engine` and `receivers` belong to the drainer, of which there is one.
{
  typealias Answer = CheckedContinuation<SendOutcome<State>, Never>

  private struct Shown {
    var state: State
    var readers: [StateReader<State>] = []
    /// The states for the first reader; `nil` once it has come.
    var backlog: Queue<State>? = Queue()
    var isStopped = false

    mutating func keep(_ state: State, _ capacity: Int) {
      backlog?.append(state)
      if let count = backlog?.count, count > capacity { _ = backlog?.popFirst() }
    }
  }

  private let gate = DrainGate()
  private let posts = Mutex(Queue<EngineInput<State, Event>>())
  private let sends = Mutex(Queue<(event: Event, answer: Answer)>())
  private let shown: Mutex<Shown>
  private let hasReaders = Atomic(false)

  private var engine: Engine<State, Event, Output>!
  private var receivers: [(pipe: Pipe<Event>, receiver: PipeReceiver<Event>)] = []
  private var nextReceiver = 0
  // The answer to the send whose transition is running.
  private var suspended: Answer?

  init(machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>) {
    shown = Mutex(Shown(state: machine.initial))
    engine = Engine(machine: machine, runtime: runtime) { [weak self] in self?.post($0) }
    engine.onEntry = { [unowned self] state, _, _ in publish(state) }
    engine.isHeld = { [unowned self] in readersAreFull }
    engine.start()
    for pipe in runtime.receivers {
      receivers.append((pipe, pipe.attach { [weak self] in self?.wakeToReceive() }))
    }
    drain()
  }

  var state: State { shown.withLock(\.state) }

  func finish() {
    if gate.finished() { drain() }
  }

  private func post(_ input: EngineInput<State, Event>) {
    posts.withLock { $0.append(input) }
    // In a task of its own: the poster may be in the middle of another machine's step.
    if gate.posted() { Task { drain() } }
  }

  private func wakeToReceive() {
    if gate.received() { Task { drain() } }
  }
}

// Sending.
extension MachineRun {
  func send(_ event: Event) async -> SendOutcome<State> {
    // Where nobody is draining and nothing is before it, the event is taken at once.
    if gate.beginIfIdle() {
      if engine.canTakeInput {
        switch engine.take(event, cause: "send", done: { [unowned self] in settle($0) }) {
        case .moved(let state, _):
          drain(budget: 0)
          return .moved(state)
        case .refused(let refusal):
          drain(budget: 0)
          return .refused(refusal)
        case .pending:
          return await withCheckedContinuation { answer in
            suspended = answer
            drain(budget: 0)
          }
        }
      }
      return await withCheckedContinuation { answer in
        sends.withLock { $0.append((event, answer)) }
        gate.sentByDrainer()
        drain()
      }
    }
    return await withCheckedContinuation { answer in
      sends.withLock { $0.append((event, answer)) }
      if gate.sent() { drain() }
    }
  }

  /// Answers the sender whose event has been taken.
  private func settle(_ step: StepOutcome<State>) {
    guard let answer = suspended else { return }
    suspended = nil
    switch step {
    case .moved(let state, _): answer.resume(returning: .moved(state))
    case .refused(let refusal): answer.resume(returning: .refused(refusal))
    case .pending: preconditionFailure("An engine settles an event with its outcome.")
    }
  }
}

// Draining.
extension MachineRun {
  /// Some reader lags as far behind as it may.
  private var readersAreFull: Bool {
    guard hasReaders.load(ordering: .acquiring) else { return false }
    return shown.withLock { $0.readers.contains { $0.isFull } }
  }

  /// Takes up to `budget` inputs, then leaves the rest to another task: a sender is not kept for
  /// long by the events of others, nor a thread.
  private func drain(budget: Int = 256) {
    var left = budget
    while true {
      let next = gate.next(takesInput: engine.canTakeInput, isSpent: left == 0)
      left -= 1
      switch next {
      case .post: engine.process(posts.withLock { $0.popFirst()! })
      case .send: take(sends.withLock { $0.popFirst()! })
      case .receive: receive()
      case .stop: stop()
      case .handOver: Task { drain() }; return
      case .idle: return
      }
    }
  }

  private func take(_ send: (event: Event, answer: Answer)) {
    let (event, answer) = send
    guard !engine.isStopped else { return answer.resume(returning: .finished) }
    suspended = answer
    engine.take(event, cause: "send") { [unowned self] in settle($0) }
  }

  /// Takes one event from the next pipe that has one.
  private func receive() {
    for _ in receivers.indices {
      nextReceiver = (nextReceiver + 1) % receivers.count
      let (pipe, receiver) = receivers[nextReceiver]
      guard let event = receiver.next() else { continue }
      engine.take(event, cause: pipe.name.map { "pipe \($0)" } ?? "pipe")
      // There may be more, also in the other pipes.
      return gate.mayReceiveMore()
    }
  }

  private func stop() {
    engine.stop()
    suspended?.resume(returning: .finished)
    suspended = nil
    for (pipe, receiver) in receivers { pipe.detach(receiver) }
    receivers = []
    let readers = shown.withLock { shown in
      shown.isStopped = true
      defer { shown.readers = [] }
      return shown.readers
    }
    for reader in readers { reader.finish() }
  }
}

// Reading.
extension MachineRun {
  private static var capacity: Int {
    AsyncStateMachineSequence<State, Event, Output>.bufferCapacity
  }

  func addReader() -> StateReader<State> {
    shown.withLock { shown in
      let reader = StateReader(
        states: shown.backlog?.removeAll() ?? [shown.state], capacity: Self.capacity,
        madeRoom: { [weak self] in self?.post(.wake) },
        ended: { [weak self] in self?.remove($0) })
      shown.backlog = nil
      hasReaders.store(true, ordering: .releasing)
      if shown.isStopped { reader.finish() } else { shown.readers.append(reader) }
      return reader
    }
  }

  /// The task that reads has been cancelled. Nobody else reading, the run ends.
  func cancel(_ reader: StateReader<State>) {
    let isOnly = shown.withLock { $0.readers.count == 1 && $0.readers[0] === reader }
    reader.end()
    if isOnly { finish() }
  }

  private func remove(_ reader: StateReader<State>) {
    shown.withLock { $0.readers.removeAll { $0 === reader } }
    post(.wake)
  }

  private func publish(_ state: State) {
    let readers = shown.withLock { shown in
      shown.state = state
      if shown.backlog != nil { shown.keep(state, Self.capacity) }
      return shown.readers
    }
    for reader in readers { reader.append(state) }
  }
}
