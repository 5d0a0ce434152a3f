/// A list of the events that a machine's `On`s accept, collected without taking a step.
@usableFromInline
package final class EventList {
  /// The events that one `On` accepts.
  struct Entry {
    let tags: [Int]
    let isGuarded: Bool
    /// Whether the transition is asynchronous.
    let isAsynchronous: Bool
    /// The time limit of the transition, if it is declared to act on nothing but its own state.
    var limit: Duration?

    /// Whether the transition is asynchronous without a declared time limit.
    var isUnlimited: Bool { isAsynchronous && limit == nil }
  }

  private(set) var entries: [Entry] = []
  /// Whether some branch was not read, so that any event may be accepted.
  private(set) var isIncomplete = false
  private var isNextAsynchronous = false

  var tags: Set<Int> { Set(entries.flatMap(\.tags)) }

  /// Adds an `On`; `nil` means that its case is unknown.
  @usableFromInline
  func add(_ tags: [Int]?, isGuarded: Bool) {
    if tags == nil { isIncomplete = true }
    entries.append(
      Entry(tags: tags ?? [], isGuarded: isGuarded, isAsynchronous: isNextAsynchronous))
    isNextAsynchronous = false
  }

  /// Marks the `On` that is added next as asynchronous, if this thread is listing.
  static func markNextAsynchronous() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.listed?.takeUnretainedValue().isNextAsynchronous = true
  }

  /// Sets the time limit of the `On` that was added last, if this thread is listing.
  static func limitLast(to limit: Duration) {
    guard let list = MatchThread.current?.pointee.listed?.takeUnretainedValue(),
      let last = list.entries.indices.last, list.entries[last].isAsynchronous
    else { return }
    list.entries[last].limit = limit
  }

  @usableFromInline
  func recordSkippedBranch() { isIncomplete = true }

  /// Reports that a builder skipped a branch, if this thread is listing.
  @inlinable
  static func recordSkippedBranch() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.listed?.takeUnretainedValue().recordSkippedBranch()
  }

  /// Runs `transitions` so that its `On`s add themselves to this list.
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
