extension Engine {
  /// Starts and cancels feedbacks on entering the current state.
  func changeFeedbacks() {
    if !takesOwnEvent { feedbackGuard.reset() }
    for (index, feedback) in runtime.feedbacks.enumerated() {
      let place = index + 1
      // One that was held is compared as if its part of the state were new.
      let isHeld = heldFeedbacks.contains(place)
      switch feedback.change(isHeld ? nil : followed, state) {
      case .none: if isHeld { heldFeedbacks.remove(place) }
      case .stops: cancelFeedback(place)
      case .starts: startFeedback(place)
      case .restarts:
        cancelFeedback(place)
        startFeedback(place)
      }
    }
    followed = state
  }

  private func cancelFeedback(_ place: Int) {
    heldFeedbacks.remove(place)
    for (id, effect) in running where effect.origin.feedback == place {
      effect.task?.cancel()
      end(id)
    }
  }

  private func startFeedback(_ place: Int) {
    guard let effect = feedback(place, of: state, version: version) else { return }
    let wasHolding = feedbackGuard.isHolding
    guard feedbackGuard.permitsStart() else {
      heldFeedbacks.insert(place)
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
    heldFeedbacks.remove(place)
    start(effect)
  }

  /// The work of a feedback; `nil` where the runtime has none of this place.
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
