import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// Translates the result of a search into a report about the topology.
struct ExplorationFindings {
  private let topology: TopologyModel
  private let watchedStates: WatchedStates
  private let settings: ExplorationSettings

  /// The maximum number of deadlocks, and of stuck states, in a report.
  private static let findingLimit = 8

  /// The maximum number of deadlock findings to collect, and of stuck-state findings. There is no
  /// limit if the topology file allows some findings of these kinds, since the first findings may
  /// all be allowed.
  private var haltLimit: Int { allowsHalts ? .max : Self.findingLimit }
  private var allowsHalts: Bool {
    topology.section.allow.contains { [.deadlock, .stuck, .fullPipes].contains($0.kind) }
  }

  init(_ topology: TopologyModel, _ watched: WatchedStates, _ settings: ExplorationSettings) {
    self.topology = topology
    self.watchedStates = watched
    self.settings = settings
  }

  func report(
    _ result: ExplorationResult, of search: borrowing Exploration,
    after duration: Duration
  ) -> ExplorationReport {
    var findings: [ExplorationFinding] = []
    var unshownRemarks: [ExplorationRemark] = []
    if settings.properties.isEmpty, !hasUnknownSteps {
      // A node listed under `any` may always take another step, so no deadlock is certain.
      if topology.section.unevaluatedNodes.isEmpty {
        for (found, isStuck) in [(result.deadlocks, false), (result.stuckStates, true)] {
          let halts = halts(found, isStuck: isStuck, search)
          findings += halts.shown
          if let remark = halts.unshown { unshownRemarks.append(remark) }
        }
      }
      findings += neverEnabled(result) + unreachable(result)
    }
    for (discovery, similarCount) in zip(
      topology.discoveries.all, topology.discoveries.similarCounts)
    where settings.properties.isEmpty || discovery.concernsPrograms {
      var scenario: Scenario?
      if let state = discovery.state {
        scenario = self.scenario(search.path(to: state), search.model)
        if let last = lastStep(discovery) { scenario?.steps.append(last) }
        switch discovery.kind {
        case .deadLetter(let pipe, _, _, _, _), .ignoredEvent(let pipe, _, _, _, _):
          scenario?.removeRefused(discovery.action?.event, from: pipe)
        default: break
        }
      }
      var finding = ExplorationFinding(discovery.kind, at: discovery.path, scenario: scenario)
      finding.similarCount = similarCount
      findings.append(finding)
    }
    findings += violations(result, search)
    for index in findings.indices {
      var shown = findings[index].code.rawValue
      if case .violated(let property, _) = findings[index].kind { shown = property }
      findings[index].scenario?.demonstratedFinding = shown
    }
    return ExplorationReport(
      verdict: verdict(result, unshownRemarks), findings: findings,
      totals: ExplorationProgress(
        states: result.stateCount, steps: result.stepCount, depth: result.depth,
        byteCount: result.peakByteCount),
      duration: duration, isReduced: result.isReduced)
  }

  /// Whether the outcome of some steps is unknown. If so, deadlocks, never enabled events and
  /// unreachable states may be false findings.
  private var hasUnknownSteps: Bool {
    topology.eventValues.remarks.contains { remark in
      switch remark {
      case .limit(.noAnswer), .limit(.notEvaluated), .limit(.unexploredKey): true
      default: false
      }
    }
      || topology.discoveries.all.contains { discovery in
        if case .crash = discovery.kind { true } else { false }
      }
  }

  // MARK: Verdict of the search

  private func verdict(
    _ result: ExplorationResult, _ unshown: [ExplorationRemark]
  ) -> ExplorationVerdict {
    var remarks = topology.eventValues.remarks.union(topology.foldRemarks).union(unshown)
    if let node = topology.nodeOverLimit {
      remarks.insert(
        .limit(
          .nodeStates(
            node: node.baseName, limit: settings.nodeStateLimit, field: node.fieldWithMostValues,
            fold: node.foldableField)))
    } else if case .incomplete(let limit) = result.verdict {
      remarks.insert(.limit(self.limit(limit, result)))
    }
    if let probability = result.omissionProbability {
      remarks.insert(.fingerprints(probability: probability))
    }
    for found in [result.deadlocks, result.stuckStates]
    where allowsHalts && found.count > found.firstStates.count {
      remarks.insert(.uncheckedHalts(found.count - found.firstStates.count))
    }
    for place in watchedStates.fullPipes(in: result) {
      let pipe = topology.pipes[place]
      remarks.insert(
        .lowerCapacity(
          pipe: pipe.name, explored: pipe.capacity, declared: pipe.specification.capacity))
    }
    for place in watchedStates.fullPipesOfLockedInstances(in: result) {
      remarks.insert(.fullWhileLocked(pipe: topology.pipes[place].name))
    }
    for (observation, possibility) in result.possibilities {
      guard let property = watchedStates.propertiesByObservation[observation] else { continue }
      switch possibility {
      // If the search ended at a limit, the remark on the limit already explains why the property
      // is undecided.
      case .undecided where result.verdict != .complete: break
      case .undecided: remarks.insert(.undecided(property: property.name, because: .memory))
      case .lostWithinBounds:
        remarks.insert(.undecided(property: property.name, because: .capacity))
      case .always, .lost: break
      }
    }
    return ExplorationVerdict(remarks.sorted { "\($0)" < "\($1)" })
  }

