/// The events of a model or a feature whose asynchronous function acts on nothing but its own state.
///
/// Only such events can be synchronized events of several nodes: the function runs when it is asked whether
/// it takes the event, and what it has done must be gone where another participant does not. Where it
/// calls a service, writes a file or tells another model of it, that would stay.
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

  /// No event.
  public static var none: Self { Self(content: .none) }

  /// Every event.
  /// - Parameter limit: The longest that the function may take for one. After it the event is refused, and
  ///   the model stands where it stood. Default: 1 s.
  public static func all(within limit: Duration = .seconds(1)) -> Self {
    Self(content: .all(limit))
  }

  /// Some events, whatever their associated values: `.events(OneOf { Event.reset; Event.move(to:) })`.
  /// - Parameter limit: As of ``all(within:)``.
  public static func events(_ events: OneOf<Event>, within limit: Duration = .seconds(1)) -> Self {
    Self(content: .some([(events.tags, limit)]))
  }

  /// These and others, which may have another limit. Of an event that is in both the limit here counts.
  public func and(_ events: OneOf<Event>, within limit: Duration = .seconds(1)) -> Self {
    switch content {
    case .none: Self(content: .some([(events.tags, limit)]))
    case .all: self
    case .some(let groups): Self(content: .some(groups + [(events.tags, limit)]))
    }
  }

  /// How long the function may take for an event; `nil` for one that is not among these.
  func limit(of event: Event) -> Duration? {
    if case .none = content { return nil }
    return EnumCases<Event>.tag(of: event).flatMap(limit(ofTag:))
  }

  func limit(ofTag tag: Int) -> Duration? {
    switch content {
    case .none: nil
    case .all(let limit): limit
    case .some(let groups): groups.first { $0.tags.contains(tag) }?.limit
    }
  }
}

extension On {
  /// States that its asynchronous transition acts on nothing but the machine's own state, so that the event
  /// may be a synchronized one of several nodes. See ``SelfContainedEvents``.
  ///
  /// ```swift
  /// On(event: Event.reset) {
  ///   await settings.forget()
  ///   return Transition(to: State.idle)
  /// }
  /// .selfContained(within: .milliseconds(200))
  /// ```
  /// - Parameter limit: The longest that it may take there. After it the event is refused. Default: 1 s.
  public func selfContained(within limit: Duration = .seconds(1)) -> On {
    guard let read else {
      limitNow(limit)
      return self
    }
    return On {
      guard let context = MatchThread.current else { return read() }
      let isOpen = context.pointee.isOpen
      read()
      if isOpen, context.pointee.status == .suspended {
        Matching<State, Event>.limit(context, to: limit)
      }
      if context.pointee.status == .listing { EventList.limitLast(to: limit) }
    }
  }

  /// The same of one that has compared itself, or listed itself, just now.
  private func limitNow(_ limit: Duration) {
    guard let context = MatchThread.current else { return }
    if hasSuspended { Matching<State, Event>.limit(context, to: limit) }
    if context.pointee.status == .listing { EventList.limitLast(to: limit) }
  }
}
