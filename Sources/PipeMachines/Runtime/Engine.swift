import PipeSupport

/// Takes the steps of one machine. The in-process sequence and hosted nodes use this same engine.
///
/// The engine is not thread-safe: its owner calls it from one isolation. A step consists of these
/// actions, in this order:
///
/// 1. Call event middleware, and make the transition.
/// 2. Call ``onEntry``, and then state middleware.
/// 3. Send the events of the rules that depend on the state, in the declared order.
/// 4. Cancel the timers of the former state, and start the timers of the new state.
/// 5. Cancel effects by their strategies, and start the effect of the new state's output.
/// 6. Cancel and start feedbacks.
/// 7. Send the events of the rules that depend on the accepted event.
///
/// The path of a step that only has a transition is inlinable; see ``MachineRun``.
@usableFromInline
package final class Engine<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  @usableFromInline
  package typealias Input = EngineInput<State, Event>
  @usableFromInline
  package typealias Done = (StepOutcome<State>) -> Void

  // The properties that every step accesses are exempt from the run-time checks for exclusive
  // access. They are safe without these checks, because one isolation owns them, and no access to
  // them is in progress during a call.
  @usableFromInline
  @exclusivity(unchecked)
  package internal(set) var state: State
  /// The number of steps taken. The entry into the initial state is not a step.
  @usableFromInline
  @exclusivity(unchecked)
  package internal(set) var version: UInt64 = 0
  /// The number of refused events.
  @usableFromInline
  @exclusivity(unchecked)
  package internal(set) var refusals: UInt64 = 0
  /// The number of events that the machine has consumed without a step.
  package internal(set) var ignoredEvents: UInt64 = 0
  /// Called on every entry into a state, in step order, after state and version have changed.
  @usableFromInline
  @exclusivity(unchecked)
  package var onEntry: ((_ state: State, _ version: UInt64, _ cause: String) -> Void)?
  /// Called instead of ``onEntry`` for an internal transition, which enters no state. If this
  /// property is `nil`, ``onEntry`` is called.
  package var onInternalTransition: ((_ state: State, _ version: UInt64, _ cause: String) -> Void)?
  /// Returns whether the owner itself must wait before the next step, for example for capacity in a
  /// buffer. When the wait is over, the owner processes ``EngineInput/wake``.
  @exclusivity(unchecked)
  package var mustWait: (() -> Bool)?
  /// The step that sends the next event and waits for the outcome, for the detection of deadlocks.
  /// Default: the step of the calling task.
  enum AwaitingStep {
    case caller
    case known(PendingStep?)
  }
  var awaitingStep = AwaitingStep.caller
  /// Returns whether an intermediate state of a transition may be published.
  package var canShow: ((State) -> Bool)?
  /// Called with the outcome of each asynchronous step that was started without a `done`.
  var onTransitionEnd: Done?
  /// Called instead of ``onEntry`` for an intermediate state of a transition. If this property is
  /// `nil`, ``onEntry`` is called.
  package var onIntermediateState: ((_ state: State, _ version: UInt64, _ cause: String) -> Void)?
  /// Called for each intermediate state of a transition, after the transition has returned and
  /// before the machine enters the next state. `nil` if the owner does nothing with intermediate
  /// states at that time.
  package var onIntermediateStateSettled: ((_ state: State) -> Void)?
  @usableFromInline
  @exclusivity(unchecked)
  package var trace = StepTrace<State, Event>()
  /// The intermediate states of the running transition.
  @usableFromInline
  @exclusivity(unchecked)
  var intermediateStates = IntermediateStates<State>()

  @usableFromInline package let machine: StateMachine<State, Event, Output>
  let runtime: Runtime<State, Event, Output>
  private let post: @Sendable (Input) -> Void
  let observers: MiddlewareQueues
  private let hasObservers: Bool
  let senders: SenderRules<State>
  /// The pipes that the machine sends into.
  @exclusivity(unchecked)
  var pipes: SendTargets
  /// For each rule that sends on an event, the index of the rule's pipe in `pipes`.
  let eventPipeIndices: [Int]
  // The following properties say which parts of a step the machine uses. A step skips the other
  // parts.
  @usableFromInline package let hasEventMiddleware: Bool
  @usableFromInline let hasEntryRules: Bool
  /// Whether the machine has effects, feedbacks or timers.
  @usableFromInline let hasEffects: Bool
  @usableFromInline let hasBounds: Bool
  @usableFromInline let hasEventSenders: Bool

  package let effects: EngineEffects<State, Event, Output>
  /// The timers; `nil` if the machine has no timers in any state.
  package let timers: EngineTimers<State, Event, Output>?
  /// The scope in which the transitions and effects run.
  package let scope: RunScope
  /// Whether the event of the step comes from an effect of the machine.
  var isTakingEffectEvent = false
  /// Called with a message when the running machine has an error.
  package var onError: (String) -> Void = Warnings.tell
  /// Called with a message when the machine has entered a state with an invalid timer, so that the
  /// engine's owner can end the run. If this property is `nil`, ``onError`` is called, and the
  /// machine stays in the state without timers.
  package var onFailure: ((String) -> Void)?
  var transition: RunningTransition?
  @exclusivity(unchecked)
  private var queuedInputs = Queue<QueuedInput>()
  /// Whether an input is queued. The input was posted, or it arrived during a step.
  @usableFromInline
  @exclusivity(unchecked)
  package private(set) var hasQueuedInput = false
  private var capacityWatches: [@Sendable () -> Void] = []
  @usableFromInline
  @exclusivity(unchecked)
  private(set) var isStopped = false
  /// Whether an asynchronous transition is running.
  @usableFromInline
  @exclusivity(unchecked)
  package private(set) var isInTransition = false

  /// A running asynchronous transition.
  struct RunningTransition {
    let task: Task<Void, Never>
    let event: Event
    let cause: String
    let done: Done?
    /// Whether the event of the transition comes from an effect of the machine.
    let isFromEffect: Bool
  }

  private enum QueuedInput {
    case event(Event, cause: String, done: Done?)
    case effectEvent(Event, effect: UInt64, kind: EffectEventKind, reply: EffectReply)
    case timerDue(UInt64)
  }

  /// Makes an engine in the initial state. ``start()`` enters that state.
  /// - Parameter post: Called from any thread. The owner later passes the input to ``process(_:)``.
  @usableFromInline
  package init(
    machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>,
    post: @escaping @Sendable (Input) -> Void
  ) {
    self.machine = machine
    self.runtime = runtime
    self.post = post
    scope = RunScope(start: machine.initial) { state in
      if let state = state as? State { post(.intermediateState(state)) }
    }
    effects = EngineEffects(runtime, scope: scope, post: post)
    let timerKnowledge = machine.timerPresence
    timers =
      timerKnowledge.isNone
      ? nil : EngineTimers(machine, timerKnowledge, clock: scope.clock, post: post)
    state = machine.initial
    observers = MiddlewareQueues(runtime.middlewareQueues) { post(.wake) }
    hasObservers = !observers.isEmpty
    let sent = runtime.sendTargets
    senders = SenderRules(runtime.stateSendRules, into: sent)
    var eventPipeIndices: [Int] = []
    for sender in runtime.eventSendRules { eventPipeIndices.append(sender.pipeIndex(in: sent)) }
    self.eventPipeIndices = eventPipeIndices
    pipes = SendTargets(sent)
    hasEventMiddleware = !runtime.eventMiddleware.isEmpty
    hasEntryRules = !runtime.stateMiddleware.isEmpty || !runtime.stateSendRules.isEmpty
    hasEffects = !runtime.effects.isEmpty || !runtime.feedbacks.isEmpty || timers != nil
    hasBounds = hasObservers || !sent.isEmpty
    hasEventSenders = !runtime.eventSendRules.isEmpty
  }

  deinit { stop() }

  /// Whether the owner may pass the next input to the engine.
  package var canTakeInput: Bool {
    guard isReady else { return false }
    return mustWait.map { !$0() } ?? true
  }

  /// Whether the engine itself can process the next input. Unlike ``canTakeInput``, this property
  /// ignores ``mustWait``.
  @inlinable
  var isReady: Bool { !isInTransition && !isStopped && (!hasBounds || hasCapacity) }

  @usableFromInline
  var hasCapacity: Bool {
    if hasObservers && observers.isFull { return false }
    return pipes.haveCapacity()
  }

  /// The number of running effects. Held and parked effects do not count.
  package var runningEffectCount: Int { effects.runningCount }

  /// Enters the initial state.
  @export(interface)
  package func start() {
    for problem in runtime.problems { onError(problem) }
    watchCapacity()
    onEntry?(state, version, "initial")
    actOnEntry()
  }

  /// Restores a state that the machine entered in an earlier run. Call ``resume()`` to continue
  /// from that state.
  package func restore(_ state: State, version: UInt64) {
    self.state = state
    self.version = version
    timers?.cancel()
    scope.restart(in: state)
    effects.restore(state)
  }

  /// Continues from the restored state without entering it again.
  package func resume() {
    watchCapacity()
    effects.startAnnouncing(in: state)
  }

  /// Prepares the engine to take steps for several instances in turn. Call ``restore(_:version:)``
  /// to switch to an instance.
  package func beginSharing() {
    for problem in runtime.problems { onError(problem) }
    watchCapacity()
  }

  /// Enters the initial state of an instance, after ``restore(_:version:)`` was called with that
  /// state.
  package func enterInitialState() {
    onEntry?(state, version, "initial")
    actOnEntry()
  }

  /// Whether no work of the instance is in progress, so that the engine may continue with another
  /// instance.
  package var isAtRest: Bool {
    !isInTransition && !hasQueuedInput && effects.isEmpty && !effects.hasUnrecordedChanges
      && timers?.entry == nil
  }

  @export(interface)
  private func watchCapacity() {
    let post = post
    for pipe in pipes.all { capacityWatches.append(pipe.watchCapacity { post(.wake) }) }
  }

  /// Starts the timers of the restored state. Called if the state had no timers when the machine
  /// entered it.
  /// - Throws: ``InvalidTimerError`` if a duration is negative or too long.
  package func startTimers() throws(InvalidTimerError) {
    try timers?.entered(state, version: version)
  }

  /// Cancels the effects and the running transition. Later input is ignored.
  ///
  /// The engine never makes the calls to `done` that are still pending: the owner answers its
  /// callers itself.
  @export(interface)
  package func stop() {
    guard !isStopped else { return }
    isStopped = true
    transition?.task.cancel()
    transition = nil
    isInTransition = false
    for case .effectEvent(_, _, _, let reply) in queuedInputs.removeAll() { reply.resume(false) }
    hasQueuedInput = false
    timers?.stop()
    effects.stop()
    scope.end()
    for unwatch in capacityWatches { unwatch() }
    capacityWatches = []
  }
}

