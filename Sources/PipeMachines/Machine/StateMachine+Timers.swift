import PipeSupport

/// For each case of a machine's state, whether the case has timers, as far as this is known without
/// the associated values.
@usableFromInline
package struct TimerPresence: Sendable {
  /// Whether the states of one case have timers.
  enum Presence: Sendable {
    case none
    /// The states have timers, or may have them. The timers are read on each entry into the state.
    case some
    /// Unknown, because no sample of the case's associated values can be made.
    case unknown
  }

  /// For each case of the state, by its tag, whether the case has timers. Empty for a machine
  /// without timers.
  var presenceByTag: [Presence] = []

  /// Whether no state has timers.
  package var isNone: Bool { presenceByTag.isEmpty }
}

extension StateTable {
  /// For each case of the state, whether the case has timers. To find the timers, each `When` is
  /// read with sample values. Durations that depend on values are not evaluated.
  var timerPresence: TimerPresence {
    var presence = [TimerPresence.Presence](repeating: .none, count: stateCount)
    for list in sampleLists {
      for tag in whens[list.whenIndex].tags where tag < presence.count && presence[tag] != .some {
        if list.mayHaveTimers {
          presence[tag] = .some
        } else if !list.hasSample {
          presence[tag] = .unknown
        }
      }
    }
    var knowledge = TimerPresence()
    if presence.contains(where: { $0 != .none }) { knowledge.presenceByTag = presence }
    return knowledge
  }

  /// Reads the timers of a state that the machine has entered.
  func timers(in state: State) -> EventList {
    let list = EventList()
    read(state) { body in list.list(State.self, Event.self, as: .listingTimers, body) }
    return list
  }

  /// Makes the transition of a timer, with the values of a state.
  /// - Parameter index: The index of the timer among the timers of the state.
  /// - Returns: The machine's answer: the next state, or a refusal. `nil` if the state has no such
  ///   timer.
  func fire(_ index: Int, in state: State) -> Reduction<State>? {
    let timers = timers(in: state).timers
    guard timers.indices.contains(index) else { return nil }
    let list = EventList()
    list.firingTimer = timers[index].location
    return withUnsafeTemporaryAllocation(of: State.self, capacity: 1) { next in
      var context = MatchContext(
        status: .firing, stateType: State.self, eventType: Event.self, event: next.baseAddress!,
        tag: -1, layout: eventLayout, nextState: next.baseAddress!, eventList: list)
      withUnsafeMutablePointer(to: &context) { context in
        MatchThread.with(context) { read(state) { $0() } }
      }
      switch context.status {
      case .matched: return .next(next.baseAddress!.move())
      case .stayed:
        next.baseAddress!.deinitialize(count: 1)
        return .refused(.thrown(by: InternalTimerTransitionError()))
      default: return nil
      }
    }
  }

  /// Calls `body` once. The argument of `body` is a function that runs the `transitions` closure of
  /// each `When` of the state.
  private func read(_ state: State, _ body: (() -> Void) -> Void) {
    withUnsafePointer(to: state) { state in
      body {
        visit(state) { rule in
          rule.pointee.transitions?(state)
          return false
        }
      }
    }
  }
}

/// A timer of a state that a machine has entered.
package struct StateTimer: Hashable, Sendable {
  /// The index of the timer among the timers of the state, in the order written.
  package let index: Int
  /// The time from the entry into the state to the transition.
  package let duration: Duration

  /// The cause of the timer's step: `after 30 s`.
  package var cause: String { "after \(duration.shortText)" }
}

/// The error of a timer whose transition is internal. A timer ends when the machine leaves the
/// state, so the transition of a timer must leave the state.
private struct InternalTimerTransitionError: Error, CustomStringConvertible {
  let description = "'Stay' is not allowed in 'After'; write 'Transition(to:)'"
}

/// The error of an internal transition that would change the timers of its state. These timers have
/// been running since the machine entered the state.
struct ChangedTimersError: Error, CustomStringConvertible {
  let description =
    "'Stay' would change a timer of the state, whose 'After' depends on the changed values; write "
    + "'Transition(to:)' to start the timers again"
}

/// The error for a timer whose duration is negative or longer than 100 years.
package struct InvalidTimerError: Error, Hashable, CustomStringConvertible {
  /// The name of the state's case.
  let state: String
  let duration: Duration

  package var description: String {
    let limits = "a timer's duration must be between 0 and 100 years"
    return "the timer of state '\(state)' has an invalid duration of \(duration); \(limits)"
  }
}

