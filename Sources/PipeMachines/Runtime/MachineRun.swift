import PipeSupport
import Synchronization

/// Runs a machine in this process. The machine's engine reads its input from a mailbox.
///
/// A caller that adds input to an idle mailbox becomes the drainer: it takes the steps for all
/// queued input on its own thread. The other callers leave their input in the mailbox, and the
/// drainer calls user code without holding the lock. So there is no task per event.
///
/// The code path of a send and its step is inlinable, so that it is specialized for the machine's
/// own types in the module that uses the machine. Measurements show that this is three times faster
/// than the generic code.
///
/// A run keeps itself alive until its ``RunHandle`` calls ``finish()``. A weak reference to the run
/// would double the cost of each step.
@usableFromInline
final class MachineRun<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>:
  @unchecked Sendable  // The drainer owns the mutable state, and there is at most one.
{
  @usableFromInline
  typealias OutcomeContinuation = CheckedContinuation<SendOutcome<State>, Never>

  @usableFromInline let gate = DrainGate()
  @usableFromInline let publishedStates: Locked<PublishedStates<State>>
  /// An event that was sent.
  private struct Send {
    let event: Event
    /// Resumes the sender with the outcome; `nil` if the sender does not wait.
    var answer: OutcomeContinuation?
    /// The step that waits for the outcome; `nil` if no step waits.
    var sender: PendingStep?
  }

  private let queuedInputs = Locked(Queue<EngineInput<State, Event>>())
  private let queuedSends = Locked(Queue<Send>())

  private var engine: Engine<State, Event, Output>?  // `nil` after the run has stopped.
  /// An unretained reference to the engine. The drainer, which takes the steps, uses this reference
  /// to avoid reference counting. The reference is valid until the run stops.
  @usableFromInline let unmanagedEngine: Unmanaged<Engine<State, Event, Output>>
  /// The identity of the machine for ``PendingStep``.
  @usableFromInline let id: ObjectIdentifier
  /// Whether a reader of the states was full after the last step.
  @usableFromInline
  @exclusivity(unchecked)
  var mayHaveToWait = false
  private var receivers: [(pipe: EventPipe<Event>, receiver: PipeReceiver<Event>)] = []
  private var nextReceiver = 0
  // The answer to the send whose transition is running.
  private var pendingAnswer: OutcomeContinuation?
  private let watch = ReaderWatch { "a machine with states \(TypeName.of(State.self))" }

  @inlinable
  init(machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>) {
    publishedStates = Locked(PublishedStates(machine.initial))
    let owner = Owner()
    let engine = Engine(machine: machine, runtime: runtime) { owner.run.post($0) }
    unmanagedEngine = .passUnretained(engine)
    id = ObjectIdentifier(engine)
    owner.run = self
    // The unowned reference is valid in each call: only this run owns the engine, and a stopped
    // engine makes no calls.
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
    for pipe in runtime.receivingPipes {
      receivers.append((pipe, pipe.attach { [self] in wakeToReceive() }))
    }
    drain()
  }

  var state: State { publishedStates.withLock(\.state) }

  func finish() {
    if gate.recordFinish() { drain() }
  }

  /// The target of the engine's posts. `run` is set before the engine can post.
  @usableFromInline
  final class Owner: @unchecked Sendable {
    @usableFromInline var run: MachineRun!
    @usableFromInline init() {}
  }

  @usableFromInline
  func post(_ input: EngineInput<State, Event>) {
    queuedInputs.withLock { $0.append(input) }
    // Drains in a new task, because the posting thread may be in the middle of another machine's
    // step.
    if gate.recordPost() { Task { drain() } }
  }

  /// Processes the input that has waited for a reader's capacity. Called on the thread of the
  /// reader, which is not in the middle of a step.
  private func resumeAfterWait() {
    queuedInputs.withLock { $0.append(.wake) }
    if gate.recordPost() { drain() }
  }

  private func wakeToReceive() {
    if gate.recordReceipt() { Task { drain() } }
  }
}

