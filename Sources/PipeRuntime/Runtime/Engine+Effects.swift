/// An effect that has not ended.
struct RunningEffect<State: DSLCompatible> {
  let task: Task<Void, Never>
  let strategy: ExecutionStrategy<State>
}

extension Engine {
  /// Cancels the effects whose strategy says so on entering the current state.
  func cancelEffects() {
    guard !running.isEmpty else { return }
    for (id, effect) in running where effect.strategy.cancels(state) {
      effect.task.cancel()
      running[id] = nil
    }
  }

  /// Starts the effect that the current state's output is mapped to, if any.
  func startEffect() {
    guard !runtime.effects.isEmpty, let output = machine.emit(state),
      let tag = EnumCases<Output>.tag(of: output), let effect = runtime.effects[tag]
    else { return }
    lastEffect += 1
    let id = lastEffect
    let post = post
    let task = Task(priority: effect.priority) {
      await effect.run(output) { event in
        guard !Task.isCancelled else { return false }
        return await withCheckedContinuation { continuation in
          post(.effectEvent(event, effect: id, reply: EffectReply(continuation)))
        }
      }
      post(.effectEnded(id))
    }
    running[id] = RunningEffect(task: task, strategy: effect.strategy)
  }
}
