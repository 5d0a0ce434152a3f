/// Selects some of the enabled vectors of a state, for a reduced search (partial-order reduction by
/// stubborn sets). A search that takes only the selected vectors still finds every deadlock, every
/// stuck state and every state with a sought observation, and the paths to them do not get longer.
///
/// The method uses closed sets of components. A set is closed if two conditions hold for each
/// vector that a component of the set permits. If the vector is enabled, the set contains all
/// components of the vector. Otherwise, the set contains a component that blocks the vector.
///
/// A vector without a component in the set does not change which vectors the components in the set
/// permit. So on every path from this state, the first vector that moves a component of the set is
/// already enabled in this state, and can be taken first. Every path to a finding contains such a
/// vector:
///
/// - For a deadlock, the set starts from an enabled vector. This vector stays enabled until a
///   vector of the set is taken.
/// - For a stuck state, the set starts from an enabled vector that requires no event from outside.
///   If there is none, all enabled vectors are kept.
/// - For an observation that does not hold in this state, the set contains a component whose local
///   state prevents the observation.
///
/// After this vector is taken first, the rest of the path is one step shorter. So the whole path to
/// the finding keeps its length.
struct StubbornSet: ~Copyable {
  /// The enabled vectors from which stubborn sets are built.
  enum Seeds {
    /// No vector. Sets are built only for observations. If no observation is sought, the search
    /// does not have to take any step.
    case none
    case all
    /// Vectors that require no event from outside. If no such vector is enabled, all enabled
    /// vectors are kept.
    case inside
  }

  private let maskWordCount: Int
  private let chosenVectorMask: UnsafeMutablePointer<UInt64>
  private let bestVectorMask: UnsafeMutablePointer<UInt64>
  private let componentRows: UnsafeMutablePointer<Int>
  private let isInSet: UnsafeMutablePointer<Bool>
  private let waitingComponents: UnsafeMutablePointer<Int>
  private var waitingCount = 0
  private let componentCount: Int

  /// The maximum number of sets to build. Each set starts from a different enabled vector, and the
  /// smallest set is used.
  private static let maximumSeedCount = 64

  init(_ program: CompiledModel) {
    maskWordCount = program.maskWordCount
    componentCount = program.componentCount
    chosenVectorMask = .allocate(capacity: maskWordCount)
    bestVectorMask = .allocate(capacity: maskWordCount)
    componentRows = .allocate(capacity: max(1, componentCount))
    isInSet = .allocate(capacity: max(1, componentCount))
    waitingComponents = .allocate(capacity: max(1, componentCount))
  }

  deinit {
    chosenVectorMask.deallocate()
    bestVectorMask.deallocate()
    componentRows.deallocate()
    isInSet.deallocate()
    waitingComponents.deallocate()
  }

  /// Removes from `enabled` the vectors that are not in the smallest set. Returns the number of
  /// removed vectors.
  /// - Parameter sought: The observations that the search must still find, as bits of a mask.
  mutating func reduce(
    _ enabled: UnsafeMutablePointer<UInt64>, sought: UnsafePointer<UInt64>, seeds: Seeds,
    state: UnsafePointer<UInt64>, _ program: CompiledModel, _ tables: StubbornTables
  ) -> Int {
    for component in 0..<componentCount {
      componentRows[component] = program.rowLookups[component].position(in: state) * maskWordCount
    }
    let all = bitCount(enabled)
    if seeds == .none {
      close(from: nil, enabled, sought: sought, program, tables)
      enabled.update(from: chosenVectorMask, count: maskWordCount)
      return all - bitCount(enabled)
    }
    guard all > 1 else { return 0 }
    var smallestCount = all
    bestVectorMask.update(from: enabled, count: maskWordCount)
    var tried = 0
    for word in 0..<maskWordCount {
      var rest = enabled[word]
      if seeds == .inside { rest &= program.insideBits[word] }
      while rest != 0 && tried < Self.maximumSeedCount && smallestCount > 1 {
        let bit = (word << 6) + rest.trailingZeroBitCount
        rest &= rest &- 1
        tried += 1
        close(from: bit, enabled, sought: sought, program, tables)
        let size = bitCount(chosenVectorMask)
        guard size < smallestCount else { continue }
        smallestCount = size
        bestVectorMask.update(from: chosenVectorMask, count: maskWordCount)
      }
    }
    enabled.update(from: bestVectorMask, count: maskWordCount)
    return all - smallestCount
  }

