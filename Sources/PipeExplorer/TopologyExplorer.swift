import PipeExploration
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// Searches all that a topology can do, before it is launched: its programs answer for single steps, and the
/// search puts them together.
package struct TopologyExplorer {
  private let loaded: LoadedTopology
  private let section: ExploreSection
  private let settings: ExplorationSettings
  /// How long a program may compute, or wait for something, over one answer.
  private let patience: Duration

  package init(
    _ loaded: LoadedTopology, _ section: ExploreSection?, _ settings: ExplorationSettings,
    patience: Duration = .seconds(10)
  ) {
    self.loaded = loaded
    self.section = section ?? ExploreSection()
    self.settings = settings
    self.patience = patience
  }

  /// Searches to the end, or to a limit.
  /// - Parameters:
  ///   - isStopped: Whether the search has to end, with what was found until then.
  ///   - progress: Told now and then.
  nonisolated(nonsending) package func explore(
    isStopped: () -> Bool = { false }, progress: (ExplorationProgress) -> Void = { _ in }
  ) async throws -> ExplorationReport {
    let start = ContinuousClock.now
    let (topology, watched) = try prepared(
      allStates: settings.drawsGraph || !settings.isReduced)
    var search = PipeExploration.Exploration(topology.model, watched.questions, options: options)
    let stopsAtViolation = settings.stopsAtViolation
    let result = try await Self.run(&search, topology, progress) { findings in
      isStopped() || stopsAtViolation && findings > 0
    }
    topology.checkFolds()
    var report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    if settings.drawsGraph, result.verdict == .complete {
      report.graph = topology.graph(of: search.model)
    }
    return report
  }

  /// Searches to the end, or to a limit, and writes all that the programs were asked for as a model in
  /// Promela.
  /// - Parameter progress: Told now and then.
  nonisolated(nonsending) package func promela(
    progress: (ExplorationProgress) -> Void = { _ in }
  ) async throws -> (text: String, report: ExplorationReport) {
    let start = ContinuousClock.now
    let (topology, watched) = try prepared(allStates: true)
    var search = PipeExploration.Exploration(topology.model, watched.questions, options: options)
    let result = try await Self.run(&search, topology, progress)
    let report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    search.model.fillQueues()
    return (topology.promela(of: search.model), report)
  }

  /// Searches to the end, or to a limit, and keeps what was met, to be walked through.
  nonisolated(nonsending) package func explored() async throws -> ExploredTopology {
    let start = ContinuousClock.now
    let (topology, watched) = try prepared(allStates: true)
    var search = PipeExploration.Exploration(topology.model, watched.questions, options: options)
    let result = try await Self.run(&search, topology) { _ in }
    let report = ExplorationFindings(topology, watched, settings).report(
      result, of: search, after: ContinuousClock.now - start)
    return ExploredTopology(topology, search, report)
  }

  /// - Parameter allStates: Whether all states are met, and not only a part of them that is enough.
  private func prepared(allStates: Bool) throws -> (TopologyModel, WatchedStates) {
    let topology = TopologyModel(loaded, section, nodeLimit: settings.nodeStateLimit)
    try topology.build(ProgramOracles(loaded, patience: patience))
    if !allStates { try topology.addUnsentEvents() }
    var watched = try WatchedStates(topology, settings)
    watched.questions.allStates = allStates
    return (topology, watched)
  }

  private nonisolated(nonsending) static func run(
    _ search: inout PipeExploration.Exploration, _ topology: TopologyModel,
    _ progress: (ExplorationProgress) -> Void,
    isOver: (_ findings: Int) -> Bool = { _ in false }
  ) async throws -> ExplorationResult {
    while true {
      if isOver(search.progress.findings) { return search.stop() }
      switch await search.advance() {
      case .progress(let reached):
        progress(
          ExplorationProgress(
            states: reached.states, steps: reached.steps, depth: reached.depth,
            byteCount: reached.byteCount))
      case .demands(let demands):
        for demand in demands {
          if isOver(0) { return search.stop() }
          try topology.fill(demand, in: &search.model)
        }
        if topology.overgrown != nil { return search.stop() }
      case .finished(let result): return result
      }
    }
  }

  private var options: ExplorationOptions {
    var options = ExplorationOptions()
    options.timeLimit = settings.time
    options.memoryLimit = settings.memory
    options.threads = settings.threads
    options.reduces = true
    options.localStateLimit = max(options.localStateLimit, settings.nodeStateLimit)
    // Of more, only the number is told; a path to a fingerprint is long work.
    options.keptStates = settings.isHashed ? 64 : 10_000
    if settings.isHashed { options.storage = .fingerprints(seed: 0) }
    return options
  }
}

/// What a search of a topology looks out for.
struct WatchedStates {
  var questions = ExplorationQuestions()
  /// The properties, by the numbers of their observations.
  private(set) var properties: [Int: ExploredProperty] = [:]

  init(_ topology: TopologyModel, _ settings: ExplorationSettings) throws {
    let section = topology.section
    for property in section.properties
    where settings.properties.isEmpty || settings.properties.contains(property.name) {
      let observation = try topology.watch(property.states)
      properties[observation] = property
      switch property.demand {
      case .never: questions.never.insert(observation)
      case .alwaysPossible: questions.alwaysPossible.insert(observation)
      }
    }
    // What pipes hold at most is known only where no step is left out for good.
    questions.everyStep = !topology.pipes.isEmpty
    guard settings.properties.isEmpty else {
      questions.deadlocks = false
      return
    }
    questions.coverage = true
    for end in section.end { questions.ends.insert(try topology.watch(end)) }
    guard !topology.pipes.isEmpty else { return }
    // Only events that wait can be stuck.
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
}
