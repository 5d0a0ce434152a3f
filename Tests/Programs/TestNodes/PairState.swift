import PipeRuntime

/// What two parties are together: how often they have met.
package enum PairState: CompositeState, Equatable {
  case strangers
  case met(count: Int)
  /// One has met the other, and not the other way round: never, where they meet together.
  case torn
  /// A state that has no JSON.
  case unspeakable(value: Double)

  package static let projection = Projection(PairState.init(left:right:))

  /// The steps of the first party at which there is no state of both.
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
