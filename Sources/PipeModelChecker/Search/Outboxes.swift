/// The outboxes of one partition: two for each other one, of which one is filled while the other one is emptied.
final class Outboxes {
  /// The states that a partition sends in a round, at most: enough to keep each thread busy for longer than it
  /// takes to wake it.
  private static let capacity = 1 << 17

  private var filling: [Outbox]
  private var ready: [Outbox]
  private let owner: Int
  private let budget: MemoryBudget
  /// The states that one state can lead to, at most.
  private let mostSteps: Int

  init(of owner: Int, among count: Int, for program: CompiledModel, budget: MemoryBudget) {
    self.owner = owner
    self.budget = budget
    mostSteps = program.vectorCount
    let others = max(1, count - 1)
    let share = budget.limit / 32 / others / ((program.stateWords + 1) * 8 + 4)
    let capacity = min(Self.capacity / others, share) + 2 * mostSteps
    let boxes = {
      (0..<count).map { other in
        Outbox(stateWords: program.stateWords, capacity: other == owner ? 0 : capacity)
      }
    }
    filling = boxes()
    ready = boxes()
    budget.take(byteCount)
  }

  deinit { budget.giveBack(byteCount) }

  private var byteCount: Int { (filling + ready).reduce(0) { $0 + $1.byteCount } }

  /// Whether an outbox may have no room for what one more state leads to.
  var isFull: Bool {
    for other in filling.indices where other != owner {
      if filling[other].count + mostSteps > filling[other].capacity { return true }
    }
    return false
  }

  @inline(__always)
  func append(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32, to other: Int
  ) {
    filling[other].append(state, fingerprint: fingerprint, origin: origin)
  }

  /// Lets the others take what was appended. What was ready must have been taken.
  func flip() { swap(&filling, &ready) }

  /// Whether there are states for the others to take, once the outboxes are flipped.
  var isEmpty: Bool { filling.allSatisfy { $0.count == 0 } }

  /// Lets a store take what is ready for its partition.
  func empty(_ other: Int, into store: StateStore) {
    let box = ready[other]
    for position in 0..<box.count where store.limit == nil {
      let state = box.words + position * box.stride
      store.take(state, fingerprint: state[box.stride - 1], origin: box.origins[position])
    }
    box.removeAll()
    store.flush()
  }
}

/// States on their way from the partition that found them to the one that keeps them.
final class Outbox {
  /// The words of each state, and behind them its fingerprint.
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

  /// The memory of an outbox. Unit: bytes.
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
