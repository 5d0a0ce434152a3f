/// A breadth-first search of a model, which finds shortest paths to states.
///
/// The caller calls ``advance()`` until the search is finished. Between the calls, the caller can
/// show the progress, and must fill the table cells that the search demands.
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
    package let stateCount: Int
    package let stepCount: Int
    package let depth: Int
    /// The number of findings so far: deadlocks, stuck states and violated observations.
    package let findingCount: Int
    /// The memory in use. Unit: bytes.
    package let byteCount: Int
  }

  /// An unknown table cell that the search must know to continue.
  package struct Demand: Sendable {
    package let component: Int
    package let localState: Int
    package let vector: Int
    /// A state in which no known cell of the vector blocks the vector.
    package let state: StateReference
  }

  package enum Advance: Sendable {
    case progress(Progress)
    /// The demanded cells, each listed once. A cell that the caller does not fill is demanded again.
    case demands([Demand])
    case finished(ExplorationResult)
  }

  /// The model, which may grow between two calls of ``advance()``.
  ///
  /// The search does not search a state again. So when the caller adds a vector, the vector must
  /// not have been enabled in any state that was already searched. An added observation must not
  /// have held in such a state. For example, the caller can add a vector for an event that only a
  /// newly filled cell sends.
  package var model: ExplorationModel

  private let questions: ExplorationQuestions
  private let options: ExplorationOptions
  private let startTime = ContinuousClock.now
  private var compiledModel: CompiledModel
  private var partitions: [Partition]
  private var depth = 0
  private var result: ExplorationResult?

  /// The maximum number of states that one partition searches between two progress reports.
  private static let roundSize = 1 << 16
  /// If fewer states than this number remain in a level, one thread is faster than several threads.
  private static let singleThreadLimit = 512

  package init(
    _ model: ExplorationModel, _ questions: ExplorationQuestions = ExplorationQuestions(),
    options: ExplorationOptions = ExplorationOptions()
  ) {
    self.model = model
    self.model.mapQueues()
    let model = self.model
    self.questions = questions
    self.options = options
    let isReduced = options.usesReduction && questions.allowsReduction(options.storage)
    let layout = Self.layout(of: model, after: nil, wordBits: options.wordBits)
    let program = CompiledModel(
      model, layout: layout, seed: options.storage.seed, isReduced: isReduced)
    self.compiledModel = program
    self.model.clearChanges()
    let count = min(max(1, options.threadCount), 64)
    partitions = (0..<count).map { number in
      Partition(number: number, of: count, program, options: options, questions: questions)
    }
    let words = layout.encode(model.components.map(\.initialState))
    partitions[Partition.owner(of: program.fingerprint(words), among: count)].begin(with: words)
    for partition in partitions { partition.beginLevel() }
  }

  /// Continues the search for a few tens of milliseconds, or until the search demands cells.
  nonisolated(nonsending) package mutating func advance() async -> Advance {
    if let result { return .finished(result) }
    if let limit = reachedLimit() { return .finished(finish(.incomplete(limit))) }
    if model.isExtended || !model.changes.isEmpty { compile() }
    if partitions.contains(where: { $0.remainingCount > 0 }) {
      await searchRound()
    } else if partitions.contains(where: \.isWaiting) {
      let demands = fillQueues()
      if !demands.isEmpty { return .demands(demands) }
    } else if partitions.contains(where: { $0.nextLevelStateCount > 0 }) {
      for partition in partitions { partition.beginLevel() }
      depth += 1
    } else if compiledModel.stubborn != nil && questions.forbidsIgnoring {
      let requiredSize = IgnoredStates.byteCount(
        states: progress.stateCount, steps: progress.stepCount)
      guard requiredSize <= options.memoryLimit - progress.byteCount else {
        return .finished(finish(.incomplete(.memory)))
      }
      if !searchIgnoredStates() { return .finished(finish(.complete)) }
    } else {
      return .finished(finish(.complete))
    }
    return .progress(progress)
  }

  /// Continues the search until the search is finished. If the search demands cells, ends the
  /// search with an incomplete result.
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
      stateCount: partitions.reduce(0) { $0 + $1.stateCount },
      stepCount: partitions.reduce(0) { $0 + $1.stepCount }, depth: depth,
      findingCount: partitions.reduce(0) { $0 + $1.findingCount },
      byteCount: partitions.reduce(compiledModel.byteCount + model.queueByteCount) {
        $0 + $1.budget.used
      })
  }

  /// The number of states that each partition stores. Each partition has one thread.
  package var statesByThread: [Int] { partitions.map(\.stateCount) }

  /// Returns a path from the initial state to another state. The path is a shortest path, unless
  /// the search is reduced.
  package func path(to state: StateReference) -> ExplorationPath {
    ExplorationPath(to: state, in: partitions, model, compiledModel)
  }

  /// Returns paths from the initial state that together take a step of every kind of steps between
  /// visited states; `nil` if the graph of these steps exceeds the memory limit.
  ///
  /// Precondition: the search stores states exactly, and is not reduced.
  /// - Parameters:
  ///   - length: The number of steps after which a path ends.
  ///   - kinds: Returns the kinds of a step, given its vector and the state in which it begins.
  package mutating func coveringPaths(
    length: Int, kinds: (_ vector: Int, _ state: [Int]) -> [Int]
  ) -> [ExplorationPath]? {
    // A vector that was added late may still have unknown cells for states that were searched
    // before.
    model.fillQueues()
    compile()
    return StepGraph(
      partitions, compiledModel, model, memory: options.memoryLimit - progress.byteCount,
      kinds: kinds
    )?.coveringPaths(length: length)
  }

  /// Returns the local state of each component in a visited state; `nil` if the search stores only
  /// fingerprints.
  package func state(_ reference: StateReference) -> [Int]? {
    let partition = partitions[reference.partition]
    return partition.isExact ? partition.locals(of: reference.number) : nil
  }

  /// Returns whether the search has visited a state, or an image of the state by a symmetry. The
  /// state is given by the local state of each component.
  ///
  /// If the search stores only fingerprints, returns whether a state with the same fingerprint was
  /// visited.
  package func hasVisited(_ state: [Int]) -> Bool {
    let words = compiledModel.layout.encode(model.representative(of: state))
    let fingerprint = compiledModel.fingerprint(words)
    let owner = Partition.owner(of: fingerprint, among: partitions.count)
    return partitions[owner].number(of: words, fingerprint: fingerprint) != nil
  }

  // MARK: Rounds of the search

  nonisolated(nonsending) private mutating func searchRound() async {
    let size = min(
      Self.roundSize, max(Self.singleThreadLimit, options.stateLimit - progress.stateCount))
    let partitions = partitions
    for partition in partitions { partition.swapOutboxes() }
    await forEachPartition { partition in
      partition.absorb(from: partitions)
      partition.expand(size)
    }
    if partitions.allSatisfy({ $0.remainingCount == 0 }) { absorbAll() }
  }

  /// For a reduced search: finds states from which a step would be postponed forever, and schedules
  /// these states to be searched again with all their steps.
  ///
  /// Precondition: the search has already found all deadlocks, stuck states and violations, with
  /// shortest paths.
  /// - Returns: Whether there are such states.
  private func searchIgnoredStates() -> Bool {
    let states = IgnoredStates(partitions).firstStates()
    for state in states { partitions[state.partition].scheduleFullSearch(state.number) }
    return !states.isEmpty
  }

  /// Delivers the states that partitions have found for other partitions.
  private func absorbAll() {
    guard partitions.contains(where: \.hasSentStates) else { return }
    for partition in partitions { partition.swapOutboxes() }
    for partition in partitions { partition.absorb(from: partitions) }
  }

  /// Runs an operation on each partition. If there is enough work, each partition runs on its own
  /// thread.
  nonisolated(nonsending) private func forEachPartition(
    _ work: @escaping @Sendable (Partition) -> Void
  ) async {
    guard partitions.count > 1,
      partitions.reduce(0, { $0 + $1.remainingCount }) >= Self.singleThreadLimit
    else {
      for partition in partitions { work(partition) }
      return
    }
    await withTaskGroup(of: Void.self) { group in
      // By default, the tasks would run on the caller's executor, which may have only one thread.
      for partition in partitions {
        group.addTask(executorPreference: globalConcurrentExecutor) { work(partition) }
      }
    }
  }

  private func reachedLimit() -> ExplorationLimit? {
    if let limit = partitions.lazy.compactMap(\.reachedLimit).first { return limit }
    let progress = progress
    if progress.stateCount > options.stateLimit { return .states }
    if progress.byteCount > options.memoryLimit { return .memory }
    if let timeLimit = options.timeLimit, ContinuousClock.now - startTime >= timeLimit {
      return .time
    }
    if Task.isCancelled { return .cancelled }
    let large = model.components.firstIndex { $0.stateCount > options.localStateLimit }
    return large.map { .localStates(component: $0) }
  }

  // MARK: Growth of the model

  private mutating func compile() {
    absorbAll()
    if !model.isExtended && compiledModel.canHold(model) {
      compiledModel.update(model.changes, of: model)
    } else {
      let layout = Self.layout(of: model, after: compiledModel.layout, wordBits: options.wordBits)
      compiledModel = CompiledModel(
        model, layout: layout, seed: options.storage.seed, isReduced: compiledModel.stubborn != nil)
      for partition in partitions { partition.adopt(compiledModel) }
    }
    model.clearChanges()
    for partition in partitions { partition.retryWaitingStates() }
  }

  /// Computes the unknown effects of vectors on queues. If there are no such effects, returns the
  /// demands for cells that only the caller can fill.
  private mutating func fillQueues() -> [Demand] {
    struct Cell: Hashable {
      let component: Int
      let state: Int
      let vector: Int
    }
    var queueCells: Set<Cell> = []
    var demandedCells: Set<Cell> = []
    var demands: [Demand] = []
    for partition in partitions {
      for (number, locals, vectors) in partition.unknownVectors() {
        for vector in vectors {
          let open = model.vectors[vector].roles.filter {
            $0.target(in: locals[$0.component]) == ExplorationModel.Role.unknownTarget
          }
          let openQueues = open.filter { $0.operation != nil }
          for role in openQueues {
            queueCells.insert(
              Cell(component: role.component, state: locals[role.component], vector: 0))
          }
          for role in open where openQueues.isEmpty {
            let cell = Cell(
              component: role.component, state: locals[role.component], vector: vector)
            guard demandedCells.insert(cell).inserted else { continue }
            demands.append(
              Demand(
                component: cell.component, localState: cell.state, vector: vector,
                state: reference(number, in: partition)))
          }
        }
      }
    }
    for queue in queueCells { model.fillQueue(queue.component, in: queue.state) }
    return queueCells.isEmpty ? demands : []
  }

  /// Returns a layout of states in which each field has enough bits for its component's local
  /// states.
  ///
  /// If a component outgrows its field, the other fields keep their widths, so that a state does
  /// not need another word too early.
  private static func layout(
    of model: ExplorationModel, after layout: FieldLayout?, wordBits: Int
  ) -> FieldLayout {
    let counts = model.components.indices.map { model.stateCount(of: $0) }
    if let layout,
      zip(layout.fields, counts).allSatisfy({ FieldLayout.bits(for: $1) <= $0.bitCount }),
      layout.fields.count == counts.count
    {
      return layout
    }
    let bits = counts.enumerated().map { component, count in
      let requiredSize = FieldLayout.bits(for: count)
      guard let layout, component < layout.fields.count else { return requiredSize }
      return max(requiredSize, layout.fields[component].bitCount)
    }
    return FieldLayout(bits: bits, order: model.componentsByVector, wordBits: wordBits)
  }

  // MARK: Results of the search

  private func reference(_ number: Int, in partition: Partition) -> StateReference {
    StateReference(
      partition: partition.number, number: number, depth: partition.depth(of: number))
  }

  private mutating func finish(_ verdict: ExplorationResult.Verdict) -> ExplorationResult {
    let partitionFindings = partitions.map { $0.findingsSoFar() }
    func foundStates(_ found: (PartitionFindings) -> PartitionFindings.Found) -> FoundStates {
      let states = zip(partitions, partitionFindings).flatMap { partition, partitionFindings in
        found(partitionFindings).first.map { reference($0, in: partition) }
      }
      return FoundStates(
        count: partitionFindings.reduce(0) { $0 + found($1).count },
        firstStates: states.sorted {
          ($0.depth, $0.partition, $0.number) < ($1.depth, $1.partition, $1.number)
        })
    }
    var result = ExplorationResult(
      verdict: verdict, stateCount: progress.stateCount, stepCount: progress.stepCount,
      depth: depth,
      peakByteCount: partitions.reduce(compiledModel.byteCount + model.queueByteCount) {
        $0 + $1.budget.peak
      },
      isReduced: compiledModel.stubborn != nil || compiledModel.symmetries != nil)
    result.deadlocks = foundStates(\.deadlocks)
    result.stuckStates = foundStates(\.stuckStates)
    for (partition, partitionFindings) in zip(partitions, partitionFindings) {
      for (observation, number) in partitionFindings.observedStates {
        guard !questions.boundObservations.contains(observation) else {
          result.reachedBounds.insert(observation)
          continue
        }
        let state = reference(number, in: partition)
        if let known = result.violations[observation], known.depth <= state.depth { continue }
        result.violations[observation] = state
      }
    }
    if questions.findsCoverage && verdict == .complete {
      let fired = partitionFindings.reduce(into: Set<Int>()) { $0.formUnion($1.firedVectors) }
      result.neverEnabledVectors = model.vectors.indices.filter { !fired.contains($0) }
      result.unreachableStates = model.components.enumerated().map { number, component in
        let seen = partitionFindings.reduce(into: Set<Int>()) {
          $0.formUnion($1.seenStates[number])
        }
        return (0..<component.stateCount).filter { !seen.contains($0) }
      }
    }
    if case .fingerprints = options.storage {
      let states = Double(result.stateCount)
      result.omissionProbability = min(1, states * (states - 1) / 0x1p65)
    }
    if case .exact = options.storage {
      let isLarge = result.peakByteCount > 40 * result.stateCount
      result.fingerprintsSaveMemory = compiledModel.stateWordCount > 1 && isLarge
    }
    decidePossibilities(&result)
    self.result = result
    return result
  }

  private mutating func decidePossibilities(_ result: inout ExplorationResult) {
    let observations = questions.alwaysPossibleObservations
    for observation in observations { result.possibilities[observation] = .undecided }
    guard !observations.isEmpty, result.verdict == .complete, case .exact = options.storage else {
      return
    }
    // A vector that was added late may still have unknown cells for states that were searched
    // before.
    model.fillQueues()
    compile()
    guard
      let graph = StateGraph(
        partitions, compiledModel, about: observations.union(result.reachedBounds),
        steps: result.stepCount,
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
  package var threadCount = 1
  /// Whether to use partial-order reduction, which omits interleavings that cannot change the result.
  package var usesReduction = false
  /// The maximum number of states.
  package var stateLimit = Int.max
  /// The time limit; `nil` for no limit.
  package var timeLimit: Duration?
  /// The memory limit for states, tables and outboxes. Unit: bytes.
  package var memoryLimit = 1 << 30
  /// The maximum number of local states of one component. The search ends if a component has more
  /// local states.
  package var localStateLimit = 1 << 20
  /// The maximum number of deadlocks, and of stuck states, to store. Paths can be reported only to
  /// stored states.
  package var maximumKeptStateCount = 64
  /// The number of bits used in a word. Tests use fewer than 64 bits, so that small models have
  /// states of several words.
  package var wordBits = 64

  package init() {}
}
