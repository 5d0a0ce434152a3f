import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// Searches the whole behavior of a topology before it is launched.
///
/// The topology's programs evaluate single steps, and the search combines them.
package struct TopologyExplorer {
  private let loaded: LoadedTopology
  private let section: ExploreSection
  private let settings: ExplorationSettings
  /// The time limit for one answer of a program, spent on computing or waiting.
  private let answerTimeout: Duration

  package init(
    _ loaded: LoadedTopology, _ section: ExploreSection?, _ settings: ExplorationSettings,
    answerTimeout: Duration = .seconds(10)
  ) {
    self.loaded = loaded
    self.section = section ?? ExploreSection()
    self.settings = settings
    self.answerTimeout = answerTimeout
  }

  /// Searches to the end, or to a limit.
  /// - Parameters:
  ///   - isStopped: Returns whether the search must end now, with its findings so far.
  ///   - progress: Called from time to time.
  nonisolated(nonsending) package func explore(
    isStopped: () -> Bool = { false }, progress: (ExplorationProgress) -> Void = { _ in }
  ) async throws -> ExplorationReport {
    let start = ContinuousClock.now
    let programEvaluators = ProgramEvaluators(loaded, answerTimeout: answerTimeout)
    var escalation = CapacityEscalation(loaded.pipes, section)
    var (report, full) = try await search(
      escalation.capacities, programEvaluators, options, isStopped: isStopped, progress)
    while let fullPipes = full, escalation.raise(fullPipes) {
      var options = options
      options.stateLimit = CapacityEscalation.stateLimit(after: report.totals.states)
      options.timeLimit = settings.time.map { max(.zero, $0 - (ContinuousClock.now - start)) }
      let (next, nextFull) = try await search(
        escalation.capacities, programEvaluators, options, isStopped: isStopped, progress)
      full = nextFull
      if full == nil {
        report.add(findingsOf: next)
      } else {
        report = next
      }
    }
    report.duration = ContinuousClock.now - start
    report.allow(section.allow)
    return report
  }

  /// Searches the topology once.
  /// - Returns: The report and, if the search was complete, the indices of pipes that were full but
  ///   can hold more events at run time.
  private nonisolated(nonsending) func search(
    _ capacities: [Int], _ programEvaluators: ProgramEvaluators, _ options: ExplorationOptions,
    isStopped: () -> Bool, _ progress: (ExplorationProgress) -> Void
  ) async throws -> (report: ExplorationReport, full: Set<Int>?) {
    let start = ContinuousClock.now
    let (topology, watched) = try prepare(
      visitsAllStates: settings.includesGraph || !settings.isReduced, programEvaluators, capacities)
    var search = Exploration(topology.model, watched.questions, options: options)
    let stopsAtViolation = settings.stopsAtViolation
    let result = try await Self.run(&search, topology, progress) { findings in
      isStopped() || stopsAtViolation && findings > 0
    }
    topology.checkFolds()
    var report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    guard result.verdict == .complete else { return (report, nil) }
    if settings.includesGraph { report.graph = topology.graph(of: search.model) }
    return (report, watched.fullPipes(in: result))
  }

  /// Searches to the end, or to a limit, and exports all evaluated steps as a Promela model.
  /// - Parameter progress: Called from time to time.
  nonisolated(nonsending) package func promela(
    progress: (ExplorationProgress) -> Void = { _ in }
  ) async throws -> (text: String, report: ExplorationReport) {
    let start = ContinuousClock.now
    let (topology, watched) = try prepare(visitsAllStates: true)
    var search = Exploration(topology.model, watched.questions, options: options)
    let result = try await Self.run(&search, topology, progress)
    let report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    search.model.fillQueues()
    return (topology.promela(of: search.model), report)
  }

  /// Searches to the end, or to a limit, and keeps the visited states, so that the caller can walk
  /// through them.
  nonisolated(nonsending) package func explored() async throws -> ExploredTopology {
    let start = ContinuousClock.now
    let (topology, watched) = try prepare(visitsAllStates: true)
    var search = Exploration(topology.model, watched.questions, options: options)
    let result = try await Self.run(&search, topology) { _ in }
    let report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    return ExploredTopology(topology, search, report)
  }

  /// - Parameter visitsAllStates: Whether to visit all states, rather than a sufficient subset.
  private func prepare(
    visitsAllStates: Bool, _ programEvaluators: ProgramEvaluators? = nil, _ capacities: [Int]? = nil
  ) throws -> (TopologyModel, WatchedStates) {
    let topology = TopologyModel(
      loaded, section, nodeLimit: settings.nodeStateLimit, capacities: capacities)
    try topology.build(programEvaluators ?? ProgramEvaluators(loaded, answerTimeout: answerTimeout))
    try topology.checkConditions()
    if !visitsAllStates { try topology.addUnsentEvents() }
    var watched = try WatchedStates(topology, settings)
    watched.questions.visitsAllStates = visitsAllStates
    return (topology, watched)
  }

  private nonisolated(nonsending) static func run(
    _ search: inout Exploration, _ topology: TopologyModel,
    _ progress: (ExplorationProgress) -> Void,
    shouldStop: (_ findings: Int) -> Bool = { _ in false }
  ) async throws -> ExplorationResult {
    while true {
      if shouldStop(search.progress.findings) { return search.stop() }
      switch await search.advance() {
      case .progress(let totals):
        progress(
          ExplorationProgress(
            states: totals.states, steps: totals.steps, depth: totals.depth,
            byteCount: totals.byteCount))
      case .demands(let demands):
        for demand in demands {
          if shouldStop(0) { return search.stop() }
          try topology.fill(demand, in: &search.model)
        }
        if topology.nodeOverLimit != nil { return search.stop() }
      case .finished(let result): return result
      }
    }
  }

  private var options: ExplorationOptions {
    var options = ExplorationOptions()
    options.timeLimit = settings.time
    options.memoryLimit = settings.memory
    options.threads = settings.threads
    options.usesReduction = true
    options.localStateLimit = max(options.localStateLimit, settings.nodeStateLimit)
    // Of further states, only the number is reported. Finding a path to a fingerprint takes long.
    options.keptStateLimit = settings.isHashed ? 64 : 10_000
    if settings.isHashed { options.storage = .fingerprints(seed: 0) }
    return options
  }
}

