import PipeSupport

extension Engine {
  /// Starts and cancels feedbacks on entering the current state.
  @export(interface)
  func changeFeedbacks() {
    if !takesOwnEvent { feedbackGuard.reset() }
    for (index, feedback) in runtime.feedbacks.enumerated() {
      let place = index + 1
      // One that was held is compared as if its part of the state were new.
      let held = heldFeedbacks[place]
      switch feedback.change(held == nil ? followed : nil, state) {
      case .none: if held != nil { cancelFeedback(place) }
      case .stops: cancelFeedback(place)
      case .starts:
        if held != nil { cancelFeedback(place) }
        startFeedback(place)
      case .restarts:
        cancelFeedback(place)
        startFeedback(place)
      }
    }
    followed = state
  }

  @export(interface)
  private func cancelFeedback(_ place: Int) {
    heldFeedbacks[place] = nil
    for (id, effect) in running where effect.origin.feedback == place {
      effect.task?.cancel()
      end(id)
    }
  }

  @export(interface)
  private func startFeedback(_ place: Int) {
    guard let effect = feedback(place, of: state, version: version) else { return }
    let wasHolding = feedbackGuard.isHolding
    guard feedbackGuard.permitsStart() else {
      hold(effect)
      if !wasHolding {
        onProblem(
          """
          feedback \(place) of the runtime has started more than \(FeedbackGuard.startLimit) times \
          within a second without an event from elsewhere; it is held until the next such event. \
          Have its effect wait, or its event lead to a state that does not start it again.
          """)
      }
      return
    }
    start(effect)
  }

  /// Keeps a feedback from starting. Where steps are recorded, it is recorded as one that has not
  /// ended, so that the next process runs it.
  @export(interface)
  private func hold(_ effect: RunningEffect<State, Event>) {
    lastEffect += 1
    running[lastEffect] = effect
    heldFeedbacks[effect.origin.feedback] = lastEffect
    if unrecorded != nil {
      running[lastEffect]?.progress = BootClock.now
      unrecorded?.started(lastEffect)
    }
  }

  /// The work of a feedback; `nil` where the runtime has none of this place.
  @export(interface)
  func feedback(
    _ place: Int, of state: State, version: UInt64
  ) -> RunningEffect<State, Event>? {
    guard runtime.feedbacks.indices.contains(place - 1) else { return nil }
    let feedback = runtime.feedbacks[place - 1]
    return RunningEffect(
      origin: EffectOrigin(version: version, feedback: place), state: state,
      strategy: .continueWhenAnyState, priority: feedback.priority,
      run: { await feedback.run(state, $0) })
  }
}