  /// Builds the closed set that starts from the vector `seed`, and writes the enabled vectors of
  /// the set to `chosenVectorMask`.
  private mutating func close(
    from seed: Int?, _ enabled: UnsafePointer<UInt64>, sought: UnsafePointer<UInt64>,
    _ program: CompiledModel, _ tables: StubbornTables
  ) {
    let chosen = chosenVectorMask  // Copied for the reason given in `StateTree`.
    let isInSet = isInSet
    for word in 0..<maskWordCount { chosen[word] = 0 }
    for component in 0..<componentCount { isInSet[component] = false }
    waitingCount = 0
    for word in 0..<maskWordCount {
      var rest = sought[word]
      while rest != 0 {
        addBlocker(of: (word << 6) + rest.trailingZeroBitCount, tables)
        rest &= rest &- 1
      }
    }
    if let seed { addAll(of: seed, tables) }
    while waitingCount > 0 {
      waitingCount -= 1
      let row = componentRows[waitingComponents[waitingCount]]
      for word in 0..<maskWordCount {
        var rest = tables.permittedMasks[row + word] & program.vectorBits[word] & ~chosen[word]
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
    for word in 0..<maskWordCount { chosen[word] &= enabled[word] }
  }

  private mutating func add(_ component: Int) {
    guard !isInSet[component] else { return }
    isInSet[component] = true
    waitingComponents[waitingCount] = component
    waitingCount += 1
  }

  private mutating func addAll(of bit: Int, _ tables: StubbornTables) {
    for place in tables.participantStarts[bit]..<tables.participantStarts[bit + 1] {
      add(tables.bitParticipants[place])
    }
  }

  /// Adds to the set a component that blocks a vector or an observation, unless the set already
  /// contains such a component. If nothing blocks the vector or observation, adds all components of
  /// the vector or observation.
  private mutating func addBlocker(of bit: Int, _ tables: StubbornTables) {
    var blocker = -1
    for place in tables.participantStarts[bit]..<tables.participantStarts[bit + 1] {
      let component = tables.bitParticipants[place]
      if tables.permittedMasks[componentRows[component] + (bit >> 6)] >> UInt64(bit & 63) & 1 == 0 {
        if isInSet[component] { return }
        blocker = component
      }
    }
    if blocker >= 0 { add(blocker) } else { addAll(of: bit, tables) }
  }

  func bitCount(_ bits: UnsafePointer<UInt64>) -> Int {
    var count = 0
    for word in 0..<maskWordCount { count += bits[word].nonzeroBitCount }
    return count
  }
}

/// Measures the share of steps that the reduction skips. If the share is small, the reduction takes
/// more time than it saves.
struct ReductionYield {
  private var stateCount = 0
  private var stepCount = 0
  private var skippedStepCount = 0

  /// Returns whether to reduce the steps of the next state. One state in 32 is always reduced, to
  /// keep the measurement current.
  mutating func isWorthTrying() -> Bool {
    stateCount += 1
    return stateCount < 2000 || skippedStepCount * 4 > stepCount || stateCount % 32 == 0
  }

  mutating func add(skippedCount: Int, of count: Int) {
    stepCount += count
    skippedStepCount += skippedCount
  }
}

/// The tables from which a ``StubbornSet`` is built.
final class StubbornTables {
  /// A mask for each row of the compiled model; a row stands for a local state of a component. The
  /// mask has the bits of the vectors and observations that the component affects and this local
  /// state permits.
  let permittedMasks: FlatTable<UInt64>
  /// For each bit of a mask, the components that affect the bit:
  /// `bitParticipants[participantStarts[bit]..<participantStarts[bit + 1]]`.
  let bitParticipants: FlatTable<Int>
  let participantStarts: FlatTable<Int>

  /// Makes tables in which all affected bits are permitted. The compiled model then writes the
  /// actual bits.
  /// - Parameter affectedBits: For each component, a mask with the bits that the component affects.
  init(_ model: ExplorationModel, affectedBits: [[UInt64]], rowCounts: [Int]) {
    permittedMasks = FlatTable(
      zip(affectedBits, rowCounts).flatMap { bits, count in
        (0..<count).flatMap { _ in [bits[0] & ~1] + bits.dropFirst() }
      })
    var bitParticipants: [Int] = []
    var starts = [0, 0]
    for sets in model.observations {
      bitParticipants += sets.keys.sorted()
      starts.append(bitParticipants.count)
    }
    for vector in model.vectors {
      bitParticipants += vector.roles.map(\.component)
      starts.append(bitParticipants.count)
    }
    self.bitParticipants = FlatTable(bitParticipants)
    self.participantStarts = FlatTable(starts)
  }

  var byteCount: Int { 8 * permittedMasks.count }
}
