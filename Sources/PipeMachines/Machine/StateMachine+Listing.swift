/// The transitions of a machine, by state and event. The list contains only what can be read
/// without running the machine.
package struct TransitionListing: Sendable {
  /// An event that a state accepts if its guards pass.
  package struct Entry: Hashable, Sendable {
    package var state: String
    package var event: String
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
  /// To find them, each `When` is read with sample values and with the initial state.
  package var transitions: TransitionListing {
    guard isListed else {
      return TransitionListing(
        entries: [], incompleteStates: EnumCases<State>.names, isReadable: false)
    }
    var taken: [Set<Int>] = EnumCases<State>.names.map { _ in [] }
    var isOpen = taken.map { _ in false }
    for when in table.whens where when.transitions != nil {
      let list = EventList()
      list.list(State.self, Event.self) { if when.list?() != true { list.recordSkippedBranch() } }
      for tag in when.tags {
        taken[tag].formUnion(list.tags)
        isOpen[tag] = isOpen[tag] || list.isIncomplete
      }
    }
    for tag in taken.indices {
      guard let state = EnumCases<State>.bareValue(tag: tag) else { continue }
      // A case without associated values has only one value, so nothing hides an `On` from it.
      taken[tag] = list(state).tags
      isOpen[tag] = false
    }
    if let tag = EnumCases<State>.tag(of: initial) {
      taken[tag].formUnion(list(initial).tags)
    }
    return TransitionListing(
      entries: zip(EnumCases<State>.names, taken).flatMap { state, taken in
        names(of: taken).map { TransitionListing.Entry(state: state, event: $0) }
      },
      incompleteStates: zip(EnumCases<State>.names, isOpen).filter(\.1).map(\.0))
  }

  /// How many of an event's transitions are asynchronous.
  package enum Asynchrony {
    /// At least one transition. The others are synchronous or self-contained, or cannot be read.
    case some
    /// All transitions of the event.
    case all
  }

  /// The events with asynchronous transitions that are not declared to be self-contained, by name.
  /// For a machine that is defined by a function, the answer follows from the initializer that
  /// created the machine.
  package var asynchronousEvents: [String: Asynchrony] {
    guard isListed else {
      guard isAsynchronous else { return [:] }
      let names = EnumCases<Event>.names.enumerated()
        .filter { selfContained.limit(ofTag: $0.offset) == nil }
      return Dictionary(uniqueKeysWithValues: names.map { ($0.element, .all) })
    }
    let list = listedEvents
    var found: [String: Asynchrony] = [:]
    for (tag, name) in EnumCases<Event>.names.enumerated() {
      let entries = list.entries.filter { $0.tags.contains(tag) }
      guard entries.contains(where: \.isUnlimited) else { continue }
      let isAll = !list.isIncomplete && entries.allSatisfy(\.isUnlimited)
      found[name] = isAll ? .all : .some
    }
    return found
  }

  /// The time limits of the self-contained asynchronous transitions, by the name of the event. If
  /// an event has several such transitions, the longest limit applies.
  package var selfContainedEvents: [String: Duration] {
    let list = isListed ? listedEvents : EventList()
    var found: [String: Duration] = [:]
    for (tag, name) in EnumCases<Event>.names.enumerated() {
      let limits = list.entries.filter { $0.tags.contains(tag) }.compactMap(\.limit)
      found[name] = (limits + [selfContained.limit(ofTag: tag)].compactMap { $0 }).max()
    }
    return found
  }

  /// The transitions of all states, read with sample values.
  private var listedEvents: EventList {
    let list = EventList()
    for when in table.whens {
      list.list(State.self, Event.self) { if when.list?() == false { list.recordSkippedBranch() } }
    }
    return list
  }

  /// Returns the names of the events that this state accepts if their guards pass; empty if the
  /// machine is defined by a function.
  package func events(acceptedIn state: State) -> [String] { names(of: list(state).tags) }

  /// Returns the names of the events of ``events(acceptedIn:)`` for which each `On` has a guard.
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

  private func names(of tags: Set<Int>) -> [String] {
    let names = EnumCases<Event>.names
    return names.indices.filter(tags.contains).map { names[$0] }
  }
}
