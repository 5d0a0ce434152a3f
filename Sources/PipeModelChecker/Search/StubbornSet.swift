/// Selects enabled vectors of a state that are enough to reach every deadlock, every stuck state,
/// and every state with a sought observation, by paths that are not longer.
///
/// A set of components is closed if it satisfies a condition for each vector that one of them
/// permits: if the vector is enabled, the set contains all its components; otherwise it contains a
/// component that blocks the vector. A vector without a component in the set cannot change what the
/// components in the set permit. So on every path from here, the first vector with a component in
/// the set is already enabled here, and could as well be taken first. Every path that matters has
/// such a vector:
///
/// - A deadlock: the set starts from an enabled vector, which stays enabled until a vector of the
///   set is taken.
/// - A stuck state: the same, with a vector that needs nothing from outside. If only vectors from
///   outside are enabled, all are kept.
/// - An observation that does not hold here: the set contains a component that keeps it from
///   holding.
///
/// The vector that was taken first never has to be undone, so the rest of the path is one step
/// shorter.
struct StubbornSet: ~Copyable {
  /// The enabled vectors from which sets start.
  enum Seeds {
    /// No vector: sets are built only for observations. If no set is needed for them, no step is needed.
    case none
    case all
    /// Vectors that need nothing from outside. If there is none, all enabled vectors are kept.
    case inside
  }

  private let words: Int
  private let chosen: UnsafeMutablePointer<UInt64>
  private let best: UnsafeMutablePointer<UInt64>
  private let rows: UnsafeMutablePointer<Int>
  private let isInSet: UnsafeMutablePointer<Bool>
  private let waiting: UnsafeMutablePointer<Int>
  private var waitingCount = 0
  private let componentCount: Int

  /// The maximum number of enabled vectors to start a set from; the smallest set is used.
  private static let seedLimit = 64

  init(_ program: CompiledModel) {
    words = program.maskWords
    componentCount = program.componentCount
    chosen = .allocate(capacity: words)
    best = .allocate(capacity: words)
    rows = .allocate(capacity: max(1, componentCount))
    isInSet = .allocate(capacity: max(1, componentCount))
    waiting = .allocate(capacity: max(1, componentCount))
  }

  deinit {
    chosen.deallocate()
    best.deallocate()
    rows.deallocate()
    isInSet.deallocate()
    waiting.deallocate()
  }

  /// Keeps only the enabled vectors of the smallest set, and returns how many were left out.
  /// - Parameter sought: The observations to look for, as bits.
  mutating func reduce(
    _ enabled: UnsafeMutablePointer<UInt64>, sought: UnsafePointer<UInt64>, seeds: Seeds,
    state: UnsafePointer<UInt64>, _ program: CompiledModel, _ tables: StubbornTables
  ) -> Int {
    for component in 0..<componentCount {
      rows[component] = program.rows[component].position(in: state) * words
    }
    let all = count(enabled)
    if seeds == .none {
      close(from: nil, enabled, sought: sought, program, tables)
      enabled.update(from: chosen, count: words)
      return all - count(enabled)
    }
    guard all > 1 else { return 0 }
    var smallestCount = all
    best.update(from: enabled, count: words)
    var tried = 0
    for word in 0..<words {
      var rest = enabled[word]
      if seeds == .inside { rest &= program.insideBits[word] }
      while rest != 0 && tried < Self.seedLimit && smallestCount > 1 {
        let bit = (word << 6) + rest.trailingZeroBitCount
        rest &= rest &- 1
        tried += 1
        close(from: bit, enabled, sought: sought, program, tables)
        let size = count(chosen)
        guard size < smallestCount else { continue }
        smallestCount = size
        best.update(from: chosen, count: words)
      }
    }
    enabled.update(from: best, count: words)
    return all - smallestCount
  }