extension Engine {
  /// Processes an event. For a synchronous transition, `done` is called before this function
  /// returns. For an asynchronous transition, `done` is called when the transition has returned.
  /// `done` never receives `pending`. A stopped engine ignores the event, and never calls `done`.
  @discardableResult
  package func take(_ event: Event, cause: String, done: Done? = nil) -> StepOutcome<State> {
    guard !isStopped else { return .pending }
    guard !isInTransition else {
      enqueue(.event(event, cause: cause, done: done))
      return .pending
    }
    return step(event, cause: cause, done: done)
  }

  /// Processes an input that a task of the engine has posted.
  package func process(_ input: Input) {
    guard !isStopped else {
      if case .effectEvent(_, _, _, let reply) = input { reply.resume(false) }
      return
    }
    switch input {
    case .effectEvent(let event, let effect, let kind, let reply):
      enqueue(.effectEvent(event, effect: effect, kind: kind, reply: reply))
    case .effectEnded(let effect):
      effects.end(effect)
    case .transitionEnded(let next):
      guard let ended = transition else { return }
      transition = nil
      isInTransition = false
      isTakingEffectEvent = ended.isFromEffect
      trace.tally?.countTransition(ended.event, in: settledState)
      trace.isAsynchronous = true
      if next.isInternal {
        stay(in: next.state, on: ended.event, because: ended.cause)
      } else {
        move(to: next.state, on: ended.event, because: ended.cause)
      }
      trace.isAsynchronous = false
      isTakingEffectEvent = false
      (ended.done ?? onTransitionEnd)?(.accepted(state, version: version))
    case .transitionThrew(let refusal):
      guard let ended = transition else { return }
      transition = nil
      isInTransition = false
      refusals &+= 1
      rollBack(because: ended.cause)
      let done = ended.done ?? onTransitionEnd
      if let done { done(.refused(refusal)) } else { reportThrown(.refused(refusal), ended.event) }
    case .intermediateState(let state): pass(through: state)
    case .timerDue(let alarm): enqueue(.timerDue(alarm))
    case .wake: break
    }
    if hasQueuedInput { takeQueuedInput() }
  }