// Sending events.
extension MachineRun {
  /// Processes the event on the caller's thread if the machine is idle, without a task or a
  /// suspension.
  /// - Returns: `nil` if the machine was not idle. In that case, the event was not processed.
  @inlinable
  func sendNow(_ event: Event) -> StepOutcome<State>? {
    guard gate.beginFastPath() else { return nil }
    // The engine lives as long as there is a drainer, and the caller is the drainer.
    let outcome = unmanagedEngine._withUnsafeGuaranteedRef { engine -> StepOutcome<State>? in
      if !engine.isReady || mayHaveToWait && readersAreFull() { return nil }
      return engine.step(event, cause: "send", done: nil) { publish(engine.state) }
    }
    if case .pending? = outcome { return outcome }
    if !gate.endFastPath() { continueDraining() }
    return outcome
  }

  /// Waits for the end of the transition that a send has started.
  @usableFromInline
  nonisolated(nonsending)
    func transitionEnd() async -> SendOutcome<State>
  {
    await withCheckedContinuation { answer in
      pendingAnswer = answer
      if !gate.endFastPath() { drain() }
    }
  }

  /// Sends an event like ``sendNow(_:)``, but to a machine that may be busy or have queued input.
  @usableFromInline
  nonisolated(nonsending)
    func sendAfterCurrentStep(_ event: Event) async -> SendOutcome<State>
  {
    let (sender, name) = (PendingStep.ofCaller, { EnumCases<Event>.name(of: event) ?? "\(event)" })
    if let deadlock = sender?.deadlock(sending: name(), to: id) {
      Warnings.tell(
        "deadlock in a machine with states \(TypeName.of(State.self)): \(deadlock); the send "
          + "is refused"
      )
      return .refused(.thrown(deadlock))
    }
    if sender == nil { PendingStep.watch(sending: name(), to: id) }
    return await withCheckedContinuation { answer in
      queuedSends.withLock { $0.append(Send(event: event, answer: answer, sender: sender)) }
      if gate.recordSend() { drain() }
    }
  }

  /// Queues an event behind the events sent before it, and ignores its outcome.
  func sendWithoutReply(_ event: Event) {
    queuedSends.withLock { $0.append(Send(event: event)) }
    // Drains in a new task, because the sender may be in the middle of another machine's step.
    if gate.recordSend() { Task { drain() } }
  }

  private func process(_ send: Send) {
    let (event, answer) = (send.event, send.answer)
    guard let engine else {
      answer?.resume(returning: .finished)
      return
    }
    pendingAnswer = answer
    engine.awaitingStep = .known(send.sender)
    // If no sender waits for the outcome, the engine itself reports a thrown error.
    engine.take(event, cause: "send", done: answer == nil ? nil : { [self] in answerSender($0) })
  }

  /// Answers the sender whose event has been processed.
  private func answerSender(_ step: StepOutcome<State>) {
    guard let answer = pendingAnswer else { return }
    pendingAnswer = nil
    switch step {
    case .accepted(let state, _): answer.resume(returning: .accepted(state))
    case .refused(let refusal): answer.resume(returning: .refused(refusal))
    case .pending: preconditionFailure("The engine ended an event without an outcome.")
    }
  }
}

// Draining the mailbox.
extension MachineRun {
  /// Continues as the drainer, because input arrived while the caller was on the fast path.
  ///
  /// Continues in a new task: the sender's own event has been processed, and the sender should not
  /// wait for the steps of other senders' events.
  @usableFromInline
  func continueDraining() { Task { drain() } }

