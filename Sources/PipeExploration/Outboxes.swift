/// The outboxes of one partition: one for each other one.
final class Outboxes {
  private static let capacity = 1 << 15

  private let boxes: UnsafeMutablePointer<Outbox>
  private let count: Int
  private let owner: Int
  private let budget: MemoryBudget
  /// The states that one state can lead to, at most.
  private let mostSteps: Int

  init(of owner: Int, among count: Int, for program: CompiledModel, budget: MemoryBudget) {
    self.owner = owner
    self.count = count
    self.budget = budget
    mostSteps = program.vectorCount
    boxes = .allocate(capacity: count)
    for other in 0..<count {
      let capacity = other == owner ? 0 : Self.capacity + 2 * mostSteps
      (boxes + other).initialize(to: Outbox(stateWords: program.stateWords, capacity: capacity))
      budget.take(boxes[other].byteCount)
    }
  }

  deinit {
    for other in 0..<count { budget.giveBack(boxes[other].byteCount) }
    boxes.deinitialize(count: count)
    boxes.deallocate()
  }

  /// Whether one of them may have no room for what one more state leads to.
  var isFull: Bool {
    for other in 0..<count where other != owner {
      if boxes[other].count + mostSteps > boxes[other].capacity { return true }
    }
    return false
  }

  @inline(__always)
  func append(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32, to other: Int
  ) {
    boxes[other].append(state, fingerprint: fingerprint, origin: origin)
  }

  /// Lets a store take what is in the box of its partition.
  func empty(_ other: Int, into store: StateStore) {
    let stride = boxes[other].stride
    for position in 0..<boxes[other].count where store.limit == nil {
      let state = boxes[other].words + position * stride
      store.take(
        state, fingerprint: state[stride - 1], origin: boxes[other].origins[position])
    }
    boxes[other].removeAll()
    store.flush()
  }
}
