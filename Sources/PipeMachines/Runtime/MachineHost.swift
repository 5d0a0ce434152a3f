import PipeSupport

/// One machine of a composite: the machine's engine, and the queued input.
final class MachineHost<State: MachineState, Event: MachineEvent, Output: DSLCompatible>:
  ComponentHost
{
  let name: String
  private let position: Int
  private unowned let run: CompositeRun
  private let engine: Engine<State, Event, Output>
  /// The tags of the events that the machine accepts only together with other machines.
  private let synchronizedTags: Set<Int>
  private var queuedSends = Queue<Send>()
  private var receivers: [(pipe: EventPipe<Event>, receiver: PipeReceiver<Event>)] = []
  private var nextReceiver = 0
  private var prefersSends = false
  private let receivingPipes: [EventPipe<Event>]
  private var preparedStep: (event: Event, next: TransitionTarget<State>?, isTentative: Bool)?
  private var adoptedStep: (event: Event, isInternal: Bool)?
  private var unreturnedTransitions = RunningTransitionLimit()
  var isFrozen = false

  /// An event that was sent to this machine alone.
  private struct Send {
    let event: Event
    /// The step that waits for the answer; `nil` if no step waits.
    let sender: PendingStep?
    let answer: (SendOutcome<any MachineState>) -> Void
  }

  /// The maximum number of inputs that the machine processes before the other machines have their
  /// turn.
  private static var maximumInputsPerTurn: Int { 64 }

  init(
    name: String, position: Int, machine: StateMachine<State, Event, Output>,
    runtime: Runtime<State, Event, Output>, synchronized: Set<String>, run: CompositeRun
  ) {
    self.name = name
    self.position = position
    self.run = run
    let names = EnumCases<Event>.names
    self.synchronizedTags = Set(names.indices.filter { synchronized.contains(names[$0]) })
    receivingPipes = runtime.receivingPipes
    let owner = HostReference()
    engine = Engine(machine: machine, runtime: runtime) { [weak run] input in
      // Processes the input in a new task, because the posting thread may be in the middle of
      // another machine's step.
      run?.post(inTask: true) { owner.host?.process(input) }
    }
    engine.awaitingStep = .known(nil)
    owner.host = self
    engine.onEntry = { [unowned self] state, _, _ in self.run.publishState(state, at: self.position)
    }
    engine.mustWait = { [unowned self] in isFrozen || self.run.mustWait }
  }

  // The reference is written once, before the engine can post. Afterwards, only the run's drainer
  // reads it.
  private final class HostReference: @unchecked Sendable { weak var host: MachineHost? }

  var state: any MachineState { engine.state }
  var version: UInt64 { engine.version }
  var isReady: Bool { engine.canTakeInput }
  var isAtRest: Bool {
    !engine.isInTransition && engine.runningEffectCount == 0 && queuedSends.isEmpty && !isFrozen
  }

  func start() {
    engine.start()
    for pipe in receivingPipes {
      let position = position
      receivers.append(
        (
          pipe,
          pipe.attach { [weak run] in
            run?.post(inTask: true) { [weak run] in run?.schedulePump(position) }
          }
        ))
    }
  }

  func stop() {
    engine.stop()
    for (pipe, receiver) in receivers { pipe.detach(receiver) }
    receivers = []
    for send in queuedSends.removeAll() { send.answer(.finished) }
  }

  func offer(
    _ event: any MachineEvent, by sender: PendingStep?,
    answer: @escaping (SendOutcome<any MachineState>) -> Void
  ) {
    guard let event = event as? Event else { return answer(.refused(.noTransition)) }
    let name = EnumCases<Event>.name(of: event) ?? "\(event)"
    if let deadlock = sender?.deadlock(sending: name, to: ObjectIdentifier(engine)) {
      engine.onError("deadlock in component '\(self.name)': \(deadlock); the send is refused")
      return answer(.refused(.thrown(deadlock)))
    }
    queuedSends.append(Send(event: event, sender: sender, answer: answer))
  }

  func isInStep(awaiting step: PendingStep) -> Bool { step.isAwaited(by: ObjectIdentifier(engine)) }

  private func isSynchronized(_ event: Event) -> Bool {
    guard !synchronizedTags.isEmpty, let tag = EnumCases<Event>.tag(of: event) else { return false }
    return synchronizedTags.contains(tag)
  }

  private func process(_ input: EngineInput<State, Event>) {
    if case .effectEvent(let event, let effect, let kind, let reply) = input,
      isSynchronized(event)
    {
      // The effect waits until all participants accept the event, or until the effect is cancelled.
      run.emit(
        SynchronizedEvent(event), of: position,
        isWanted: { [unowned self] in engine.effects.shouldProcess(kind, of: effect) },
        answer: { reply.resume($0) })
    } else {
      let (version, wasBusy) = (engine.version, engine.isInTransition)
      engine.process(input)
      if engine.version != version || wasBusy && !engine.isInTransition { run.noteStep() }
    }
    run.schedulePump(position)
  }

  func pump() -> Bool {
    let version = engine.version
    // Processes the input that was queued during a wait.
    if engine.hasQueuedInput, engine.canTakeInput { engine.process(.wake) }
    var left = Self.maximumInputsPerTurn
    while left > 0, engine.canTakeInput, processNextInput() { left -= 1 }
    if left == 0 { run.schedulePump(position) }
    return engine.version != version
  }

  /// Processes one input. Alternates between sent events and events of pipes. Returns `false` if no
  /// input is queued.
  private func processNextInput() -> Bool {
    prefersSends.toggle()
    return prefersSends ? processNextSend() || receive() : receive() || processNextSend()
  }

  private func processNextSend() -> Bool {
    guard let send = queuedSends.popFirst() else { return false }
    engine.awaitingStep = .known(send.sender)
    defer { engine.awaitingStep = .known(nil) }
    engine.take(send.event, cause: "send") { [run, position] outcome in
      switch outcome {
      case .accepted(let state, _): send.answer(.accepted(state))
      case .refused(let refusal): send.answer(.refused(refusal))
      case .pending: break
      }
      // If the transition is asynchronous, the engine calls this closure only after the transition
      // has returned. So the run must be notified here.
      run.noteStep()
      run.schedulePump(position)
    }
    return true
  }

  private func receive() -> Bool {
    for _ in receivers.indices {
      nextReceiver = (nextReceiver + 1) % receivers.count
      let (pipe, receiver) = receivers[nextReceiver]
      guard let event = receiver.next() else { continue }
      if isSynchronized(event) {
        // A synchronized event that arrives through a pipe of one component does not come from the
        // composite, so it is refused.
        engine.refuse()
      } else {
        engine.take(event, cause: pipe.cause)
      }
      return true
    }
    return false
  }
}

