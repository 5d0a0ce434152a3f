import PipeSupport

/// Takes the steps of one machine: the one engine under the in-process sequence and hosted nodes.
///
/// Not thread-safe: its owner calls it from one isolation. A step is, in this order: event
/// middleware, the transition, `onEntry`, state middleware, pipe sends in the order declared,
/// cancellation of effects by their strategies, the start of the new state's output.
///
/// The way of a step that has nothing but a transition to do is inlinable; see ``MachineRun``.
@usableFromInline
package final class Engine<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  @usableFromInline
  package typealias Input = EngineInput<State, Event>
  @usableFromInline
  package typealias Done = (StepOutcome<State>) -> Void

  // Exclusivity is not checked at run time for what each step touches: one isolation owns it, and
  // no access spans a call.
  @usableFromInline
  @exclusivity(unchecked)
  package internal(set) var state: State
  /// The number of steps taken; entering the initial state is not one.
  @usableFromInline
  @exclusivity(unchecked)
  package internal(set) var version: UInt64 = 0
  /// The number of events refused.
  @usableFromInline
  @exclusivity(unchecked)
  package internal(set) var refusals: UInt64 = 0
  /// Called on every entry, in step order, once state and version have changed.
  @usableFromInline
  @exclusivity(unchecked)
  package var onEntry: ((_ state: State, _ version: UInt64, _ cause: String) -> Void)?
  /// The owner's own reason to wait before the next step, such as a full buffer of its own. When the
  /// reason is gone, the owner processes ``EngineInput/wake``.
  @exclusivity(unchecked)
  package var mustWait: (() -> Bool)?
  /// Who awaits the asynchronous step that begins: by default the task that gives the event.
  enum Sender {
    case caller
    case known(AwaitedStep?)
  }
  var sender = Sender.caller
  /// Whether a state may be shown that a transition goes through on its way.
  package var mayShow: ((State) -> Bool)?
  /// Told of asynchronous steps whose input came without a `done`.
  var onTransitionEnd: Done?
  /// Called in place of ``onEntry`` for a state that a transition goes through on its way; `nil` leaves
  /// that to ``onEntry``.
  package var onPassage: ((_ state: State, _ version: UInt64, _ cause: String) -> Void)?
  /// Called for each of these states once more when the step is over, before its entry; `nil` where
  /// nothing follows from them.
  package var onPassed: ((_ state: State) -> Void)?
  @usableFromInline
  @exclusivity(unchecked)
  package var trace = StepTrace<State, Event>()
  /// Those of the transition that runs.
  @usableFromInline
  @exclusivity(unchecked)
  private(set) var passing = PassingStates<State>()

  @usableFromInline package let machine: StateMachine<State, Event, Output>
  private let runtime: Runtime<State, Event, Output>
  private let post: @Sendable (Input) -> Void
  private let observers: MiddlewareQueues
  private let hasObservers: Bool
  private let senders: SenderRules<State>
  /// The pipes that it sends into.
  @exclusivity(unchecked)
  private var pipes: SentPipes
  /// Of each rule that sends for an event, the place of its pipe.
  private let eventPipes: [Int]
  // What a step can leave out.
  @usableFromInline package let hasEventMiddleware: Bool
  @usableFromInline let hasEntryRules: Bool
  @usableFromInline let hasEffects: Bool
  @usableFromInline let hasBounds: Bool
  @usableFromInline let hasEventSenders: Bool

  package let effects: EngineEffects<State, Event, Output>
  /// What its transitions and effects do their work in.
  package let scope: RunScope
  /// Whether the event of the step comes from an effect of the machine.
  private var takesOwnEvent = false
  /// Told, in words, what is wrong with the machine while it runs.
  package var onProblem: (String) -> Void = Warnings.tell
  private var transition: Suspended?
  @exclusivity(unchecked)
  private var waiting = Queue<Waiting>()
  /// Whether something that was posted, or taken in the middle of a step, waits for its turn.
  @usableFromInline
  @exclusivity(unchecked)
  package private(set) var hasWaiting = false
  private var roomWatches: [@Sendable () -> Void] = []
  @usableFromInline
  @exclusivity(unchecked)
  private(set) var isStopped = false
  /// Whether an asynchronous transition is running.
  @usableFromInline
  @exclusivity(unchecked)
  package private(set) var isInTransition = false

  /// An asynchronous transition that runs.
  private struct Suspended {
    let task: Task<Void, Never>
    let event: Event
    let cause: String
    let done: Done?
    /// Whether its event comes from an effect of the machine.
    let isOwn: Bool
  }

  private enum Waiting {
    case taken(Event, cause: String, done: Done?)
    case effectEvent(Event, effect: UInt64, place: EffectEventPlace, reply: EffectReply)
  }

  /// Makes an engine that stands in the initial state and has not entered it yet.
  /// - Parameter post: Called from any thread; the owner later calls ``process(_:)``.
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
    let sent = runtime.sentPipes
    senders = SenderRules(runtime.senders, into: sent)
    var eventPipes: [Int] = []
    for sender in runtime.eventSenders { eventPipes.append(sender.place(in: sent)) }
    self.eventPipes = eventPipes
    pipes = SentPipes(sent)
    hasEventMiddleware = !runtime.eventMiddleware.isEmpty
    hasEntryRules = !runtime.stateMiddleware.isEmpty || !runtime.senders.isEmpty
    hasEffects = !runtime.effects.isEmpty || !runtime.feedbacks.isEmpty
    hasBounds = hasObservers || !sent.isEmpty
    hasEventSenders = !runtime.eventSenders.isEmpty
  }

  deinit { stop() }

  /// Whether the owner may give the next input.
  package var canTakeInput: Bool {
    guard isReady else { return false }
    return mustWait.map { !$0() } ?? true
  }

  /// Whether the owner may give the next input, but for its own reasons to wait.
  @inlinable
  var isReady: Bool { !isInTransition && !isStopped && (!hasBounds || hasRoom) }

  @usableFromInline
  var hasRoom: Bool {
    if hasObservers && observers.isFull { return false }
    return pipes.haveRoom()
  }

  /// The number of effects that run; those that are held are not among them.
  package var runningEffects: Int { effects.count }

  /// Enters the initial state.
  @export(interface)
  package func start() {
    for problem in runtime.problems { onProblem(problem) }
    watchRoom()
    onEntry?(state, version, "initial")
    actOnEntry()
  }

  /// Stands in a state that was entered before; ``resume()`` goes on from there.
  package func restore(_ state: State, version: UInt64) {
    self.state = state
    self.version = version
    scope.restart(in: state)
    effects.restore(state)
  }

  /// Goes on without entering the state again.
  package func resume() {
    watchRoom()
    effects.resumeAnnouncing(in: state)
  }

  @export(interface)
  private func watchRoom() {
    let post = post
    for pipe in pipes.all { roomWatches.append(pipe.watchRoom { post(.wake) }) }
  }

  /// Cancels the effects and the running transition; what is posted later is ignored.
  ///
  /// A `done` that has not been called will not be: the owner answers its callers itself.
  @export(interface)
  package func stop() {
    guard !isStopped else { return }
    isStopped = true
    transition?.task.cancel()
    transition = nil
    isInTransition = false
    for case .effectEvent(_, _, _, let reply) in waiting.removeAll() { reply.resume(false) }
    hasWaiting = false
    effects.stop()
    scope.end()
    for unwatch in roomWatches { unwatch() }
    roomWatches = []
  }
}

