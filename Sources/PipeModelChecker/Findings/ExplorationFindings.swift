import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// The findings of a search, in terms of the topology.
struct ExplorationFindings {
  private let topology: TopologyModel
  private let watched: WatchedStates
  private let settings: ExplorationSettings

  /// The maximum number of deadlocks, and of stuck states, in a report.
  private static let findingLimit = 8

  /// ``keptFindings``, or no limit if the file allows some of these findings, because others may come
  /// after the allowed ones.
  private var haltLimit: Int { allowsHalts ? .max : Self.findingLimit }
  private var allowsHalts: Bool {
    topology.section.allow.contains { [.deadlock, .stuck, .fullPipes].contains($0.finding) }
  }

  init(_ topology: TopologyModel, _ watched: WatchedStates, _ settings: ExplorationSettings) {
    self.topology = topology
    self.watched = watched
    self.settings = settings
  }

  func report(
    _ result: ExplorationResult, of search: borrowing Exploration,
    after duration: Duration
  ) -> ExplorationReport {
    var findings: [ExplorationFinding] = []
    var unshown: [ExplorationRemark] = []
    if settings.properties.isEmpty, !hasUnknownSteps {
      // A node under `any` may always take another step.
      if topology.section.any.isEmpty {
        for (found, isStuck) in [(result.deadlocks, false), (result.stuck, true)] {
          let halts = halts(found, isStuck: isStuck, search)
          findings += halts.shown
          if let remark = halts.unshown { unshown.append(remark) }
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
        if case .deadLetter(let pipe, _, _, _, _) = discovery.kind {
          scenario?.removeRefused(discovery.action?.event, from: pipe)
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
      findings[index].scenario?.shows = shown
    }
    return ExplorationReport(
      verdict: verdict(result, unshown), findings: findings,
      totals: ExplorationProgress(
        states: result.states, steps: result.steps, depth: result.depth,
        byteCount: result.peakByteCount),
      duration: duration, isReduced: result.isReduced)
  }

  /// Whether the targets of some steps are unknown. Then deadlocks and missing events may be false
  /// findings.
  private var hasUnknownSteps: Bool {
    topology.values.remarks.contains { remark in
      switch remark {
      case .limit(.noAnswer), .limit(.notEvaluated): true
      default: false
      }
    }
      || topology.discoveries.all.contains { discovery in
        if case .crash = discovery.kind { true } else { false }
      }
  }

  // MARK: Verdict

  private func verdict(
    _ result: ExplorationResult, _ unshown: [ExplorationRemark]
  ) -> ExplorationVerdict {
    var remarks = topology.values.remarks.union(topology.foldRemarks).union(unshown)
    if let node = topology.nodeOverLimit {
      remarks.insert(
        .limit(
          .nodeStates(
            node: node.name, limit: settings.nodeStateLimit, field: node.fieldWithMostValues,
            fold: node.foldableField)))
    } else if case .incomplete(let limit) = result.verdict {
      remarks.insert(.limit(self.limit(limit, result)))
    }
    if let probability = result.omissionProbability {
      remarks.insert(.fingerprints(probability: probability))
    }
    for found in [result.deadlocks, result.stuck]
    where allowsHalts && found.count > found.first.count {
      remarks.insert(.uncheckedHalts(found.count - found.first.count))
    }
    for place in watched.fullPipes(in: result) {
      let pipe = topology.pipes[place]
      remarks.insert(
        .lowerCapacity(
          pipe: pipe.name, explored: pipe.capacity, declared: pipe.specification.capacity))
    }
    for (observation, possibility) in result.possibilities {
      guard let property = watched.properties[observation] else { continue }
      switch possibility {
      // The remark on the limit already explains why an unfinished search does not decide the property.
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
    case .states: return .states(result.states)
    case .time: return .time(settings.time ?? .zero)
    case .memory:
      return .memory(settings.memory, hashingSavesMemory: result.fingerprintsSaveMemory)
    case .stopped where endsAtFirstViolation(result): return .firstViolation
    case .cancelled, .stopped: return .cancelled
    case .localStates(let component):
      guard let pipe = topology.pipes.first(where: { $0.component == component }) else {
        let node = topology.nodes.first { $0.component == component }
        return .nodeStates(
          node: node?.name ?? "", limit: settings.nodeStateLimit, field: node?.fieldWithMostValues,
          fold: node?.foldableField)
      }
      return .pipeContents(pipe: pipe.name, limit: ExplorationOptions().localStateLimit)
    }
  }

  private func endsAtFirstViolation(_ result: ExplorationResult) -> Bool {
    settings.stopsAtViolation && !result.violations.isEmpty
  }

  // MARK: States without a step

  /// Returns the nearest state of each group of states without a step, with a remark on states that
  /// are not shown.
  private func halts(
    _ found: FoundStates, isStuck: Bool, _ search: borrowing Exploration
  ) -> (shown: [ExplorationFinding], unshown: ExplorationRemark?) {
    var shown: [ExplorationFinding] = []
    var groups: [FindingGroup: Int] = [:]
    var count = 0
    for state in found.first {
      // Finding a path to the state takes long.
      var last = search.state(state) ?? []
      if last.isEmpty { last = search.path(to: state).states.last ?? [] }
      let kind = kind(ofHalt: last, isStuck: isStuck, search.model)
      let group = FindingGroup(
        kind.kind, states: topology.nodes.map { $0.state(last[$0.component]) })
      if let number = groups[group] {
        shown[number].similarCount += 1
      } else if shown.count < haltLimit {
        groups[group] = shown.count
        shown.append(
          ExplorationFinding(
            kind.kind, at: kind.place,
            scenario: scenario(search.path(to: state), search.model)))
      } else {
        continue
      }
      count += 1
    }
    guard !allowsHalts, let code = shown.first?.code, count < found.count else {
      return (shown, nil)
    }
    return (shown, .unshown(code, count: found.count - count))
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
      place = waiting.first.map { ["pipes", String($0.place)] } ?? []
    } else {
      kind = .deadlock
    }
    return (kind, place)
  }

  /// Returns a cycle of nodes in which each node waits for capacity in a pipe to the next node.
  private func cycleOfFullPipes(_ state: [Int], _ model: ExplorationModel) -> [String]? {
    var next: [String: [String]] = [:]
    for pipe in topology.pipes {
      let count = model.contents(of: pipe.component, in: state[pipe.component])?.count ?? 0
      guard count >= pipe.capacity else { continue }
      next[pipe.specification.sender, default: []].append(pipe.specification.receiver)
    }
    for start in next.keys.sorted() {
      var open = [[start]]
      var visited: Set = [start]
      while let path = open.popLast() {
        for name in next[path[path.count - 1]] ?? [] {
          if name == start { return path }
          if visited.insert(name).inserted { open.append(path + [name]) }
        }
      }
    }
    return nil
  }

  // MARK: Properties

  private func violations(
    _ result: ExplorationResult, _ search: borrowing Exploration
  ) -> [ExplorationFinding] {
    var findings: [ExplorationFinding] = []
    for (observation, property) in watched.properties.sorted(by: { $0.key < $1.key }) {
      var state = result.violations[observation]
      if case .lost(let lost) = result.possibilities[observation] { state = lost }
      guard let state else { continue }
      findings.append(
        ExplorationFinding(
          .violated(property: property.name, property.demand),
          at: ["explore", "properties", property.name],
          scenario: scenario(search.path(to: state), search.model)))
    }
    return findings
  }

  // MARK: Coverage

  private func neverEnabled(_ result: ExplorationResult) -> [ExplorationFinding] {
    guard let never = result.neverEnabled.map(Set.init) else { return [] }
    var taken: Set<[String]> = []
    for (number, vector) in topology.vectors.enumerated() where !never.contains(number) {
      let action = vector.action
      guard let event = action.event.caseName else { continue }
      for (mover, ending) in zip(action.movers, vector.endings) where ending != .refused {
        taken.insert([topology.nodes[mover.node].name, event])
      }
    }
    var findings: [ExplorationFinding] = []
    for node in topology.nodes {
      for event in node.opening?.events.keys.sorted() ?? []
      where !taken.contains([node.name, event]) && topology.acceptsInSomeState(node, event) {
        findings.append(
          ExplorationFinding(
            .neverEnabled(owner: node.name, event: event), at: ["nodes", node.name]))
      }
    }
    return findings
  }

  private func unreachable(_ result: ExplorationResult) -> [ExplorationFinding] {
    guard let unreached = result.unreachable else { return [] }
    return topology.nodes.flatMap { node -> [ExplorationFinding] in
      guard case .machine = node.kind, let states = node.description?.states else { return [] }
      let left = Set(unreached[node.component])
      let visited = Set(
        node.configurations.indices.filter { !left.contains($0) }
          .compactMap { node.state($0).caseName })
      return states.filter { !visited.contains($0.name) }.map {
        ExplorationFinding(
          .unreachable(node: node.name, state: $0.name), at: ["nodes", node.name])
      }
    }
  }

  // MARK: Scenarios

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
      // The state of a node under `any` is unknown.
      if case .any = node.kind { continue }
      scenario.end[node.name] = node.state(last[node.component])
    }
    for pipe in topology.pipes {
      let contents = model.contents(of: pipe.component, in: last[pipe.component]) ?? []
      scenario.pipes[pipe.name] = contents.map { pipe.events[$0] }
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
      return ScenarioStep(takes(vector.action), .refused(node: node.name, reason: reason))
    }
    return ScenarioStep(takes(vector.action), .states(changedStates))
  }

  private func takes(_ action: ExploredAction) -> ScenarioStep.Action {
    if case .anything = action.origin, let put = action.put {
      return .sends(node: action.owner, event: action.event, into: topology.pipes[put.pipe].name)
    }
    if let effect = action.endingEffect { return .ends(node: action.owner, effect: effect) }
    return .takes(owner: action.owner, event: action.event, from: topology.origin(of: action))
  }

  /// Returns the step after the state in which something was found.
  private func lastStep(_ discovery: Discovery) -> ScenarioStep? {
    guard let action = discovery.action else { return nil }
    let outcome: ScenarioStep.Outcome
    switch discovery.kind {
    case .crash: outcome = .processEnds
    default:
      guard let refusal = discovery.refusal else { return nil }
      outcome = .refused(node: refusal.node, reason: refusal.reason)
    }
    return ScenarioStep(takes(action), outcome)
  }
}

extension Discovery {
  /// Whether the discovery makes answers of a program doubtful, so that it is reported even by a
  /// search for properties only.
  fileprivate var concernsPrograms: Bool {
    switch kind {
    case .crash, .impure, .brokenFold, .badAnswer, .lateAnswer: true
    case .deadlock, .stuck, .fullPipes, .deadLetter, .fatalRefusal, .neverEnabled, .unreachable,
      .violated:
      false
    }
  }
}

extension ExplorationSettings {
  /// Whether a violation ends the search.
  var stopsAtViolation: Bool { !properties.isEmpty && !continuesAfterViolation }
}

extension Scenario {
  /// Removes an event that became a dead letter from its pipe.
  fileprivate mutating func removeRefused(_ event: JSONValue?, from pipe: String) {
    guard let event, let place = pipes[pipe]?.firstIndex(of: event) else { return }
    pipes[pipe]?.remove(at: place)
  }
}