  private func limit(
    _ limit: ExplorationLimit, _ result: ExplorationResult
  ) -> ExplorationRemark.Limit {
    switch limit {
    case .states: return .states(result.stateCount)
    case .time: return .time(settings.timeLimit ?? .zero)
    case .memory:
      return .memory(settings.memoryLimit, hashingSavesMemory: result.fingerprintsSaveMemory)
    case .stopped where endsAtFirstViolation(result): return .firstViolation
    case .cancelled, .stopped: return .cancelled
    case .localStates(let component):
      guard let pipe = topology.pipes.first(where: { $0.component == component }) else {
        let node = topology.nodes.first { $0.component == component }
        return .nodeStates(
          node: node?.baseName ?? "", limit: settings.nodeStateLimit,
          field: node?.fieldWithMostValues,
          fold: node?.foldableField)
      }
      return .pipeContents(pipe: pipe.name, limit: ExplorationOptions().localStateLimit)
    }
  }

  private func endsAtFirstViolation(_ result: ExplorationResult) -> Bool {
    settings.stopsAtViolation && !result.violations.isEmpty
  }

  // MARK: Findings about states without a step

  /// Returns findings for deadlocks or for stuck states: the nearest state of each group of similar
  /// states. Also returns a remark on the states that are not shown.
  /// - Parameter isStuck: Whether `found` contains stuck states. Otherwise, it contains deadlocks.
  private func halts(
    _ found: FoundStates, isStuck: Bool, _ search: borrowing Exploration
  ) -> (shown: [ExplorationFinding], unshown: ExplorationRemark?) {
    var shownFindings: [ExplorationFinding] = []
    var groups: [FindingGroup: Int] = [:]
    var count = 0
    for state in found.firstStates {
      // Reads the stored state if possible: finding a path to the state takes long.
      var last = search.state(state) ?? []
      if last.isEmpty { last = search.path(to: state).states.last ?? [] }
      let kind = kind(ofHalt: last, isStuck: isStuck, search.model)
      let group = FindingGroup(
        kind.kind, states: topology.nodes.map { $0.state(last[$0.component]) })
      if let number = groups[group] {
        shownFindings[number].similarCount += 1
      } else if shownFindings.count < haltLimit {
        groups[group] = shownFindings.count
        shownFindings.append(
          ExplorationFinding(
            kind.kind, at: kind.place,
            scenario: scenario(search.path(to: state), search.model)))
      } else {
        continue
      }
      count += 1
    }
    guard !allowsHalts, let code = shownFindings.first?.code, count < found.count else {
      return (shownFindings, nil)
    }
    return (shownFindings, .unshown(code, count: found.count - count))
  }

  private func kind(
    ofHalt last: [Int], isStuck: Bool, _ model: ExplorationModel
  ) -> (kind: ExplorationFinding.Kind, place: [String]) {
    let waiting = topology.pipes.filter {
      model.contents(of: $0.component, in: last[$0.component])?.isEmpty == false
    }
    let kind: ExplorationFinding.Kind
    var place: [String] = []
    if let fullPipeCycle = cycleOfFullPipes(last, model) {
      kind = .fullPipes(fullPipeCycle)
      place = fullPipeCycle.first.map { ["nodes", $0] } ?? []
    } else if isStuck {
      kind = .stuck(pipes: waiting.map(\.name))
      place = waiting.first.map { ["pipes", String($0.index)] } ?? []
    } else {
      kind = .deadlock
    }
    return (kind, place)
  }