  /// Writes to `chosen` the enabled vectors of the closed set that starts from a vector.
  private mutating func close(
    from seed: Int?, _ enabled: UnsafePointer<UInt64>, sought: UnsafePointer<UInt64>,
    _ program: CompiledModel, _ tables: StubbornTables
  ) {
    let chosen = chosen  // As in `StateTree`.
    let isInSet = isInSet
    for word in 0..<words { chosen[word] = 0 }
    for component in 0..<componentCount { isInSet[component] = false }
    waitingCount = 0
    for word in 0..<words {
      var rest = sought[word]
      while rest != 0 {
        addBlocker(of: (word << 6) + rest.trailingZeroBitCount, tables)
        rest &= rest &- 1
      }
    }
    if let seed { addAll(of: seed, tables) }
    while waitingCount > 0 {
      waitingCount -= 1
      let row = rows[waiting[waitingCount]]
      for word in 0..<words {
        var rest = tables.permitted[row + word] & program.vectorBits[word] & ~chosen[word]
        chosen[word] |= rest
        while rest != 0 {
          let bit = (word << 6) + rest.trailingZeroBitCount
          if enabled[word] & rest & (0 &- rest) != 0 {
            addAll(of: bit, tables)
          } else {
            addBlocker(of: bit, tables)
          }
          rest &= rest &- 1
        }
      }
    }
    for word in 0..<words { chosen[word] &= enabled[word] }
  }

  private mutating func add(_ component: Int) {
    guard !isInSet[component] else { return }
    isInSet[component] = true
    waiting[waitingCount] = component
    waitingCount += 1
  }

  private mutating func addAll(of bit: Int, _ tables: StubbornTables) {
    for place in tables.starts[bit]..<tables.starts[bit + 1] { add(tables.participants[place]) }
  }

  /// Adds a component that blocks a bit's vector or observation, unless the set has one already;
  /// adds all components if none blocks it.
  private mutating func addBlocker(of bit: Int, _ tables: StubbornTables) {
    var blocker = -1
    for place in tables.starts[bit]..<tables.starts[bit + 1] {
      let component = tables.participants[place]
      if tables.permitted[rows[component] + (bit >> 6)] >> UInt64(bit & 63) & 1 == 0 {
        if isInSet[component] { return }
        blocker = component
      }
    }
    if blocker >= 0 { add(blocker) } else { addAll(of: bit, tables) }
  }

  func count(_ bits: UnsafePointer<UInt64>) -> Int {
    var count = 0
    for word in 0..<words { count += bits[word].nonzeroBitCount }
    return count
  }
}

/// The share of steps that the reduction skips. If it is small, reducing takes longer than searching.
struct ReductionYield {
  private var states = 0
  private var steps = 0
  private var skippedSteps = 0

  /// Returns whether to reduce the steps of the next state. A sample of the states is always reduced.
  mutating func isWorthTrying() -> Bool {
    states += 1
    return states < 2000 || skippedSteps * 4 > steps || states % 32 == 0
  }

  mutating func add(skippedCount: Int, of count: Int) {
    steps += count
    skippedSteps += skippedCount
  }
}

/// The tables from which a ``StubbornSet`` is built.
final class StubbornTables {
  /// For each row of the compiled model, a mask of the vectors and observations that its component
  /// affects and permits.
  let permitted: FlatTable<UInt64>
  /// For each bit, the components that affect it: `participants[starts[bit]..<starts[bit + 1]]`.
  let participants: FlatTable<Int>
  let starts: FlatTable<Int>

  /// - Parameter affectedBits: For each component, the bits that it affects. All of them are permitted
  ///   until the tables are filled.
  init(_ model: ExplorationModel, affectedBits: [[UInt64]], rowCounts: [Int]) {
    permitted = FlatTable(
      zip(affectedBits, rowCounts).flatMap { bits, count in
        (0..<count).flatMap { _ in [bits[0] & ~1] + bits.dropFirst() }
      })
    var participants: [Int] = []
    var starts = [0, 0]
    for sets in model.observations {
      participants += sets.keys.sorted()
      starts.append(participants.count)
    }
    for vector in model.vectors {
      participants += vector.roles.map(\.component)
      starts.append(participants.count)
    }
    self.participants = FlatTable(participants)
    self.starts = FlatTable(starts)
  }

  var byteCount: Int { 8 * permitted.count }
}
