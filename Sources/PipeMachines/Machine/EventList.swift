/// Collects the events that the `On`s of a machine take, without a step.
@usableFromInline
package final class EventList {
  /// What one `On` takes.
  struct Entry {
    let tags: [Int]
    let isGuarded: Bool
    /// Whether its transition takes its time.
    let isAsynchronous: Bool
    /// How long it may take where it is stated to act on nothing but its own state.
    var limit: Duration?

    /// Whether it takes its time, and nothing is stated of that.
    var isUnlimited: Bool { isAsynchronous && limit == nil }
  }

  private(set) var entries: [Entry] = []
  /// Some branch was not seen, so any event may be taken.
  private(set) var isIncomplete = false
  private var isNextAsynchronous = false

  var tags: Set<Int> { Set(entries.flatMap(\.tags)) }

  /// Adds an `On`; `nil` stands for a case that cannot be told.
  @usableFromInline
  func add(_ tags: [Int]?, isGuarded: Bool) {
    if tags == nil { isIncomplete = true }
    entries.append(
      Entry(tags: tags ?? [], isGuarded: isGuarded, isAsynchronous: isNextAsynchronous))
    isNextAsynchronous = false
  }

  /// The `On` that adds itself next has an asynchronous transition, if this thread is listing.
  static func nextIsAsynchronous() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.listed?.takeUnretainedValue().isNextAsynchronous = true
  }

  /// The `On` that was added last has a time limit, if this thread is listing.
  static func limitLast(to limit: Duration) {
    guard let list = MatchThread.current?.pointee.listed?.takeUnretainedValue(),
      let last = list.entries.indices.last, list.entries[last].isAsynchronous
    else { return }
    list.entries[last].limit = limit
  }

  @usableFromInline
  func missBranch() { isIncomplete = true }

  /// Reports that a builder has left a branch out, if this thread is listing.
  @inlinable
  static func missBranch() {
    guard let context = MatchThread.current, context.pointee.status == .listing else { return }
    context.pointee.listed?.takeUnretainedValue().missBranch()
  }

  /// Runs transitions so that their `On`s add themselves here.
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
