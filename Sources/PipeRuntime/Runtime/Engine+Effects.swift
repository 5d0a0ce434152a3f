/// An effect that has not ended.
struct RunningEffect<State: DSLCompatible, Output: DSLCompatible> {
  let output: Output
  let strategy: ExecutionStrategy<State>
  /// The state and the version of the step that started it.
  let state: State
  let version: UInt64
  /// When it was started, or last gave an event.
  var progress: BootClock.Instant?
  /// `nil` while its start waits for the record.
  var task: Task<Void, Never>?
}

extension Engine {
  /// Cancels effects on entering the current state, then starts the one of its output.
  @usableFromInline
  func changeEffects(output: Output?) {
    cancelEffects()
    if let output { startEffect(of: output) }
  }

  /// Cancels the effects whose strategy says so.
  private func cancelEffects() {
    guard !running.isEmpty else { return }
    for (id, effect) in running where effect.strategy.cancels(state) {
      effect.task?.cancel()
      end(id)
    }
  }

  /// Starts the effect that the output is mapped to, if any; where steps are recorded, after the
  /// record.
  private func startEffect(of output: Output) {
    guard let effect = effect(of: output) else { return }
    lastEffect += 1
    running[lastEffect] = RunningEffect(
      output: output, strategy: effect.strategy, state: state, version: version)
    if unrecorded != nil {
      running[lastEffect]?.progress = BootClock.now
      unrecorded?.started(lastEffect)
    } else {
      launch(lastEffect)
    }
  }

  private func effect(of output: Output) -> Effect<State, Event, Output>? {
    EnumCases<Output>.tag(of: output).flatMap { runtime.effects[$0] }
  }

  /// Runs an effect, of which `elapsed` has passed already in an earlier process.
  private func launch(_ id: UInt64, elapsed: Duration = .zero) {
    guard let entry = running[id], let effect = effect(of: entry.output) else { return }
    let post = post
    let clock = clock
    let output = entry.output
    let isOver = Locked(false)
    let run = EffectRun(
      key: IdempotencyKey(scope: keyScope, version: entry.version), elapsed: elapsed)
    running[id]?.task = Task(priority: effect.priority) {
      await EffectClock.$current.withValue(clock) {
        await EffectRun.$current.withValue(run) {
          await effect.run(output) { event, place in
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

  func end(_ id: UInt64) {
    guard let effect = running.removeValue(forKey: id) else { return }
    unrecorded?.ended(id, version: effect.version)
  }

  /// Takes an event of an effect, which goes on once it is applied; where steps are recorded, once
  /// it is recorded.
  func take(_ event: Event, of id: UInt64, _ place: EffectEventPlace, _ reply: EffectReply) {
    var ending: UInt64?
    switch place {
    case .last:
      // Out before the step, whose entry could cancel it; recorded as ended with the step.
      ending = running.removeValue(forKey: id)?.version
    case .oneOfMany:
      if unrecorded != nil {
        running[id]?.progress = BootClock.now
        unrecorded?.started(id)
      }
    }
    step(event, cause: "effect") { [unowned self] _ in
      guard unrecorded != nil else { return reply.resume(true) }
      if let ending { unrecorded?.ended(id, version: ending) }
      unrecorded?.append(reply)
    }
  }
}

// Steps that are recorded.
extension Engine {
  /// Leaves what must follow the record to ``recorded()``.
  func recordsEffects() { unrecorded = UnrecordedEffects() }

  /// Whether effects have changed since the last record.
  var hasUnrecordedEffects: Bool { unrecorded?.isEmpty == false }

  /// What is to be recorded of effects.
  func unrecordedEffects() -> (started: [RunningEffect<State, Output>], ended: [UInt64]) {
    guard let unrecorded else { return ([], []) }
    return (unrecorded.startedIDs.compactMap { running[$0] }, unrecorded.endedVersions)
  }

  /// Starts and answers the effects whose steps are recorded now.
  func recorded() {
    guard let done = unrecorded, !done.isEmpty else { return }
    unrecorded = UnrecordedEffects()
    if !done.startedIDs.isEmpty { Failpoint.hit(.effectBefore) }
    for id in done.startedIDs where running[id].map({ $0.task == nil }) ?? false { launch(id) }
    if !done.replies.isEmpty { Failpoint.hit(.effectAfter) }
    for reply in done.replies { reply.resume(true) }
  }

  /// Runs an effect again that had not ended in an earlier process. Returns `false` where the
  /// machine has none for that state any more.
  func resumeEffect(of state: State, version: UInt64, elapsed: Duration) -> Bool {
    guard let output = machine.emit(state), let effect = effect(of: output) else { return false }
    lastEffect += 1
    running[lastEffect] = RunningEffect(
      output: output, strategy: effect.strategy, state: state, version: version)
    launch(lastEffect, elapsed: elapsed)
    return true
  }
}

/// What has happened to effects since the last record.
struct UnrecordedEffects {
  /// Started, or given an event.
  private(set) var startedIDs: [UInt64] = []
  /// The versions of the steps that started those that ended.
  private(set) var endedVersions: [UInt64] = []
  private(set) var replies: [EffectReply] = []

  var isEmpty: Bool { startedIDs.isEmpty && endedVersions.isEmpty && replies.isEmpty }

  mutating func started(_ id: UInt64) {
    if !startedIDs.contains(id) { startedIDs.append(id) }
  }

  mutating func ended(_ id: UInt64, version: UInt64) {
    startedIDs.removeAll { $0 == id }
    endedVersions.append(version)
  }

  mutating func append(_ reply: EffectReply) { replies.append(reply) }

  mutating func takeReplies() -> [EffectReply] {
    defer { replies = [] }
    return replies
  }
}
