import PipeSupport
import Synchronization

/// A machine that runs in this process: an engine behind a mailbox.
///
/// Whoever puts something into an idle mailbox becomes its drainer and takes the steps on its own
/// thread; the others leave theirs in the mailbox. So there is no task per event, and user code
/// never runs under the lock.
///
/// What a send and its step go through is inlinable, so that it is compiled for the machine's own
/// types where the machine is used: measured, that is three times faster than the generic code.
///
/// A run keeps itself alive until it is finished, which its ``RunHandle`` sees to. A weak reference
/// to it would double the price of each step.
@usableFromInline
final class MachineRun<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>:
  @unchecked Sendable  // What varies belongs to the drainer, of which there is one.
{
  @usableFromInline
  typealias Answer = CheckedContinuation<SendOutcome<State>, Never>

  @usableFromInline let gate = DrainGate()
  @usableFromInline let shown: Locked<ShownStates<State>>
  /// An event that was sent.
  private struct Send {
    let event: Event
    /// `nil` where nobody waits for what becomes of it.
    var answer: Answer?
    /// The step that waits for that.
    var sender: AwaitedStep?
  }

  private let posts = Locked(Queue<EngineInput<State, Event>>())
  private let sends = Locked(Queue<Send>())

  private var engine: Engine<State, Event, Output>?  // `nil` once stopped.
  /// The engine, without a count of its references; for the drainer of a run that goes on.
  @usableFromInline let quick: Unmanaged<Engine<State, Event, Output>>
  /// By which the machine's steps know it.
  @usableFromInline let id: ObjectIdentifier
  /// Some reader was full after the last step.
  @usableFromInline
  @exclusivity(unchecked)
  var mayHaveToWait = false
  private var receivers: [(pipe: EventPipe<Event>, receiver: PipeReceiver<Event>)] = []
  private var nextReceiver = 0
  // The answer to the send whose transition is running.
  private var suspended: Answer?
  private let watch = ReaderWatch { "a machine with states \(TypeName.of(State.self))" }

  @inlinable
  init(machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>) {
    shown = Locked(ShownStates(machine.initial))
    let owner = Owner()
    let engine = Engine(machine: machine, runtime: runtime) { owner.run.post($0) }
    quick = .passUnretained(engine)
    id = ObjectIdentifier(engine)
    owner.run = self
    // The engine is this run's alone, and calls nobody once the run has stopped it.
    engine.onEntry = { [unowned(unsafe) self] state, _, _ in publish(state) }
    start(engine, runtime)
  }

  @usableFromInline
  func start(
    _ engine: Engine<State, Event, Output>, _ runtime: Runtime<State, Event, Output>
  ) {
    self.engine = engine
    engine.mustWait = { [unowned(unsafe) self] in mayHaveToWait && readersAreFull() }
    engine.onTransitionEnd = { [unowned(unsafe) self] in answerSender($0) }
    engine.start()
    for pipe in runtime.receivers {
      receivers.append((pipe, pipe.attach { [self] in wakeToReceive() }))
    }
    drain()
  }

  var state: State { shown.withLock(\.state) }

  func finish() {
    if gate.finished() { drain() }
  }

  /// What the engine posts to; set before it can post.
  @usableFromInline
  final class Owner: @unchecked Sendable {
    @usableFromInline var run: MachineRun!
    @usableFromInline init() {}
  }

  @usableFromInline
  func post(_ input: EngineInput<State, Event>) {
    posts.withLock { $0.append(input) }
    // In a task of its own: the poster may be in the middle of another machine's step.
    if gate.posted() { Task { drain() } }
  }

  /// Takes what waited for room, on the thread of the reader that made it: a reader is in no step.
  private func goOn() {
    posts.withLock { $0.append(.wake) }
    if gate.posted() { drain() }
  }

  private func wakeToReceive() {
    if gate.received() { Task { drain() } }
  }
}

// Sending.
extension MachineRun {
  /// Has an idle machine take the event on the caller's thread, without a task or a suspension.
  /// - Returns: `nil` where it was not idle, and nothing has been done.
  @inlinable
  func sendNow(_ event: Event) -> StepOutcome<State>? {
    guard gate.beginQuickly() else { return nil }
    // The engine stays as long as there is a drainer, which the caller is.
    let outcome = quick._withUnsafeGuaranteedRef { engine -> StepOutcome<State>? in
      if !engine.isReady || mayHaveToWait && readersAreFull() { return nil }
      return engine.step(event, cause: "send", done: nil) { publish(engine.state) }
    }
    if case .pending? = outcome { return outcome }
    if !gate.endQuickly() { drainOn() }
    return outcome
  }

  /// Waits for the transition that a send has started.
  @usableFromInline
  nonisolated(nonsending)
    func transitionEnd() async -> SendOutcome<State>
  {
    await withCheckedContinuation { answer in
      suspended = answer
      if !gate.endQuickly() { drain() }
    }
  }

  /// As ``sendNow(_:)``, where something else may be waiting or under way.
  @usableFromInline
  nonisolated(nonsending)
    func sendLater(_ event: Event) async -> SendOutcome<State>
  {
    let (sender, name) = (AwaitedStep.ofCaller, { EnumCases<Event>.name(of: event) ?? "\(event)" })
    if let deadlock = sender?.deadlock(sending: name(), to: id) {
      Warnings.tell(
        "a machine with states \(TypeName.of(State.self)): \(deadlock); the send is refused")
      return .refused(.thrown(deadlock))
    }
    if sender == nil { AwaitedStep.watch(sending: name(), to: id) }
    return await withCheckedContinuation { answer in
      sends.withLock { $0.append(Send(event: event, answer: answer, sender: sender)) }
      if gate.sent() { drain() }
    }
  }

