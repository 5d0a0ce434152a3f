import PipeRuntime

/// The combined state of two parties: the number of their meetings.
package enum PairState: CompositeState, Equatable {
  case strangers
  case met(count: Int)
  /// The parties have different numbers of meetings. Unreachable, because meetings are
  /// synchronized.
  case torn
  /// A state that cannot be encoded as JSON.
  case unspeakable(value: Double)

  package static let projection = Projection(PairState.init(left:right:))

  /// The number of steps of the first party at which the combined state cannot be encoded as JSON.
  package static let unspeakableSteps = 3

  init(left: Party.State, right: Party.State) {
    if case .willing(_, Self.unspeakableSteps) = left {
      self = .unspeakable(value: .nan)
    } else if left.met != right.met {
      self = .torn
    } else {
      self = left.met == 0 ? .strangers : .met(count: left.met)
    }
  }
}
