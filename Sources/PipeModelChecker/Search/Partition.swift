/// The states whose fingerprints fall to one thread: it keeps them, and takes the steps from them.
///
/// A level is searched in rounds. In each, every partition takes in what others found for it in the round
/// before, then expands states of its own and puts what belongs to others into outboxes.
final class Partition: @unchecked Sendable {  // In a round, one thread alone uses a partition.
  let number: Int
  let partitionCount: Int
  private let questions: ExplorationQuestions
  private let keptStates: Int
  private let store: StateStore
  private var program: CompiledModel
  private var bench: Workbench
  private var outboxes: Outboxes

  private var cursor = 0
  private var levelEnd = 0
  /// States of this level with an enabled vector of which a cell is not known.
  private var waiting: [Int] = []
  private var again: [Int] = []
  /// Whether steps were left out of those of a state.
  private var isPart: [Bool] = []
  private var reductionYield = ReductionYield()
  /// States of which no step may be left out.
  private var whole: Set<Int> = []
  private var sightings = Sightings()
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
    keptStates = options.keptStates
    let budget = MemoryBudget(limit: options.memoryLimit / partitionCount)
    store = StateStore(
      stateWords: program.stateWords, storage: options.storage,
      stateLimit: min(options.stateLimit, Int(Int32.max) / partitionCount), budget: budget,
      notesEdges: program.stubborn != nil && questions.forbidsIgnoring)
    bench = Workbench(
      program, watching: questions.watched, possible: questions.alwaysPossible)
    outboxes = Outboxes(of: number, among: partitionCount, for: program, budget: budget)
  }

  // MARK: Levels

  var stateCount: Int { store.count }
  var budget: MemoryBudget { store.budget }
  /// Why this partition takes no more states.
  var limit: ExplorationLimit? { store.limit }
  /// States of the next level that were found until now.
  var foundCount: Int { store.count - levelEnd }
  /// States of this level that are still to be searched, those that wait left out.
  var remaining: Int { again.count + levelEnd - cursor }
  var isWaiting: Bool { !waiting.isEmpty }
  var findingCount: Int {
    sightings.deadlocks.count + sightings.stuck.count
      + sightings.observed.keys.count { questions.never.contains($0) }
  }

  /// Goes on with the states that were found for the next level.
  func beginLevel() {
    cursor = levelEnd
    levelEnd = store.count
    levelStarts.append(cursor)
    store.beginLevel(at: cursor)
  }

  /// The level of a state.
  func depth(of state: Int) -> Int {
    var low = 0
    var high = levelStarts.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if levelStarts[middle] <= state { low = middle } else { high = middle }
    }
    return low - 1
  }

  /// Whether steps were left out of those of a state.
  func hasLeftOut(of state: Int) -> Bool { state < isPart.count && isPart[state] }

  /// Lets a state be searched again, with all its steps.
  func searchWhole(_ state: Int) {
    again.append(state)
    whole.insert(state)
  }

  /// Shows each step that was taken to a state of this partition, by the numbers that states have everywhere.
  func visitEdges(_ visit: (_ source: UInt32, _ target: UInt32) -> Void) {
    store.visitEdges { visit($0, origin(of: $1)) }
  }

  /// Lets the states that wait be searched again, after cells were filled.
  func retry() {
    again += waiting
    waiting = []
  }

  // MARK: Taking in

  /// Takes in the first state.
  func begin(with words: [UInt64]) {
    store.take(words, fingerprint: program.fingerprint(words), origin: StateStore.noOrigin)
    store.flush()
  }

  /// Whether states that were found are not taken in by the partitions that keep them.
  var hasSent: Bool { !outboxes.isEmpty }

  /// Lets the others take in what was found.
  func flip() { outboxes.flip() }

  /// Takes in what the others have found.
  func absorb(from partitions: [Partition]) {
    for other in partitions where other !== self { other.outboxes.empty(number, into: store) }
  }

  // MARK: Expanding

  /// Searches up to so many states of this level, fewer where an outbox gets full.
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

  /// Searches states whose keys lie behind each other, and returns how many it came to.
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

  /// Puts the state that a vector leads to on the bench.
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

  /// Does the same, and returns by what the state's fingerprint differs.
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

  /// Gives a state that the state on the bench leads to to the partition that keeps it.
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

  /// Leaves on the bench what holds and what is enabled in a state. Returns bits of which some are set where
  /// something watched holds, and where a vector is enabled that needs nobody from outside.
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

  /// Finds what is enabled in a state, and notes what it is. Whether there are steps to take from it now.
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
    if program.stubborn != nil { bench.seek() }
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

  /// Leaves on the bench the enabled vectors that are enough.
  private func reduce(
    _ number: Int, _ state: UnsafePointer<UInt64>, _ program: CompiledModel, _ bench: Workbench
  ) {
    guard let tables = program.stubborn else { return }
    var leftOut = 0
    if !whole.contains(number) && reductionYield.isWorthTrying() {
      let enabled = bench.stubborn.count(bench.enabled)
      leftOut = bench.stubborn.reduce(
        bench.enabled, sought: bench.sought, seeds: questions.seeds, state: state, program, tables)
      reductionYield.add(leftOut: leftOut, of: enabled)
    }
    guard questions.forbidsIgnoring else { return }
    while isPart.count <= number { isPart.append(false) }
    isPart[number] = leftOut > 0
  }

  /// Whether a vector is enabled as far as is known, and not all of its cells are known.
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
      sightings.observed[observation] = state
      bench.watched[word] &= ~bit
    }
  }

  /// Whether an observation holds in the state whose mask is on the bench.
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
      sightings.deadlocks.add(state, keeping: keptStates)
    } else {
      guard questions.stuck, !questions.rests.contains(where: isVisited(holding:)) else { return }
      sightings.stuck.add(state, keeping: keptStates)
    }
  }

  // MARK: States

  /// What was met until now.
  func report() -> Sightings {
    bench.report(to: &sightings)
    return sightings
  }

  /// The number under which a state is known to all partitions.
  @inline(__always)
  private func origin(of state: Int) -> UInt32 {
    UInt32(truncatingIfNeeded: state &* partitionCount &+ number)
  }

  /// The partition of a state, and its number there.
  @inline(__always)
  static func state(of origin: UInt32, among count: Int) -> (partition: Int, number: Int) {
    (Int(origin) % count, Int(origin) / count)
  }

  /// The state that led to a state, as a partition and its number there.
  func origin(ofState state: Int) -> (partition: Int, number: Int)? {
    let origin = store.origin(of: state)
    if origin == StateStore.noOrigin { return nil }
    return Self.state(of: origin, among: partitionCount)
  }

  /// The key under which a state is stored.
  func key(of state: Int) -> UInt64 { store.key(of: state) }

  /// Whether keys tell states.
  var isExact: Bool { store.isExact }

  /// The local states of a state; with fingerprints only of one of this level.
  func locals(of state: Int) -> [Int] {
    store.load(state, into: bench.state)
    return program.layout.decode((0..<program.stateWords).map { bench.state[$0] })
  }

  /// The number of a state, or `nil` where it was not met.
  func number(of words: UnsafePointer<UInt64>, fingerprint: UInt64) -> Int? {
    store.number(of: words, fingerprint: fingerprint)
  }

  /// Shows each state that a state leads to, with its fingerprint.
  func visitSteps(of number: Int, _ visit: (UnsafePointer<UInt64>, UInt64) -> Void) {
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

  /// The vectors of the states that wait that have a cell that is not known, and which state it was.
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

  /// The partition that keeps a state.
  @inline(__always)
  static func owner(of fingerprint: UInt64, among count: Int) -> Int {
    Int(truncatingIfNeeded: ((fingerprint &>> 32) &* UInt64(count)) &>> 32)
  }

  // MARK: Growing

  /// Goes on with a model that has grown. States whose fields have moved are stored anew.
  func adopt(_ larger: CompiledModel) {
    bench.report(to: &sightings)
    if larger.layout != program.layout {
      guard store.change(from: program.layout, to: larger.layout) else { return }
    }
    program = larger
    bench = Workbench(
      larger, watching: questions.watched.subtracting(sightings.observed.keys),
      possible: questions.alwaysPossible)
    outboxes = Outboxes(of: number, among: partitionCount, for: larger, budget: budget)
  }
}