  /// Leaves an event for the machine to take after those sent before it; its outcome is of no interest.
  func sendUnanswered(_ event: Event) {
    sends.withLock { $0.append(Send(event: event)) }
    // In a task of its own: the sender may be in the middle of another machine's step.
    if gate.sent() { Task { drain() } }
  }

  private func take(_ send: Send) {
    let (event, answer) = (send.event, send.answer)
    guard let engine else {
      answer?.resume(returning: .finished)
      return
    }
    suspended = answer
    engine.sender = .known(send.sender)
    // What nobody waits for, the engine tells of where that is needed.
    engine.take(event, cause: "send", done: answer == nil ? nil : { [self] in answerSender($0) })
  }

  /// Answers the sender whose event has been taken.
  private func answerSender(_ step: StepOutcome<State>) {
    guard let answer = suspended else { return }
    suspended = nil
    switch step {
    case .moved(let state, _): answer.resume(returning: .moved(state))
    case .refused(let refusal): answer.resume(returning: .refused(refusal))
    case .pending: preconditionFailure("An engine ends an event with its outcome.")
    }
  }
}

// Draining.
extension MachineRun {
  /// Goes on as the drainer: something came in during a quick step.
  ///
  /// In a task of its own: the sender's own event is done, and others' steps are not to keep it.
  @usableFromInline
  func drainOn() { Task { drain() } }

  /// Takes up to `budget` inputs, then leaves the rest to another task: a sender is not kept for
  /// long by the events of others, nor a thread.
  private func drain(budget: Int = 256) {
    var left = budget
    while true {
      engine?.sender = .caller
      let next = gate.next(takesInput: engine?.canTakeInput ?? false, isSpent: left == 0)
      if let engine, next != .idle, next != .handOver { engine.sender = .known(nil) }
      left -= 1
      switch next {
      case .post:
        // A post to a stopped engine is forgotten, which lets a waiting effect go.
        let post = posts.withLock { $0.popFirst()! }
        engine?.process(post)
      case .send: take(sends.withLock { $0.popFirst()! })
      case .receive: receive()
      case .stop: stop()
      case .handOver: Task { drain() }; return
      case .idle: return
      }
    }
  }

  /// Takes one event from the next pipe that has one.
  private func receive() {
    for _ in receivers.indices {
      nextReceiver = (nextReceiver + 1) % receivers.count
      let (pipe, receiver) = receivers[nextReceiver]
      guard let event = receiver.next() else { continue }
      engine?.take(event, cause: pipe.cause)
      // There may be more, also in the other pipes.
      return gate.mayReceiveMore()
    }
  }

  private func stop() {
    engine?.stop()
    engine = nil
    suspended?.resume(returning: .finished)
    suspended = nil
    for (pipe, receiver) in receivers { pipe.detach(receiver) }
    receivers = []
    let readers = shown.withLock { $0.stop() }
    for reader in readers { reader.finish() }
  }
}

// Reading.
extension MachineRun {
  @usableFromInline
  func addReader(isLate: Bool) -> StateReaderHandle<State> {
    let reader = shown.withLock { shown in
      shown.makeReader(
        isLate: isLate,
        madeRoom: { [self] in goOn() },
        ended: { [self] in remove($0) })
    }
    return StateReaderHandle(reader)
  }

  /// The task that reads has been cancelled. Nobody else reading, the run ends.
  func cancel(_ reader: StateReader<State>) {
    let isOnly = shown.withLock { $0.readers.count == 1 && $0.readers[0] === reader }
    reader.end()
    if isOnly { finish() }
  }

  /// The next state for a reader that has none; `nil` at the end or on cancellation.
  @usableFromInline
  nonisolated(nonsending)
    func nextState(_ reader: StateReader<State>) async -> State?
  {
    await withTaskCancellationHandler {
      await reader.readLater()
    } onCancel: {
      cancel(reader)
    }
  }

  private func remove(_ reader: StateReader<State>) {
    shown.withLock { $0.remove(reader) }
    post(.wake)
  }

  /// Whether some reader lags as far behind as it may. If so, a wake will be posted.
  @usableFromInline
  func readersAreFull() -> Bool {
    mayHaveToWait = shown.withLock { shown in
      // Each is asked, so that each tells when it has room.
      shown.readers.count { $0.isFull } > 0
    }
    if mayHaveToWait, !watch.hasBegun { watch.begin { [self] in shown.withLock(\.lag) } }
    return mayHaveToWait
  }

  /// Shows a state that has been entered.
  @inlinable
  func publish(_ state: State) {
    // The state that gives way is let go outside the lock: that may run a `deinit` of the user's.
    let (_, isAwaited, isFull) = shown.withLock { $0.enter(state) }
    if isFull { mayHaveToWait = true }
    if isAwaited { wakeReaders() }
  }

  @usableFromInline
  func wakeReaders() {
    let waiting = shown.withLock { shown in
      shown.readers.filter { $0.isWaiting.load(ordering: .relaxed) }
    }
    for reader in waiting { reader.wake() }
  }
}

/// Who is told of what is wrong with what runs in this process, where nobody else can be.
package enum Warnings {
  /// Standard error, where a test does not say otherwise for what it makes.
  @TaskLocal package static var tell: @Sendable (String) -> Void = {
    StandardError.write("warning: \($0)\n")
  }
}
