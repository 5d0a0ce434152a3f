import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// The model checker: searches all reachable states of a topology before the topology runs.
///
/// The programs of the topology evaluate single steps, and the search combines these steps.
package struct TopologyExplorer {
  private let loaded: LoadedTopology
  private let section: ExploreSection
  private let settings: ExplorationSettings
  /// The time limit for one answer of a program, not counting the time in which the program waits
  /// for a processor.
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

  /// Searches until all states are visited or a limit is reached.
  /// - Parameters:
  ///   - isStopped: Returns whether to end the search now. If so, the report contains the findings
  ///     so far.
  ///   - progress: Called from time to time, with the counts so far.
  nonisolated(nonsending) package func explore(
    isStopped: () -> Bool = { false }, progress: (ExplorationProgress) -> Void = { _ in }
  ) async throws -> ExplorationReport {
    let start = ContinuousClock.now
    let programEvaluators = ProgramEvaluators(loaded, answerTimeout: answerTimeout)
    var escalation = CapacityEscalation(loaded.pipes, section)
    var (report, fullPipes) = try await search(
      escalation.capacities, programEvaluators, explorationOptions, isStopped: isStopped, progress)
    while let pipes = fullPipes, escalation.raise(pipes) {
      var options = explorationOptions
      options.stateLimit = CapacityEscalation.stateLimit(after: report.totals.stateCount)
      options.timeLimit = settings.timeLimit.map { max(.zero, $0 - (ContinuousClock.now - start)) }
      let (next, nextFullPipes) = try await search(
        escalation.capacities, programEvaluators, options, isStopped: isStopped, progress)
      fullPipes = nextFullPipes
      if fullPipes == nil {
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
  /// - Returns: The report, and the indices of the pipes that were full in some state and have more
  ///   capacity at run time. The indices are `nil` if the search was incomplete.
  private nonisolated(nonsending) func search(
    _ capacities: [Int], _ programEvaluators: ProgramEvaluators, _ options: ExplorationOptions,
    isStopped: () -> Bool, _ progress: (ExplorationProgress) -> Void
  ) async throws -> (report: ExplorationReport, fullPipes: Set<Int>?) {
    let start = ContinuousClock.now
    let visitsAllStates =
      settings.includesGraph || settings.includesCover || !settings.isReduced
    let stopsAtViolation = settings.stopsAtViolation
    func isStoppedNow(_ findings: Int) -> Bool { isStopped() || stopsAtViolation && findings > 0 }
    var (topology, watched) = try prepare(
      visitsAllStates: visitsAllStates, programEvaluators, capacities, usesSymmetries: true)
    var search = Exploration(topology.model, watched.questions, options: options)
    var result = try await Self.run(&search, topology, progress, shouldStop: isStoppedNow)
    if topology.hasBrokenSymmetry {
      (topology, watched) = try prepare(
        visitsAllStates: visitsAllStates, programEvaluators, capacities)
      search = Exploration(topology.model, watched.questions, options: options)
      result = try await Self.run(&search, topology, progress, shouldStop: isStoppedNow)
    }
    topology.checkFolds()
    let findings = ExplorationFindings(topology, watched, settings)
    var report = findings.report(result, of: search, after: ContinuousClock.now - start)
    if settings.includesCover { report.cover = findings.cover(of: &search) }
    guard result.verdict == .complete else { return (report, nil) }
    if settings.includesGraph { report.graph = topology.graph(of: search.model) }
    return (report, watched.fullPipes(in: result))
  }

  /// Searches until all states are visited or a limit is reached, and exports all evaluated steps
  /// as a Promela model.
  /// - Parameter progress: Called from time to time, with the counts so far.
  nonisolated(nonsending) package func promela(
    progress: (ExplorationProgress) -> Void = { _ in }
  ) async throws -> (text: String, report: ExplorationReport) {
    let start = ContinuousClock.now
    let (topology, watched) = try prepare(visitsAllStates: true)
    var search = Exploration(topology.model, watched.questions, options: explorationOptions)
    let result = try await Self.run(&search, topology, progress)
    let report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    search.model.fillQueues()
    return (topology.promela(of: search.model), report)
  }

  /// Searches until all states are visited or a limit is reached. Returns the visited states, so
  /// that the caller can walk through them.
  nonisolated(nonsending) package func explored() async throws -> ExploredTopology {
    let start = ContinuousClock.now
    let (topology, watched) = try prepare(visitsAllStates: true)
    var search = Exploration(topology.model, watched.questions, options: explorationOptions)
    let result = try await Self.run(&search, topology) { _ in }
    let report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    return ExploredTopology(topology, search, report)
  }

  /// Creates the model of the topology for a search.
  /// - Parameters:
  ///   - visitsAllStates: Whether to visit all states. If `false`, a reduced search may
  ///   omit states.
  ///   - usesSymmetries: Whether a reduced search visits only one state of each group of states
  ///     that differ by a renaming of keys.
  private func prepare(
    visitsAllStates: Bool, _ programEvaluators: ProgramEvaluators? = nil,
    _ capacities: [Int]? = nil, usesSymmetries: Bool = false
  ) throws -> (TopologyModel, WatchedStates) {
    // A property that names instances can hold in a state, but not in the same state with renamed
    // keys. So the search must not treat the two states as equal.
    let isSymmetric = !section.properties.contains { property in
      property.demand == .alwaysPossible
        && property.states.states.keys.contains { InstanceName($0) != nil }
    }
    let topology = TopologyModel(
      loaded, section, nodeLimit: settings.nodeStateLimit, capacities: capacities,
      usesSymmetries: usesSymmetries && isSymmetric && !visitsAllStates)
    try topology.build(programEvaluators ?? ProgramEvaluators(loaded, answerTimeout: answerTimeout))
    try topology.checkEffectsOfInstances()
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
      if topology.hasBrokenSymmetry || shouldStop(search.progress.findingCount) {
        return search.stop()
      }
      switch await search.advance() {
      case .progress(let totals):
        progress(
          ExplorationProgress(
            states: totals.stateCount, steps: totals.stepCount, depth: totals.depth,
            byteCount: totals.byteCount))
      case .demands(let demands):
        for demand in demands {
          if shouldStop(0) { return search.stop() }
          try topology.answerDemand(demand, in: &search.model)
        }
        if topology.nodeOverLimit != nil { return search.stop() }
      case .finished(let result): return result
      }
    }
  }

  private var explorationOptions: ExplorationOptions {
    var options = ExplorationOptions()
    options.timeLimit = settings.timeLimit
    options.memoryLimit = settings.memoryLimit
    options.threadCount = settings.threadCount
    options.usesReduction = true
    options.localStateLimit = max(options.localStateLimit, settings.nodeStateLimit)
    // Further deadlocks and stuck states are only counted. If only fingerprints are stored, the
    // limit is low, since it takes long to find a path to such a state.
    options.maximumKeptStateCount = settings.isHashed ? 64 : 10_000
    if settings.isHashed { options.storage = .fingerprints(seed: 0) }
    return options
  }
}

/// The questions of a search, which follow from `properties` and `end` in the `explore` section of
/// the topology file.
struct WatchedStates {
  var questions = ExplorationQuestions()
  /// The properties, by the number of the observation. A property may have several observations.
  private(set) var propertiesByObservation: [Int: ExploredProperty] = [:]
  /// The indices of pipes, by the observation that the pipe is full. Contains only pipes that have
  /// more capacity at run time.
  private(set) var pipesByBoundObservation: [Int: Int] = [:]
  /// The indices of pipes, by the observation that the pipe is full. Contains only pipes that are
  /// explored with their full capacity, and whose sender has instances that can be locked.
  private var pipesByLockObservation: [Int: Int] = [:]

  init(_ topology: TopologyModel, _ settings: ExplorationSettings) throws {
    let section = topology.section
    for property in section.properties
    where settings.properties.isEmpty || settings.properties.contains(property.name) {
      // Skips properties that the search cannot decide, because nothing is known about the steps of
      // a node listed under `any`.
      if property.demand == .alwaysPossible && !section.unevaluatedNodes.isEmpty
        || topology.isUnknown(property.states)
      {
        topology.eventValues.note(.undecided(property: property.name, because: .anyBehaviour))
        continue
      }
      for states in topology.keys.combinations(property.states) {
        let observation = try topology.watch(states)
        propertiesByObservation[observation] = property
        switch property.demand {
        case .never: questions.neverObservations.insert(observation)
        case .alwaysPossible: questions.alwaysPossibleObservations.insert(observation)
        }
      }
    }
    // If the search postponed a step forever, it might not find out that a pipe can be full.
    questions.takesEveryStep = !topology.pipes.isEmpty
    for (place, pipe) in topology.pipes.enumerated()
    where pipe.capacity < pipe.specification.capacity {
      pipesByBoundObservation[try topology.model.addObservation(ofFullQueue: pipe.component)] =
        place
    }
    for (place, pipe) in topology.pipes.enumerated()
    where pipe.capacity >= pipe.specification.capacity
      && topology.isParticipantWithKey(pipe.specification.sender)
    {
      pipesByLockObservation[try topology.model.addObservation(ofFullQueue: pipe.component)] = place
    }
    questions.boundObservations = Set(pipesByBoundObservation.keys).union(
      pipesByLockObservation.keys)
    guard settings.properties.isEmpty else {
      questions.findsDeadlocks = false
      return
    }
    questions.findsCoverage = true
    // A state is no deadlock if only the explored capacity of a pipe prevents further steps: at run
    // time, the pipe has more capacity, and the topology can take these steps.
    questions.endObservations = Set(pipesByBoundObservation.keys)
    for end in section.allowedEndStates where !topology.isUnknown(end) {
      for states in topology.keys.combinations(end) {
        questions.endObservations.insert(try topology.watch(states))
      }
    }
    // A state in which no instance exists is no deadlock: at run time, instances with other keys
    // can still be created.
    if !topology.keys.keysByNode.isEmpty {
      questions.endObservations.insert(try topology.watchAbsentInstances())
    }
    guard !topology.pipes.isEmpty else { return }
    // A state is stuck only if events wait in pipes.
    questions.findsStuckStates = true
    var empty: [Int: Set<Int>] = [:]
    for pipe in topology.pipes {
      if let state = topology.model.localState(of: pipe.component, holding: []) {
        empty[pipe.component] = [state]
      }
    }
    questions.restObservations.insert(try topology.model.addObservation(empty))
    questions.restObservations.formUnion(questions.endObservations)
  }

  /// Returns the indices of the pipes that were full in some state and have more capacity at run
  /// time.
  func fullPipes(in result: ExplorationResult) -> Set<Int> {
    Set(result.reachedBounds.compactMap { pipesByBoundObservation[$0] })
  }

  /// Returns the indices of the pipes that were full in some state, although a run may send more
  /// events into these pipes. In a run, an instance that is locked for a synchronized event sends
  /// its events even if other instances have filled the pipe since the lock.
  func fullPipesOfLockedInstances(in result: ExplorationResult) -> Set<Int> {
    Set(result.reachedBounds.compactMap { pipesByLockObservation[$0] })
  }
}

/// The explored capacities of pipes. The first search uses small capacities. Further searches use
/// larger capacities, as long as these may change the result.
///
/// A pipe that is never full behaves like a larger pipe. A pipe that is full in some state blocks
/// its sender in this state, and a larger pipe would not.
struct CapacityEscalation {
  /// The explored capacity of each pipe, in the order of the file. Unit: events.
  private(set) var capacities: [Int]
  private let pipes: [PipeSpecification]
  /// Whether the file declares the explored capacity. A declared capacity is not raised.
  private let isFixed: Bool

  /// The minimum state limit of a search with raised capacities.
  private static let minimumStateLimit = 200_000
  /// The factor by which the number of states may grow from one search to the next.
  private static let growthFactor = 4

  init(_ pipes: [PipeSpecification], _ section: ExploreSection) {
    self.pipes = pipes
    isFixed = section.capacity != nil
    capacities = pipes.map { ExploreSection.capacity(of: $0, in: section) }
  }

  /// Raises the capacities of the pipes that were full in a complete search.
  /// - Parameter fullPipes: The indices of these pipes.
  /// - Returns: Whether any capacity was raised, so that a further search may find more.
  mutating func raise(_ fullPipes: Set<Int>) -> Bool {
    guard !isFixed else { return false }
    let before = capacities
    for pipe in fullPipes { capacities[pipe] = min(2 * capacities[pipe], pipes[pipe].capacity) }
    return capacities != before
  }

  /// Returns the state limit of the next search, given the number of states in the last search.
  static func stateLimit(after states: Int) -> Int { max(minimumStateLimit, growthFactor * states) }
}

extension TopologyModel {
  /// - Throws: `TopologyErrors` if an effect of an instance emits a synchronized event. In a run,
  ///   such an effect ends the node.
  fileprivate func checkEffectsOfInstances() throws {
    var errors: [Diagnostic] = []
    for (node, outputs) in section.effectEvents.sorted(by: { $0.key < $1.key }) {
      guard let index = nodeIndices(of: node).first, nodes[index].key != nil else { continue }
      for (output, pattern) in outputs.sorted(by: { $0.key < $1.key }) {
        for event in pattern.events.map(\.event) {
          guard let composites = nodes[index].compositesByEvent[event] else { continue }
          let list = composites.map { "'\($0)'" }.joined(separator: " or ")
          errors.append(
            loaded.source.diagnostic(
              .synchronizedEvent,
              at: loaded.source.position(of: ["explore", "gives", node, output]),
              "'explore', 'gives': effect '\(output)' of node '\(node)' cannot send '\(event)', which "
                + "is a synchronized event of composite \(list): the node has a 'key'; remove the "
                + "event, and send it to the composite through a pipe"))
        }
      }
    }
    guard errors.isEmpty else { throw TopologyErrors(errors) }
  }
}
