/// A list of the events that a machine's `On`s accept, collected without taking a step.
@usableFromInline
package final class EventList {
  /// The events that one `On` accepts.
  struct Entry {
    let tags: [Int]
    let isGuarded: Bool
    /// Whether the transition is asynchronous.
    let isAsynchronous: Bool
    /// The time limit of the transition, if the transition is declared to be self-contained.
    var limit: Duration?

    /// Whether the transition is asynchronous, and not declared to be self-contained.
    var isUnlimited: Bool { isAsynchronous && limit == nil }
  }

  private(set) var entries: [Entry] = []
  /// Whether a branch was not read. In that case, the machine may accept any event.
  private(set) var isIncomplete = false
  private var isNextAsynchronous = false

  var tags: Set<Int> { Set(entries.flatMap(\.tags)) }

  /// Adds an `On`; `nil` means that the case of its event is unknown.
  @usableFromInline
  func add(_ tags: [Int]?, isGuarded: Bool) {
    if tags == nil { isIncomplete = true }
    entries.append(
      Entry(tags: tags ?? [], isGuarded: isGuarded, isAsynchronous: isNextAsynchronous))
    isNextAsynchronous = false
  }

  /// Marks the next `On` as asynchronous, if this thread is listing a machine's events.
  static func markNextAsynchronous() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.listed?.takeUnretainedValue().isNextAsynchronous = true
  }

  /// Sets the time limit of the last `On`, if this thread is listing a machine's events.
  static func limitLast(to limit: Duration) {
    guard let list = MatchThread.current?.pointee.listed?.takeUnretainedValue(),
      let last = list.entries.indices.last, list.entries[last].isAsynchronous
    else { return }
    list.entries[last].limit = limit
  }

  @usableFromInline
  func recordSkippedBranch() { isIncomplete = true }

  /// Records that a builder has skipped a branch, if this thread is listing a machine's events.
  @inlinable
  static func recordSkippedBranch() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.listed?.takeUnretainedValue().recordSkippedBranch()
  }

  /// Calls `transitions` while this list is current, so that each `On` adds itself to the list.
  func list<State, Event>(_: State.Type, _ type: Event.Type, _ transitions: () -> Void) {
    withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { unused in
      let memory = unused.baseAddress!
      var context = MatchContext(
        status: .listing, stateType: State.self, eventType: type, event: memory, tag: -1,
        layout: .of(type),
        next: memory, listed: self)
      withUnsafeMutablePointer(to: &context) { MatchThread.with($0, transitions) }
    }
  }
}