/// The states that a search of a topology watches for.
struct WatchedStates {
  var questions = ExplorationQuestions()
  /// The properties, by the numbers of their observations.
  private(set) var properties: [Int: ExploredProperty] = [:]
  /// The pipes that can hold more events at run time, by the observation that holds while they are full.
  private(set) var bounds: [Int: Int] = [:]

  init(_ topology: TopologyModel, _ settings: ExplorationSettings) throws {
    let section = topology.section
    for property in section.properties
    where settings.properties.isEmpty || settings.properties.contains(property.name) {
      // A node under `any` may also do nothing that would reach the states.
      if property.demand == .alwaysPossible && !section.any.isEmpty
        || topology.isUnknown(property.states)
      {
        topology.values.note(.undecided(property: property.name, because: .anyBehaviour))
        continue
      }
      let observation = try topology.watch(property.states)
      properties[observation] = property
      switch property.demand {
      case .never: questions.never.insert(observation)
      case .alwaysPossible: questions.alwaysPossible.insert(observation)
      }
    }
    // The maximum contents of pipes are known only if no step is skipped for good.
    questions.takesEveryStep = !topology.pipes.isEmpty
    for (place, pipe) in topology.pipes.enumerated()
    where pipe.capacity < pipe.specification.capacity {
      bounds[try topology.model.addObservation(ofFullQueue: pipe.component)] = place
    }
    questions.bounds = Set(bounds.keys)
    guard settings.properties.isEmpty else {
      questions.deadlocks = false
      return
    }
    questions.coverage = true
    // If only an explored capacity prevents further steps, the topology can take them at run time.
    questions.ends = questions.bounds
    for end in section.end where !topology.isUnknown(end) {
      questions.ends.insert(try topology.watch(end))
    }
    guard !topology.pipes.isEmpty else { return }
    // Only queued events can be stuck.
    questions.stuck = true
    var empty: [Int: Set<Int>] = [:]
    for pipe in topology.pipes {
      if let state = topology.model.localState(of: pipe.component, holding: []) {
        empty[pipe.component] = [state]
      }
    }
    questions.rests.insert(try topology.model.addObservation(empty))
    questions.rests.formUnion(questions.ends)
  }

  /// Returns the indices of the pipes that were full but can hold more events at run time.
  func fullPipes(in result: ExplorationResult) -> Set<Int> {
    Set(result.reachedBounds.compactMap { bounds[$0] })
  }
}

/// The explored capacities of pipes: small at first, and raised while that may change the result.
///
/// If a pipe is never full, a larger pipe would behave in the same way. If a pipe is full in some
/// state, it blocks its sender there, but a larger pipe would not.
struct CapacityEscalation {
  /// The explored capacity of each pipe, in the order of the file. Unit: events.
  private(set) var capacities: [Int]
  private let pipes: [PipeSpecification]
  /// Whether the file declares the capacity, which is then not raised.
  private let isFixed: Bool

  /// The number of states that a search with raised capacities may always visit.
  private static let minimumStateLimit = 200_000
  /// The factor by which a search with raised capacities may exceed the previous search.
  private static let growthFactor = 4

  init(_ pipes: [PipeSpecification], _ section: ExploreSection) {
    self.pipes = pipes
    isFixed = section.capacity != nil
    capacities = pipes.map { ExploreSection.capacity(of: $0, in: section) }
  }

  /// Raises the capacities of pipes that were full in a complete search.
  /// - Parameter full: The indices of these pipes.
  /// - Returns: Whether another search may find more.
  mutating func raise(_ full: Set<Int>) -> Bool {
    guard !isFixed else { return false }
    let before = capacities
    for place in full { capacities[place] = min(2 * capacities[place], pipes[place].capacity) }
    return capacities != before
  }

  /// Returns the state limit of the next search, given the number of states in the previous one.
  static func stateLimit(after states: Int) -> Int { max(minimumStateLimit, growthFactor * states) }
}
