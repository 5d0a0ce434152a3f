/// A part of a search, which runs on one thread. A state belongs to the partition that its
/// fingerprint selects; the partition stores the state and takes its steps.
///
/// The search proceeds level by level, and each level in rounds. In a round, each partition first
/// stores the states that other partitions have found for it in the previous round. Then the
/// partition expands its own states, and puts new states of other partitions into outboxes.
final class Partition: @unchecked Sendable {  // In a round, only one thread uses a partition.
  let number: Int
  let partitionCount: Int
  private let questions: ExplorationQuestions
  private let maximumKeptStateCount: Int
  private let store: StateStore
  private var compiledModel: CompiledModel
  private var workbench: Workbench
  private var outboxes: Outboxes

  private var nextStateNumber = 0
  private var levelEnd = 0
  /// The states of this level that cannot be searched yet, since a vector may be enabled: all known
  /// cells of the vector permit the vector, and another of its cells is unknown.
  private var waitingStates: [Int] = []
  private var statesToSearchAgain: [Int] = []
  /// For each state, whether the reduction has skipped steps of the state.
  private var hasSkippedStepsByState: [Bool] = []
  private var reductionYield = ReductionYield()
  /// The states whose steps the reduction must not skip.
  private var unreducedStates: Set<Int> = []
  private var partitionFindings = PartitionFindings()
  private var levelStarts = [0]

  private(set) var stepCount = 0

  init(
    number: Int, of partitionCount: Int, _ program: CompiledModel,
    options: ExplorationOptions, questions: ExplorationQuestions
  ) {
    self.number = number
    self.partitionCount = partitionCount
    self.questions = questions
    self.compiledModel = program
    maximumKeptStateCount = options.maximumKeptStateCount
    let budget = MemoryBudget(limit: options.memoryLimit / partitionCount)
    store = StateStore(
      stateWords: program.stateWordCount, storage: options.storage,
      stateLimit: min(options.stateLimit, Int(Int32.max) / partitionCount), budget: budget,
      recordsEdges: program.stubborn != nil && questions.forbidsIgnoring)
    workbench = Workbench(
      program, watching: questions.watchedObservations,
      possible: questions.alwaysPossibleObservations)
    outboxes = Outboxes(of: number, among: partitionCount, for: program, budget: budget)
  }

  // MARK: Levels of the search

  var stateCount: Int { store.count }
  var budget: MemoryBudget { store.budget }
  /// The reason why this partition accepts no more states.
  var reachedLimit: ExplorationLimit? { store.reachedLimit }
  /// The number of states found so far for the next level.
  var nextLevelStateCount: Int { store.count - levelEnd }
  /// The number of states of this level that must still be searched, not counting waiting states.
  var remainingCount: Int { statesToSearchAgain.count + levelEnd - nextStateNumber }
  var isWaiting: Bool { !waitingStates.isEmpty }
  var findingCount: Int {
    partitionFindings.deadlocks.count + partitionFindings.stuckStates.count
      + partitionFindings.observedStates.keys.count { questions.neverObservations.contains($0) }
  }

  /// Continues with the states that were found for the next level.
  func beginLevel() {
    nextStateNumber = levelEnd
    levelEnd = store.count
    levelStarts.append(nextStateNumber)
    store.beginLevel(at: nextStateNumber)
  }

