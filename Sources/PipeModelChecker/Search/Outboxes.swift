/// The outboxes of one partition: two for each other partition, one to fill while the other is emptied.
final class Outboxes {
  /// The maximum number of states that a partition sends in a round: enough to keep each thread
  /// busy for longer than it takes to wake it.
  private static let capacity = 1 << 17

  private var filling: [Outbox]
  private var ready: [Outbox]
  private let owner: Int
  private let budget: MemoryBudget
  /// The maximum number of successors of a state.
  private let successorLimit: Int

  init(of owner: Int, among count: Int, for program: CompiledModel, budget: MemoryBudget) {
    self.owner = owner
    self.budget = budget
    successorLimit = program.vectorCount
    let others = max(1, count - 1)
    let share = budget.limit / 32 / others / ((program.stateWords + 1) * 8 + 4)
    let capacity = min(Self.capacity / others, share) + 2 * successorLimit
    let boxes = {
      (0..<count).map { other in
        Outbox(stateWords: program.stateWords, capacity: other == owner ? 0 : capacity)
      }
    }
    filling = boxes()
    ready = boxes()
    budget.take(byteCount)
  }

  deinit { budget.release(byteCount) }

  private var byteCount: Int { (filling + ready).reduce(0) { $0 + $1.byteCount } }

  /// Whether an outbox may lack capacity for the successors of one more state.
  var isFull: Bool {
    for other in filling.indices where other != owner {
      if filling[other].count + successorLimit > filling[other].capacity { return true }
    }
    return false
  }

  @inline(__always)
  func append(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32, to other: Int
  ) {
    filling[other].append(state, fingerprint: fingerprint, origin: origin)
  }

  /// Makes the appended states ready for the other partitions. They must have taken all states that
  /// were ready before.
  func flip() { swap(&filling, &ready) }

  /// Whether the other partitions will have no states to take after the next flip.
  var isEmpty: Bool { filling.allSatisfy { $0.count == 0 } }

  /// Moves the states that are ready for a partition to its store.
  func deliver(_ other: Int, into store: StateStore) {
    let box = ready[other]
    for position in 0..<box.count where store.limit == nil {
      let state = box.words + position * box.stride
      store.take(state, fingerprint: state[box.stride - 1], origin: box.origins[position])
    }
    box.removeAll()
    store.flush()
  }
}

/// States in transit from the partition that found them to the partition that stores them.
final class Outbox {
  /// The words of each state, followed by its fingerprint.
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
