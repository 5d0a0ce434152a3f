/// Counts the steps of a machine by the case of the state that each left and the case of its event, as long as
/// somebody wants that.
///
/// The engine holds it, as counting is to cost a step next to nothing; that is why its memory is its maker's to
/// free, after the engine has let go of it.
@usableFromInline
package struct TransitionTally<State, Event> {
  /// By the tag of the state, and in that of the event.
  @usableFromInline let counts: UnsafeMutableBufferPointer<UInt64>
  /// How many cases are told apart; 1 for a type that has none.
  @usableFromInline let stateCount: Int
  @usableFromInline let eventCount: Int

  @export(interface)
  package init() {
    stateCount = max(1, EnumCases<State>.names.count)
    eventCount = max(1, EnumCases<Event>.names.count)
    counts = .allocate(capacity: stateCount * eventCount)
    counts.initialize(repeating: 0)
  }

  package func deallocate() { counts.deallocate() }

  @inlinable
  package func count(_ event: Event, in state: State) {
    let place =
      Self.tag(of: state, among: stateCount) &* eventCount &+ Self.tag(of: event, among: eventCount)
    if place < counts.count { counts[place] &+= 1 }
  }

  @inlinable
  static func tag<Value>(of value: Value, among count: Int) -> Int {
    count == 1 ? 0 : EnumCases<Value>.tag(of: value) ?? 0
  }

  /// What was counted, where it is not 0.
  /// - Parameter body: Given the tags of state and event.
  package func forEach(_ body: (_ state: Int, _ event: Int, _ count: UInt64) -> Void) {
    for (place, count) in counts.enumerated() where count > 0 {
      body(place / eventCount, place % eventCount, count)
    }
  }
}