extension StateMachine {
  /// For each state, whether the state has timers.
  @export(interface)
  package var timerPresence: TimerPresence { isListed ? table.timerPresence : TimerPresence() }

  /// The names of the states whose transitions contain an `After`. States whose transitions
  /// cannot be read with sample values are missing.
  package var statesWithTimers: [String] {
    let presence = timerPresence.presenceByTag
    return zip(EnumCases<State>.names, presence).filter { $0.1 == .some }.map(\.0)
  }

  /// Returns the timers of a state that the machine enters, in the order in which they are due. If
  /// several timers have the same duration, the timer that is written first is due first.
  /// - Throws: ``InvalidTimerError`` if a duration is negative or too long.
  package func timers(in state: State) throws(InvalidTimerError) -> [StateTimer] {
    guard isListed, !isFinal(state) else { return [] }
    var timers: [StateTimer] = []
    for (index, timer) in table.timers(in: state).timers.enumerated() {
      guard let duration = timer.duration else { continue }
      try Self.checkDuration(duration, of: EnumCases<State>.name(of: state))
      timers.append(StateTimer(index: index, duration: duration))
    }
    return timers.count < 2
      ? timers : timers.sorted { ($0.duration, $0.index) < ($1.duration, $1.index) }
  }

  private func isFinal(_ state: State) -> Bool {
    guard let finalTags, let tag = EnumCases<State>.tag(of: state) else { return false }
    return finalTags.contains(tag)
  }

  private static func checkDuration(_ duration: Duration, of state: String?)
    throws(InvalidTimerError)
  {
    guard duration < .zero || duration > After<State>.longestDuration else { return }
    throw InvalidTimerError(state: state ?? TypeName.of(State.self), duration: duration)
  }

  /// Returns whether the transitions of this state may contain an `After`. Used if no sample of the
  /// state could be made.
  func mayHaveTimers(in state: State) -> Bool { table.timers(in: state).mayHaveTimers }

  /// Returns the machine's answer to a timer that is due; `nil` if the state has no such timer.
  /// - Parameter timer: The index of the timer among the timers of the state.
  package func fire(_ timer: Int, in state: State) -> Reduction<State>? {
    guard isListed, let reduction = table.fire(timer, in: state) else { return nil }
    if case .next(let next) = reduction, let admitsTimerTransition,
      !admitsTimerTransition(next, state)
    {
      return .refused(.stateTooLarge)
    }
    return reduction
  }
}

/// The properties of a machine's timer that are known without running the machine.
public struct TimerDescription: Codable, Hashable, Sendable {
  /// The name of the state's case.
  public var state: String
  /// The duration, such as `30 s`; `nil` if it depends on the state's values.
  public var after: String?

  /// Creates a description of a timer.
  public init(state: String, after: String?) {
    self.state = state
    self.after = after
  }
}

extension TimerDescription {
  /// The timer in words: `offered after 30 s`.
  package var text: String { "\(state) after \(after ?? "a time that depends on values")" }
}

extension StateMachine {
  /// Returns the descriptions of all timers. If a duration is invalid, returns the error, and no
  /// descriptions.
  ///
  /// A description contains the duration if the duration is known without running the machine. This
  /// is the case if the state has no values or is the initial state, or if the expression does not
  /// refer to values. The function makes no transition.
  package func timerDescriptions() -> (all: [TimerDescription], problem: String?) {
    guard isListed, !timerPresence.isNone else { return ([], nil) }
    do throws(InvalidTimerError) {
      return (try listedTimers(), nil)
    } catch {
      return ([], error.description)
    }
  }

  private func listedTimers() throws(InvalidTimerError) -> [TimerDescription] {
    let names = EnumCases<State>.names
    var byState: [[TimerDescription]] = names.map { _ in [] }
    for list in table.sampleLists {
      for tag in table.whens[list.whenIndex].tags {
        for timer in list.timers {
          if let duration = timer.duration { try Self.checkDuration(duration, of: names[tag]) }
          byState[tag].append(
            TimerDescription(state: names[tag], after: timer.duration?.shortText))
        }
      }
    }
    let known = names.indices.compactMap { EnumCases<State>.bareValue(tag: $0) } + [initial]
    for state in known {
      guard let tag = EnumCases<State>.tag(of: state) else { continue }
      byState[tag] = try timers(in: state).sorted { $0.index < $1.index }.map {
        TimerDescription(state: names[tag], after: $0.duration.shortText)
      }
    }
    return byState.flatMap { $0 }
  }
}
