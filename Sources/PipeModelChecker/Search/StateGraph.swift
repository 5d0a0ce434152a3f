/// The graph of all states and steps of a complete search. The graph shows which observations are
/// reachable from each state.
///
/// The states of all partitions are numbered consecutively. The steps are computed again, and
/// grouped by the state in which they start. The graph marks states that can reach an observation.
/// For this, it sweeps over all states, alternately backwards and forwards, until nothing changes.
/// A few sweeps are enough, since states are numbered level by level.
struct StateGraph {
  private let partitions: [Partition]
  /// The number of the first state of each partition.
  private let firstNumbers: [Int]
  /// The end of each state's steps in `targetStates`. The targets of a state's steps are
  /// `targetStates[targetEnds[state - 1]..<targetEnds[state]]`.
  private var targetEnds: [UInt32] = []
  private var targetStates: [UInt32] = []
  /// For each observation, whether it holds in each state.
  private var observationHolds: [Int: [Bool]] = [:]

  /// - Parameters:
  ///   - steps: The number of steps that the search took. If the search was reduced, the graph also
  ///     includes the skipped steps between visited states. These steps do not change which
  ///     observations are unreachable.
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
    targetStates.reserveCapacity(steps)
    targetEnds.reserveCapacity(states)
    for observation in observations {
      observationHolds[observation] = Array(repeating: false, count: states)
    }
    for partition in partitions {
      for number in 0..<partition.stateCount {
        partition.forEachStep(of: number) { _, target, fingerprint in
          let owner = Partition.owner(of: fingerprint, among: partitions.count)
          guard let found = partitions[owner].number(of: target, fingerprint: fingerprint) else {
            return
          }
          targetStates.append(UInt32(firstNumbers[owner] + found))
        }
        guard targetStates.count <= stepLimit else { return nil }
        let state = targetEnds.count
        for observation in observations where partition.holds(observation) {
          observationHolds[observation]?[state] = true
        }
        targetEnds.append(UInt32(targetStates.count))
      }
    }
  }

  /// The memory of the graph. Unit: bytes.
  var byteCount: Int {
    4 * targetStates.count + (4 + observationHolds.count + 1) * targetEnds.count
  }

  /// Returns, for each partition, the first state from which none of the observations is reachable.
  func firstStates(withoutPathTo observations: Set<Int>) -> [(partition: Partition, number: Int)] {
    let matchingStates = observations.compactMap { observationHolds[$0] }
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
        let start = state == 0 ? 0 : Int(targetEnds[state - 1])
        if targetStates[start..<Int(targetEnds[state])].contains(where: { canReach[Int($0)] }) {
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
