/// The states that the transition of a step has gone through on its way, until the step is over.
@usableFromInline
struct PassingStates<State> {
  /// How many so far.
  @usableFromInline private(set) var count: UInt64 = 0
  /// The state that the transition began in, where it has gone through any.
  private(set) var origin: State?
  /// How many there were since the run began.
  private(set) var total: UInt64 = 0
  /// Those from which something follows.
  private var followed: [State] = []

  init() {}

  /// The transition goes from a state through another one.
  /// - Parameter isFollowed: Whether something follows from that when the step is over.
  mutating func pass(from state: State, through next: State, isFollowed: Bool) {
    if count == 0 { origin = state }
    if isFollowed { followed.append(next) }
    count += 1
    total += 1
  }

  /// The step has come to nothing.
  /// - Returns: The state that it began in, which is to be shown again; `nil` where no other was seen.
  mutating func turnBack() -> State? {
    guard let origin else { return nil }
    _ = end()
    total += 1
    return origin
  }

  /// The step is over.
  /// - Returns: The states from which something follows now.
  mutating func end() -> [State] {
    defer { (count, origin, followed) = (0, nil, []) }
    return followed
  }
}
