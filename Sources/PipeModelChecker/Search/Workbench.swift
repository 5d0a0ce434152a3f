/// The memory in which one partition processes one state, for one compiled model.
final class Workbench {
  /// A state, and one of its successors.
  let state: UnsafeMutablePointer<UInt64>
  let next: UnsafeMutablePointer<UInt64>
  /// The mask of a state.
  let enabled: UnsafeMutablePointer<UInt64>
  /// The observations whose first state is kept, and that have not held in any state yet.
  let watched: UnsafeMutablePointer<UInt64>
  /// The observations that must always be possible.
  private let possible: UnsafeMutablePointer<UInt64>
  /// The observations that a stubborn set must preserve.
  let sought: UnsafeMutablePointer<UInt64>
  /// The bits that were enabled in some state.
  let fired: UnsafeMutablePointer<UInt64>
  /// Whether each local state was visited.
  let seen: UnsafeMutablePointer<Bool>
  var stubborn: StubbornSet

  private let program: CompiledModel

  /// - Parameters:
  ///   - observations: The observations whose first state is kept, and that have not held in any
  ///     state yet.
  ///   - alwaysPossible: The observations that must always be possible.
  init(
    _ program: CompiledModel, watching observations: Set<Int>, possible alwaysPossible: Set<Int>
  ) {
    self.program = program
    state = Self.zeros(program.stateWords)
    next = Self.zeros(program.stateWords)
    enabled = Self.zeros(program.maskWords)
    watched = Self.zeros(program.maskWords)
    possible = Self.zeros(program.maskWords)
    sought = Self.zeros(program.maskWords)
    fired = Self.zeros(program.maskWords)
    seen = .allocate(capacity: max(1, program.rowCount))
    seen.initialize(repeating: false, count: program.rowCount)
    stubborn = StubbornSet(program)
    for observation in observations {
      let (word, bit) = CompiledModel.place(ofBit: 1 + observation)
      watched[word] |= bit
    }
    for observation in alwaysPossible {
      let (word, bit) = CompiledModel.place(ofBit: 1 + observation)
      possible[word] |= bit
    }
  }

  /// Writes to `sought` the watched observations, and the observations that must be possible but do
  /// not hold in the state whose mask is on the bench.
  func updateSought() {
    for word in 0..<program.maskWords {
      sought[word] = watched[word] | possible[word] & ~enabled[word]
    }
  }

  deinit {
    state.deallocate()
    next.deallocate()
    enabled.deallocate()
    watched.deallocate()
    possible.deallocate()
    sought.deallocate()
    fired.deallocate()
    seen.deallocate()
  }

  /// Adds the enabled vectors and the visited local states to the findings so far.
  func report(to partitionFindings: inout PartitionFindings) {
    for vector in 0..<program.vectorCount {
      let (word, bit) = CompiledModel.place(ofBit: program.firstVectorBit + vector)
      if fired[word] & bit != 0 { partitionFindings.fired.insert(vector) }
    }
    for component in 0..<program.componentCount {
      if partitionFindings.seen.count == component { partitionFindings.seen.append([]) }
      let first = Int(program.rows[component].base)
      let end =
        component + 1 < program.componentCount
        ? Int(program.rows[component + 1].base) : program.rowCount
      for place in first..<end where seen[place] {
        partitionFindings.seen[component].insert(place - first)
      }
    }
  }

  private static func zeros(_ count: Int) -> UnsafeMutablePointer<UInt64> {
    let numbers = UnsafeMutablePointer<UInt64>.allocate(capacity: max(1, count))
    numbers.initialize(repeating: 0, count: max(1, count))
    return numbers
  }
}
