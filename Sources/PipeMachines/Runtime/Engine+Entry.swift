import PipeSupport

// Entry into a state, with the sends, timers and effects that follow.
extension Engine {
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

  /// Takes an internal transition: changes the values of the state without entering it. Running
  /// effects and timers go on. State middleware and feedbacks receive the changed state.
  // Kept out of `step`, like `ignore`, so that `step` stays small: internal transitions are rare.
  @inline(never)
  @usableFromInline
  func stay(in next: State, on event: Event?, because cause: String) {
    let isTraced = beginMove(to: next, on: event)
    (onInternalTransition ?? onEntry)?(state, version, cause)
    actOnInternalTransition(event)
    guard isTraced else { return }
    trace.isInternal = true
    trace.didTakeStep?()
    trace.isInternal = false
  }

  @inline(never)
  @usableFromInline
  func stay(in next: State, tallying event: Event, because cause: String) {
    if let tally = trace.tally { tally.countTransition(event, in: state) }
    stay(in: next, on: event, because: cause)
  }

  private func actOnInternalTransition(_ event: Event?) {
    observe(state, runtime.stateMiddleware)
    if !runtime.feedbacks.isEmpty { updateFeedbacks() }
    if hasEventSenders, let event { send(event) }
  }

  /// Consumes an event that the state ignores. The event is not a step.
  @inline(never)
  @usableFromInline
  func ignore(_ event: Event) {
    ignoredEvents &+= 1
    trace.didIgnore?(event)
    if let tally = trace.tally { tally.countTransition(event, in: state) }
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

  /// Sends the events that the send rules make from the accepted event.
  @usableFromInline
  func send(_ event: Event) {
    for (place, sender) in runtime.eventSendRules.enumerated() {
      sender.fire(event)
      pipes.sent(into: eventPipeIndices[place])
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
  /// - Parameter isInternal: Whether the transition is internal, so that the machine does not enter
  ///   the state.
  func enterAdopted(on event: Event, isInternal: Bool) {
    if isInternal { return actOnInternalTransition(event) }
    actOnEntry()
    if hasEventSenders { send(event) }
  }

  /// Updates timers, effects and feedbacks on entry into the current state. Cancels effects before
  /// it starts the effect of the state's output.
  @usableFromInline
  func updateEffects() {
    if timers != nil { updateTimers() }
    // Most steps neither cancel nor start an effect. These checks avoid the calls for such steps.
    if !effects.isEmpty { effects.cancel(on: state) }
    if !runtime.effects.isEmpty, let output = machine.emit(state) {
      effects.start(output, in: state, version: version)
    }
    if !runtime.feedbacks.isEmpty { updateFeedbacks() }
  }

  /// Cancels the timers of the former state, and starts the timers of the current state.
  @export(interface)
  private func updateTimers() {
    do {
      try timers?.entered(state, version: version)
    } catch {
      (onFailure ?? onError)(error.description)
    }
  }

  @export(interface)
  private func updateFeedbacks() {
    for problem in effects.updateFeedbacks(
      onEntryInto: state, version: version, isFromEffect: isTakingEffectEvent)
    {
      onError(problem)
    }
  }

  /// Runs an unfinished effect of an earlier process again. Returns `false` if the machine no
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

  /// Applies the rules that send on entry into a state. During the calls, a receiver may take a
  /// step on this thread and send an event back. So this function does not hold exclusive access to
  /// `pipes`.
  func fireSenders(_ state: State) {
    senders.fire(state) { pipes.sent(into: $0) }
  }

  @usableFromInline
  package func observe(_ event: Event) { observe(event, runtime.eventMiddleware) }

  @export(interface)
  func observe<Value: Sendable>(_ value: Value, _ middleware: [Middleware<Value>]) {
    for observer in middleware {
      switch observer {
      case .inline(let observer): observer(value)
      case .async(let observer, let priority):
        observers.append({ await observer(value) }, priority)
      }
    }
  }
}
