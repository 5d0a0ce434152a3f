import PipeSupport

/// Takes the steps of one machine. The in-process sequence and hosted nodes use this same engine.
///
/// The engine is not thread-safe: its owner calls it from one isolation. A step consists of the
/// following, in this order: event middleware, the transition, `onEntry`, state middleware, sends
/// into pipes in the declared order, cancellation of effects by their strategies, and the start of
/// the effect of the new state's output.
///
/// The path of a step that only has a transition is inlinable; see ``MachineRun``.
@usableFromInline
package final class Engine<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  @usableFromInline
  package typealias Input = EngineInput<State, Event>
  @usableFromInline
  package typealias Done = (StepOutcome<State>) -> Void

  // Exclusivity is not checked at run time for the properties that each step touches: one isolation
  // owns them, and no access spans a call.
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
  /// Called on every entry into a state, in step order, after state and version have changed.
  @usableFromInline
  @exclusivity(unchecked)
  package var onEntry: ((_ state: State, _ version: UInt64, _ cause: String) -> Void)?
  /// Returns whether the owner itself must wait before the next step, for example for capacity in a
  /// buffer. When the wait is over, the owner processes ``EngineInput/wake``.
  @exclusivity(unchecked)
  package var mustWait: (() -> Bool)?
  /// The step that waits for the next asynchronous step. Default: the step of the calling task.
  enum Sender {
    case caller
    case known(PendingStep?)
  }
  var sender = Sender.caller
  /// Returns whether an intermediate state of a transition may be published.
  package var canShow: ((State) -> Bool)?
  /// Called with the outcome of each asynchronous step that was started without a `done`.
  var onTransitionEnd: Done?
  /// Called instead of ``onEntry`` for an intermediate state of a transition. If this property is
  /// `nil`, ``onEntry`` is called.
  package var onIntermediateState: ((_ state: State, _ version: UInt64, _ cause: String) -> Void)?
  /// Called again for each intermediate state when the step is over, before the machine enters its
  /// final state. `nil` if the owner does nothing with intermediate states then.
  package var onIntermediateStateSettled: ((_ state: State) -> Void)?
  @usableFromInline
  @exclusivity(unchecked)
  package var trace = StepTrace<State, Event>()
  /// The intermediate states of the running transition.
  @usableFromInline
  @exclusivity(unchecked)
  private(set) var intermediateStates = IntermediateStates<State>()

  @usableFromInline package let machine: StateMachine<State, Event, Output>
  private let runtime: Runtime<State, Event, Output>
  private let post: @Sendable (Input) -> Void
  private let observers: MiddlewareQueues
  private let hasObservers: Bool
  private let senders: SenderRules<State>
  /// The pipes that the machine sends into.
  @exclusivity(unchecked)
  private var pipes: SendTargets
  /// For each rule that sends on an event: the index of its pipe in `pipes`.
  private let eventPipes: [Int]
  // Whether the machine uses these parts of a step. A step skips the other parts.
  @usableFromInline package let hasEventMiddleware: Bool
  @usableFromInline let hasEntryRules: Bool
  @usableFromInline let hasEffects: Bool
  @usableFromInline let hasBounds: Bool
  @usableFromInline let hasEventSenders: Bool

  package let effects: EngineEffects<State, Event, Output>
  /// The scope in which the transitions and effects run.
  package let scope: RunScope
  /// Whether the event of the step comes from an effect of the machine.
  private var isTakingEffectEvent = false
  /// Called with a message when the running machine has an error.
  package var onError: (String) -> Void = Warnings.tell
  private var transition: RunningTransition?
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
  private struct RunningTransition {
    let task: Task<Void, Never>
    let event: Event
    let cause: String
    let done: Done?
    /// Whether the event of the transition comes from an effect of the machine.
    let isFromEffect: Bool
  }

  private enum QueuedInput {
    case taken(Event, cause: String, done: Done?)
    case effectEvent(Event, effect: UInt64, place: EffectEventIndex, reply: EffectReply)
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
      if let state = state as? State { post(.passed(state)) }
    }
    effects = EngineEffects(runtime, scope: scope, post: post)
    state = machine.initial
    observers = MiddlewareQueues(runtime.middlewareQueues) { post(.wake) }
    hasObservers = !observers.isEmpty
    let sent = runtime.sendTargets
    senders = SenderRules(runtime.senders, into: sent)
    var eventPipes: [Int] = []
    for sender in runtime.eventSenders { eventPipes.append(sender.place(in: sent)) }
    self.eventPipes = eventPipes
    pipes = SendTargets(sent)
    hasEventMiddleware = !runtime.eventMiddleware.isEmpty
    hasEntryRules = !runtime.stateMiddleware.isEmpty || !runtime.senders.isEmpty
    hasEffects = !runtime.effects.isEmpty || !runtime.feedbacks.isEmpty
    hasBounds = hasObservers || !sent.isEmpty
    hasEventSenders = !runtime.eventSenders.isEmpty
  }

  deinit { stop() }

  /// Whether the owner may pass the next input to the engine.
  package var canTakeInput: Bool {
    guard isReady else { return false }
    return mustWait.map { !$0() } ?? true
  }

  /// Whether the owner may pass the next input to the engine, if the owner itself need not wait.
  @inlinable
  var isReady: Bool { !isInTransition && !isStopped && (!hasBounds || hasCapacity) }

  @usableFromInline
  var hasCapacity: Bool {
    if hasObservers && observers.isFull { return false }
    return pipes.haveCapacity()
  }

  /// The number of running effects. Held effects do not count.
  package var runningEffects: Int { effects.count }

  /// Enters the initial state.
  @export(interface)
  package func start() {
    for problem in runtime.problems { onError(problem) }
    watchCapacity()
    onEntry?(state, version, "initial")
    actOnEntry()
  }

  /// Restores a state that the machine entered in an earlier run. ``resume()`` continues from that
  /// state.
  package func restore(_ state: State, version: UInt64) {
    self.state = state
    self.version = version
    scope.restart(in: state)
    effects.restore(state)
  }

  /// Continues from the restored state without entering it again.
  package func resume() {
    watchCapacity()
    effects.startAnnouncing(in: state)
  }

  /// Prepares the engine to take steps for one instance after the other; see ``restore(_:version:)``.
  package func beginSharing() {
    for problem in runtime.problems { onError(problem) }
    watchCapacity()
  }

  /// Enters the initial state of an instance that was restored in it.
  package func enterInitialState() {
    onEntry?(state, version, "initial")
    actOnEntry()
  }

  /// Whether nothing of the instance is in progress, so that the engine may continue with another
  /// instance.
  package var isAtRest: Bool {
    !isInTransition && !hasQueuedInput && effects.isEmpty && !effects.hasUnrecordedChanges
  }

  @export(interface)
  private func watchCapacity() {
    let post = post
    for pipe in pipes.all { capacityWatches.append(pipe.watchCapacity { post(.wake) }) }
  }

  /// Cancels the effects and the running transition. Later input is ignored.
  ///
  /// Calls to `done` that are still pending are never made: the owner answers its callers itself.
  @export(interface)
  package func stop() {
    guard !isStopped else { return }
    isStopped = true
    transition?.task.cancel()
    transition = nil
    isInTransition = false
    for case .effectEvent(_, _, _, let reply) in queuedInputs.removeAll() { reply.resume(false) }
    hasQueuedInput = false
    effects.stop()
    scope.end()
    for unwatch in capacityWatches { unwatch() }
    capacityWatches = []
  }
}

