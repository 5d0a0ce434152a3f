/// Finds for a state a part of its enabled vectors that is enough to reach every deadlock, every stuck state, and
/// every state that an observation looks out for, by paths that are no longer.
///
/// A set of components is closed where each vector that one of them permits has, if it is enabled, all its
/// components in the set, and otherwise one that blocks it. No vector without a component of the set can change
/// what these permit. So of every path from here the first vector that has one is enabled here already, and could
/// as well be taken first. Every path that matters has such a vector:
///
/// - A deadlock: the set was begun from an enabled vector, which stays enabled until one is taken.
/// - A stuck state: the same, of a vector that needs nothing from outside. Where only the outside can go on,
///   nothing is left out.
/// - An observation that does not hold here: one of the components that keep it from holding is in the set.
///
/// What was taken first never has to be undone, so that the rest of the path is shorter by one step.
struct StubbornSet: ~Copyable {
  /// From which enabled vectors sets are begun.
  enum Seeds {
    /// No vector: only observations are looked for. Where no set is needed for one, no step is.
    case none
    case all
    /// Those that need nothing from outside. Where there is none, nothing is left out.
    case inside
  }

  private let words: Int
  private let chosen: UnsafeMutablePointer<UInt64>
  private let best: UnsafeMutablePointer<UInt64>
  private let rows: UnsafeMutablePointer<Int>
  private let isIn: UnsafeMutablePointer<Bool>
  private let waiting: UnsafeMutablePointer<Int>
  private var waitingCount = 0
  private let componentCount: Int

  /// The enabled vectors from which a set is begun, at most: the smallest of those sets is taken.
  private static let mostSeeds = 64

  init(_ program: CompiledModel) {
    words = program.maskWords
    componentCount = program.componentCount
    chosen = .allocate(capacity: words)
    best = .allocate(capacity: words)
    rows = .allocate(capacity: max(1, componentCount))
    isIn = .allocate(capacity: max(1, componentCount))
    waiting = .allocate(capacity: max(1, componentCount))
  }

  deinit {
    chosen.deallocate()
    best.deallocate()
    rows.deallocate()
    isIn.deallocate()
    waiting.deallocate()
  }

  /// Leaves of the enabled vectors those of the smallest set that was found, and returns how many were left
  /// out.
  /// - Parameter sought: The observations that states are looked for of, as bits.
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
    var fewest = all
    best.update(from: enabled, count: words)
    var tried = 0
    for word in 0..<words {
      var rest = enabled[word]
      if seeds == .inside { rest &= program.insideBits[word] }
      while rest != 0 && tried < Self.mostSeeds && fewest > 1 {
        let bit = (word << 6) + rest.trailingZeroBitCount
        rest &= rest &- 1
        tried += 1
        close(from: bit, enabled, sought: sought, program, tables)
        let size = count(chosen)
        guard size < fewest else { continue }
        fewest = size
        best.update(from: chosen, count: words)
      }
    }
    enabled.update(from: best, count: words)
    return all - fewest
  }

  /// Leaves in `chosen` the enabled vectors of the closed set that one of them begins.
  private mutating func close(
    from seed: Int?, _ enabled: UnsafePointer<UInt64>, sought: UnsafePointer<UInt64>,
    _ program: CompiledModel, _ tables: StubbornTables
  ) {
    let chosen = chosen  // As in `StateTree`.
    let isIn = isIn
    for word in 0..<words { chosen[word] = 0 }
    for component in 0..<componentCount { isIn[component] = false }
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
    guard !isIn[component] else { return }
    isIn[component] = true
    waiting[waitingCount] = component
    waitingCount += 1
  }

  private mutating func addAll(of bit: Int, _ tables: StubbornTables) {
    for place in tables.starts[bit]..<tables.starts[bit + 1] { add(tables.participants[place]) }
  }

  /// Adds a component that does not permit what a bit stands for, rather one that is in already; all where
  /// none blocks it.
  private mutating func addBlocker(of bit: Int, _ tables: StubbornTables) {
    var blocker = -1
    for place in tables.starts[bit]..<tables.starts[bit + 1] {
      let component = tables.participants[place]
      if tables.permitted[rows[component] + (bit >> 6)] >> UInt64(bit & 63) & 1 == 0 {
        if isIn[component] { return }
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

/// How much of a search is left out: where that is little, it takes longer to find than to search.
struct ReductionYield {
  private var states = 0
  private var steps = 0
  private var stepsLeftOut = 0

  /// Whether the steps of the next state should be looked at: those of a sample are in any case.
  mutating func isWorthTrying() -> Bool {
    states += 1
    return states < 2000 || stepsLeftOut * 4 > steps || states % 32 == 0
  }

  mutating func add(leftOut: Int, of count: Int) {
    steps += count
    stepsLeftOut += leftOut
  }
}

/// What a ``StubbornSet`` is made from.
final class StubbornTables {
  /// For each row of the compiled model a mask: the vectors and observations that its component has a part
  /// in, and that it permits.
  let permitted: FlatTable<UInt64>
  /// For each bit the components that have a part in it: `participants[starts[bit]..<starts[bit + 1]]`.
  let participants: FlatTable<Int>
  let starts: FlatTable<Int>

  /// - Parameter spoken: For each component the bits that it has a part in. Until they are filled in, all
  ///   of them are permitted.
  init(_ model: ExplorationModel, spoken: [[UInt64]], rowCounts: [Int]) {
    permitted = FlatTable(
      zip(spoken, rowCounts).flatMap { bits, count in
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
