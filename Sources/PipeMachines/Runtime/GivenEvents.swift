/// A declaration of the events that an effect or a feedback can produce. `orchestrator check
/// --explore` uses the declaration, unless the topology file declares the events. A running machine
/// ignores the declaration.
///
/// ```swift
/// Runtime()
///   .map(
///     output: Output.load, to: load,
///     gives: .oneOf {
///       Event.didLoad
///       Event.didFail
///     }
///   )
///   .map(output: Output.log, to: log, gives: .nothing)
/// ```
public struct GivenEvents<Event: DSLCompatible>: Sendable {
  private let tags: [Int]
  private let mayEnd: Bool

  private init(_ tags: [Int], mayEnd: Bool) {
    self.tags = tags
    self.mayEnd = mayEnd
  }

  /// Declares that an effect produces one of these events. If the effect is a sequence, it produces
  /// any of these events repeatedly, and never ends.
  public static func oneOf(@OneOfBuilder<Event> _ events: () -> OneOfCases<Event>) -> Self {
    Self(OneOf<Event>(events).tags, mayEnd: false)
  }

  /// Declares that an effect produces one of these events, or ends without an event. If the effect
  /// is a sequence, it produces any of these events repeatedly until it ends.
  public static func oneOfOrNothing(
    @OneOfBuilder<Event> _ events: () -> OneOfCases<Event>
  ) -> Self { Self(OneOf<Event>(events).tags, mayEnd: true) }

  /// Declares that an effect produces no event.
  public static var nothing: Self { Self([], mayEnd: true) }

  func description(of effect: String) -> EffectDescription {
    var events: [String] = []
    for tag in tags {
      let name = EnumCases<Event>.names[tag]
      if !events.contains(name) { events.append(name) }
    }
    return EffectDescription(name: effect, producedEvents: events, mayEndWithoutEvent: mayEnd)
  }
}