extension Engine {
  /// Processes an event. For a synchronous transition, `done` is called before this function
  /// returns. For an asynchronous transition, `done` is called when the transition has returned.
  /// `done` never receives `pending`. A stopped engine accepts nothing and makes no calls.
  @discardableResult
  package func take(_ event: Event, cause: String, done: Done? = nil) -> StepOutcome<State> {
    guard !isStopped else { return .pending }
    guard !isInTransition else {
      wait(.taken(event, cause: cause, done: done))
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
    case .effectEvent(let event, let effect, let place, let reply):
      wait(.effectEvent(event, effect: effect, place: place, reply: reply))
    case .effectEnded(let effect):
      effects.end(effect)
    case .transitionEnded(let next):
      guard let ended = transition else { return }
      transition = nil
      isInTransition = false
      isTakingEffectEvent = ended.isFromEffect
      trace.tally?.count(ended.event, in: settledState)
      move(to: next, on: ended.event, because: ended.cause)
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
    case .passed(let state): pass(through: state)
    case .wake: break
    }
    if hasQueuedInput { takeQueuedInput() }
  }

  private func wait(_ one: QueuedInput) {
    queuedInputs.append(one)
    hasQueuedInput = true
  }

  @export(interface)
  private func takeQueuedInput() {
    while canTakeInput, let next = queuedInputs.popFirst() {
      hasQueuedInput = !queuedInputs.isEmpty
      switch next {
      case .taken(let event, let cause, let done):
        step(event, cause: cause, done: done)
      case .effectEvent(let event, let effect, let place, let reply):
        // A step after this input was posted may have cancelled the effect or withdrawn the event.
        guard effects.wants(place, of: effect) else {
          reply.resume(false)
          continue
        }
        take(event, of: effect, place, reply)
      }
    }
  }

