/// Two descriptions of one machine that answer the same question, and which of them is heard.
///
/// - Two `When`s may name one state. Their transitions are tried in the order written; the output is
///   that of the first, `noOutput` included, unless it has transitions only.
/// - Two `On`s may name one event in one state. The first whose guard passes makes the transition;
///   one without a guard always passes, so that a later one is hidden: it is never tried.
public struct Overlap: Hashable, Sendable {
  /// Where a `When` or an `On` stands in the machine, counted from one.
  public struct Place: Hashable, Sendable {
    /// Which `When` of the machine.
    public var when: Int
    /// Which `On` of that `When`; `nil` for the `When` itself.
    public var on: Int?
  }

  /// The name of the state's case.
  public var state: String
  /// The name of the event's case, where it is about two `On`s; `nil` where about two `When`s.
  public var event: String?
  /// The one that is written first.
  public var first: Place
  /// The one that is written later.
  public var second: Place
  /// Whether the second is never tried, because the first has no guard.
  public var isHidden: Bool
}

extension Overlap: CustomStringConvertible {
  /// A sentence that tells it.
  public var description: String {
    guard let event else {
      return "state '\(state)': \(second) adds to \(first)"
    }
    return isHidden
      ? "state '\(state)', event '\(event)': \(second) is hidden by \(first), which has no guard"
      : "state '\(state)', event '\(event)': \(second) is tried where the guard of \(first) fails"
  }
}

extension Overlap.Place: CustomStringConvertible {
  /// The place in words.
  public var description: String { on.map { "On \($0) of When \(when)" } ?? "When \(when)" }
}

extension StateMachine {
  /// The states that several `When`s describe, and the events that several `On`s of a state take.
  ///
  /// None of it is an error: guards are often written that way. An overlap that ``Overlap/isHidden``
  /// usually is a slip. Found as ``alphabet`` is, so what an `if` leaves out for sample values, or
  /// stands in a `When` for which no sample can be made, is not seen.
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
    // For each event: the `On` that answers first, or that hides all after it.
    var earlier: [Int: (place: Overlap.Place, isGuarded: Bool)] = [:]
    for when in whens {
      for (index, entry) in lists[when].enumerated() {
        let place = Overlap.Place(when: when + 1, on: index + 1)
        for tag in entry.tags {
          if let first = earlier[tag], first.place != place {
            found.append(
              Overlap(
                state: name, event: EnumCases<Event>.names[tag], first: first.place, second: place,
                isHidden: !first.isGuarded))
          }
          if earlier[tag]?.isGuarded ?? true { earlier[tag] = (place, entry.isGuarded) }
        }
      }
    }
    return found
  }
}
