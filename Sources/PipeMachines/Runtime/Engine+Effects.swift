import PipeSupport

/// Which effect of a machine it is: the step that started it, and which of those it started.
package struct EffectOrigin: Hashable, Sendable {
  /// The version of the step.
  package var version: UInt64
  /// 0 for the effect of the output; the place of a feedback, counted from 1.
  package var feedback = 0

  package init(version: UInt64, feedback: Int = 0) {
    self.version = version
    self.feedback = feedback
  }
}

/// An effect that has not ended.
package struct RunningEffect<State: DSLCompatible, Event: DSLCompatible> {
  package let origin: EffectOrigin
  /// The state of the step that started it.
  package let state: State
  let strategy: ExecutionStrategy<State>
  let priority: TaskPriority?
  let run: @Sendable (EffectDelivery<Event>) async -> Void
  /// When it was started, or last gave an event.
  package var progress: BootClock.Instant?
  /// `nil` while its start waits for the record.
  var task: Task<Void, Never>?
}

extension Engine {
  /// Cancels effects on entering the current state, then starts the one of its output.
  @usableFromInline
  func changeEffects() {
    // Most steps have nothing to cancel or to start, and are compiled for the machine until that is known.
    if !running.isEmpty { cancelEffects() }
    if !runtime.effects.isEmpty, let output = machine.emit(state) { startEffect(of: output) }
    if !runtime.feedbacks.isEmpty { changeFeedbacks() }
  }

  /// Cancels the effects whose strategy says so.
  @export(interface)
  private func cancelEffects() {
    for (id, effect) in running where effect.strategy.cancels(state) {
      effect.task?.cancel()
      end(id)
    }
  }

  /// Starts the effect that the current state's output is mapped to, if any.
  @export(interface)
  private func startEffect(of output: Output) {
    if let effect = effect(of: output, in: state, version: version) { start(effect) }
  }

  /// Starts an effect; where steps are recorded, after the record.
  @export(interface)
  func start(_ effect: RunningEffect<State, Event>) {
    lastEffect += 1
    running[lastEffect] = effect
    if unrecorded != nil {
      running[lastEffect]?.progress = BootClock.now
      unrecorded?.started(lastEffect)
    } else {
      launch(lastEffect)
    }
  }

  /// The effect that a state's output is mapped to, if any.
  @export(interface)
  private func outputEffect(of state: State, version: UInt64) -> RunningEffect<State, Event>? {
    guard !runtime.effects.isEmpty, let output = machine.emit(state) else { return nil }
    return effect(of: output, in: state, version: version)
  }

  @export(interface)
  private func effect(
    of output: Output, in state: State, version: UInt64
  ) -> RunningEffect<State, Event>? {
    guard let effect = EnumCases<Output>.tag(of: output).flatMap({ runtime.effects[$0] }) else {
      return nil
    }
    let run = effect.run
    return RunningEffect(
      origin: EffectOrigin(version: version), state: state, strategy: effect.strategy,
      priority: effect.priority, run: { await run(output, $0) })
  }

  /// Runs an effect, of which `elapsed` has passed already in an earlier process.
  @export(interface)
  private func launch(_ id: UInt64, elapsed: Duration = .zero) {
    guard let effect = running[id] else { return }
    let post = post
    let clock = clock
    let work = effect.run
    let isOver = Locked(false)
    let run = EffectRun(
      key: IdempotencyKey(scope: keyScope, origin: effect.origin), elapsed: elapsed)
    running[id]?.task = Task(priority: effect.priority) {
      await EffectClock.$current.withValue(clock) {
        await EffectRun.$current.withValue(run) {
          await work { event, place in
            guard !Task.isCancelled else { return false }
            switch place {
            case .last:
              // Nothing in the effect waits for that.
              isOver.withLock { $0 = true }
              let reply = EffectReply { isTaken in if !isTaken { post(.effectEnded(id)) } }
              post(.effectEvent(event, effect: id, place: place, reply: reply))
              return true
            case .oneOfMany:
              return await withCheckedContinuation { continuation in
                let reply = EffectReply { continuation.resume(returning: $0) }
                post(.effectEvent(event, effect: id, place: place, reply: reply))
              }
            }
          }
        }
      }
      if !isOver.withLock({ $0 }) { post(.effectEnded(id)) }
    }
  }

