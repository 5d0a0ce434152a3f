import PipeSupport

/// The unfinished effects and feedbacks of a machine. This class starts and cancels effects. If
/// steps are recorded, this class waits for the record of a step before it starts the step's
/// effects, and before it answers the effect that sent the event.
@usableFromInline
package final class EngineEffects<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
> {
  private let runtime: Runtime<State, Event, Output>
  private let post: @Sendable (EngineInput<State, Event>) -> Void
  private let scope: RunScope
  private var runningEffects: [UInt64: RunningEffect<State, Event>] = [:]
  private var lastID: UInt64 = 0
  /// The changes since the last record; `nil` if steps are not recorded.
  private var unrecordedChanges: UnrecordedEffects? {
    didSet { hasUnrecordedChanges = unrecordedChanges?.isEmpty == false }
  }
  /// Whether effects have started, produced events or ended since the last record.
  // A stored property, because the owner's loop reads the value in each iteration, and computing it
  // would take longer.
  @usableFromInline
  @exclusivity(unchecked)
  package private(set) var hasUnrecordedChanges = false
  private var feedbacks = FeedbackSteps<State, Event>()
  /// The part of the idempotency keys that all effects of the machine share.
  package var keyScope = IdempotencyKey.Scope()
  /// The number of the instance in a keyed node; 0 in a node with one machine.
  package var instance: Int64 = 0

  init(
    _ runtime: Runtime<State, Event, Output>, scope: RunScope,
    post: @escaping @Sendable (EngineInput<State, Event>) -> Void
  ) {
    self.runtime = runtime
    self.scope = scope
    self.post = post
  }

  /// Whether effects never run. Their owner decides which events they produce, and when they end.
  package var isSuppressed = false

  /// The names of the effects that have not ended, in the order in which they were started: the
  /// case of the output, or `feedback1`, `feedback2`, ….
  package var unfinishedNames: [String] { unfinishedEffects.map { name(of: $0.effect) } }

  /// Returns the first effect with this name that has not ended; `nil` if there is none.
  package func find(named name: String) -> (id: UInt64, kind: EffectEventKind)? {
    guard let (id, effect) = unfinishedEffects.first(where: { self.name(of: $0.effect) == name })
    else { return nil }
    let isSequence =
      effect.outputTag.map { runtime.effects[$0]?.isSequence == true }
      ?? runtime.feedbacks[effect.origin.feedback - 1].isSequence
    return (id, isSequence ? .oneOfMany : .last)
  }

  private func name(of effect: RunningEffect<State, Event>) -> String {
    effect.outputTag.map { EnumCases<Output>.names[$0] } ?? "feedback\(effect.origin.feedback)"
  }

  /// The number of running effects. Held effects, parked effects and announcing feedbacks do not
  /// count.
  package var runningCount: Int {
    var count = 0
    for (_, effect) in runningEffects where !effect.isBlocked && !isAnnouncing(effect) {
      count += 1
    }
    return count
  }

  private func isAnnouncing(_ effect: RunningEffect<State, Event>) -> Bool {
    let feedback = effect.origin.feedback
    return feedback > 0 && runtime.feedbacks[feedback - 1].isAnnouncing
  }

  /// Whether there are no unfinished effects, neither running nor held or parked.
  var isEmpty: Bool { runningEffects.isEmpty }

  /// The effects that have not ended, in the order in which they were started.
  var unfinishedEffects: [(id: UInt64, effect: RunningEffect<State, Event>)] {
    runningEffects.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  /// Adds an unfinished effect of an earlier step. Does not run the effect.
  func restoreEffect(_ effect: RunningEffect<State, Event>) {
    lastID += 1
    runningEffects[lastID] = effect
  }

  /// Returns whether the effect with this ID has neither ended nor been cancelled.
  package func contains(_ id: UInt64) -> Bool { runningEffects.index(forKey: id) != nil }

  /// Returns whether an event of an effect should still be processed.
  /// - Parameter kind: The role of the event among all events of its effect, such as the last
  ///   event.
  package func shouldProcess(_ kind: EffectEventKind, of id: UInt64) -> Bool {
    !kind.isWithdrawn && contains(id)
  }

  /// Returns the origin of an effect; `nil` if the effect has ended.
  package func origin(of id: UInt64) -> EffectOrigin? { runningEffects[id]?.origin }

  /// The version of the step that started the oldest unfinished effect; `nil` if there is no such
  /// effect.
  package var oldestVersion: UInt64? {
    var oldest: UInt64?
    for effect in runningEffects.values { oldest = min(oldest ?? .max, effect.origin.version) }
    return oldest
  }

  // MARK: Effects that a step starts or cancels

  /// Cancels the effects whose strategies require the cancellation on entry into `state`.
  @export(interface)
  func cancel(on state: State) {
    for (id, effect) in runningEffects where effect.strategy.cancels(state) {
      effect.task?.cancel()
      end(id)
    }
  }

  /// Starts the effect that an output is mapped to, if any.
  @export(interface)
  func start(_ output: Output, in state: State, version: UInt64) {
    if let effect = effect(of: output, in: state, version: version) { start(effect) }
  }

  /// Starts and cancels feedbacks on entry into a state.
  /// - Parameter isFromEffect: Whether the event of the step comes from an effect of the machine.
  /// - Returns: Messages about feedbacks that are held.
  @export(interface)
  func updateFeedbacks(onEntryInto state: State, version: UInt64, isFromEffect: Bool) -> [String] {
    var problems: [String] = []
    for action in feedbacks.entered(state, isFromEffect: isFromEffect, runtime.feedbacks) {
      switch action {
      case .cancel(let feedbackNumber): cancelFeedback(feedbackNumber)
      case .start(let feedbackNumber):
        if let effect = feedback(feedbackNumber, of: state, version: version) { start(effect) }
      case .hold(let feedbackNumber, let isFirst):
        if let effect = feedback(feedbackNumber, of: state, version: version) { hold(effect) }
        if isFirst { problems.append(FeedbackSteps<State, Event>.problem(at: feedbackNumber)) }
      }
    }
    return problems
  }

  /// Restores a state that the machine entered in an earlier run. Feedbacks compare the next state
  /// with this state.
  func restore(_ state: State) { feedbacks.restore(state) }

  /// Runs the feedbacks that announce the changes of a model. Each new process of a node starts
  /// these feedbacks again.
  func startAnnouncing(in state: State) {
    for (index, feedback) in runtime.feedbacks.enumerated() where feedback.isAnnouncing {
      guard let effect = self.feedback(index + 1, of: state, version: 0) else { continue }
      lastID += 1
      runningEffects[lastID] = effect
      launch(lastID)
    }
  }

  // MARK: Parked effects

  /// Returns the name of an unfinished effect: the case of its output, or `feedback1`, `feedback2`,
  /// …. Returns `nil` if the effect has ended.
  package func name(of origin: EffectOrigin) -> String? {
    find(origin).map { name(of: $0.1) }
  }

  /// Runs a parked effect again. If steps are recorded, the effect starts when the step is
  /// recorded.
  /// - Returns: `false` if the effect has ended, or if a step has cancelled it.
  package func unpark(_ origin: EffectOrigin) -> Bool {
    guard let (id, effect) = find(origin), effect.isBlocked else { return false }
    runningEffects[id]?.isBlocked = false
    noteProgress(id)
    if unrecordedChanges == nil { launch(id) }
    return true
  }

  /// Ends a parked effect that must never run again.
  package func discard(_ origin: EffectOrigin) {
    if let (id, effect) = find(origin), effect.isBlocked { end(id) }
  }

  private func find(_ origin: EffectOrigin) -> (UInt64, RunningEffect<State, Event>)? {
    for (id, effect) in runningEffects where effect.origin == origin { return (id, effect) }
    return nil
  }

  @export(interface)
  private func cancelFeedback(_ feedbackNumber: Int) {
    for (id, effect) in runningEffects where effect.origin.feedback == feedbackNumber {
      effect.task?.cancel()
      end(id)
    }
  }

  /// Starts an effect. If steps are recorded, the effect starts when the step is recorded.
  @export(interface)
  private func start(_ effect: RunningEffect<State, Event>) {
    let id = add(effect)
    if unrecordedChanges == nil { launch(id) }
  }

  /// Holds a feedback, so that it does not start. If steps are recorded, the feedback is recorded
  /// as unfinished, so that the next process runs it.
  @export(interface)
  private func hold(_ effect: RunningEffect<State, Event>) {
    var effect = effect
    effect.isBlocked = true
    _ = add(effect)
  }

  @export(interface)
  private func add(_ effect: RunningEffect<State, Event>) -> UInt64 {
    lastID += 1
    runningEffects[lastID] = effect
    noteProgress(lastID)
    return lastID
  }

  /// Records that an effect was started, or has produced an event.
  private func noteProgress(_ id: UInt64) {
    guard unrecordedChanges != nil else { return }
    runningEffects[id]?.lastProgress = BootClock.now
    unrecordedChanges?.started(id)
  }

  /// Runs an effect. `elapsed` is the time for which the effect ran in earlier processes.
  @export(interface)
  private func launch(_ id: UInt64, elapsed: Duration = .zero) {
    guard !isSuppressed, let effect = runningEffects[id] else { return }
    let post = post
    let work = effect.run
    let isOver = Locked(false)
    let run = EffectRun(
      of: scope, key: IdempotencyKey(scope: keyScope, origin: effect.origin), elapsed: elapsed)
    let clock = scope.clock
    let recordedOrigin = unrecordedChanges == nil ? nil : effect.origin
    runningEffects[id]?.task = Task(priority: effect.priority) {
      await run.perform(recordedAs: recordedOrigin, clock) {
        await work { event, kind in
          guard !Task.isCancelled else { return false }
          switch kind {
          case .last:
            // The effect does not wait for the step on its last event.
            isOver.withLock { $0 = true }
            let reply = EffectReply { isTaken in if !isTaken { post(.effectEnded(id)) } }
            post(.effectEvent(event, effect: id, kind: kind, reply: reply))
            return true
          case .oneOfMany, .announced:
            return await withCheckedContinuation { continuation in
              let reply = EffectReply { continuation.resume(returning: $0) }
              post(.effectEvent(event, effect: id, kind: kind, reply: reply))
            }
          }
        }
      }
      if !isOver.withLock({ $0 }) { post(.effectEnded(id)) }
    }
  }

  /// Removes an effect that has ended.
  @export(interface)
  func end(_ id: UInt64) {
    guard let effect = runningEffects.removeValue(forKey: id) else { return }
    unrecordedChanges?.ended(id, effect.origin)
  }

  /// Cancels all effects.
  @export(interface)
  func stop() {
    for effect in runningEffects.values { effect.task?.cancel() }
    runningEffects = [:]
    for reply in unrecordedChanges?.takeReplies() ?? [] { reply.resume(false) }
  }

  // MARK: Events of effects

  /// Called before the step on an event that an effect has produced.
  /// - Returns: The effect's origin, if the effect ends with this event. Such an effect is removed
  ///   before the step, because the step could cancel the effect. The end of the effect is recorded
  ///   together with the step.
  func willTakeEvent(from id: UInt64, _ kind: EffectEventKind) -> EffectOrigin? {
    switch kind {
    case .last: return runningEffects.removeValue(forKey: id)?.origin
    case .oneOfMany, .announced:
      noteProgress(id)
      return nil
    }
  }

  /// Lets an effect continue after the step on its event. If steps are recorded, the effect
  /// continues when the step is recorded.
  /// - Parameter ended: The result of ``willTakeEvent(from:_:)``.
  func didTakeEvent(from id: UInt64, _ ended: EffectOrigin?, _ reply: EffectReply) {
    guard unrecordedChanges != nil else { return reply.resume(true) }
    if let ended { unrecordedChanges?.ended(id, ended) }
    unrecordedChanges?.append(reply)
  }

  /// Records that the machine accepts the event of an effect together with other machines. Call
  /// this function before the step, so that the event and the step are in one record.
  package func takeJointly(from id: UInt64, _ kind: EffectEventKind, _ reply: EffectReply) {
    didTakeEvent(from: id, willTakeEvent(from: id, kind), reply)
  }

  // MARK: Recording effects

  /// Postpones all actions that must follow the record of a step, until
  /// ``didRecord(willStart:willAnswer:)`` is called.
  package func deferUntilRecorded() { unrecordedChanges = UnrecordedEffects() }

  /// Whether the steps, and the effects that they start, are recorded.
  var areRecorded: Bool { unrecordedChanges != nil }

  /// Returns the changes of effects that must be recorded.
  @export(interface)
  package func changesToRecord() -> (started: [RunningEffect<State, Event>], ended: [EffectOrigin])
  {
    guard let unrecordedChanges else { return ([], []) }
    var started: [RunningEffect<State, Event>] = []
    for id in unrecordedChanges.startedIDs {
      // A feedback that only announces the changes of a model is not recorded, because a later
      // process does not have to finish it.
      if let effect = runningEffects[id], !isAnnouncing(effect) { started.append(effect) }
    }
    return (started, unrecordedChanges.ended)
  }

  /// Starts the effects whose steps have been recorded, and answers the effects whose events have
  /// been recorded.
  /// - Parameters:
  ///   - willStart: Called before the first effect is started.
  ///   - willAnswer: Called before the first effect is answered.
  @export(interface)
  package func didRecord(willStart: () -> Void, willAnswer: () -> Void) {
    guard let done = unrecordedChanges, !done.isEmpty else { return }
    unrecordedChanges = UnrecordedEffects()
    if !done.startedIDs.isEmpty { willStart() }
    for id in done.startedIDs {
      guard let effect = runningEffects[id], effect.task == nil, !effect.isBlocked else { continue }
      launch(id)
    }
    if !done.replies.isEmpty { willAnswer() }
    for reply in done.replies { reply.resume(true) }
  }

  /// Runs an unfinished effect of an earlier process again.
  /// - Parameters:
  ///   - output: The output that the machine emits in the state.
  ///   - isParked: Whether the effect does not run yet, but waits for ``unpark(_:)``.
  /// - Returns: `false` if the machine no longer has this effect in `state`.
  @export(interface)
  func resume(
    of state: State, _ output: Output?, _ origin: EffectOrigin, elapsed: Duration, isParked: Bool
  ) -> Bool {
    let effect =
      origin.feedback == 0
      ? output.flatMap { self.effect(of: $0, in: state, version: origin.version) }
      : feedback(origin.feedback, of: state, version: origin.version)
    guard var effect else { return false }
    if isAnnouncing(effect) {
      // An earlier version of this library recorded the feedbacks that announce a model's changes.
      // Such a record is deleted here.
      unrecordedChanges?.ended(0, origin)
      return true
    }
    effect.isBlocked = isParked
    lastID += 1
    runningEffects[lastID] = effect
    if !isParked { launch(lastID, elapsed: elapsed) }
    return true
  }

  // MARK: Making effects

  @export(interface)
  private func effect(
    of output: Output, in state: State, version: UInt64
  ) -> RunningEffect<State, Event>? {
    guard let effect = EnumCases<Output>.tag(of: output).flatMap({ runtime.effects[$0] }) else {
      return nil
    }
    let run = effect.run
    return RunningEffect(
      origin: EffectOrigin(version: version, instance: instance), state: state,
      outputTag: effect.tag,
      strategy: effect.strategy, priority: effect.priority, run: { await run(output, $0) })
  }

  /// Returns a feedback as an effect; `nil` if the runtime has no feedback with this number.
  @export(interface)
  private func feedback(
    _ feedbackNumber: Int, of state: State, version: UInt64
  ) -> RunningEffect<State, Event>? {
    guard runtime.feedbacks.indices.contains(feedbackNumber - 1) else { return nil }
    let feedback = runtime.feedbacks[feedbackNumber - 1]
    return RunningEffect(
      origin: EffectOrigin(version: version, feedback: feedbackNumber, instance: instance),
      state: state,
      strategy: .continueWhenAnyState, priority: feedback.priority,
      run: { await feedback.run(state, $0) })
  }
}

/// The identity of an effect: the step that started it, and its number among the effects of that
/// step.
package struct EffectOrigin: Hashable, Sendable {
  /// The version of the step.
  package var version: UInt64
  /// The number of the feedback in the runtime, counted from 1. The number is 0 for the effect of
  /// the output, and ``timers`` for the timers of the state.
  package var feedback = 0

  /// The value of ``feedback`` that identifies the timers of a state in a record.
  package static var timers: Int { -1 }
  /// The number of the instance in a keyed node; 0 in a node with one machine.
  package var instance: Int64

  package init(version: UInt64, feedback: Int = 0, instance: Int64 = 0) {
    self.version = version
    self.feedback = feedback
    self.instance = instance
  }

  /// The recorded effect that the task performs; `nil` in any other task.
  @TaskLocal package static var recorded: EffectOrigin?
}

/// An effect that has not ended.
package struct RunningEffect<State: DSLCompatible, Event: DSLCompatible> {
  package let origin: EffectOrigin
  /// The state of the step that started the effect.
  package let state: State
  /// The tag of the output that started the effect; `nil` for a feedback.
  var outputTag: Int?
  let strategy: ExecutionStrategy<State>
  let priority: TaskPriority?
  let run: @Sendable (EffectDelivery<Event>) async -> Void
  /// The time when this process started the effect or received an event from it, whichever was
  /// later. Set only if steps are recorded.
  package var lastProgress: BootClock.Instant?
  /// Whether the effect must not run. Such an effect is either a feedback that is held because it
  /// has started too often, or an effect that is parked because it has crashed earlier processes.
  var isBlocked = false
  /// The task of the effect; `nil` while the effect waits until its step is recorded, and while the
  /// effect is blocked.
  var task: Task<Void, Never>?
}

/// The changes of effects since the last record.
struct UnrecordedEffects {
  /// The effects that were started, or that have produced an event.
  private(set) var startedIDs: [UInt64] = []
  private(set) var ended: [EffectOrigin] = []
  private(set) var replies: [EffectReply] = []

  var isEmpty: Bool { startedIDs.isEmpty && ended.isEmpty && replies.isEmpty }

  mutating func started(_ id: UInt64) {
    if !startedIDs.contains(id) { startedIDs.append(id) }
  }

  mutating func ended(_ id: UInt64, _ origin: EffectOrigin) {
    startedIDs.removeAll { $0 == id }
    ended.append(origin)
  }

  mutating func append(_ reply: EffectReply) { replies.append(reply) }

  mutating func takeReplies() -> [EffectReply] {
    defer { replies = [] }
    return replies
  }
}
