/// The events for which the asynchronous function of a model or a feature is self-contained: the
/// function acts only on the state of the model or feature.
///
/// Only such an event can be a synchronized event of several nodes. The function runs when the
/// coordinator asks the node whether the node accepts the event. If another participant refuses the
/// event, everything that the function has done must be undone. A call to a service, a written file
/// or a message to another model could not be undone.
///
/// ```swift
/// extension LampModel: HostableModel {
///   static var selfContained: SelfContainedEvents<Event> { .all() }
/// }
/// ```
public struct SelfContainedEvents<Event: DSLCompatible>: Sendable {
  private enum Content: Sendable {
    case none
    case all(Duration)
    case some([(tags: [Int], limit: Duration)])
  }

  private let content: Content

  /// The empty set.
  public static var none: Self { Self(content: .none) }

  /// The set of all events.
  /// - Parameter limit: The longest time that the function may take for one event. After that time,
  ///   the event is refused, and the model or feature keeps its state. Default: 1 s.
  public static func all(within limit: Duration = .seconds(1)) -> Self {
    Self(content: .all(limit))
  }

  /// A set of some events, regardless of their associated values:
  /// `.events(OneOf { Event.reset; Event.move(to:) })`.
  /// - Parameter limit: The same limit as for ``all(within:)``.
  public static func events(_ events: OneOf<Event>, within limit: Duration = .seconds(1)) -> Self {
    Self(content: .some([(events.tags, limit)]))
  }

  /// Returns a set with these events and the given events, which may have another limit. An event
  /// that is already in the set keeps its limit.
  public func and(_ events: OneOf<Event>, within limit: Duration = .seconds(1)) -> Self {
    switch content {
    case .none: Self(content: .some([(events.tags, limit)]))
    case .all: self
    case .some(let groups): Self(content: .some(groups + [(events.tags, limit)]))
    }
  }

  /// Returns the time limit of the function for an event; `nil` if the event is not in the set.
  func timeLimit(of event: Event) -> Duration? {
    if case .none = content { return nil }
    return EnumCases<Event>.tag(of: event).flatMap(timeLimit(ofTag:))
  }

  func timeLimit(ofTag tag: Int) -> Duration? {
    switch content {
    case .none: nil
    case .all(let limit): limit
    case .some(let groups): groups.first { $0.tags.contains(tag) }?.limit
    }
  }
}

extension On {
  /// Declares that the asynchronous transition is self-contained: it acts only on the machine's own
  /// state. The event of such a transition can be a synchronized event of several nodes. See
  /// ``SelfContainedEvents``.
  ///
  /// ```swift
  /// On(event: Event.reset) {
  ///   await settings.forget()
  ///   return Transition(to: State.idle)
  /// }
  /// .selfContained(within: .milliseconds(200))
  /// ```
  /// - Parameter limit: The longest time that the transition may take in a synchronized event.
  ///   After that time, the event is refused. Default: 1 s.
  public func selfContained(within limit: Duration = .seconds(1)) -> On {
    guard let read else {
      applyLimit(limit)
      return self
    }
    return On {
      guard let context = MatchThread.current else { return read() }
      let isUnanswered = context.pointee.isUnanswered
      read()
      if isUnanswered, context.pointee.status == .suspended {
        Matching<State, Event>.limit(context, to: limit)
      }
      if context.pointee.status == .listing { EventList.limitLast(to: limit) }
    }
  }

  /// Sets the limit of an `On` that has just suspended the step, or added itself to a list.
  private func applyLimit(_ limit: Duration) {
    guard let context = MatchThread.current else { return }
    if hasSuspended { Matching<State, Event>.limit(context, to: limit) }
    if context.pointee.status == .listing { EventList.limitLast(to: limit) }
  }
}
