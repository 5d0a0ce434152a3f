/// Finds where a reduced search postpones a step forever: no state reachable from there was
/// searched with all its steps.
///
/// An enabled step that was skipped stays enabled while independent steps are taken. So it is
/// enough if every state can reach a state without skipped steps.
struct IgnoredStates {
  /// The number of the first state of each partition, with the states of all partitions numbered
  /// consecutively.
  private let firstNumbers: [Int]
  /// The steps of a state lead to `targets[starts[state]..<starts[state + 1]]`.
  private var starts: [Int]
  private var targets: [UInt32]
  /// Whether a state can reach a state without skipped steps.
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
    self.starts = starts
    self.targets = targets
    isSafe = partitions.flatMap { partition in
      (0..<partition.stateCount).map { !partition.hasSkippedSteps(of: $0) }
    }
    markSafeStates()
  }

  /// Returns the memory that is required. Unit: bytes.
  static func byteCount(states: Int, steps: Int) -> Int { 4 * steps + 64 * states }

  /// Returns a state of each closed part of the other states, as a partition and its number there.
  func firstStates() -> [(partition: Int, number: Int)] {
    closedComponents().map { state in
      // A partition without states has the same first number as the next one.
      let partition = firstNumbers.lastIndex { $0 <= state } ?? 0
      return (partition, state - firstNumbers[partition])
    }
  }

  /// Marks all states that can reach a safe state as safe, in sweeps as in ``StateGraph``.
  private mutating func markSafeStates() {
    var isForwards = false
    var hasChanged = true
    while hasChanged {
      hasChanged = false
      for place in isSafe.indices {
        let state = isForwards ? place : isSafe.count - 1 - place
        if isSafe[state] { continue }
        if targets[starts[state]..<starts[state + 1]].contains(where: { isSafe[Int($0)] }) {
          isSafe[state] = true
          hasChanged = true
        }
      }
      isForwards.toggle()
    }
  }

  /// Returns the smallest state of each strongly connected component of the other states without a
  /// step out of the component, by Tarjan's algorithm.
  private func closedComponents() -> [Int] {
    var closedStates: [Int] = []
    var order = [Int](repeating: -1, count: isSafe.count)
    var low = order
    var isOpen = [Bool](repeating: false, count: isSafe.count)
    /// Whether a state has a step to a component that is complete.
    var leavesComponent = isOpen
    var open: [Int] = []
    var path: [(state: Int, next: Int)] = []
    var count = 0
    for root in isSafe.indices where !isSafe[root] && order[root] < 0 {
      path.append((root, starts[root]))
      while let (state, next) = path.last {
        if order[state] < 0 {
          order[state] = count
          low[state] = count
          count += 1
          open.append(state)
          isOpen[state] = true
        }
        if next < starts[state + 1] {
          path[path.count - 1].next += 1
          let target = Int(targets[next])
          if order[target] < 0 {
            path.append((target, starts[target]))
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
          while let member = open.popLast() {
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
