/// What an effect or a feedback may give, as its author declares: `orchestrator check --explore` goes by it
/// where the topology file says nothing. A run does not.
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

  /// It gives one of these events; of a sequence, any of them, again and again.
  public static func oneOf(@OneOfBuilder<Event> _ events: () -> OneOfCases<Event>) -> Self {
    Self(OneOf<Event>(events).tags, mayEnd: false)
  }

  /// It gives one of these events, or ends without one; of a sequence, any of them, until it ends.
  public static func oneOfOrNothing(
    @OneOfBuilder<Event> _ events: () -> OneOfCases<Event>
  ) -> Self { Self(OneOf<Event>(events).tags, mayEnd: true) }

  /// It gives no event.
  public static var nothing: Self { Self([], mayEnd: true) }

  func description(of effect: String) -> EffectDescription {
    var events: [String] = []
    for tag in tags {
      let name = EnumCases<Event>.names[tag]
      if !events.contains(name) { events.append(name) }
    }
    return EffectDescription(name: effect, gives: events, mayEnd: mayEnd)
  }
}