  /// Processes an event of an effect. The effect continues when the event is applied. If steps are
  /// recorded, the effect continues when the step is recorded.
  @export(interface)
  private func take(
    _ event: Event, of effect: UInt64, _ place: EffectEventIndex, _ reply: EffectReply
  ) {
    if trace.isOn, let origin = effects.origin(of: effect) { trace.effectVersion = origin.version }
    let ended = effects.willTakeEvent(from: effect, place)
    isTakingEffectEvent = true
    defer { isTakingEffectEvent = false }
    step(event, cause: "effect") { [unowned self] outcome in
      reportThrown(outcome, event)
      effects.didTakeEvent(from: effect, ended, reply)
    }
  }

  /// Takes a step whose transition was evaluated earlier in the same state.
  @inlinable
  package func take(_ event: Event?, leadingTo next: State, cause: String) {
    if hasEventMiddleware, let event { observe(event) }
    if let tally = trace.tally, let event { tally.count(event, in: state) }
    move(to: next, on: event, because: cause)
  }

  /// Counts a refused event that was not passed to the engine.
  package func refuse() { refusals &+= 1 }

  @discardableResult
  @inlinable
  func step(_ event: Event, cause: String, done: Done?) -> StepOutcome<State> {
    // Not implemented with a closure like the variant below, because each event of a pipe would
    // cost two retains and two releases.
    if hasEventMiddleware { observe(event) }
    let outcome: StepOutcome<State>
    switch machine.step(state, event) {
    case .next(let next):
      if let tally = trace.tally { tally.count(event, in: state) }
      move(to: next, on: event, because: cause)
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
      if let tally = trace.tally { tally.count(event, in: state) }
      move(to: next, on: event, entered: entered)
      return .accepted(state, version: version)
    case .refused(let refusal):
      refusals &+= 1
      return .refused(refusal)
    case .suspended(let run):
      suspend(run, event: event, cause: cause, done: done)
      return .pending
    }
  }

  // Kept out of `step`, because it would prevent the compiler from inlining `step` into its
  // callers.
  @inline(never)
  @usableFromInline
  func suspend(
    _ run: SuspendedTransition<State>, event: Event, cause: String, done: Done?
  ) {
    let (post, scope) = (post, scope)
    isInTransition = true
    let outer =
      switch sender {
      case .caller: PendingStep.ofCaller
      case .known(let outer): outer
      }
    let step = PendingStep(
      of: ObjectIdentifier(self), { EnumCases<Event>.name(of: event) ?? "\(event)" },
      awaitedBy: outer)
    transition = RunningTransition(
      task: Task {
        do {
          let next = try await step.perform { try await scope.run(run.callAsFunction) }
          post(.transitionEnded(next))
        } catch {
          post(.transitionThrew(.thrown(by: error)))
        }
      }, event: event, cause: cause, done: done, isFromEffect: isTakingEffectEvent)
  }

  @inlinable
  func move(to next: State, on event: Event?, because cause: String) {
    let isTraced = beginMove(to: next, on: event)
    onEntry?(state, version, cause)
    endMove(on: event, isTraced: isTraced)
  }

  @inlinable
  func move(to next: State, on event: Event, entered: () -> Void) {
    let isTraced = beginMove(to: next, on: event)
    entered()
    endMove(on: event, isTraced: isTraced)
  }

  /// Changes the state: the first half of a step.
  /// - Returns: Whether the step is traced.
  @inlinable
  func beginMove(to next: State, on event: Event?) -> Bool {
    let isTraced = trace.isOn && trace.willTakeStep?(event, settledState) == true
    if isIntermediate { applyIntermediateStateRules() }
    adopt(next)
    return isTraced
  }

  /// Applies the consequences of entering a state, after the entry is reported: the second half of
  /// a step.
  @inlinable
  func endMove(on event: Event?, isTraced: Bool) {
    actOnEntry()
    if hasEventSenders, let event { send(event) }
    if isTraced { trace.didTakeStep?() }
  }