  /// Returns the level of a state, which is the state's distance from the initial state.
  func depth(of state: Int) -> Int {
    var low = 0
    var high = levelStarts.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if levelStarts[middle] <= state { low = middle } else { high = middle }
    }
    return low - 1
  }

  /// Returns whether the reduction has skipped steps of a state.
  func hasSkippedSteps(of state: Int) -> Bool {
    state < hasSkippedStepsByState.count && hasSkippedStepsByState[state]
  }

  /// Schedules a state to be searched again, with all its steps.
  func scheduleFullSearch(_ state: Int) {
    statesToSearchAgain.append(state)
    unreducedStates.insert(state)
  }

  /// Calls a closure for each step whose target belongs to this partition. The arguments of the
  /// closure are the global numbers of the step's source and target.
  func forEachEdge(_ visit: (_ source: UInt32, _ target: UInt32) -> Void) {
    store.forEachEdge { visit($0, origin(of: $1)) }
  }

  /// Schedules the waiting states to be searched again, after cells have been filled.
  func retryWaitingStates() {
    statesToSearchAgain += waitingStates
    waitingStates = []
  }

  // MARK: Storing states

  /// Stores the initial state of the search.
  func begin(with words: [UInt64]) {
    store.add(words, fingerprint: compiledModel.fingerprint(words), origin: StateStore.noOrigin)
    store.flush()
  }

  /// Whether this partition has found states that are not available to the other partitions yet.
  var hasSentStates: Bool { !outboxes.isEmpty }

  /// Makes the found states available to the other partitions.
  func swapOutboxes() { outboxes.swapOutboxes() }

  /// Stores the states that other partitions have found for this partition.
  func absorb(from partitions: [Partition]) {
    for other in partitions where other !== self { other.outboxes.deliver(to: number, into: store) }
  }

  // MARK: Searching states

  /// Searches at most this number of the level's states. Stops early if an outbox is full.
  func expand(_ stateCount: Int) {
    var left = stateCount
    while left > 0, let state = statesToSearchAgain.popLast() {
      guard expand(state, count: 1) == 1 else {
        statesToSearchAgain.append(state)
        break
      }
      left -= 1
    }
    while left > 0 && nextStateNumber < levelEnd && reachedLimit == nil {
      let size = ChunkedList<UInt64>.chunkSize
      let count = min(left, levelEnd - nextStateNumber, size - nextStateNumber % size)
      let expanded = expand(nextStateNumber, count: count)
      nextStateNumber += expanded
      left -= expanded
      if expanded < count { break }
    }
    store.flush()
  }

  /// Searches up to `count` consecutive states from the state `first`. Returns the number of
  /// searched states.
  private func expand(_ first: Int, count: Int) -> Int {
    store.storesSingleWords ? expandWords(first, count: count) : expandLarge(first, count: count)
  }

  private func expandWords(_ first: Int, count: Int) -> Int {
    let program = compiledModel
    let bench = workbench
    let moves = program.moves.baseAddress
    let moveStarts = program.moveStarts.baseAddress
    let deltas = program.stateDeltas.baseAddress
    let enabled = bench.enabledMask
    let source = store.pointer(at: first)
    let store = store
    let isAlone = partitionCount == 1 && program.symmetries == nil
    var taken = 0
    for position in 0..<count {
      if reachedLimit != nil || !isAlone && outboxes.isFull { return position }
      guard inspect(first &+ position, source + position, program, bench) else { continue }
      let state = source[position]
      let origin = origin(of: first &+ position)
      let fingerprint = isAlone ? 0 : program.fingerprint(source + position)
      for word in 0..<program.maskWordCount {
        var rest = enabled[word]
        let vectors = (word &<< 6) &- program.firstVectorBit
        while rest != 0 {
          let vector = vectors &+ rest.trailingZeroBitCount
          rest &= rest &- 1
          taken &+= 1
          if isAlone {
            var next = state
            var place = moveStarts[vector]
            let end = moveStarts[vector &+ 1]
            while place < end {
              let move = moves[place].lookup
              let delta = deltas[Int(move.base &+ move.local(in: state))]
              next ^= UInt64(delta) &<< UInt64(move.shift)
              place &+= 1
            }
            store.add(next, origin: origin)
          } else {
            let change = step(by: vector, from: source + position)
            sendNext(fingerprint: fingerprint ^ change, origin: origin)
          }
        }
      }
      stepCount &+= taken
      taken = 0
    }
    return count
  }

  private func expandLarge(_ first: Int, count: Int) -> Int {
    let program = compiledModel
    let bench = workbench
    for position in 0..<count {
      if reachedLimit != nil || outboxes.isFull { return position }
      store.load(first + position, into: bench.stateWords)
      guard inspect(first + position, bench.stateWords, program, bench) else { continue }
      let origin = origin(of: first + position)
      let needsFingerprint = partitionCount > 1 || !store.isExact
      let fingerprint = needsFingerprint ? program.fingerprint(bench.stateWords) : 0
      for word in 0..<program.maskWordCount {
        var rest = bench.enabledMask[word]
        while rest != 0 {
          let vector = (word << 6) + rest.trailingZeroBitCount - program.firstVectorBit
          rest &= rest &- 1
          stepCount &+= 1
          if needsFingerprint {
            let change = step(by: vector, from: bench.stateWords)
            sendNext(fingerprint: fingerprint ^ change, origin: origin)
          } else {
            writeTarget(by: vector, from: bench.stateWords)
            _ = bench.replaceNextByRepresentative()
            store.add(bench.nextStateWords, after: bench.stateWords, fingerprint: 0, origin: origin)
          }
        }
      }
    }
    return count
  }

  /// Writes the target of a vector to `workbench.nextStateWords`.
  @inline(__always)
  private func writeTarget(by vector: Int, from state: UnsafePointer<UInt64>) {
    let program = compiledModel
    let next = workbench.nextStateWords
    let moves = program.moves.baseAddress
    for word in 0..<program.stateWordCount { next[word] = state[word] }
    for place in program.moveStarts[vector]..<program.moveStarts[vector &+ 1] {
      let lookup = moves[place].lookup
      let delta = program.stateDeltas[lookup.position(in: state)]
      next[Int(lookup.wordIndex)] ^= UInt64(delta) &<< UInt64(lookup.shift)
    }
  }

  /// Writes the target of a vector to `workbench.nextStateWords`. Returns the XOR of the
  /// fingerprints of the two states.
  @inline(__always)
  private func step(by vector: Int, from state: UnsafePointer<UInt64>) -> UInt64 {
    let program = compiledModel
    let next = workbench.nextStateWords
    for word in 0..<program.stateWordCount { next[word] = state[word] }
    var change: UInt64 = 0
    for place in program.moveStarts[vector]..<program.moveStarts[vector &+ 1] {
      let move = program.moves[place]
      let local = move.lookup.local(in: state)
      let delta = program.stateDeltas[Int(move.lookup.base &+ local)]
      next[Int(move.lookup.wordIndex)] ^= UInt64(delta) &<< UInt64(move.lookup.shift)
      change ^= program.rowFingerprints[Int(move.firstRow &+ local)]
      change ^= program.rowFingerprints[Int(move.firstRow &+ (local ^ delta))]
    }
    return change
  }

  /// Passes the successor in `workbench.nextStateWords`, or the successor's representative, to the
  /// partition that stores it.
  @inline(__always)
  private func sendNext(fingerprint: UInt64, origin: UInt32) {
    let state = workbench.nextStateWords
    let fingerprint =
      workbench.replaceNextByRepresentative() ? compiledModel.fingerprint(state) : fingerprint
    let owner = partitionCount == 1 ? number : Self.owner(of: fingerprint, among: partitionCount)
    if owner != number {
      outboxes.append(state, fingerprint: fingerprint, origin: origin, to: owner)
      return
    }
    store.add(state, after: workbench.stateWords, fingerprint: fingerprint, origin: origin)
  }

  /// Writes the mask of a state to `workbench.enabledMask`. The mask shows which observations hold, and
  /// which vectors are enabled.
  /// - Returns: `watched` is not 0 if a watched observation holds. `inside` is not 0 if an enabled
  ///   vector requires no event from outside.
  @inline(__always)
  private func findMask(
    _ state: UnsafePointer<UInt64>, _ program: CompiledModel, _ bench: Workbench
  ) -> (watched: UInt64, inside: UInt64) {
    let lookups = program.lookups.baseAddress
    let starts = program.lookupStarts.baseAddress
    let masks = program.masks.baseAddress
    var watched: UInt64 = 0
    var inside: UInt64 = 0
    for word in 0..<program.maskWordCount {
      var bits = ~(0 as UInt64)
      var place = starts[word]
      let end = starts[word &+ 1]
      while place < end {
        bits &= masks[lookups[place].position(in: state)]
        place &+= 1
      }
      bench.enabledMask[word] = bits
      watched |= bits & bench.watchedMask[word]
      inside |= bits & program.insideBits[word]
    }
    return (watched, inside)
  }

  /// Computes the mask of a state, and records findings and observations. Returns `false` if the
  /// state must wait for a cell to be filled before its steps can be taken.
  @inline(__always)
  private func inspect(
    _ number: Int, _ state: UnsafePointer<UInt64>, _ program: CompiledModel, _ bench: Workbench
  ) -> Bool {
    let (watched, inside) = findMask(state, program, bench)
    if bench.enabledMask[0] & 1 == 0 && isUnknown(state) {
      waitingStates.append(number)
      return false
    }
    if watched != 0 { record(observationsIn: number) }
    if inside == 0 { record(haltIn: number) }
    if program.stubborn != nil { bench.updateSought() }
    for word in 0..<program.maskWordCount {
      bench.enabledMask[word] &= program.vectorBits[word]
      bench.firedMask[word] |= bench.enabledMask[word]
    }
    if questions.findsCoverage {
      for component in 0..<program.componentCount {
        bench.seenRows[program.rowLookups[component].position(in: state)] = true
      }
    }
    if program.stubborn != nil { reduce(number, state, program, bench) }
    return true
  }

  /// Removes from `workbench.enabledMask` the vectors that a reduced search does not have to take.
  private func reduce(
    _ number: Int, _ state: UnsafePointer<UInt64>, _ program: CompiledModel, _ bench: Workbench
  ) {
    guard let tables = program.stubborn else { return }
    var skippedCount = 0
    if !unreducedStates.contains(number) && reductionYield.isWorthTrying() {
      let enabled = bench.stubborn.bitCount(bench.enabledMask)
      skippedCount = bench.stubborn.reduce(
        bench.enabledMask, sought: bench.soughtMask, seeds: questions.stubbornSetSeeds,
        state: state, program, tables)
      reductionYield.add(skippedCount: skippedCount, of: enabled)
    }
    guard questions.forbidsIgnoring else { return }
    while hasSkippedStepsByState.count <= number { hasSkippedStepsByState.append(false) }
    hasSkippedStepsByState[number] = skippedCount > 0
  }

  /// Returns whether a state must wait for unknown cells: all known cells of some vector permit the
  /// vector, and another of its cells is unknown.
  @inline(never)
  private func isUnknown(_ state: UnsafePointer<UInt64>) -> Bool {
    var found: UInt64 = 0
    for word in 0..<compiledModel.maskWordCount {
      found |= unknownBits(in: state, word: word) & workbench.enabledMask[word]
    }
    return found != 0
  }

  private func unknownBits(in state: UnsafePointer<UInt64>, word: Int) -> UInt64 {
    var bits: UInt64 = 0
    for place in compiledModel.lookupStarts[word]..<compiledModel.lookupStarts[word + 1] {
      bits |= compiledModel.unknownMasks[compiledModel.lookups[place].position(in: state)]
    }
    return bits & compiledModel.vectorBits[word]
  }

  @inline(never)
  private func record(observationsIn state: Int) {
    for observation in questions.watchedObservations where holds(observation) {
      let (word, bit) = CompiledModel.position(ofBit: 1 + observation)
      guard workbench.watchedMask[word] & bit != 0 else { continue }
      partitionFindings.observedStates[observation] = state
      workbench.watchedMask[word] &= ~bit
    }
  }

  /// Returns whether an observation holds in the last state whose mask was computed. The mask is in
  /// `workbench.enabledMask`.
  func holds(_ observation: Int) -> Bool {
    let (word, bit) = CompiledModel.position(ofBit: 1 + observation)
    return workbench.enabledMask[word] & bit != 0
  }

  @inline(never)
  private func record(haltIn state: Int) {
    var isDead = true
    for word in 0..<compiledModel.maskWordCount
    where workbench.enabledMask[word] & compiledModel.vectorBits[word] != 0 {
      isDead = false
    }
    if isDead {
      guard questions.findsDeadlocks,
        !questions.endObservations.contains(where: holds)
      else {
        return
      }
      partitionFindings.deadlocks.add(state, keeping: maximumKeptStateCount)
    } else {
      guard questions.findsStuckStates,
        !questions.restObservations.contains(where: holds)
      else { return }
      partitionFindings.stuckStates.add(state, keeping: maximumKeptStateCount)
    }
  }

  // MARK: Access to findings and states

  /// Returns the findings so far.
  func findingsSoFar() -> PartitionFindings {
    workbench.report(to: &partitionFindings)
    return partitionFindings
  }

  /// Returns the global number of a state, which is unique among all partitions.
  @inline(__always)
  private func origin(of state: Int) -> UInt32 {
    UInt32(truncatingIfNeeded: state &* partitionCount &+ number)
  }

  /// Returns the partition of a state, and the state's number in the partition, from its global number.
  @inline(__always)
  static func state(of origin: UInt32, among count: Int) -> (partition: Int, number: Int) {
    (Int(origin) % count, Int(origin) / count)
  }

  /// Returns the predecessor of a state, as a partition and the predecessor's number in the
  /// partition; `nil` for the initial state.
  func origin(ofState state: Int) -> (partition: Int, number: Int)? {
    let origin = store.origin(of: state)
    if origin == StateStore.noOrigin { return nil }
    return Self.state(of: origin, among: partitionCount)
  }

  /// Returns the key under which a state is stored.
  func key(of state: Int) -> UInt64 { store.key(of: state) }

  /// Whether the states themselves are stored, not only their fingerprints.
  var isExact: Bool { store.isExact }

  /// Returns the local state of each component in a state. If only fingerprints are stored, the
  /// state must belong to the current level.
  func locals(of state: Int) -> [Int] {
    store.load(state, into: workbench.stateWords)
    return compiledModel.layout.decode(
      (0..<compiledModel.stateWordCount).map { workbench.stateWords[$0] })
  }

  /// Returns the number of a state; `nil` if the state was not visited.
  func number(of words: UnsafePointer<UInt64>, fingerprint: UInt64) -> Int? {
    store.number(of: words, fingerprint: fingerprint)
  }

  /// Calls a closure for each step from a state. The arguments of the closure are the vector, the
  /// words of the successor (or of its representative), and their fingerprint. With a single
  /// partition, the fingerprint has no meaning.
  func forEachStep(
    of number: Int, _ visit: (_ vector: Int, UnsafePointer<UInt64>, UInt64) -> Void
  ) {
    store.load(number, into: workbench.stateWords)
    _ = findMask(workbench.stateWords, compiledModel, workbench)
    let fingerprint = partitionCount == 1 ? 0 : compiledModel.fingerprint(workbench.stateWords)
    for word in 0..<compiledModel.maskWordCount {
      var rest = workbench.enabledMask[word] & compiledModel.vectorBits[word]
      while rest != 0 {
        let vector = (word << 6) + rest.trailingZeroBitCount - compiledModel.firstVectorBit
        rest &= rest &- 1
        let change = step(by: vector, from: workbench.stateWords)
        let hasChanged = workbench.replaceNextByRepresentative()
        visit(
          vector, workbench.nextStateWords,
          hasChanged ? compiledModel.fingerprint(workbench.nextStateWords) : fingerprint ^ change)
      }
    }
  }

  /// Returns the waiting states, each with the vectors that may be enabled and have an unknown
  /// cell.
  func unknownVectors() -> [(state: Int, locals: [Int], vectors: [Int])] {
    waitingStates.map { number in
      let locals = locals(of: number)
      var vectors: [Int] = []
      for word in 0..<compiledModel.maskWordCount {
        var bits = unknownBits(in: workbench.stateWords, word: word)
        for place in compiledModel.lookupStarts[word]..<compiledModel.lookupStarts[word + 1] {
          bits &=
            compiledModel.masks[compiledModel.lookups[place].position(in: workbench.stateWords)]
        }
        bits &= compiledModel.vectorBits[word]
        while bits != 0 {
          vectors.append((word << 6) + bits.trailingZeroBitCount - compiledModel.firstVectorBit)
          bits &= bits &- 1
        }
      }
      return (number, locals, vectors)
    }
  }

  /// Returns the partition to which a state with this fingerprint belongs.
  @inline(__always)
  static func owner(of fingerprint: UInt64, among count: Int) -> Int {
    Int(truncatingIfNeeded: ((fingerprint &>> 32) &* UInt64(count)) &>> 32)
  }

  // MARK: Growth of the model

  /// Switches to a compiled model with more rows or vectors. If the layout has changed, stores all
  /// states again.
  func adopt(_ larger: CompiledModel) {
    workbench.report(to: &partitionFindings)
    if larger.layout != compiledModel.layout {
      guard store.changeLayout(from: compiledModel.layout, to: larger.layout) else { return }
    }
    compiledModel = larger
    workbench = Workbench(
      larger,
      watching: questions.watchedObservations.subtracting(partitionFindings.observedStates.keys),
      possible: questions.alwaysPossibleObservations)
    outboxes = Outboxes(of: number, among: partitionCount, for: larger, budget: budget)
  }
}
