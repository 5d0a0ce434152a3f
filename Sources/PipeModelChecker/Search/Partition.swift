/// The part of a search that runs on one thread: the states whose fingerprints belong to it, and
/// their steps.
///
/// A level is searched in rounds. In each round, every partition first takes the states that others
/// found for it in the previous round. Then it expands states of its own, and puts states of other
/// partitions into outboxes.
final class Partition: @unchecked Sendable {  // In a round, only one thread uses a partition.
  let number: Int
  let partitionCount: Int
  private let questions: ExplorationQuestions
  private let keptStateLimit: Int
  private let store: StateStore
  private var program: CompiledModel
  private var bench: Workbench
  private var outboxes: Outboxes

  private var cursor = 0
  private var levelEnd = 0
  /// The states of this level with an enabled vector that has an unknown cell.
  private var waiting: [Int] = []
  private var again: [Int] = []
  /// Whether steps of a state were skipped, by the number of the state.
  private var hasSkipped: [Bool] = []
  private var reductionYield = ReductionYield()
  /// The states whose steps must not be skipped.
  private var fullySearched: Set<Int> = []
  private var partitionFindings = PartitionFindings()
  private var levelStarts = [0]

  private(set) var steps = 0

  init(
    number: Int, of partitionCount: Int, _ program: CompiledModel,
    options: ExplorationOptions, questions: ExplorationQuestions
  ) {
    self.number = number
    self.partitionCount = partitionCount
    self.questions = questions
    self.program = program
    keptStateLimit = options.keptStateLimit
    let budget = MemoryBudget(limit: options.memoryLimit / partitionCount)
    store = StateStore(
      stateWords: program.stateWords, storage: options.storage,
      stateLimit: min(options.stateLimit, Int(Int32.max) / partitionCount), budget: budget,
      recordsEdges: program.stubborn != nil && questions.forbidsIgnoring)
    bench = Workbench(
      program, watching: questions.watched, possible: questions.alwaysPossible)
    outboxes = Outboxes(of: number, among: partitionCount, for: program, budget: budget)
  }

  // MARK: Levels

  var stateCount: Int { store.count }
  var budget: MemoryBudget { store.budget }
  /// The reason why this partition accepts no more states.
  var limit: ExplorationLimit? { store.limit }
  /// The number of states found for the next level so far.
  var foundCount: Int { store.count - levelEnd }
  /// The number of states of this level that are still to be searched, without the waiting ones.
  var remaining: Int { again.count + levelEnd - cursor }
  var isWaiting: Bool { !waiting.isEmpty }
  var findingCount: Int {
    partitionFindings.deadlocks.count + partitionFindings.stuck.count
      + partitionFindings.observed.keys.count { questions.never.contains($0) }
  }

  /// Continues with the states that were found for the next level.
  func beginLevel() {
    cursor = levelEnd
    levelEnd = store.count
    levelStarts.append(cursor)
    store.beginLevel(at: cursor)
  }

