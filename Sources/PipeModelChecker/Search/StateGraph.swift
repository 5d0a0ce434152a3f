/// The steps between the states of a complete search, to find what is reachable from each state.
///
/// The states of all partitions are numbered consecutively. The steps are computed a second time,
/// and stored by the state that they start from. The states that can reach an observation are
/// marked in sweeps, alternately backwards and forwards, until nothing changes. As states are
/// numbered level by level, a few sweeps are enough.
struct StateGraph {
  private let partitions: [Partition]
  /// The number of the first state of each partition.
  private let firstNumbers: [Int]
  /// The steps of a state are `targets[ends[state - 1]..<ends[state]]`.
  private var ends: [UInt32] = []
  private var targets: [UInt32] = []
  /// For each observation of interest, whether it holds in each state.
  private var holds: [Int: [Bool]] = [:]

  /// - Parameters:
  ///   - steps: The number of steps that the search took. For a reduced search, the graph includes
  ///     skipped steps between visited states, too; they do not change what is unreachable.
  ///   - memory: The memory limit of the graph. Unit: bytes.
  /// - Returns: `nil` if the graph would exceed the limit.
  init?(
    _ partitions: [Partition], _ program: CompiledModel, about observations: Set<Int>, steps: Int,
    memory: Int
  ) {
    self.partitions = partitions
    var firstNumbers = [0]
    for partition in partitions {
      firstNumbers.append(firstNumbers[firstNumbers.count - 1] + partition.stateCount)
    }
    self.firstNumbers = firstNumbers
    let states = firstNumbers[firstNumbers.count - 1]
    let stepLimit = min((memory - (4 + observations.count + 1) * states) / 4, Int(UInt32.max) - 1)
    guard steps <= stepLimit else { return nil }
    targets.reserveCapacity(steps)
    ends.reserveCapacity(states)
    for observation in observations { holds[observation] = Array(repeating: false, count: states) }
    for partition in partitions {
      for number in 0..<partition.stateCount {
        partition.forEachStep(of: number) { target, fingerprint in
          let owner = Partition.owner(of: fingerprint, among: partitions.count)
          guard let found = partitions[owner].number(of: target, fingerprint: fingerprint) else {
            return
          }
          targets.append(UInt32(firstNumbers[owner] + found))
        }
        guard targets.count <= stepLimit else { return nil }
        let state = ends.count
        for observation in observations where partition.isVisited(holding: observation) {
          holds[observation]?[state] = true
        }
        ends.append(UInt32(targets.count))
      }
    }
  }

  /// The memory of the graph. Unit: bytes.
  var byteCount: Int { 4 * targets.count + (4 + holds.count + 1) * ends.count }

  /// Returns the first state of each partition from which no state with one of the observations is
  /// reachable.
  func firstStates(withoutPathTo observations: Set<Int>) -> [(partition: Partition, number: Int)] {
    let matchingStates = observations.compactMap { holds[$0] }
    guard var canReach = matchingStates.first else { return [] }
    for other in matchingStates.dropFirst() {
      for place in canReach.indices where other[place] { canReach[place] = true }
    }
    var isForwards = false
    var hasChanged = true
    while hasChanged {
      hasChanged = false
      for place in canReach.indices {
        let state = isForwards ? place : canReach.count - 1 - place
        if canReach[state] { continue }
        let start = state == 0 ? 0 : Int(ends[state - 1])
        if targets[start..<Int(ends[state])].contains(where: { canReach[Int($0)] }) {
          canReach[state] = true
          hasChanged = true
        }
      }
      isForwards.toggle()
    }
    return partitions.indices.compactMap { partition in
      let first = firstNumbers[partition]
      let lost = canReach[first..<firstNumbers[partition + 1]].firstIndex(of: false)
      return lost.map { (partitions[partition], $0 - first) }
    }
  }
}