  @export(interface)
  func end(_ id: UInt64) {
    guard let effect = running.removeValue(forKey: id) else { return }
    unrecorded?.ended(id, effect.origin)
  }

  /// Takes an event of an effect, which goes on once it is applied; where steps are recorded, once
  /// it is recorded.
  @export(interface)
  func take(_ event: Event, of id: UInt64, _ place: EffectEventPlace, _ reply: EffectReply) {
    var ending: EffectOrigin?
    switch place {
    case .last:
      // Out before the step, whose entry could cancel it; recorded as ended with the step.
      ending = running.removeValue(forKey: id)?.origin
    case .oneOfMany:
      if unrecorded != nil {
        running[id]?.progress = BootClock.now
        unrecorded?.started(id)
      }
    }
    takesOwnEvent = true
    defer { takesOwnEvent = false }
    step(event, cause: "effect") { [unowned self] outcome in
      reportThrown(outcome, event)
      guard unrecorded != nil else { return reply.resume(true) }
      if let ending { unrecorded?.ended(id, ending) }
      unrecorded?.append(reply)
    }
  }
}

// Steps that are recorded.
extension Engine {
  /// Leaves what must follow the record to ``recorded()``.
  package func recordsEffects() { unrecorded = UnrecordedEffects() }

  /// Whether effects have changed since the last record.
  package var hasUnrecordedEffects: Bool { unrecorded?.isEmpty == false }

  /// What is to be recorded of effects.
  @export(interface)
  package func unrecordedEffects() -> (
    started: [RunningEffect<State, Event>], ended: [EffectOrigin]
  ) {
    guard let unrecorded else { return ([], []) }
    return (unrecorded.startedIDs.compactMap { running[$0] }, unrecorded.ended)
  }

  /// Starts and answers the effects whose steps are recorded now.
  @export(interface)
  package func recorded() {
    guard let done = unrecorded, !done.isEmpty else { return }
    unrecorded = UnrecordedEffects()
    if !done.startedIDs.isEmpty { Failpoint.hit(.effectBefore) }
    for id in done.startedIDs {
      guard let effect = running[id], effect.task == nil else { continue }
      if heldFeedbacks[effect.origin.feedback] != id { launch(id) }
    }
    if !done.replies.isEmpty { Failpoint.hit(.effectAfter) }
    for reply in done.replies { reply.resume(true) }
  }

  /// Runs an effect again that had not ended in an earlier process. Returns `false` where the
  /// machine has none for that state any more.
  @export(interface)
  package func resumeEffect(of state: State, _ origin: EffectOrigin, elapsed: Duration) -> Bool {
    let effect =
      origin.feedback == 0
      ? outputEffect(of: state, version: origin.version)
      : feedback(origin.feedback, of: state, version: origin.version)
    guard let effect else { return false }
    lastEffect += 1
    running[lastEffect] = effect
    launch(lastEffect, elapsed: elapsed)
    return true
  }
}

/// What has happened to effects since the last record.
package struct UnrecordedEffects {
  /// Started, or given an event.
  private(set) var startedIDs: [UInt64] = []
  private(set) var ended: [EffectOrigin] = []
  private(set) var replies: [EffectReply] = []

  var isEmpty: Bool { startedIDs.isEmpty && ended.isEmpty && replies.isEmpty }

  package mutating func started(_ id: UInt64) {
    if !startedIDs.contains(id) { startedIDs.append(id) }
  }

  package mutating func ended(_ id: UInt64, _ origin: EffectOrigin) {
    startedIDs.removeAll { $0 == id }
    ended.append(origin)
  }

  package mutating func append(_ reply: EffectReply) { replies.append(reply) }

  mutating func takeReplies() -> [EffectReply] {
    defer { replies = [] }
    return replies
  }
}
