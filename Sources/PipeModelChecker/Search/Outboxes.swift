/// The outboxes of one partition, which contain the states that the partition has found for other
/// partitions. For each other partition, there are two outboxes. In each round, this partition
/// fills the first outbox, while the other partition empties the second. Then the two are swapped.
final class Outboxes {
  /// The maximum number of states that a partition puts into one outbox in a round. The limit is so
  /// high that the work of a thread in a round takes longer than waking the thread.
  private static let capacity = 1 << 17

  private var fillingOutboxes: [Outbox]
  private var readyOutboxes: [Outbox]
  private let owner: Int
  private let budget: MemoryBudget
  /// The maximum number of successors that a state can have.
  private let maximumSuccessorCount: Int

  init(of owner: Int, among count: Int, for program: CompiledModel, budget: MemoryBudget) {
    self.owner = owner
    self.budget = budget
    maximumSuccessorCount = program.vectorCount
    let others = max(1, count - 1)
    let share = budget.byteLimit / 32 / others / ((program.stateWordCount + 1) * 8 + 4)
    let capacity = min(Self.capacity / others, share) + 2 * maximumSuccessorCount
    let boxes = {
      (0..<count).map { other in
        Outbox(stateWords: program.stateWordCount, capacity: other == owner ? 0 : capacity)
      }
    }
    fillingOutboxes = boxes()
    readyOutboxes = boxes()
    budget.reserve(byteCount)
  }

  deinit { budget.release(byteCount) }

  private var byteCount: Int { (fillingOutboxes + readyOutboxes).reduce(0) { $0 + $1.byteCount } }

  /// Whether the successors of one more state may exceed the capacity of an outbox.
  var isFull: Bool {
    for other in fillingOutboxes.indices where other != owner {
      if fillingOutboxes[other].count + maximumSuccessorCount > fillingOutboxes[other].capacity {
        return true
      }
    }
    return false
  }

  @inline(__always)
  func append(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32, to other: Int
  ) {
    fillingOutboxes[other].append(state, fingerprint: fingerprint, origin: origin)
  }

  /// Makes the appended states available to the other partitions. Precondition: the other
  /// partitions have stored all states that were available before.
  func swapOutboxes() { swap(&fillingOutboxes, &readyOutboxes) }

  /// Whether no state was appended since the last call of ``swapOutboxes()``.
  var isEmpty: Bool { fillingOutboxes.allSatisfy { $0.count == 0 } }

  /// Moves the states that are available for another partition to that partition's store.
  func deliver(to partition: Int, into store: StateStore) {
    let box = readyOutboxes[partition]
    for position in 0..<box.count where store.reachedLimit == nil {
      let state = box.words + position * box.stride
      store.add(state, fingerprint: state[box.stride - 1], origin: box.origins[position])
    }
    box.removeAll()
    store.flush()
  }
}

/// An outbox: a buffer of states that one partition has found and another partition will store.
final class Outbox {
  /// The words of each state, followed by the fingerprint of the state.
  let words: UnsafeMutablePointer<UInt64>
  let origins: UnsafeMutablePointer<UInt32>
  let stride: Int
  let capacity: Int
  private(set) var count = 0

  init(stateWords: Int, capacity: Int) {
    stride = stateWords + 1
    self.capacity = capacity
    words = .allocate(capacity: capacity * stride)
    origins = .allocate(capacity: capacity)
  }

  deinit {
    words.deallocate()
    origins.deallocate()
  }

  /// The memory of the outbox. Unit: bytes.
  var byteCount: Int { capacity * (stride * 8 + 4) }

  @inline(__always)
  func append(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32
  ) {
    let end = words + count &* stride
    for word in 0..<(stride &- 1) { end[word] = state[word] }
    end[stride &- 1] = fingerprint
    origins[count] = origin
    count &+= 1
  }

  func removeAll() { count = 0 }
}