extension Engine {
  /// Takes an event. A synchronous transition calls `done` before this returns; after an
  /// asynchronous one, `done` is called when it has returned. `done` is never told `pending`.
  /// A stopped engine takes nothing and calls nobody.
  @discardableResult
  package func take(_ event: Event, cause: String, done: Done? = nil) -> StepOutcome<State> {
    guard !isStopped else { return .pending }
    guard !isInTransition else {
      wait(.taken(event, cause: cause, done: done))
      return .pending
    }
    return step(event, cause: cause, done: done)
  }

  /// Handles what one of the engine's tasks has posted.
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
      takesOwnEvent = ended.isOwn
      trace.tally?.count(ended.event, in: settledState)
      move(to: next, on: ended.event, because: ended.cause)
      takesOwnEvent = false
      (ended.done ?? onTransitionEnd)?(.moved(state, version: version))
    case .transitionThrew(let refusal):
      guard let ended = transition else { return }
      transition = nil
      isInTransition = false
      refusals &+= 1
      turnBack(because: ended.cause)
      let done = ended.done ?? onTransitionEnd
      if let done { done(.refused(refusal)) } else { reportThrown(.refused(refusal), ended.event) }
    case .passed(let state): pass(through: state)
    case .wake: break
    }
    if hasWaiting { takeWaiting() }
  }

  private func wait(_ one: Waiting) {
    waiting.append(one)
    hasWaiting = true
  }

  @export(interface)
  private func takeWaiting() {
    while canTakeInput, let next = waiting.popFirst() {
      hasWaiting = !waiting.isEmpty
      switch next {
      case .taken(let event, let cause, let done):
        step(event, cause: cause, done: done)
      case .effectEvent(let event, let effect, let place, let reply):
        // The effect may have been cancelled, or its event withdrawn, by a step taken meanwhile.
        guard effects.wants(place, of: effect) else {
          reply.resume(false)
          continue
        }
        take(event, of: effect, place, reply)
      }
    }
  }

  /// Takes an event of an effect, which goes on once it is applied; where steps are recorded, once
  /// it is recorded.
  @export(interface)
  private func take(
    _ event: Event, of effect: UInt64, _ place: EffectEventPlace, _ reply: EffectReply
  ) {
    if trace.isOn, let origin = effects.origin(of: effect) { trace.effectVersion = origin.version }
    let ended = effects.willTake(from: effect, place)
    takesOwnEvent = true
    defer { takesOwnEvent = false }
    step(event, cause: "effect") { [unowned self] outcome in
      reportThrown(outcome, event)
      effects.hasTaken(from: effect, ended, reply)
    }
  }

  /// Takes a step whose transition was evaluated before, in the same state.
  @inlinable
  package func take(_ event: Event?, leadingTo next: State, cause: String) {
    if hasEventMiddleware, let event { observe(event) }
    if let tally = trace.tally, let event { tally.count(event, in: state) }
    move(to: next, on: event, because: cause)
  }

  /// Refuses an event that is not this engine's to take.
  package func refuse() { refusals &+= 1 }

  @discardableResult
  @inlinable
  func step(_ event: Event, cause: String, done: Done?) -> StepOutcome<State> {
    // The same as below without a closure, of which each event of a pipe would pay two retains and two releases.
    if hasEventMiddleware { observe(event) }
    let outcome: StepOutcome<State>
    switch machine.step(state, event) {
    case .next(let next):
      if let tally = trace.tally { tally.count(event, in: state) }
      move(to: next, on: event, because: cause)
      outcome = .moved(state, version: version)
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

  /// Reports an error where the sender of the event waits for no answer.
  @inline(never)
  @usableFromInline
  func reportThrown(_ outcome: StepOutcome<State>, _ event: Event) {
    guard case .refused(.thrown(let error)) = outcome else { return }
    let name = EnumCases<Event>.name(of: event) ?? "\(event)"
    onProblem("event '\(name)' was refused, since the machine's function threw: \(error)")
  }

  /// Takes a step; reports an entry through `entered` rather than ``onEntry``.
  @inlinable
  func step(
    _ event: Event, cause: String, done: Done?, entered: () -> Void
  ) -> StepOutcome<State> {
    if hasEventMiddleware { observe(event) }
    switch machine.step(state, event) {
    case .next(let next):
      if let tally = trace.tally { tally.count(event, in: state) }
      move(to: next, on: event, entered: entered)
      return .moved(state, version: version)
    case .refused(let refusal):
      refusals &+= 1
      return .refused(refusal)
    case .suspended(let run):
      suspend(run, event: event, cause: cause, done: done)
      return .pending
    }
  }

  // Within `step` it would keep that from being compiled into its callers.
  @inline(never)
  @usableFromInline
  func suspend(
    _ run: SuspendedTransition<State>, event: Event, cause: String, done: Done?
  ) {
    let (post, scope) = (post, scope)
    isInTransition = true
    let outer =
      switch sender {
      case .caller: AwaitedStep.ofCaller
      case .known(let outer): outer
      }
    let step = AwaitedStep(
      of: ObjectIdentifier(self), { EnumCases<Event>.name(of: event) ?? "\(event)" },
      awaitedBy: outer)
    transition = Suspended(
      task: Task {
        do {
          let next = try await step.perform { try await scope.run(run.callAsFunction) }
          post(.transitionEnded(next))
        } catch {
          post(.transitionThrew(.thrown(by: error)))
        }
      }, event: event, cause: cause, done: done, isOwn: takesOwnEvent)
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

  /// The first half of a step: the state changes.
  /// - Returns: Whether the step is traced.
  @inlinable
  func beginMove(to next: State, on event: Event?) -> Bool {
    let isTraced = trace.isOn && trace.willMove?(event, settledState) == true
    if isPassing { actOnPassed() }
    adopt(next)
    return isTraced
  }

  /// The second half, when the entry of the state is reported: what follows from it begins.
  @inlinable
  func endMove(on event: Event?, isTraced: Bool) {
    actOnEntry()
    if hasEventSenders, let event { send(event) }
    if isTraced { trace.hasMoved?() }
  }

  /// Sends what the event that was taken is turned into.
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
    if hasEffects { changeEffects() }
  }

  /// The first half of a step that is taken together with other machines: the state changes.
  @inlinable
  func adopt(_ next: State) {
    state = next
    version &+= 1
  }

  /// The second half, when the states of all of them have changed: the state is entered.
  func enterAdopted(on event: Event) {
    actOnEntry()
    if hasEventSenders { send(event) }
  }

  /// Cancels effects on entering the current state, then starts the one of its output.
  @usableFromInline
  func changeEffects() {
    // Most steps have nothing to cancel or to start, and are compiled for the machine until that is known.
    if !effects.isEmpty { effects.cancel(on: state) }
    if !runtime.effects.isEmpty, let output = machine.emit(state) {
      effects.start(output, in: state, version: version)
    }
    if !runtime.feedbacks.isEmpty { followFeedbacks() }
  }

  @export(interface)
  private func followFeedbacks() {
    for problem in effects.follow(state, version: version, isOwn: takesOwnEvent) {
      onProblem(problem)
    }
  }

  /// Runs an effect again that had not ended in an earlier process. Returns `false` where the
  /// machine has none for that state any more.
  /// - Parameter isParked: Whether the effect only waits, for ``EngineEffects/unpark(_:)``.
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

  /// Who receives may step on this thread, and send back: the pipes are not held meanwhile.
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

// States that a transition goes through on its way.
extension Engine {
  /// Whether the state is one of them, so that the step may yet come to nothing with its process.
  @inlinable
  package var isPassing: Bool { passing.count > 0 }

  /// The state that the last step which is over has led to.
  @usableFromInline
  package var settledState: State { passing.origin ?? state }

  /// The version of ``settledState``.
  package var settledVersion: UInt64 { version - passing.count }

  /// How many states transitions have gone through since the run began.
  package var passages: UInt64 { passing.total }

  /// Shows a state; what follows from it waits for the end of the step.
  @export(interface)
  private func pass(through next: State) {
    guard let transition, mayShow?(next) ?? true else { return }
    let isFollowed = onPassed != nil || !senders.isEmpty
    passing.pass(from: state, through: next, isFollowed: isFollowed)
    show(next, because: transition.cause)
  }

  /// The step has come to nothing: where it was seen on its way, shows the state that it began in, under a
  /// version of its own.
  private func turnBack(because cause: String) {
    if let origin = passing.turnBack() { show(origin, because: cause) }
  }

  private func show(_ next: State, because cause: String) {
    state = next
    version &+= 1
    (onPassage ?? onEntry)?(state, version, cause)
    observe(state, runtime.stateMiddleware)
  }

  /// The step is over, and these states are a part of it: sends what they are turned into.
  @usableFromInline
  func actOnPassed() {
    for state in passing.end() {
      onPassed?(state)
      fireSenders(state)
    }
  }
}
