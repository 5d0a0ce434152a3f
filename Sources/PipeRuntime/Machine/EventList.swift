/// Collects the events that the `On`s of a machine take, without a step.
@usableFromInline
package final class EventList {
  private(set) var tags: Set<Int> = []
  /// Some branch was not seen, so any event may be taken.
  private(set) var isIncomplete = false

  @usableFromInline
  func add(_ tag: Int?) {
    guard let tag else { return isIncomplete = true }
    tags.insert(tag)
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