  private func enqueue(_ one: QueuedInput) {
    queuedInputs.append(one)
    hasQueuedInput = true
  }

  @export(interface)
  private func takeQueuedInput() {
    while canTakeInput, let next = queuedInputs.popFirst() {
      hasQueuedInput = !queuedInputs.isEmpty
      switch next {
      case .event(let event, let cause, let done):
        step(event, cause: cause, done: done)
      case .effectEvent(let event, let effect, let kind, let reply):
        // After this input was posted, a step may have cancelled the effect or withdrawn the event.
        guard effects.shouldProcess(kind, of: effect) else {
          reply.resume(false)
          continue
        }
        takeEffectEvent(event, of: effect, kind, reply)
      case .timerDue(let alarm): fireTimer(of: alarm)
      }
    }
  }

  /// Makes the transition of a timer that is due, unless the machine has left the timer's state.
  @export(interface)
  private func fireTimer(of alarm: UInt64) {
    guard let timers, let entry = timers.entry, let timer = timers.dueTimer(of: alarm) else {
      return
    }
    guard effects.areRecorded else { return fire(timer, timers) }
    // If the transition ends the process, this origin is written to the step marker file, and
    // identifies the timer.
    let origin = EffectOrigin(
      version: entry.version, feedback: EffectOrigin.timers, instance: effects.instance)
    EffectOrigin.$recorded.withValue(origin) { fire(timer, timers) }
  }

