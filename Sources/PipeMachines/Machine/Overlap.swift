/// Two `When`s or `On`s of one machine that apply to the same state or event.
///
/// - Two `When`s can name the same state. Their transitions are tried in the order written. The
///   first `When` with an output closure determines the output, even if the output is `noOutput`.
/// - Two `On`s can name the same event in the same state. The first `On` whose guard passes makes
///   the transition. An `On` without a guard always passes, so later `On`s for the event are never
///   tried: they are hidden.
public struct Overlap: Hashable, Sendable {
  /// The position of a `When` or an `On` in the machine, counted from one.
  public struct Location: Hashable, Sendable {
    /// The number of the `When` in the machine.
    public var when: Int
    /// The number of the `On` in that `When`; `nil` for the `When` itself.
    public var on: Int?
  }

  /// The name of the state's case.
  public var state: String
  /// The name of the event's case for two `On`s; `nil` for two `When`s.
  public var event: String?
  /// The position of the `When` or `On` that is written first.
  public var first: Location
  /// The position of the `When` or `On` that is written later.
  public var second: Location
  /// Whether the second `On` is never tried, because the first `On` has no guard.
  public var isHidden: Bool
}

extension Overlap: CustomStringConvertible {
  /// A sentence that describes the overlap.
  public var description: String {
    guard let event else {
      return "state '\(state)': \(second) adds to \(first)"
    }
    return isHidden
      ? "state '\(state)', event '\(event)': \(second) is hidden by \(first), which has no guard"
      : "state '\(state)', event '\(event)': \(second) is tried where the guard of \(first) fails"
  }
}

extension Overlap.Location: CustomStringConvertible {
  /// The position in words.
  public var description: String { on.map { "On \($0) of When \(when)" } ?? "When \(when)" }
}

extension StateMachine {
  /// Returns the states that several `When`s describe, and the events that several `On`s of a state
  /// accept.
  ///
  /// An overlap is not an error: several `On`s with guards are common. An overlap with
  /// ``Overlap/isHidden`` is usually a mistake. Like ``alphabet``, this method reads each `When`
  /// with sample values. So the method misses an `On` that an `if` skips for the sample values, and
  /// a `When` for which no sample can be made.
  public func overlaps() -> [Overlap] {
    let lists = table.whens.map { when -> [EventList.Entry] in
      let list = EventList()
      if let transitions = when.list {
        list.list(State.self, Event.self) { _ = transitions() }
      }
      return list.entries
    }
    return EnumCases<State>.names.indices.flatMap { tag in
      overlaps(of: tag, table.whens.indices.filter { table.whens[$0].tags.contains(tag) }, lists)
    }
  }

  private func overlaps(
    of state: Int, _ whens: [Int], _ lists: [[EventList.Entry]]
  ) -> [Overlap] {
    let name = EnumCases<State>.names[state]
    var found = whens.dropFirst().map { when in
      Overlap(
        state: name, event: nil, first: .init(when: whens[0] + 1), second: .init(when: when + 1),
        isHidden: false)
    }
    // For each event, the `On` that a later `On` overlaps. This is the first `On` without a guard,
    // because it hides all later `On`s. If every `On` so far has a guard, it is the latest `On`.
    var earlier: [Int: (location: Overlap.Location, isGuarded: Bool)] = [:]
    for when in whens {
      for (index, entry) in lists[when].enumerated() {
        let location = Overlap.Location(when: when + 1, on: index + 1)
        for tag in entry.tags {
          if let first = earlier[tag], first.location != location {
            found.append(
              Overlap(
                state: name, event: EnumCases<Event>.names[tag], first: first.location,
                second: location,
                isHidden: !first.isGuarded))
          }
          if earlier[tag]?.isGuarded ?? true { earlier[tag] = (location, entry.isGuarded) }
        }
      }
    }
    return found
  }
}
