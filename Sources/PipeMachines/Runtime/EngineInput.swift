import PipeSupport

/// An input from a task of the engine. The owner passes the input to the engine in the engine's
/// isolation.
@usableFromInline
package enum EngineInput<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  /// An effect has an event for the machine, and waits for the step.
  case effectEvent(Event, effect: UInt64, kind: EffectEventKind, reply: EffectReply)
  /// An effect has ended.
  case effectEnded(UInt64)
  /// The asynchronous transition has entered an intermediate state.
  case intermediateState(State)
  /// The asynchronous transition has returned.
  case transitionEnded(TransitionTarget<State>)
  /// The asynchronous transition has thrown an error, so its event is refused.
  case transitionThrew(Refusal)
  /// The alarm with this number has gone off, so a timer of the state is due.
  case timerDue(UInt64)
  /// The engine may be able to continue: a pipe or a buffer may have capacity again.
  case wake
}

/// The role of an event among all events of its effect, such as the last event.
@usableFromInline
package enum EffectEventKind: Sendable {
  case oneOfMany
  /// An event that announces a change. A withdrawn event is not processed.
  case announced(Announcement)
  /// The last event of the effect. The effect ends with the step on this event.
  case last

  package var isWithdrawn: Bool {
    switch self {
    case .announced(let announcement): announcement.isWithdrawn
    case .oneOfMany, .last: false
    }
  }
}

/// The answer to an effect's event. If this object is deallocated before ``resume(_:)`` is called,
/// the effect receives `false`.
@usableFromInline
package final class EffectReply: Sendable {
  private let answer: Locked<(@Sendable (Bool) -> Void)?>

  /// Creates a reply.
  /// - Parameter answer: Called once. The argument says whether the effect should continue.
  package init(_ answer: @escaping @Sendable (Bool) -> Void) {
    self.answer = Locked(answer)
  }

  deinit { resume(false) }

  /// Answers whether the effect should continue.
  package func resume(_ shouldContinue: Bool) {
    let waiting = answer.withLock { answer in
      defer { answer = nil }
      return answer
    }
    waiting?(shouldContinue)
  }
}

/// The outcome of processing an event.
@usableFromInline
package enum StepOutcome<State> {
  case accepted(State, version: UInt64)
  case refused(Refusal)
  /// An asynchronous transition is running; the owner queues other inputs until the transition
  /// returns.
  case pending
}

extension StepOutcome: Sendable where State: Sendable {}
extension StepOutcome: Equatable where State: Equatable {}