extension MachineHost {
  func prepare(_ event: SynchronizedEvent) -> Reduction<any Sendable>? {
    guard engine.canTakeInput else { return nil }
    guard let event = try? event.event(as: Event.self) else { return .refused(.noTransition) }
    switch engine.machine.step(engine.state, event) {
    case .next(let next):
      preparedStep = (event, TransitionTarget(next), false)
      return .next(next)
    case .stays(let next):
      preparedStep = (event, TransitionTarget(next, isInternal: true), false)
      return .stays(next)
    case .ignored:
      // The machine takes part in the joint step, so its version increases like the versions of the
      // other participants.
      preparedStep = (event, TransitionTarget(engine.state, isInternal: true), false)
      return .ignored
    case .suspended(let run):
      guard let limit = run.limit else { return .refused(.asynchronous) }
      guard unreturnedTransitions.mayBegin(tell: engine.onError) else { return .refused(.timedOut) }
      preparedStep = (event, nil, true)
      return .suspended(
        SuspendedTransition(
          within: limit,
          target: { [scope = engine.scope] in
            try await scope.run(isTentative: true, run.target).map { $0 as any Sendable }
          }))
    case .refused(let refusal):
      return .refused(refusal)
    }
  }

  func begin() { unreturnedTransitions.begin() }

  func returned() {
    // A transition may begin again, so requests that were refused because of the limit can be
    // retried.
    if unreturnedTransitions.returned() { run.noteStep() }
  }

  func complete(with target: TransitionTarget<any Sendable>) {
    guard let state = target.state as? State else { return }
    preparedStep?.next = TransitionTarget(state, isInternal: target.isInternal)
  }

  func abandon() {
    if preparedStep?.isTentative == true { engine.scope.abandon() }
    preparedStep = nil
  }

  func adopt() {
    guard let (event, next, isTentative) = preparedStep, let next else {
      preconditionFailure("Component '\(name)' was not prepared for the event.")
    }
    preparedStep = nil
    if isTentative { engine.scope.keep() }
    adoptedStep = (event, next.isInternal)
    if engine.hasEventMiddleware { engine.observe(event) }
    engine.adopt(next.state)
    run.keep(next.state, at: position)
  }

  func enter() {
    guard let (event, isInternal) = adoptedStep else {
      preconditionFailure("Component '\(name)' has not adopted a state.")
    }
    adoptedStep = nil
    engine.enterAdopted(on: event, isInternal: isInternal)
  }
}
