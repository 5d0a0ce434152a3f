import PipeTopology

/// The capacities of pipes while a topology is searched: small at first, and raised where that may matter.
///
/// A pipe that is full in no state does in the search what a larger one would do. One that is full somewhere holds its
/// sender back there, which the larger one would not.
struct CapacityRaising {
  /// The explored capacity of each pipe, in the order of the file. Unit: events.
  private(set) var capacities: [Int]
  private let pipes: [PipeSpecification]
  /// Whether the file names the capacity, which is not raised then.
  private let isFixed: Bool

  /// States that a search with raised capacities may always meet.
  private static let leastStates = 200_000
  /// By how much a search with raised capacities may be larger than the one before.
  private static let growth = 4

  init(_ pipes: [PipeSpecification], _ section: ExploreSection) {
    self.pipes = pipes
    isFixed = section.capacity != nil
    capacities = pipes.map { ExploreSection.capacity(of: $0, in: section) }
  }

  /// Raises the capacities of pipes that were full in a complete search.
  /// - Parameter full: Their indices.
  /// - Returns: Whether another search may tell more.
  mutating func raise(_ full: Set<Int>) -> Bool {
    guard !isFixed else { return false }
    let before = capacities
    for place in full { capacities[place] = min(2 * capacities[place], pipes[place].capacity) }
    return capacities != before
  }

  /// The states that the next search may meet, where the last one met so many.
  static func stateLimit(after states: Int) -> Int { max(leastStates, growth * states) }
}