  /// Returns a cycle of nodes in which each node waits for capacity in a pipe to the next node.
  private func cycleOfFullPipes(_ state: [Int], _ model: ExplorationModel) -> [String]? {
    var successors: [String: [String]] = [:]
    for pipe in topology.pipes {
      let count = model.contents(of: pipe.component, in: state[pipe.component])?.count ?? 0
      guard count >= pipe.capacity else { continue }
      successors[pipe.specification.sender, default: []].append(pipe.specification.receiver)
    }
    for start in successors.keys.sorted() {
      var open = [[start]]
      var visited: Set = [start]
      while let path = open.popLast() {
        for name in successors[path[path.count - 1]] ?? [] {
          if name == start { return path }
          if visited.insert(name).inserted { open.append(path + [name]) }
        }
      }
    }
    return nil
  }

  // MARK: Findings about properties

  private func violations(
    _ result: ExplorationResult, _ search: borrowing Exploration
  ) -> [ExplorationFinding] {
    // A property about instances has an observation for each choice of keys.
    var foundViolations: [(property: ExploredProperty, state: StateReference)] = []
    for (observation, property) in watchedStates.propertiesByObservation.sorted(by: {
      $0.key < $1.key
    }) {
      var state = result.violations[observation]
      if case .lost(let lost) = result.possibilities[observation] { state = lost }
      guard let state else { continue }
      if let known = foundViolations.firstIndex(where: { $0.property == property }) {
        if state.depth < foundViolations[known].state.depth { foundViolations[known].state = state }
      } else {
        foundViolations.append((property, state))
      }
    }
    return foundViolations.map { property, state in
      ExplorationFinding(
        .violated(property: property.name, property.demand),
        at: ["explore", "properties", property.name],
        scenario: scenario(search.path(to: state), search.model))
    }
  }

  // MARK: Findings about coverage

  private func neverEnabled(_ result: ExplorationResult) -> [ExplorationFinding] {
    guard let never = result.neverEnabledVectors.map(Set.init) else { return [] }
    var taken: Set<[String]> = []
    for (number, vector) in topology.vectors.enumerated() where !never.contains(number) {
      let action = vector.action
      guard let event = action.event.caseName else { continue }
      for (mover, ending) in zip(action.movers, vector.endings)
      where ending != .refused && ending != .ignored {
        taken.insert([topology.nodes[mover.node].baseName, event])
      }
    }
    var findings: [ExplorationFinding] = []
    for node in topology.nodes {
      for event in node.opening?.events.keys.sorted() ?? []
      where !taken.contains([node.baseName, event]) && topology.acceptsInSomeState(node, event) {
        // Reports an event once for all instances.
        taken.insert([node.baseName, event])
        findings.append(
          ExplorationFinding(
            .neverEnabled(owner: node.baseName, event: event), at: ["nodes", node.baseName]))
      }
    }
    return findings
  }

  private func unreachable(_ result: ExplorationResult) -> [ExplorationFinding] {
    guard let unreached = result.unreachableStates else { return [] }
    // The states of all instances of a node count as states of the node.
    var visitedStates: [String: Set<String>] = [:]
    for node in topology.nodes {
      let left = Set(unreached[node.component])
      let visited = node.configurations.indices.filter { !left.contains($0) }
      visitedStates[node.baseName, default: []].formUnion(
        visited.compactMap { node.state($0).caseName })
      // Every instance begins in its initial state. Counts this state as visited, since the search
      // may know the instance only after its first step.
      if node.key != nil, visited.contains(where: node.isCreated),
        let initial = node.opening?.configuration.state.caseName
      {
        visitedStates[node.baseName, default: []].insert(initial)
      }
    }
    var reported: Set<String> = []
    return topology.nodes.flatMap { node -> [ExplorationFinding] in
      guard case .machine = node.kind, let states = node.description?.states,
        reported.insert(node.baseName).inserted
      else { return [] }
      let visited = visitedStates[node.baseName] ?? []
      return states.filter { !visited.contains($0.name) }.map {
        ExplorationFinding(
          .unreachable(node: node.baseName, state: $0.name), at: ["nodes", node.baseName])
      }
    }
  }

  // MARK: Scenarios

  /// Returns scenarios that cover all transitions between the visited states; `nil` if the graph of
  /// all steps does not fit into memory.
  func cover(of search: inout Exploration) -> ScenarioCover? {
    var coverage = CoverageSearch(topology)
    let paths = search.coveringPaths(length: CoverageSearch.scenarioLength) {
      coverage.itemNumbers(ofVector: $0, in: $1)
    }
    guard let paths else { return nil }
    return ScenarioCover(
      items: coverage.items, scenarios: paths.map { scenario($0, search.model) })
  }