  /// Returns the level of a state.
  func depth(of state: Int) -> Int {
    var low = 0
    var high = levelStarts.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if levelStarts[middle] <= state { low = middle } else { high = middle }
    }
    return low - 1
  }

  /// Returns whether steps of a state were skipped.
  func hasSkippedSteps(of state: Int) -> Bool { state < hasSkipped.count && hasSkipped[state] }

  /// Schedules a state for another search, with all its steps.
  func scheduleFullSearch(_ state: Int) {
    again.append(state)
    fullySearched.insert(state)
  }

  /// Calls a closure for each step to a state of this partition, with the global numbers of its states.
  func forEachEdge(_ visit: (_ source: UInt32, _ target: UInt32) -> Void) {
    store.forEachEdge { visit($0, origin(of: $1)) }
  }

  /// Schedules the waiting states for another search, after cells were filled.
  func retry() {
    again += waiting
    waiting = []
  }

  // MARK: Taking in

  /// Stores the first state.
  func begin(with words: [UInt64]) {
    store.take(words, fingerprint: program.fingerprint(words), origin: StateStore.noOrigin)
    store.flush()
  }

  /// Whether other partitions have not yet taken some of the states that this partition found.
  var hasSent: Bool { !outboxes.isEmpty }

  /// Makes the found states ready for the other partitions.
  func flip() { outboxes.flip() }

  /// Takes the states that the other partitions found for this one.
  func absorb(from partitions: [Partition]) {
    for other in partitions where other !== self { other.outboxes.deliver(number, into: store) }
  }

  // MARK: Expanding

  /// Searches a number of states of this level, or fewer if an outbox gets full.
  func expand(_ stateCount: Int) {
    var left = stateCount
    while left > 0, let state = again.popLast() {
      guard expand(state, count: 1) == 1 else {
        again.append(state)
        break
      }
      left -= 1
    }
    while left > 0 && cursor < levelEnd && limit == nil {
      let size = Chunked<UInt64>.chunkSize
      let count = min(left, levelEnd - cursor, size - cursor % size)
      let expanded = expand(cursor, count: count)
      cursor += expanded
      left -= expanded
      if expanded < count { break }
    }
    store.flush()
  }

  /// Searches states with consecutive keys; returns how many were searched.
  private func expand(_ first: Int, count: Int) -> Int {
    store.isWords ? expandWords(first, count: count) : expandLarge(first, count: count)
  }

  private func expandWords(_ first: Int, count: Int) -> Int {
    let program = program
    let bench = bench
    let moves = program.moves.start
    let moveStarts = program.moveStarts.start
    let deltas = program.deltas.start
    let enabled = bench.enabled
    let source = store.pointer(at: first)
    let store = store
    let isAlone = partitionCount == 1
    var taken = 0
    for position in 0..<count {
      if limit != nil || !isAlone && outboxes.isFull { return position }
      guard inspect(first &+ position, source + position, program, bench) else { continue }
      let state = source[position]
      let origin = origin(of: first &+ position)
      let fingerprint = isAlone ? 0 : program.fingerprint(source + position)
      for word in 0..<program.maskWords {
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
            store.take(next, origin: origin)
          } else {
            let change = step(by: vector, from: source + position)
            send(bench.next, fingerprint: fingerprint ^ change, origin: origin)
          }
        }
      }
      steps &+= taken
      taken = 0
    }
    return count
  }

  private func expandLarge(_ first: Int, count: Int) -> Int {
    let program = program
    let bench = bench
    for position in 0..<count {
      if limit != nil || outboxes.isFull { return position }
      store.load(first + position, into: bench.state)
      guard inspect(first + position, bench.state, program, bench) else { continue }
      let origin = origin(of: first + position)
      let needsFingerprint = partitionCount > 1 || !store.isExact
      let fingerprint = needsFingerprint ? program.fingerprint(bench.state) : 0
      for word in 0..<program.maskWords {
        var rest = bench.enabled[word]
        while rest != 0 {
          let vector = (word << 6) + rest.trailingZeroBitCount - program.firstVectorBit
          rest &= rest &- 1
          steps &+= 1
          if needsFingerprint {
            let change = step(by: vector, from: bench.state)
            send(bench.next, fingerprint: fingerprint ^ change, origin: origin)
          } else {
            move(by: vector, from: bench.state)
            store.take(bench.next, after: bench.state, fingerprint: 0, origin: origin)
          }
        }
      }
    }
    return count
  }

  /// Leaves the target of a vector on the bench.
  @inline(__always)
  private func move(by vector: Int, from state: UnsafePointer<UInt64>) {
    let program = program
    let next = bench.next
    let moves = program.moves.start
    for word in 0..<program.stateWords { next[word] = state[word] }
    for place in program.moveStarts[vector]..<program.moveStarts[vector &+ 1] {
      let lookup = moves[place].lookup
      let delta = program.deltas[lookup.position(in: state)]
      next[Int(lookup.word)] ^= UInt64(delta) &<< UInt64(lookup.shift)
    }
  }

  /// Leaves the target of a vector on the bench; returns the XOR of the two states' fingerprints.
  @inline(__always)
  private func step(by vector: Int, from state: UnsafePointer<UInt64>) -> UInt64 {
    let program = program
    let next = bench.next
    for word in 0..<program.stateWords { next[word] = state[word] }
    var change: UInt64 = 0
    for place in program.moveStarts[vector]..<program.moveStarts[vector &+ 1] {
      let move = program.moves[place]
      let local = move.lookup.local(in: state)
      let delta = program.deltas[Int(move.lookup.base &+ local)]
      next[Int(move.lookup.word)] ^= UInt64(delta) &<< UInt64(move.lookup.shift)
      change ^= program.rowFingerprints[Int(move.firstRow &+ local)]
      change ^= program.rowFingerprints[Int(move.firstRow &+ (local ^ delta))]
    }
    return change
  }

  /// Passes a successor of the state on the bench to the partition that stores it.
  @inline(__always)
  private func send(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32
  ) {
    let owner = partitionCount == 1 ? number : Self.owner(of: fingerprint, among: partitionCount)
    if owner != number {
      outboxes.append(state, fingerprint: fingerprint, origin: origin, to: owner)
      return
    }
    store.take(state, after: bench.state, fingerprint: fingerprint, origin: origin)
  }

  /// Leaves the mask of a state on the bench: the observations that hold, and the enabled vectors.
  /// - Returns: `watched` is not 0 if a watched observation holds, `inside` is not 0 if a vector is
  ///   enabled that needs nothing from outside.
  @inline(__always)
  private func findMask(
    _ state: UnsafePointer<UInt64>, _ program: CompiledModel, _ bench: Workbench
  ) -> (watched: UInt64, inside: UInt64) {
    let lookups = program.lookups.start
    let starts = program.lookupStarts.start
    let masks = program.masks.start
    var watched: UInt64 = 0
    var inside: UInt64 = 0
    for word in 0..<program.maskWords {
      var bits = ~(0 as UInt64)
      var place = starts[word]
      let end = starts[word &+ 1]
      while place < end {
        bits &= masks[lookups[place].position(in: state)]
        place &+= 1
      }
      bench.enabled[word] = bits
      watched |= bits & bench.watched[word]
      inside |= bits & program.insideBits[word]
    }
    return (watched, inside)
  }

  /// Computes the mask of a state, and records what holds in it; returns whether its steps can be
  /// taken now.
  @inline(__always)
  private func inspect(
    _ number: Int, _ state: UnsafePointer<UInt64>, _ program: CompiledModel, _ bench: Workbench
  ) -> Bool {
    let (watched, inside) = findMask(state, program, bench)
    if bench.enabled[0] & 1 == 0 && isUnknown(state) {
      waiting.append(number)
      return false
    }
    if watched != 0 { note(observationsIn: number) }
    if inside == 0 { note(haltIn: number) }
    if program.stubborn != nil { bench.updateSought() }
    for word in 0..<program.maskWords {
      bench.enabled[word] &= program.vectorBits[word]
      bench.fired[word] |= bench.enabled[word]
    }
    if questions.coverage {
      for component in 0..<program.componentCount {
        bench.seen[program.rows[component].position(in: state)] = true
      }
    }
    if program.stubborn != nil { reduce(number, state, program, bench) }
    return true
  }

  /// Reduces the enabled vectors on the bench to a sufficient part.
  private func reduce(
    _ number: Int, _ state: UnsafePointer<UInt64>, _ program: CompiledModel, _ bench: Workbench
  ) {
    guard let tables = program.stubborn else { return }
    var skippedCount = 0
    if !fullySearched.contains(number) && reductionYield.isWorthTrying() {
      let enabled = bench.stubborn.count(bench.enabled)
      skippedCount = bench.stubborn.reduce(
        bench.enabled, sought: bench.sought, seeds: questions.seeds, state: state, program, tables)
      reductionYield.add(skippedCount: skippedCount, of: enabled)
    }
    guard questions.forbidsIgnoring else { return }
    while hasSkipped.count <= number { hasSkipped.append(false) }
    hasSkipped[number] = skippedCount > 0
  }

  /// Returns whether a vector with unknown cells is enabled as far as known.
  @inline(never)
  private func isUnknown(_ state: UnsafePointer<UInt64>) -> Bool {
    var found: UInt64 = 0
    for word in 0..<program.maskWords {
      found |= unknownBits(in: state, word: word) & bench.enabled[word]
    }
    return found != 0
  }

  private func unknownBits(in state: UnsafePointer<UInt64>, word: Int) -> UInt64 {
    var bits: UInt64 = 0
    for place in program.lookupStarts[word]..<program.lookupStarts[word + 1] {
      bits |= program.unknowns[program.lookups[place].position(in: state)]
    }
    return bits & program.vectorBits[word]
  }

  @inline(never)
  private func note(observationsIn state: Int) {
    for observation in questions.watched where isVisited(holding: observation) {
      let (word, bit) = CompiledModel.place(ofBit: 1 + observation)
      guard bench.watched[word] & bit != 0 else { continue }
      partitionFindings.observed[observation] = state
      bench.watched[word] &= ~bit
    }
  }

  /// Returns whether an observation holds in the state whose mask is on the bench.
  func isVisited(holding observation: Int) -> Bool {
    let (word, bit) = CompiledModel.place(ofBit: 1 + observation)
    return bench.enabled[word] & bit != 0
  }

  @inline(never)
  private func note(haltIn state: Int) {
    var isDead = true
    for word in 0..<program.maskWords where bench.enabled[word] & program.vectorBits[word] != 0 {
      isDead = false
    }
    if isDead {
      guard questions.deadlocks, !questions.ends.contains(where: isVisited(holding:)) else {
        return
      }
      partitionFindings.deadlocks.add(state, keeping: keptStateLimit)
    } else {
      guard questions.stuck, !questions.rests.contains(where: isVisited(holding:)) else { return }
      partitionFindings.stuck.add(state, keeping: keptStateLimit)
    }
  }

  // MARK: States

  /// Returns the findings so far.
  func report() -> PartitionFindings {
    bench.report(to: &partitionFindings)
    return partitionFindings
  }

  /// Returns the global number of a state, which is unique among all partitions.
  @inline(__always)
  private func origin(of state: Int) -> UInt32 {
    UInt32(truncatingIfNeeded: state &* partitionCount &+ number)
  }

  /// Returns the partition of a state, and its number there.
  @inline(__always)
  static func state(of origin: UInt32, among count: Int) -> (partition: Int, number: Int) {
    (Int(origin) % count, Int(origin) / count)
  }

  /// Returns the predecessor of a state, as a partition and its number there; `nil` for the first state.
  func origin(ofState state: Int) -> (partition: Int, number: Int)? {
    let origin = store.origin(of: state)
    if origin == StateStore.noOrigin { return nil }
    return Self.state(of: origin, among: partitionCount)
  }

  /// Returns the key under which a state is stored.
  func key(of state: Int) -> UInt64 { store.key(of: state) }

  /// Whether states are stored, rather than only their fingerprints.
  var isExact: Bool { store.isExact }

  /// Returns the local states of a state. With fingerprints, only states of the current level are
  /// available.
  func locals(of state: Int) -> [Int] {
    store.load(state, into: bench.state)
    return program.layout.decode((0..<program.stateWords).map { bench.state[$0] })
  }

  /// Returns the number of a state, or `nil` if it was not visited.
  func number(of words: UnsafePointer<UInt64>, fingerprint: UInt64) -> Int? {
    store.number(of: words, fingerprint: fingerprint)
  }

  /// Calls a closure for each successor of a state, with its fingerprint.
  func forEachStep(of number: Int, _ visit: (UnsafePointer<UInt64>, UInt64) -> Void) {
    store.load(number, into: bench.state)
    _ = findMask(bench.state, program, bench)
    let fingerprint = partitionCount == 1 ? 0 : program.fingerprint(bench.state)
    for word in 0..<program.maskWords {
      var rest = bench.enabled[word] & program.vectorBits[word]
      while rest != 0 {
        let vector = (word << 6) + rest.trailingZeroBitCount - program.firstVectorBit
        rest &= rest &- 1
        visit(bench.next, fingerprint ^ step(by: vector, from: bench.state))
      }
    }
  }

  /// Returns the vectors with unknown cells that waiting states need, by state.
  func unknownVectors() -> [(state: Int, locals: [Int], vectors: [Int])] {
    waiting.map { number in
      let locals = locals(of: number)
      var vectors: [Int] = []
      for word in 0..<program.maskWords {
        var bits = unknownBits(in: bench.state, word: word)
        for place in program.lookupStarts[word]..<program.lookupStarts[word + 1] {
          bits &= program.masks[program.lookups[place].position(in: bench.state)]
        }
        bits &= program.vectorBits[word]
        while bits != 0 {
          vectors.append((word << 6) + bits.trailingZeroBitCount - program.firstVectorBit)
          bits &= bits &- 1
        }
      }
      return (number, locals, vectors)
    }
  }

  /// Returns the partition that stores a state.
  @inline(__always)
  static func owner(of fingerprint: UInt64, among count: Int) -> Int {
    Int(truncatingIfNeeded: ((fingerprint &>> 32) &* UInt64(count)) &>> 32)
  }

  // MARK: Growing

  /// Switches to a model that has grown. States whose fields have moved are stored again.
  func adopt(_ larger: CompiledModel) {
    bench.report(to: &partitionFindings)
    if larger.layout != program.layout {
      guard store.change(from: program.layout, to: larger.layout) else { return }
    }
    program = larger
    bench = Workbench(
      larger, watching: questions.watched.subtracting(partitionFindings.observed.keys),
      possible: questions.alwaysPossible)
    outboxes = Outboxes(of: number, among: partitionCount, for: larger, budget: budget)
  }
}
