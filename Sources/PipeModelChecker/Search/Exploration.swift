/// A breadth-first search of a model, so that the paths to states are shortest paths.
///
/// The caller repeats ``advance()`` until the search is finished; the search has no callbacks.
/// Between the calls, the caller may show progress, and must fill the demanded cells.
///
/// ```swift
/// var search = Exploration(model, questions)
/// while true {
///   switch await search.advance() {
///   case .progress(let progress): show(progress)
///   case .demands(let demands): for demand in demands { try search.model.setCell(…) }
///   case .finished(let result): return result
///   }
/// }
/// ```
package struct Exploration: ~Copyable {
  package struct Progress: Sendable {
    package let states: Int
    package let steps: Int
    package let depth: Int
    /// The number of deadlocks, stuck states and violated observations found so far.
    package let findings: Int
    /// Unit: bytes.
    package let byteCount: Int
  }

  /// A cell that the search needs to continue.
  package struct Demand: Sendable {
    package let component: Int
    package let localState: Int
    package let vector: Int
    /// The first state in which all other components permit the vector, as far as known.
    package let state: StateReference
  }

  package enum Advance: Sendable {
    case progress(Progress)
    /// Each demanded cell, once. Cells that are not filled are demanded again.
    case demands([Demand])
    case finished(ExplorationResult)
  }

  /// The model, which may grow between two calls of ``advance()``.
  ///
  /// An addition must not have been enabled, or have held, in a state that is already searched,
  /// because such states are not searched again. An allowed example is a vector for an event that a
  /// newly filled cell sends.
  package var model: ExplorationModel

  private let questions: ExplorationQuestions
  private let options: ExplorationOptions
  private let start = ContinuousClock.now
  private var program: CompiledModel
  private var partitions: [Partition]
  private var depth = 0
  private var result: ExplorationResult?

  /// The number of states that one partition searches between progress reports.
  private static let roundSize = 1 << 16
  /// The number of states in a level below which one thread is faster than several threads.
  private static let singleThreadLimit = 512

  package init(
    _ model: ExplorationModel, _ questions: ExplorationQuestions = ExplorationQuestions(),
    options: ExplorationOptions = ExplorationOptions()
  ) {
    self.model = model
    self.questions = questions
    self.options = options
    let isReduced = options.usesReduction && questions.allowsReduction(options.storage)
    let layout = Self.layout(of: model, after: nil, wordBits: options.wordBits)
    let program = CompiledModel(
      model, layout: layout, seed: options.storage.seed, isReduced: isReduced)
    self.program = program
    self.model.clearChanges()
    let count = min(max(1, options.threads), 64)
    partitions = (0..<count).map { number in
      Partition(number: number, of: count, program, options: options, questions: questions)
    }
    let words = layout.encode(model.components.map(\.initial))
    partitions[Partition.owner(of: program.fingerprint(words), among: count)].begin(with: words)
    for partition in partitions { partition.beginLevel() }
  }

  /// Continues the search for some tens of milliseconds.
  nonisolated(nonsending) package mutating func advance() async -> Advance {
    if let result { return .finished(result) }
    if let limit = reachedLimit() { return .finished(finish(.incomplete(limit))) }
    if model.isExtended || !model.changes.isEmpty { compile() }
    if partitions.contains(where: { $0.remaining > 0 }) {
      await searchRound()
    } else if partitions.contains(where: \.isWaiting) {
      let demands = fillQueues()
      if !demands.isEmpty { return .demands(demands) }
    } else if partitions.contains(where: { $0.foundCount > 0 }) {
      for partition in partitions { partition.beginLevel() }
      depth += 1
    } else if program.stubborn != nil && questions.forbidsIgnoring {
      let requiredSize = IgnoredStates.byteCount(states: progress.states, steps: progress.steps)
      guard requiredSize <= options.memoryLimit - progress.byteCount else {
        return .finished(finish(.incomplete(.memory)))
      }
      if !searchIgnored() { return .finished(finish(.complete)) }
    } else {
      return .finished(finish(.complete))
    }
    return .progress(progress)
  }

  /// Searches to the end, or to the first demand.
  nonisolated(nonsending) package mutating func run() async -> ExplorationResult {
    while true {
      switch await advance() {
      case .progress: continue
      case .demands: return finish(.incomplete(.stopped))
      case .finished(let result): return result
      }
    }
  }

  /// Ends the search now.
  package mutating func stop() -> ExplorationResult {
    result ?? finish(.incomplete(.stopped))
  }

  package var progress: Progress {
    Progress(
      states: partitions.reduce(0) { $0 + $1.stateCount },
      steps: partitions.reduce(0) { $0 + $1.steps }, depth: depth,
      findings: partitions.reduce(0) { $0 + $1.findingCount },
      byteCount: partitions.reduce(program.byteCount + model.queueByteCount) {
        $0 + $1.budget.used
      })
  }

  /// The number of states that each thread stores.
  package var statesByThread: [Int] { partitions.map(\.stateCount) }

  /// Returns a path from the first state to another state: a shortest path, unless the search is reduced.
  package func path(to state: StateReference) -> ExplorationPath {
    ExplorationPath(to: state, in: partitions, model, program)
  }

  /// Returns the local state of each component in a visited state; `nil` if only a fingerprint is stored.
  package func state(_ reference: StateReference) -> [Int]? {
    let partition = partitions[reference.partition]
    return partition.isExact ? partition.locals(of: reference.number) : nil
  }

  /// Returns whether a state, given by the local state of each component, was visited.
  ///
  /// With fingerprints, returns whether a state with the same fingerprint was visited.
  package func hasVisited(_ state: [Int]) -> Bool {
    let words = program.layout.encode(state)
    let fingerprint = program.fingerprint(words)
    let owner = Partition.owner(of: fingerprint, among: partitions.count)
    return partitions[owner].number(of: words, fingerprint: fingerprint) != nil
  }

  // MARK: Rounds

  nonisolated(nonsending) private mutating func searchRound() async {
    let size = min(
      Self.roundSize, max(Self.singleThreadLimit, options.stateLimit - progress.states))
    let partitions = partitions
    for partition in partitions { partition.flip() }
    await forEachPartition { partition in
      partition.absorb(from: partitions)
      partition.expand(size)
    }
    if partitions.allSatisfy({ $0.remaining == 0 }) { absorbAll() }
  }

  /// Schedules states for a search with all their steps, where a step would otherwise be postponed
  /// forever.
  ///
  /// All deadlocks, stuck states and violations are already found, by shortest paths.
  /// - Returns: Whether there are such states.
  private func searchIgnored() -> Bool {
    let states = IgnoredStates(partitions).firstStates()
    for state in states { partitions[state.partition].scheduleFullSearch(state.number) }
    return !states.isEmpty
  }

  /// Makes each partition take the states that the others have found for it.
  private func absorbAll() {
    guard partitions.contains(where: \.hasSent) else { return }
    for partition in partitions { partition.flip() }
    for partition in partitions { partition.absorb(from: partitions) }
  }

  /// Runs an operation on each partition, each on its own thread if there is enough work.
  nonisolated(nonsending) private func forEachPartition(
    _ work: @escaping @Sendable (Partition) -> Void
  ) async {
    guard partitions.count > 1,
      partitions.reduce(0, { $0 + $1.remaining }) >= Self.singleThreadLimit
    else {
      for partition in partitions { work(partition) }
      return
    }
    await withTaskGroup(of: Void.self) { group in
      // By default, tasks inherit the caller's executor, which may have only one thread.
      for partition in partitions {
        group.addTask(executorPreference: globalConcurrentExecutor) { work(partition) }
      }
    }
  }

  private func reachedLimit() -> ExplorationLimit? {
    if let limit = partitions.lazy.compactMap(\.limit).first { return limit }
    let progress = progress
    if progress.states > options.stateLimit { return .states }
    if progress.byteCount > options.memoryLimit { return .memory }
    if let timeLimit = options.timeLimit, ContinuousClock.now - start >= timeLimit { return .time }
    if Task.isCancelled { return .cancelled }
    let large = model.components.firstIndex { $0.stateCount > options.localStateLimit }
    return large.map { .localStates(component: $0) }
  }

  // MARK: Growing

  private mutating func compile() {
    absorbAll()
    if !model.isExtended && program.canHold(model) {
      program.update(model.changes, of: model)
    } else {
      let layout = Self.layout(of: model, after: program.layout, wordBits: options.wordBits)
      program = CompiledModel(
        model, layout: layout, seed: options.storage.seed, isReduced: program.stubborn != nil)
      for partition in partitions { partition.adopt(program) }
    }
    model.clearChanges()
    for partition in partitions { partition.retry() }
  }

  /// Fills in the effects on queues of the vectors that states wait for. If there is nothing to
  /// fill in, returns the demands that only the caller can fill.
  private mutating func fillQueues() -> [Demand] {
    struct Cell: Hashable {
      let component: Int
      let state: Int
      let vector: Int
    }
    var queues: Set<Cell> = []
    var demanded: Set<Cell> = []
    var demands: [Demand] = []
    for partition in partitions {
      for (number, locals, vectors) in partition.unknownVectors() {
        for vector in vectors {
          let open = model.vectors[vector].roles.filter {
            $0.target(in: locals[$0.component]) == ExplorationModel.Role.unknown
          }
          let openQueues = open.filter { $0.operation != nil }
          for role in openQueues {
            queues.insert(Cell(component: role.component, state: locals[role.component], vector: 0))
          }
          for role in open where openQueues.isEmpty {
            let cell = Cell(
              component: role.component, state: locals[role.component], vector: vector)
            guard demanded.insert(cell).inserted else { continue }
            demands.append(
              Demand(
                component: cell.component, localState: cell.state, vector: vector,
                state: reference(number, in: partition)))
          }
        }
      }
    }
    for queue in queues { model.fillQueue(queue.component, in: queue.state) }
    return queues.isEmpty ? demands : []
  }

  /// Returns a layout with fields as wide as the local states need.
  ///
  /// If the local states of a component outgrow their field, the other fields keep their widths. So
  /// a state does not grow by a word before it must.
  private static func layout(
    of model: ExplorationModel, after layout: FieldLayout?, wordBits: Int
  ) -> FieldLayout {
    let counts = model.components.indices.map { model.stateCount(of: $0) }
    if let layout, zip(layout.fields, counts).allSatisfy({ FieldLayout.bits(for: $1) <= $0.bits }),
      layout.fields.count == counts.count
    {
      return layout
    }
    let bits = counts.enumerated().map { component, count in
      let requiredSize = FieldLayout.bits(for: count)
      guard let layout, component < layout.fields.count else { return requiredSize }
      return max(requiredSize, layout.fields[component].bits)
    }
    return FieldLayout(bits: bits, order: model.componentsByVector, wordBits: wordBits)
  }

  // MARK: Results

  private func reference(_ number: Int, in partition: Partition) -> StateReference {
    StateReference(
      partition: partition.number, number: number, depth: partition.depth(of: number))
  }

  private mutating func finish(_ verdict: ExplorationResult.Verdict) -> ExplorationResult {
    let partitionFindings = partitions.map { $0.report() }
    func found(_ found: (PartitionFindings) -> PartitionFindings.Found) -> FoundStates {
      let states = zip(partitions, partitionFindings).flatMap { partition, partitionFindings in
        found(partitionFindings).first.map { reference($0, in: partition) }
      }
      return FoundStates(
        count: partitionFindings.reduce(0) { $0 + found($1).count },
        first: states.sorted {
          ($0.depth, $0.partition, $0.number) < ($1.depth, $1.partition, $1.number)
        })
    }
    var result = ExplorationResult(
      verdict: verdict, states: progress.states, steps: progress.steps, depth: depth,
      peakByteCount: partitions.reduce(program.byteCount + model.queueByteCount) {
        $0 + $1.budget.peak
      },
      isReduced: program.stubborn != nil)
    result.deadlocks = found(\.deadlocks)
    result.stuck = found(\.stuck)
    for (partition, partitionFindings) in zip(partitions, partitionFindings) {
      for (observation, number) in partitionFindings.observed {
        guard !questions.bounds.contains(observation) else {
          result.reachedBounds.insert(observation)
          continue
        }
        let state = reference(number, in: partition)
        if let known = result.violations[observation], known.depth <= state.depth { continue }
        result.violations[observation] = state
      }
    }
    if questions.coverage && verdict == .complete {
      let fired = partitionFindings.reduce(into: Set<Int>()) { $0.formUnion($1.fired) }
      result.neverEnabled = model.vectors.indices.filter { !fired.contains($0) }
      result.unreachable = model.components.enumerated().map { number, component in
        let seen = partitionFindings.reduce(into: Set<Int>()) { $0.formUnion($1.seen[number]) }
        return (0..<component.stateCount).filter { !seen.contains($0) }
      }
    }
    if case .fingerprints = options.storage {
      let states = Double(result.states)
      result.omissionProbability = min(1, states * (states - 1) / 0x1p65)
    }
    if case .exact = options.storage {
      let isLarge = result.peakByteCount > 40 * result.states
      result.fingerprintsSaveMemory = program.stateWords > 1 && isLarge
    }
    decidePossibilities(&result)
    self.result = result
    return result
  }

  private mutating func decidePossibilities(_ result: inout ExplorationResult) {
    let observations = questions.alwaysPossible
    for observation in observations { result.possibilities[observation] = .undecided }
    guard !observations.isEmpty, result.verdict == .complete, case .exact = options.storage else {
      return
    }
    // States that were searched before a vector was added did not demand its cells.
    model.fillQueues()
    compile()
    guard
      let graph = StateGraph(
        partitions, program, about: observations.union(result.reachedBounds), steps: result.steps,
        memory: options.memoryLimit - progress.byteCount)
    else { return }
    result.peakByteCount = max(result.peakByteCount, progress.byteCount + graph.byteCount)
    for observation in observations {
      let lost = nearestState(withoutPathTo: [observation], in: graph)
      let bounds = result.reachedBounds
      let certain =
        bounds.isEmpty ? lost : nearestState(withoutPathTo: bounds.union([observation]), in: graph)
      result.possibilities[observation] =
        certain.map { .lost($0) } ?? lost.map { .lostWithinBounds($0) } ?? .always
    }
  }

  private func nearestState(
    withoutPathTo observations: Set<Int>, in graph: StateGraph
  ) -> StateReference? {
    graph.firstStates(withoutPathTo: observations)
      .map { reference($0.number, in: $0.partition) }.min { $0.depth < $1.depth }
  }
}

/// The limits and options of a search.
package struct ExplorationOptions: Sendable {
  package var storage: StateStorage = .exact
  /// The number of threads. Each thread stores a part of the states. Range: 1…64.
  package var threads = 1
  /// Whether to skip steps that only reorder other steps, where the results stay the same.
  package var usesReduction = false
  /// Unit: states.
  package var stateLimit = Int.max
  /// The time limit; `nil` for no limit.
  package var timeLimit: Duration?
  /// The memory limit for states, tables and outboxes. Unit: bytes.
  package var memoryLimit = 1 << 30
  /// The number of local states of one component above which the search ends.
  package var localStateLimit = 1 << 20
  /// The maximum number of deadlocks, and of stuck states, that are kept to report their paths.
  package var keptStateLimit = 64
  /// The number of bits used in a word; fewer than 64 test the handling of large states with small
  /// models.
  package var wordBits = 64

  package init() {}
}