  private func scenario(_ path: ExplorationPath, _ model: ExplorationModel) -> Scenario {
    var steps: [ScenarioStep] = []
    for (number, vector) in path.vectors.enumerated() {
      steps.append(
        step(topology.vectors[vector], from: path.states[number], to: path.states[number + 1]))
    }
    let last = path.states[path.states.count - 1]
    var scenario = Scenario(
      name: topology.loaded.topology.name, topology: topology.loaded.topology.name, steps: steps)
    for node in topology.nodes {
      // The state of a node listed under `any` is unknown.
      if case .unevaluated = node.kind { continue }
      // An instance that is not created has no state.
      guard node.isCreated(last[node.component]) else { continue }
      scenario.expectedStates[node.name] = node.state(last[node.component])
    }
    for pipe in topology.pipes {
      let contents = model.contents(of: pipe.component, in: last[pipe.component]) ?? []
      scenario.expectedPipeContents[pipe.name] = contents.map { pipe.events[$0] }
    }
    return scenario
  }

  private func step(
    _ vector: TopologyModel.Vector, from: [Int], to: [Int]
  ) -> ScenarioStep {
    var changedStates: [String: JSONValue] = [:]
    for mover in vector.action.movers {
      let node = topology.nodes[mover.node]
      let state = node.state(to[node.component])
      if state != node.state(from[node.component]) { changedStates[node.name] = state }
    }
    for (place, mover) in vector.action.movers.enumerated()
    where vector.endings[place] == .refused {
      let node = topology.nodes[mover.node]
      var reason: String?
      if case .refused(let because, _) = vector.action.outcomes[place][from[node.component]] {
        reason = because
      }
      return ScenarioStep(scenarioAction(vector.action), .refused(node: node.name, reason: reason))
    }
    return ScenarioStep(scenarioAction(vector.action, in: from), .states(changedStates))
  }

  /// Converts an action to the form in which scenarios list it: a node or a composite accepts an
  /// event, a node sends an event, a timer fires, or an effect ends.
  /// - Parameter state: The state before the step, if it is known.
  private func scenarioAction(_ action: ExploredAction, in state: [Int]? = nil)
    -> ScenarioStep.Action
  {
    if case .timer(let place) = action.origin {
      let node = topology.nodes[place]
      let delay = state.flatMap { node.timerDurations[$0[node.component]] }
      return .fires(node: node.name, after: delay)
    }
    if case .unevaluated = action.origin, let put = action.putEvent {
      return .sends(
        node: action.owner, event: action.event, into: topology.pipes[put.pipeIndex].name)
    }
    if let effect = action.endingEffect { return .ends(node: action.owner, effect: effect) }
    return .takes(owner: action.owner, event: action.event, from: topology.origin(of: action))
  }

  /// Returns the step that caused the finding. Returns `nil` if the finding is neither a crash nor
  /// a refusal.
  private func lastStep(_ discovery: Discovery) -> ScenarioStep? {
    guard let action = discovery.action else { return nil }
    let outcome: ScenarioStep.Outcome
    switch discovery.kind {
    case .crash: outcome = .processEnds
    default:
      guard let refusal = discovery.refusal else { return nil }
      outcome = .refused(node: refusal.node, reason: refusal.reason)
    }
    return ScenarioStep(scenarioAction(action), outcome)
  }
}

extension Discovery {
  /// Whether the finding concerns a program's answers. Such a finding makes all results doubtful,
  /// so it is reported even if the search checks only properties.
  fileprivate var concernsPrograms: Bool {
    switch kind {
    case .crash, .impure, .brokenFold, .badAnswer, .lateAnswer: true
    case .deadlock, .stuck, .fullPipes, .deadLetter, .fatalRefusal, .ignoredEvent, .neverEnabled,
      .unreachable, .violated:
      false
    }
  }
}

extension ExplorationSettings {
  /// Whether a violation ends the search.
  var stopsAtViolation: Bool { !properties.isEmpty && !continuesAfterViolation }
}

extension Scenario {
  /// Removes a refused event from the expected contents of its pipe: the event was dropped, or has
  /// become a dead letter.
  fileprivate mutating func removeRefused(_ event: JSONValue?, from pipe: String) {
    guard let event, let place = expectedPipeContents[pipe]?.firstIndex(of: event) else { return }
    expectedPipeContents[pipe]?.remove(at: place)
  }
}
