/// The transitions of a machine, by state and event. The list contains only what can be read
/// without running the machine.
package struct TransitionListing: Sendable {
  /// An event for which a state has an `On`.
  package struct Entry: Hashable, Sendable {
    package var state: String
    package var event: String
    /// Whether the state always ignores the event.
    package var isIgnored = false
  }

  /// The transitions, sorted by state and then by event. States and events are in the order of
  /// declaration.
  package var entries: [Entry]
  /// The states that may accept further events, because an `if` or a `for` hides some `On`s, or
  /// because no sample of the associated values can be made.
  package var incompleteStates: [String]
  /// Whether the transitions can be read. `false` if the machine is defined by a function.
  package var isReadable = true
}

extension StateMachine {
  /// The transitions of all states.
  ///
  /// To find the transitions, each `When` is read with sample values and with the initial state.
  package var transitions: TransitionListing {
    guard isListed else {
      return TransitionListing(
        entries: [], incompleteStates: EnumCases<State>.names, isReadable: false)
    }
    var eventTagsByState: [Set<Int>] = EnumCases<State>.names.map { _ in [] }
    // The events for which a state has a transition. Unlike `eventTagsByState`, this list does not
    // include ignored events.
    var transitionTagsByState = eventTagsByState
    var isOpen = eventTagsByState.map { _ in false }
    for list in table.sampleLists {
      for tag in table.whens[list.whenIndex].tags {
        eventTagsByState[tag].formUnion(list.tags)
        transitionTagsByState[tag].formUnion(list.transitionTags)
        isOpen[tag] = isOpen[tag] || list.isIncomplete
      }
    }
    for tag in eventTagsByState.indices {
      guard let state = EnumCases<State>.bareValue(tag: tag) else { continue }
      // A state without associated values has only one value. So the list for this value contains
      // every `On` of the state.
      let list = list(state)
      eventTagsByState[tag] = list.tags
      transitionTagsByState[tag] = list.transitionTags
      isOpen[tag] = false
    }
    if let tag = EnumCases<State>.tag(of: initial) {
      let list = list(initial)
      eventTagsByState[tag].formUnion(list.tags)
      transitionTagsByState[tag].formUnion(list.transitionTags)
    }
    return TransitionListing(
      entries: EnumCases<State>.names.enumerated().flatMap { tag, state in
        names(of: eventTagsByState[tag], isIgnored: { !transitionTagsByState[tag].contains($0) })
          .map {
            TransitionListing.Entry(state: state, event: $0.name, isIgnored: $0.isIgnored)
          }
      },
      incompleteStates: zip(EnumCases<State>.names, isOpen).filter(\.1).map(\.0))
  }

  /// The events that the machine always ignores in a state, by the name of the state. States that
  /// ignore no event are left out.
  package var ignoredEvents: [String: [String]] {
    // Most machines ignore no event. For these machines, the events of each state need not be
    // listed.
    guard isListed, table.sampleLists.contains(where: { $0.entries.contains(where: \.isIgnored) })
    else {
      return [:]
    }
    return Dictionary(grouping: transitions.entries.filter(\.isIgnored), by: \.state)
      .mapValues { $0.map(\.event) }
  }

  /// How many of an event's transitions are asynchronous and not self-contained.
  package enum Asynchrony {
    /// At least one transition. The other transitions are synchronous or self-contained, or cannot
    /// be read.
    case some
    /// All transitions of the event.
    case all
  }

  /// Whether some or all transitions of an event are asynchronous and not self-contained, by the
  /// name of the event. Events without such transitions are left out.
  ///
  /// If a machine is defined by an asynchronous function, the value is ``Asynchrony/all`` for every
  /// event that is not declared to be self-contained. If the machine is defined by a synchronous
  /// function, the dictionary is empty.
  package var asynchronousEvents: [String: Asynchrony] {
    guard isListed else {
      guard isAsynchronous else { return [:] }
      let names = EnumCases<Event>.names.enumerated()
        .filter { selfContainedEvents.timeLimit(ofTag: $0.offset) == nil }
      return Dictionary(uniqueKeysWithValues: names.map { ($0.element, .all) })
    }
    let lists = table.sampleLists
    let isComplete = lists.allSatisfy { !$0.isIncomplete }
    let all = lists.flatMap(\.entries)
    var found: [String: Asynchrony] = [:]
    for (tag, name) in EnumCases<Event>.names.enumerated() {
      let entries = all.filter { $0.tags.contains(tag) }
      guard entries.contains(where: \.isUnlimited) else { continue }
      let isAll = isComplete && entries.allSatisfy(\.isUnlimited)
      found[name] = isAll ? .all : .some
    }
    return found
  }

  /// The time limits of the self-contained asynchronous transitions, by the name of the event. If
  /// an event has several such transitions, the longest limit applies.
  package var timeLimitsByEvent: [String: Duration] {
    let all = isListed ? table.sampleLists.flatMap(\.entries) : []
    var found: [String: Duration] = [:]
    for (tag, name) in EnumCases<Event>.names.enumerated() {
      let limits = all.filter { $0.tags.contains(tag) }.compactMap(\.timeLimit)
      found[name] = (limits + [selfContainedEvents.timeLimit(ofTag: tag)].compactMap { $0 }).max()
    }
    return found
  }

  /// Returns the names of the events for which this state has an `On`, with or without a guard.
  /// Returns no names if the machine is defined by a function.
  package func events(acceptedIn state: State) -> [String] { names(of: list(state).tags) }

  /// Returns the names of the events that this state accepts only through `On`s with guards.
  package func guardedEvents(in state: State) -> [String] {
    let entries = list(state).entries
    let free = Set(entries.filter { !$0.isGuarded }.flatMap(\.tags))
    return names(of: Set(entries.flatMap(\.tags)).subtracting(free))
  }

  /// Returns the list of the events that this state accepts.
  func list(_ state: State) -> EventList {
    let list = EventList()
    withUnsafePointer(to: state) { state in
      list.list(State.self, Event.self) {
        table.visit(state) { rule in
          rule.pointee.transitions?(state)
          return false
        }
      }
    }
    return list
  }

  private func names(
    of tags: Set<Int>, isIgnored: (Int) -> Bool
  ) -> [(name: String, isIgnored: Bool)] {
    let names = EnumCases<Event>.names
    return names.indices.filter(tags.contains).map { (names[$0], isIgnored($0)) }
  }

  private func names(of tags: Set<Int>) -> [String] {
    let names = EnumCases<Event>.names
    return names.indices.filter(tags.contains).map { names[$0] }
  }
}
