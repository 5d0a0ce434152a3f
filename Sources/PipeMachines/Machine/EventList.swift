/// A list of the events that a machine's `On`s accept, collected without taking a step.
@usableFromInline
package final class EventList {
  /// The events that one `On` accepts.
  struct Entry {
    let tags: [Int]
    let isGuarded: Bool
    /// Whether the transition is asynchronous.
    let isAsynchronous: Bool
    /// Whether the events are ignored.
    var isIgnored = false
    /// The time limit of the transition; `nil` if the transition is not declared to be
    /// self-contained.
    var timeLimit: Duration?

    /// Whether the transition is asynchronous, and not declared to be self-contained.
    var isUnlimited: Bool { isAsynchronous && timeLimit == nil }
  }

  private(set) var entries: [Entry] = []
  /// The timers that were read, in the order written.
  var timers: [ListedTimer] = []
  /// Whether the transitions may contain an `After`: an `After` was read, or may be in a branch
  /// that was not read.
  private(set) var mayHaveTimers = false
  /// The timer that fires; `nil` if no timer fires.
  var firingTimer: TimerLocation?
  /// Whether a branch was not read, or the event of an `On` is unknown. The machine may then accept
  /// any event.
  private(set) var isIncomplete = false
  private var isNextAsynchronous = false
  private var isNextIgnored = false

  var tags: Set<Int> { Set(entries.flatMap(\.tags)) }

  /// The tags of the events for which there is a transition.
  var transitionTags: Set<Int> { Set(entries.lazy.filter { !$0.isIgnored }.flatMap(\.tags)) }

  /// Adds an `On` that accepts the events with these tags. The tags are `nil` if the event of the
  /// `On` is unknown.
  @usableFromInline
  func add(_ tags: [Int]?, isGuarded: Bool) {
    if tags == nil { isIncomplete = true }
    entries.append(
      Entry(
        tags: tags ?? [], isGuarded: isGuarded, isAsynchronous: isNextAsynchronous,
        isIgnored: isNextIgnored))
    isNextAsynchronous = false
    isNextIgnored = false
  }

  /// Marks the next `On` as asynchronous, if this thread is listing a machine's events.
  static func markNextAsynchronous() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.eventList?.takeUnretainedValue().isNextAsynchronous = true
  }

  /// Marks the events of the next `On` as ignored, if this thread is listing a machine's events.
  @usableFromInline
  static func markNextIgnored() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.eventList?.takeUnretainedValue().isNextIgnored = true
  }

  /// Sets the time limit of the last `On`. Does nothing if this `On` is not asynchronous, or if
  /// this thread is not listing a machine's events.
  static func limitLast(to limit: Duration) {
    guard let list = MatchThread.current?.pointee.eventList?.takeUnretainedValue(),
      let last = list.entries.indices.last, list.entries[last].isAsynchronous
    else { return }
    list.entries[last].timeLimit = limit
  }

  @usableFromInline
  func recordSkippedBranch() { isIncomplete = true }

  /// Records that a builder has skipped a branch, if this thread is listing a machine's events.
  @inlinable
  static func recordSkippedBranch() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.eventList?.takeUnretainedValue().recordSkippedBranch()
  }

  /// Records that the transitions of a builder may contain timers, if this thread is filling a
  /// list.
  /// - Parameter isCertain: Whether the transitions certainly contain an `After`. If `false`, the
  ///   transitions come from another builder, which has recorded each `After` that it read. Further
  ///   timers can then only be in branches that were not read.
  @usableFromInline
  static func recordTimers(isCertain: Bool) {
    guard let list = MatchThread.current?.pointee.eventList?.takeUnretainedValue() else { return }
    if isCertain || list.isIncomplete { list.mayHaveTimers = true }
  }

  /// Calls `transitions` with this list as the list of the current thread, so that each `On` adds
  /// itself to this list.
  func list<State, Event>(
    _: State.Type, _ type: Event.Type, as status: MatchContext.Status = .listing,
    _ transitions: () -> Void
  ) {
    withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { unused in
      let memory = unused.baseAddress!
      var context = MatchContext(
        status: status, stateType: State.self, eventType: type, event: memory, tag: -1,
        layout: .of(type),
        nextState: memory, eventList: self)
      withUnsafeMutablePointer(to: &context) { MatchThread.with($0, transitions) }
    }
  }
}
