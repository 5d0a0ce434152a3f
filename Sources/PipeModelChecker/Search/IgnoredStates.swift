/// Finds the states of a reduced search in which a step is postponed forever. From such a state, no
/// path leads to a state whose steps were all taken.
///
/// A skipped step stays enabled while the search takes independent steps. So no step is postponed
/// forever if every state can reach a state without skipped steps.
struct IgnoredStates {
  /// The number of each partition's first state. The states of all partitions are numbered
  /// consecutively.
  private let firstNumbers: [Int]
  /// The index in `targetStates` of each state's first step. The targets of a state's steps are
  /// `targetStates[firstTargetIndices[state]..<firstTargetIndices[state + 1]]`.
  private var firstTargetIndices: [Int]
  private var targetStates: [UInt32]
  /// Whether each state can reach a state without skipped steps.
  private var isSafe: [Bool]

  init(_ partitions: [Partition]) {
    var firstNumbers = [0]
    for partition in partitions {
      firstNumbers.append(firstNumbers[firstNumbers.count - 1] + partition.stateCount)
    }
    self.firstNumbers = firstNumbers
    let count = firstNumbers[partitions.count]
    let row = { (state: UInt32) in
      firstNumbers[Int(state) % partitions.count] + Int(state) / partitions.count
    }
    var starts = [Int](repeating: 0, count: count + 1)
    for partition in partitions {
      partition.forEachEdge { source, _ in starts[row(source) + 1] += 1 }
    }
    for state in 0..<count { starts[state + 1] += starts[state] }
    var ends = starts
    var targets = [UInt32](repeating: 0, count: starts[count])
    for partition in partitions {
      partition.forEachEdge { source, target in
        targets[ends[row(source)]] = UInt32(row(target))
        ends[row(source)] += 1
      }
    }
    self.firstTargetIndices = starts
    self.targetStates = targets
    isSafe = partitions.flatMap { partition in
      (0..<partition.stateCount).map { !partition.hasSkippedSteps(of: $0) }
    }
    markSafeStates()
  }

  /// Returns the memory that is required for this number of states and steps. Unit: bytes.
  static func byteCount(states: Int, steps: Int) -> Int { 4 * steps + 64 * states }

  /// Returns the states that must be searched again with all their steps, as a partition and the
  /// state's number in that partition.
  ///
  /// The result has one state of each closed component. The states of a closed component can reach
  /// each other, but no other state, and all of them have skipped steps.
  func firstStates() -> [(partition: Int, number: Int)] {
    closedComponents().map { state in
      // If a partition has no states, the next partition has the same first number. The last match
      // is the partition that contains the state.
      let partition = firstNumbers.lastIndex { $0 <= state } ?? 0
      return (partition, state - firstNumbers[partition])
    }
  }

  /// Marks all states that can reach a safe state as safe. Repeats sweeps over all states until
  /// nothing changes.
  private mutating func markSafeStates() {
    var isForwards = false
    var hasChanged = true
    while hasChanged {
      hasChanged = false
      for place in isSafe.indices {
        let state = isForwards ? place : isSafe.count - 1 - place
        if isSafe[state] { continue }
        if targetStates[firstTargetIndices[state]..<firstTargetIndices[state + 1]].contains(where: {
          isSafe[Int($0)]
        }) {
          isSafe[state] = true
          hasChanged = true
        }
      }
      isForwards.toggle()
    }
  }

  /// Returns one state of each closed component, which is a strongly connected component of unsafe
  /// states without a step out of the component. Uses Tarjan's algorithm.
  private func closedComponents() -> [Int] {
    var closedStates: [Int] = []
    var order = [Int](repeating: -1, count: isSafe.count)
    var low = order
    var isOpen = [Bool](repeating: false, count: isSafe.count)
    /// For each state, whether it has a step to a state outside its component.
    var leavesComponent = isOpen
    var openStates: [Int] = []
    var path: [(state: Int, next: Int)] = []
    var count = 0
    for root in isSafe.indices where !isSafe[root] && order[root] < 0 {
      path.append((root, firstTargetIndices[root]))
      while let (state, next) = path.last {
        if order[state] < 0 {
          order[state] = count
          low[state] = count
          count += 1
          openStates.append(state)
          isOpen[state] = true
        }
        if next < firstTargetIndices[state + 1] {
          path[path.count - 1].next += 1
          let target = Int(targetStates[next])
          if order[target] < 0 {
            path.append((target, firstTargetIndices[target]))
          } else if isOpen[target] {
            low[state] = min(low[state], order[target])
          } else {
            leavesComponent[state] = true
          }
          continue
        }
        path.removeLast()
        var isComplete = false
        if low[state] == order[state] {
          var members: [Int] = []
          while let member = openStates.popLast() {
            isOpen[member] = false
            members.append(member)
            if member == state { break }
          }
          if !members.contains(where: { leavesComponent[$0] }) {
            closedStates.append(members.min() ?? state)
          }
          isComplete = true
        }
        if let before = path.last?.state {
          low[before] = min(low[before], isComplete ? low[before] : low[state])
          if isComplete { leavesComponent[before] = true }
        }
      }
    }
    return closedStates
  }
}
