/// The buffers in which a partition processes one state at a time. Their sizes depend on the
/// compiled model.
final class Workbench {
  /// The words of the current state (`stateWords`), and of one of its successors (`nextStateWords`).
  let stateWords: UnsafeMutablePointer<UInt64>
  let nextStateWords: UnsafeMutablePointer<UInt64>
  /// The mask of the current state: the enabled vectors and the observations that hold.
  let enabledMask: UnsafeMutablePointer<UInt64>
  /// The watched observations that have not held in any state yet, as bits of a mask.
  let watchedMask: UnsafeMutablePointer<UInt64>
  /// The observations that must be reachable from every state, as bits of a mask.
  private let possibleMask: UnsafeMutablePointer<UInt64>
  /// The observations that a reduced search must still find, as bits of a mask.
  let soughtMask: UnsafeMutablePointer<UInt64>
  /// The vectors that were enabled in some state, as bits of a mask.
  let firedMask: UnsafeMutablePointer<UInt64>
  /// For each row of the compiled model, whether the local state was visited.
  let seenRows: UnsafeMutablePointer<Bool>
  var stubborn: StubbornSet
  /// The buffers for the images of a state: see ``SymmetryTables``.
  private let imageBuffers: UnsafeMutablePointer<UInt32>

  private let compiledModel: CompiledModel

  /// - Parameters:
  ///   - observations: The watched observations that have not held in any state yet.
  ///   - alwaysPossible: The observations that must be reachable from every state.
  init(
    _ program: CompiledModel, watching observations: Set<Int>, possible alwaysPossible: Set<Int>
  ) {
    self.compiledModel = program
    stateWords = Self.allocateZeros(program.stateWordCount)
    nextStateWords = Self.allocateZeros(program.stateWordCount)
    enabledMask = Self.allocateZeros(program.maskWordCount)
    watchedMask = Self.allocateZeros(program.maskWordCount)
    possibleMask = Self.allocateZeros(program.maskWordCount)
    soughtMask = Self.allocateZeros(program.maskWordCount)
    firedMask = Self.allocateZeros(program.maskWordCount)
    seenRows = .allocate(capacity: max(1, program.rowCount))
    seenRows.initialize(repeating: false, count: program.rowCount)
    stubborn = StubbornSet(program)
    imageBuffers = .allocate(capacity: 3 * max(1, program.componentCount))
    for observation in observations {
      let (word, bit) = CompiledModel.position(ofBit: 1 + observation)
      watchedMask[word] |= bit
    }
    for observation in alwaysPossible {
      let (word, bit) = CompiledModel.position(ofBit: 1 + observation)
      possibleMask[word] |= bit
    }
  }

  /// Writes to `soughtMask` the observations that must be found from the current state: the watched
  /// observations, and the observations that must always be possible but do not hold in this state.
  func updateSought() {
    for word in 0..<compiledModel.maskWordCount {
      soughtMask[word] = watchedMask[word] | possibleMask[word] & ~enabledMask[word]
    }
  }

  /// Replaces the state in `nextStateWords` by its representative under the symmetries. Returns
  /// whether the state has changed.
  @inline(__always)
  func replaceNextByRepresentative() -> Bool {
    guard let symmetries = compiledModel.symmetries else { return false }
    return symmetries.replaceByRepresentative(nextStateWords, compiledModel, imageBuffers)
  }

  deinit {
    imageBuffers.deallocate()
    stateWords.deallocate()
    nextStateWords.deallocate()
    enabledMask.deallocate()
    watchedMask.deallocate()
    possibleMask.deallocate()
    soughtMask.deallocate()
    firedMask.deallocate()
    seenRows.deallocate()
  }

  /// Adds the enabled vectors and the visited local states to the findings so far.
  func report(to partitionFindings: inout PartitionFindings) {
    for vector in 0..<compiledModel.vectorCount {
      let (word, bit) = CompiledModel.position(ofBit: compiledModel.firstVectorBit + vector)
      if firedMask[word] & bit != 0 { partitionFindings.firedVectors.insert(vector) }
    }
    for component in 0..<compiledModel.componentCount {
      if partitionFindings.seenStates.count == component { partitionFindings.seenStates.append([]) }
      let first = Int(compiledModel.rowLookups[component].base)
      let end =
        component + 1 < compiledModel.componentCount
        ? Int(compiledModel.rowLookups[component + 1].base) : compiledModel.rowCount
      for place in first..<end where seenRows[place] {
        partitionFindings.seenStates[component].insert(place - first)
      }
    }
  }

  private static func allocateZeros(_ count: Int) -> UnsafeMutablePointer<UInt64> {
    let numbers = UnsafeMutablePointer<UInt64>.allocate(capacity: max(1, count))
    numbers.initialize(repeating: 0, count: max(1, count))
    return numbers
  }
}