  /// Processes up to `budget` inputs. Leaves further inputs to another task, so that a sender or a
  /// thread is not busy for long with the events of other senders.
  private func drain(budget: Int = 256) {
    var left = budget
    while true {
      engine?.awaitingStep = .caller
      let next = gate.nextAction(
        acceptsInput: engine?.canTakeInput ?? false, isBudgetSpent: left == 0)
      if let engine, next != .idle, next != .handOver { engine.awaitingStep = .known(nil) }
      left -= 1
      switch next {
      case .post:
        // A stopped engine ignores the input. An effect that waits for this input is released.
        let post = queuedInputs.withLock { $0.popFirst()! }
        engine?.process(post)
      case .send: process(queuedSends.withLock { $0.popFirst()! })
      case .receive: receive()
      case .stop: stop()
      case .handOver: Task { drain() }; return
      case .idle: return
      }
    }
  }

  /// Processes one event from the next pipe that has an event.
  private func receive() {
    for _ in receivers.indices {
      nextReceiver = (nextReceiver + 1) % receivers.count
      let (pipe, receiver) = receivers[nextReceiver]
      guard let event = receiver.next() else { continue }
      engine?.take(event, cause: pipe.cause)
      // The pipes, including this pipe, may have further events.
      return gate.noteRemainingEvents()
    }
  }

  private func stop() {
    engine?.stop()
    engine = nil
    pendingAnswer?.resume(returning: .finished)
    pendingAnswer = nil
    for (pipe, receiver) in receivers { pipe.detach(receiver) }
    receivers = []
    let readers = publishedStates.withLock { $0.stop() }
    for reader in readers { reader.finish() }
  }
}

// Reading the states.
extension MachineRun {
  @usableFromInline
  func addReader(skipsBacklog: Bool) -> StateReaderHandle<State> {
    let reader = publishedStates.withLock { publishedStates in
      publishedStates.makeReader(
        skipsBacklog: skipsBacklog,
        signalCapacity: { [self] in resumeAfterWait() },
        ended: { [self] in remove($0) })
    }
    return StateReaderHandle(reader)
  }

  /// Ends a reader whose task has been cancelled. If the run has no other reader, the run ends.
  func cancel(_ reader: StateReader<State>) {
    let isOnly = publishedStates.withLock { $0.readers.count == 1 && $0.readers[0] === reader }
    reader.end()
    if isOnly { finish() }
  }

  /// Waits for the next state of a reader that has read all queued states. Returns `nil` at the end
  /// of the run or on cancellation.
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
    publishedStates.withLock { $0.remove(reader) }
    post(.wake)
  }

  /// Returns whether a reader has reached the maximum lag. If so, the run is woken when the reader
  /// has capacity again.
  @usableFromInline
  func readersAreFull() -> Bool {
    mayHaveToWait = publishedStates.withLock { publishedStates in
      // Checks every reader, and does not stop at the first full reader: the check of a full reader
      // also requests a call when that reader has capacity again.
      publishedStates.readers.count { $0.isFull } > 0
    }
    if mayHaveToWait, !watch.hasBegun {
      watch.begin { [self] in publishedStates.withLock(\.readCountsOfFullReaders) }
    }
    return mayHaveToWait
  }

  /// Publishes a state that the machine has entered.
  @inlinable
  func publish(_ state: State) {
    // The previous state is released outside the lock, because releasing it may run a `deinit` of
    // the user.
    let (_, isAwaited, isFull) = publishedStates.withLock { $0.publish(state) }
    if isFull { mayHaveToWait = true }
    if isAwaited { wakeReaders() }
  }

  @usableFromInline
  func wakeReaders() {
    let waiting = publishedStates.withLock { publishedStates in
      publishedStates.readers.filter { $0.isWaiting.load(ordering: .relaxed) }
    }
    for reader in waiting { reader.wake() }
  }
}

/// The recipient of warnings.
package enum Warnings {
  /// Receives a warning. Writes it to standard error, unless a test replaces this function.
  @TaskLocal package static var tell: @Sendable (String) -> Void = {
    StandardError.write("warning: \($0)\n")
  }
}