  private func fire(_ timer: StateTimer, _ timers: EngineTimers<State, Event, Output>) {
    switch machine.fire(timer.index, in: state) {
    case .next(let next):
      if let tally = trace.tally { tally.countTimer(in: state) }
      move(to: next, on: nil, because: timer.cause)
    case .refused(let refusal):
      timers.dropFirst()
      refusals &+= 1
      onError(
        "the transition \(timer.cause) was refused, and the timer is dropped: \(refusal.wording)")
    case .stays, .ignored, .suspended, nil:
      timers.dropFirst()
      onError("the timer \(timer.cause) is dropped: the state has no such timer any more")
    }
  }

  /// Processes an event of an effect. The effect continues when the event is applied. If steps are
  /// recorded, the effect continues when the step is recorded.
  @export(interface)
  private func takeEffectEvent(
    _ event: Event, of effect: UInt64, _ kind: EffectEventKind, _ reply: EffectReply
  ) {
    if trace.isOn, let origin = effects.origin(of: effect) { trace.effectVersion = origin.version }
    let ended = effects.willTakeEvent(from: effect, kind)
    isTakingEffectEvent = true
    defer { isTakingEffectEvent = false }
    step(event, cause: "effect") { [unowned self] outcome in
      reportThrown(outcome, event)
      effects.didTakeEvent(from: effect, ended, reply)
    }
  }

