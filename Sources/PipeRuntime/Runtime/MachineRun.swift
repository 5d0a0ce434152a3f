import Synchronization

/// A machine that runs in this process: an engine behind a mailbox.
///
/// Whoever puts something into an idle mailbox becomes its drainer and takes the steps on its own
/// thread; the others leave theirs in the mailbox. So there is no task per event, and user code
/// never runs under the lock.
final class MachineRun<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>:
  @unchecked Sendable  // `engine` and `receivers` belong to the drainer, of which there is one.
{
  typealias Answer = Mailbox<State, Event>.Answer

  private let mailbox: Mutex<Mailbox<State, Event>>
  private var engine: Engine<State, Event, Output>!
  private var receivers: [(pipe: Pipe<Event>, receiver: PipeReceiver<Event>)] = []
  private var nextReceiver = 0
  // The answer to the send whose asynchronous transition is running.
  private var suspended: Answer?

  init(machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>) {
    mailbox = Mutex(Mailbox(state: machine.initial))
    engine = Engine(machine: machine, runtime: runtime) { [weak self] in self?.post($0) }
    engine.onEntry = { [unowned self] state, _, _ in publish(state) }
    engine.start()
    for pipe in runtime.receivers {
      receivers.append((pipe, pipe.attach { [weak self] in self?.wakeToReceive() }))
    }
    mailbox.withLock { $0.hasReceived = !receivers.isEmpty }
    drain()
  }

  var state: State { mailbox.withLock(\.state) }

  func finish() {
    let starts = mailbox.withLock { mailbox in
      mailbox.isFinished = true
      return mailbox.begin()
    }
    if starts { drain() }
  }

  private func post(_ input: EngineInput<State, Event>) {
    let starts = mailbox.withLock { mailbox in
      mailbox.posts.append(input)
      return mailbox.begin()
    }
    // In a task of its own: the poster may be in the middle of another machine's step.
    if starts { Task { drain() } }
  }

  private func wakeToReceive() {
    let starts = mailbox.withLock { mailbox in
      mailbox.hasReceived = true
      return mailbox.begin()
    }
    if starts { Task { drain() } }
  }
}

// Sending.
extension MachineRun {
  func send(_ event: Event) async -> SendOutcome<State> {
    // Where nobody is draining and nothing is before it, the event is taken at once.
    if mailbox.withLock({ $0.isIdle && $0.begin() }) {
      if canTakeInput {
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
        mailbox.withLock { $0.sends.append((event, answer)) }
        drain()
      }
    }
    return await withCheckedContinuation { answer in
      let starts = mailbox.withLock { mailbox in
        mailbox.sends.append((event, answer))
        return mailbox.begin()
      }
      if starts { drain() }
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
  private var canTakeInput: Bool {
    engine.canTakeInput && !mailbox.withLock { $0.readers.contains { $0.isFull } }
  }

  /// Takes up to `budget` inputs, then leaves the rest to another task: a sender is not kept for
  /// long by the events of others, nor a thread.
  private func drain(budget: Int = 256) {
    var left = budget
    while true {
      let takesInput = canTakeInput
      let next = mailbox.withLock { $0.next(takesInput: takesInput, isSpent: left == 0) }
      left -= 1
      switch next {
      case .post(let input): engine.process(input)
      case .send(let event, let answer): take(event, answer)
      case .receive: receive()
      case .stop: stop()
      case .handOver: Task { drain() }; return
      case .idle: return
      }
    }
  }

  private func take(_ event: Event, _ answer: Answer) {
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
      return mailbox.withLock { $0.hasReceived = true }
    }
  }

  private func stop() {
    engine.stop()
    suspended?.resume(returning: .finished)
    suspended = nil
    for (pipe, receiver) in receivers { pipe.detach(receiver) }
    receivers = []
    let readers = mailbox.withLock { mailbox in
      defer { mailbox.readers = [] }
      return mailbox.readers
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
    mailbox.withLock { mailbox in
      let reader = StateReader(
        states: mailbox.backlog?.removeAll() ?? [mailbox.state], capacity: Self.capacity,
        madeRoom: { [weak self] in self?.post(.wake) },
        ended: { [weak self] in self?.remove($0) })
      mailbox.backlog = nil
      if mailbox.isStopped { reader.finish() } else { mailbox.readers.append(reader) }
      return reader
    }
  }

  /// The task that reads has been cancelled. Nobody else reading, the run ends.
  func cancel(_ reader: StateReader<State>) {
    let isOnly = mailbox.withLock { $0.readers.count == 1 && $0.readers[0] === reader }
    reader.end()
    if isOnly { finish() }
  }

  private func remove(_ reader: StateReader<State>) {
    mailbox.withLock { $0.readers.removeAll { $0 === reader } }
    post(.wake)
  }

  private func publish(_ state: State) {
    let readers = mailbox.withLock { mailbox in
      mailbox.state = state
      mailbox.backlog?.append(state)
      if let count = mailbox.backlog?.count, count > Self.capacity {
        _ = mailbox.backlog?.popFirst()
      }
      return mailbox.readers
    }
    for reader in readers { reader.append(state) }
  }
}
