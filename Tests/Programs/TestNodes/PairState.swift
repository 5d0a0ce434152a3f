import PipeRuntime

/// The combined state of two parties: the number of their meetings.
package enum PairState: CompositeState, Equatable {
  case strangers
  case met(count: Int)
  /// The parties have different numbers of meetings. Impossible while meetings are synchronized.
  case torn
  /// A state without a JSON form.
  case unspeakable(value: Double)

  package static let projection = Projection(PairState.init(left:right:))

  /// The steps of the first party at which the combined state has no JSON form.
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