  /// Takes a step whose transition was evaluated earlier in the same state.
  /// - Parameter isInternal: Whether the transition is internal, so that the machine enters no
  ///   state.
  @inlinable
  package func take(
    _ event: Event?, leadingTo next: State, isInternal: Bool = false, cause: String
  ) {
    if hasEventMiddleware, let event { observe(event) }
    if let tally = trace.tally, let event { tally.countTransition(event, in: state) }
    if isInternal {
      stay(in: next, on: event, because: cause)
    } else {
      move(to: next, on: event, because: cause)
    }
  }

  /// Counts a refused event that was not passed to the engine.
  package func refuse() { refusals &+= 1 }

  @discardableResult
  @inlinable
  func step(_ event: Event, cause: String, done: Done?) -> StepOutcome<State> {
    // Does not call the variant with the closure `entered`, because the closure would cost two
    // retains and two releases for each event of a pipe.
    if hasEventMiddleware { observe(event) }
    let outcome: StepOutcome<State>
    switch machine.step(state, event) {
    case .next(let next):
      if let tally = trace.tally { tally.countTransition(event, in: state) }
      move(to: next, on: event, because: cause)
      outcome = .accepted(state, version: version)
    case .stays(let next):
      stay(in: next, tallying: event, because: cause)
      outcome = .accepted(state, version: version)
    case .ignored:
      ignore(event)
      outcome = .accepted(state, version: version)
    case .refused(let refusal):
      refusals &+= 1
      outcome = .refused(refusal)
    case .suspended(let run):
      suspend(run, event: event, cause: cause, done: done)
      return .pending
    }
    if let done { done(outcome) } else { reportThrown(outcome, event) }
    return outcome
  }

  /// Reports a thrown error if the sender of the event does not wait for an answer.
  @inline(never)
  @usableFromInline
  func reportThrown(_ outcome: StepOutcome<State>, _ event: Event) {
    guard case .refused(.thrown(let error)) = outcome else { return }
    let name = EnumCases<Event>.name(of: event) ?? "\(event)"
    onError("event '\(name)' was refused, since the machine's function threw: \(error)")
  }

  /// Takes a step, and reports the entry through `entered` instead of ``onEntry``.
  @inlinable
  func step(
    _ event: Event, cause: String, done: Done?, entered: () -> Void
  ) -> StepOutcome<State> {
    if hasEventMiddleware { observe(event) }
    switch machine.step(state, event) {
    case .next(let next):
      if let tally = trace.tally { tally.countTransition(event, in: state) }
      move(to: next, on: event, entered: entered)
      return .accepted(state, version: version)
    case .stays(let next):
      stay(in: next, tallying: event, because: cause)
      return .accepted(state, version: version)
    case .ignored:
      ignore(event)
      return .accepted(state, version: version)
    case .refused(let refusal):
      refusals &+= 1
      return .refused(refusal)
    case .suspended(let run):
      suspend(run, event: event, cause: cause, done: done)
      return .pending
    }
  }

  // A separate function, because the same code within `step` would prevent the compiler from
  // inlining `step` into its callers.
  @inline(never)
  @usableFromInline
  func suspend(
    _ run: SuspendedTransition<State>, event: Event, cause: String, done: Done?
  ) {
    let (post, scope) = (post, scope)
    isInTransition = true
    let outer =
      switch awaitingStep {
      case .caller: PendingStep.ofCaller
      case .known(let outer): outer
      }
    let step = PendingStep(
      of: ObjectIdentifier(self), { EnumCases<Event>.name(of: event) ?? "\(event)" },
      awaitedBy: outer)
    transition = RunningTransition(
      task: Task {
        do {
          let next = try await step.perform { try await scope.run(run.target) }
          post(.transitionEnded(next))
        } catch {
          post(.transitionThrew(.thrown(by: error)))
        }
      }, event: event, cause: cause, done: done, isFromEffect: isTakingEffectEvent)
  }
}
