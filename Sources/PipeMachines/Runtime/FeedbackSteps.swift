/// What the steps of a machine mean to its feedbacks: which start and which are cancelled, and which are
/// held because they keep starting themselves.
struct FeedbackSteps<State: DSLCompatible, Event: DSLCompatible> {
  enum Action: Equatable {
    case cancel(place: Int)
    case start(place: Int)
    /// Keeps it from starting.
    /// - Parameter isFirst: Whether nothing was held so far.
    case hold(place: Int, isFirst: Bool)
  }

  private var frequency = FeedbackGuard()
  /// The places of those that wait for an event from elsewhere.
  private var held: Set<Int> = []
  /// The state that the feedbacks were last compared with.
  private var followed: State?

  /// The machine stands in a state that was entered before.
  mutating func restore(_ state: State) { followed = state }

  /// A state is entered.
  /// - Parameter isOwn: Whether the event of the step comes from an effect of the machine.
  mutating func entered(
    _ state: State, isOwn: Bool, _ feedbacks: [Feedback<State, Event>]
  ) -> [Action] {
    if !isOwn { frequency.reset() }
    var actions: [Action] = []
    for (index, feedback) in feedbacks.enumerated() {
      let place = index + 1
      let isBlocked = held.contains(place)
      // One that was held is compared as if its part of the state were new.
      let change = feedback.change(isBlocked ? nil : followed, state)
      if isBlocked || change == .stops || change == .restarts {
        held.remove(place)
        actions.append(.cancel(place: place))
      }
      if change == .starts || change == .restarts { actions.append(start(place)) }
    }
    followed = state
    return actions
  }

  private mutating func start(_ place: Int) -> Action {
    let wasHolding = frequency.isHolding
    if frequency.permitsStart() { return .start(place: place) }
    held.insert(place)
    return .hold(place: place, isFirst: !wasHolding)
  }

  /// What is to be said of a feedback that is held.
  static func problem(at place: Int) -> String {
    """
    feedback \(place) of the runtime has started more than \(FeedbackGuard.startLimit) times \
    within a second without an event from elsewhere; it is held until the next such event. \
    Have its effect wait, or its event lead to a state that does not start it again.
    """
  }
}
