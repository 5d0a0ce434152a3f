/// The steps between the states of a complete search, to ask what can be reached from each of them.
///
/// The states of all partitions are numbered in one row. The steps are found once more, and stored by the
/// state that they start from. What reaches a state with an observation is spread in sweeps, backwards and
/// forwards in turn, until nothing changes: as states are numbered level by level, few are needed.
struct StateGraph {
  private let partitions: [Partition]
  /// The number of the first state of each partition.
  private let firsts: [Int]
  /// The steps of a state are `targets[ends[state - 1]..<ends[state]]`.
  private var ends: [UInt32] = []
  private var targets: [UInt32] = []
  /// For each observation that is asked about whether it holds in each state.
  private var holds: [Int: [Bool]] = [:]

  /// - Parameters:
  ///   - steps: The steps that the search has taken. Where it has left some out, those are found as well that
  ///     lead to states that were met: what is out of reach is the same with them and without.
  ///   - memory: What the graph may take. Unit: bytes.
  /// - Returns: `nil` where it would take more.
  init?(
    _ partitions: [Partition], _ program: CompiledModel, about observations: Set<Int>, steps: Int,
    memory: Int
  ) {
    self.partitions = partitions
    var firsts = [0]
    for partition in partitions { firsts.append(firsts[firsts.count - 1] + partition.stateCount) }
    self.firsts = firsts
    let states = firsts[firsts.count - 1]
    let mostSteps = min((memory - (4 + observations.count + 1) * states) / 4, Int(UInt32.max) - 1)
    guard steps <= mostSteps else { return nil }
    targets.reserveCapacity(steps)
    ends.reserveCapacity(states)
    for observation in observations { holds[observation] = Array(repeating: false, count: states) }
    for partition in partitions {
      for number in 0..<partition.stateCount {
        partition.visitSteps(of: number) { target, fingerprint in
          let owner = Partition.owner(of: fingerprint, among: partitions.count)
          guard let found = partitions[owner].number(of: target, fingerprint: fingerprint) else {
            return
          }
          targets.append(UInt32(firsts[owner] + found))
        }
        guard targets.count <= mostSteps else { return nil }
        let state = ends.count
        for observation in observations where partition.isVisited(holding: observation) {
          holds[observation]?[state] = true
        }
        ends.append(UInt32(targets.count))
      }
    }
  }

  /// The memory that the graph takes. Unit: bytes.
  var byteCount: Int { 4 * targets.count + (4 + holds.count + 1) * ends.count }

  /// The states from which none can be reached where one of some observations holds: of each partition the first.
  func firstStates(withoutPathTo observations: Set<Int>) -> [(partition: Partition, number: Int)] {
    let held = observations.compactMap { holds[$0] }
    guard var reaches = held.first else { return [] }
    for other in held.dropFirst() {
      for place in reaches.indices where other[place] { reaches[place] = true }
    }
    var isForwards = false
    var hasChanged = true
    while hasChanged {
      hasChanged = false
      for place in reaches.indices {
        let state = isForwards ? place : reaches.count - 1 - place
        if reaches[state] { continue }
        let start = state == 0 ? 0 : Int(ends[state - 1])
        if targets[start..<Int(ends[state])].contains(where: { reaches[Int($0)] }) {
          reaches[state] = true
          hasChanged = true
        }
      }
      isForwards.toggle()
    }
    return partitions.indices.compactMap { partition in
      let first = firsts[partition]
      let lost = reaches[first..<firsts[partition + 1]].firstIndex(of: false)
      return lost.map { (partitions[partition], $0 - first) }
    }
  }
}
