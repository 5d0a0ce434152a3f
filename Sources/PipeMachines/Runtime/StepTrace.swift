/// Counts steps and tells of each, as far as somebody asks for that: before it, ahead of all that it sends, and
/// after it.
@usableFromInline
package struct StepTrace<State, Event> {
  /// What counts them, where somebody wants that.
  @usableFromInline package var tally: TransitionTally<State, Event>?
  /// Whether they are told of.
  @usableFromInline private(set) var isOn = false
  /// Told of the event of a step and the state before it; answers whether ``hasMoved`` is to be called once
  /// it has. `nil` where no step is told of.
  @usableFromInline package var willMove: ((_ event: Event?, _ from: State) -> Bool)? {
    didSet { isOn = willMove != nil }
  }
  /// Called at the end of a step of which ``willMove`` said so.
  @usableFromInline package var hasMoved: (() -> Void)?

  /// Of the event that an effect has given last, the version of the step that started the effect.
  package var effectVersion: UInt64 = 0

  init() {}
}
