/// Finds for a state a part of its enabled vectors that is enough to reach every deadlock, and every state
/// that an observation looks out for, by paths that are no longer.
///
/// A set of components is closed where each vector that one of them permits has, if it is enabled, all its
/// components in the set, and otherwise one that blocks it. Nobody outside such a set can then change
/// what its components permit: so of every path on from here, the first vector that belongs to the set
/// could as well be taken at once.
struct StubbornSet: ~Copyable {
  private let words: Int
  private let chosen: UnsafeMutablePointer<UInt64>
  private let best: UnsafeMutablePointer<UInt64>
  private let rows: UnsafeMutablePointer<Int>
  private let isIn: UnsafeMutablePointer<Bool>
  private let waiting: UnsafeMutablePointer<Int>
  private var waitingCount = 0
  private let componentCount: Int

  /// The enabled vectors from which a set is begun, at most: the smallest of those sets is taken.
  private static let seeds = 64

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

  /// Leaves of the enabled vectors those of the smallest set that was found.
  /// - Parameter observed: The observations that states are still looked for of, as bits.
  mutating func reduce(
    _ enabled: UnsafeMutablePointer<UInt64>, observed: UnsafePointer<UInt64>,
    state: UnsafePointer<UInt64>, _ program: CompiledModel, _ tables: StubbornTables
  ) {
    for component in 0..<componentCount {
      rows[component] = program.rows[component].position(in: state) * words
    }
    var fewest = count(enabled)
    guard fewest > 1 else { return }
    best.update(from: enabled, count: words)
    var seeds = 0
    for word in 0..<words {
      var rest = enabled[word]
      while rest != 0 && seeds < Self.seeds && fewest > 1 {
        let bit = (word << 6) + rest.trailingZeroBitCount
        rest &= rest &- 1
        seeds += 1
        close(from: bit, enabled, observed: observed, program, tables)
        let size = count(chosen)
        guard size < fewest else { continue }
        fewest = size
        best.update(from: chosen, count: words)
      }
    }
    enabled.update(from: best, count: words)
  }

  /// The enabled vectors of the closed set that one of them begins.
  private mutating func close(
    from seed: Int, _ enabled: UnsafePointer<UInt64>, observed: UnsafePointer<UInt64>,
    _ program: CompiledModel, _ tables: StubbornTables
  ) {
    let chosen = chosen  // As in `StateTree`.
    chosen.update(repeating: 0, count: words)
    isIn.update(repeating: false, count: componentCount)
    waitingCount = 0
    for word in 0..<words {
      var rest = observed[word]
      while rest != 0 {
        addBlocker(of: (word << 6) + rest.trailingZeroBitCount, tables)
        rest &= rest &- 1
      }
    }
    addAll(of: seed, tables)
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

  private func count(_ bits: UnsafePointer<UInt64>) -> Int {
    var count = 0
    for word in 0..<words { count += bits[word].nonzeroBitCount }
    return count
  }
}
