import PipeSupport

/// What an engine's own tasks tell it; its owner passes it on in the engine's isolation.
@usableFromInline
package enum EngineInput<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  /// An effect has an event for the machine, and waits for its step.
  case effectEvent(Event, effect: UInt64, place: EffectEventPlace, reply: EffectReply)
  /// An effect has ended.
  case effectEnded(UInt64)
  /// The asynchronous transition goes through a state on its way.
  case passed(State)
  /// The asynchronous transition has returned.
  case transitionEnded(State)
  /// The asynchronous transition has thrown, so that its event is refused.
  case transitionThrew(Refusal)
  /// What the engine waited for may be there: room in a pipe, in a buffer.
  case wake
}

/// Whether an effect may give further events.
@usableFromInline
package enum EffectEventPlace: Sendable {
  case oneOfMany
  /// One of many, which is not taken where it has been withdrawn.
  case announced(Announcement)
  /// With its step the effect is over.
  case last

  package var isWithdrawn: Bool {
    switch self {
    case .announced(let announcement): announcement.isWithdrawn
    case .oneOfMany, .last: false
    }
  }
}

/// Tells an effect what became of its event; forgetting it tells that the event is not taken.
@usableFromInline
package final class EffectReply: Sendable {
  private let answer: Locked<(@Sendable (Bool) -> Void)?>

  /// - Parameter answer: Called once, with whether the effect is to go on.
  package init(_ answer: @escaping @Sendable (Bool) -> Void) {
    self.answer = Locked(answer)
  }

  deinit { resume(false) }

  /// Says whether the effect is to go on.
  package func resume(_ goOn: Bool) {
    let waiting = answer.withLock { answer in
      defer { answer = nil }
      return answer
    }
    waiting?(goOn)
  }
}

/// What became of an event.
@usableFromInline
package enum StepOutcome<State> {
  case moved(State, version: UInt64)
  case refused(Refusal)
  /// An asynchronous transition is running; the owner queues other inputs until it returns.
  case pending
}

extension StepOutcome: Sendable where State: Sendable {}
extension StepOutcome: Equatable where State: Equatable {}