  /// Sends the events that the rules make from the accepted event.
  @usableFromInline
  func send(_ event: Event) {
    for (place, sender) in runtime.eventSenders.enumerated() {
      sender.fire(event)
      pipes.sent(into: eventPipes[place])
    }
  }

  @inlinable
  func actOnEntry() {
    if hasEntryRules { applyEntryRules() }
    if hasEffects { updateEffects() }
  }

  /// Changes the state: the first half of a step that is taken together with other machines.
  @inlinable
  func adopt(_ next: State) {
    state = next
    version &+= 1
  }

  /// Enters the state, after the states of all machines have changed: the second half of a joint
  /// step.
  func enterAdopted(on event: Event) {
    actOnEntry()
    if hasEventSenders { send(event) }
  }

  /// Cancels effects on entry into the current state, then starts the effect of its output.
  @usableFromInline
  func updateEffects() {
    // Most steps neither cancel nor start an effect. The code up to this check is specialized for
    // the machine.
    if !effects.isEmpty { effects.cancel(on: state) }
    if !runtime.effects.isEmpty, let output = machine.emit(state) {
      effects.start(output, in: state, version: version)
    }
    if !runtime.feedbacks.isEmpty { updateFeedbacks() }
  }

  @export(interface)
  private func updateFeedbacks() {
    for problem in effects.follow(state, version: version, isFromEffect: isTakingEffectEvent) {
      onError(problem)
    }
  }

  /// Runs an effect again that did not end in an earlier process. Returns `false` if the machine no
  /// longer has an effect for that state.
  /// - Parameter isParked: Whether the effect does not run yet, but waits for
  ///   ``EngineEffects/unpark(_:)``.
  @export(interface)
  package func resumeEffect(
    of state: State, _ origin: EffectOrigin, elapsed: Duration, isParked: Bool = false
  ) -> Bool {
    let output = origin.feedback == 0 && !runtime.effects.isEmpty ? machine.emit(state) : nil
    return effects.resume(of: state, output, origin, elapsed: elapsed, isParked: isParked)
  }

  @usableFromInline
  func applyEntryRules() {
    observe(state, runtime.stateMiddleware)
    fireSenders(state)
  }

  /// Applies the rules that send on entry into a state. A receiver may take a step on this thread,
  /// and send an event back, so this code has no exclusive access to the pipes during the calls.
  private func fireSenders(_ state: State) {
    senders.fire(state) { pipes.sent(into: $0) }
  }

  @usableFromInline
  package func observe(_ event: Event) { observe(event, runtime.eventMiddleware) }

  @export(interface)
  private func observe<Value: Sendable>(_ value: Value, _ middleware: [Middleware<Value>]) {
    for observer in middleware {
      switch observer {
      case .inline(let observer): observer(value)
      case .async(let observer, let priority):
        observers.append({ await observer(value) }, priority)
      }
    }
  }
}

// Intermediate states of a transition.
extension Engine {
  /// Whether the current state is an intermediate state, so that the step is lost if the process
  /// dies.
  @inlinable
  package var isIntermediate: Bool { intermediateStates.count > 0 }

  /// The state after the last complete step.
  @usableFromInline
  package var settledState: State { intermediateStates.origin ?? state }

  /// The version of ``settledState``.
  package var settledVersion: UInt64 { version - intermediateStates.count }

  /// The number of intermediate states since the run began.
  package var intermediateStateCount: UInt64 { intermediateStates.total }

  /// Publishes an intermediate state. Its consequences are postponed until the end of the step.
  @export(interface)
  private func pass(through next: State) {
    guard let transition, canShow?(next) ?? true else { return }
    let hasConsequences = onIntermediateStateSettled != nil || !senders.isEmpty
    intermediateStates.pass(from: state, through: next, hasConsequences: hasConsequences)
    show(next, because: transition.cause)
  }

  /// Handles the failure of a step. If intermediate states were published, restores the state in
  /// which the step began, and publishes it under a new version.
  private func rollBack(because cause: String) {
    if let origin = intermediateStates.rollBack() { show(origin, because: cause) }
  }

  private func show(_ next: State, because cause: String) {
    state = next
    version &+= 1
    (onIntermediateState ?? onEntry)?(state, version, cause)
    observe(state, runtime.stateMiddleware)
  }

  /// Sends the events that the rules make from the intermediate states. Called when the step is
  /// over.
  @usableFromInline
  func applyIntermediateStateRules() {
    for state in intermediateStates.end() {
      onIntermediateStateSettled?(state)
      fireSenders(state)
    }
  }
}
