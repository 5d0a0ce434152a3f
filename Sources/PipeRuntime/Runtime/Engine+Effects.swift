/// An effect that has not ended.
struct RunningEffect<State: DSLCompatible> {
  let task: Task<Void, Never>
  let strategy: ExecutionStrategy<State>
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
      effect.task.cancel()
      running[id] = nil
    }
  }

  /// Starts the effect that the output is mapped to, if any.
  private func startEffect(of output: Output) {
    guard let tag = EnumCases<Output>.tag(of: output), let effect = runtime.effects[tag]
    else { return }
    lastEffect += 1
    let id = lastEffect
    let post = post
    let clock = clock
    let task = Task(priority: effect.priority) {
      await EffectClock.$current.withValue(clock) {
        await effect.run(output) { event in
          guard !Task.isCancelled else { return false }
          return await withCheckedContinuation { continuation in
            post(.effectEvent(event, effect: id, reply: EffectReply(continuation)))
          }
        }
      }
      post(.effectEnded(id))
    }
    running[id] = RunningEffect(task: task, strategy: effect.strategy)
  }
}
