import PipeMachines
import PipeSupervision
import PipeSupport
import PipeTopology
import PipeWire

/// Replays the steps of a scenario, one after the other.
///
/// The nodes' programs evaluate each step; no node process runs. The replay does not depend on the
/// search: it keeps track of nodes and pipes itself.
package struct ScenarioReplay {
  /// The reason why a scenario fails.
  package struct Failure: Error, Hashable, CustomStringConvertible {
    /// The location in the scenario file, as a path for `SourceMap`.
    package let path: [String]
    package let description: String
  }

  private let loaded: LoadedTopology
  private let section: ExploreSection
  private let model: TopologyModel
  private var configurations: [String: EvaluatorConfiguration] = [:]
  private var queues: [String: [JSONValue]] = [:]

  /// Opens the nodes in their initial states.
  package init(_ loaded: LoadedTopology, answerTimeout: Duration = .seconds(10)) throws {
    self.loaded = loaded
    section = loaded.topology.explore ?? ExploreSection()
    model = TopologyModel(loaded, section, nodeLimit: .max)
    try model.build(ProgramEvaluators(loaded, answerTimeout: answerTimeout))
    for discovery in model.discoveries.all {
      throw Failure(
        path: [], description: ExplorationFinding(discovery.kind, at: []).message)
    }
    for node in model.nodes {
      configurations[node.name] = node.opening?.configuration
      send(node.opening?.sends ?? [])
    }
    for composite in model.composites {
      send(
        try composite.sends(
          from: nil, to: states(of: composite), movers: composite.nodes.map { model.nodes[$0].name }
        ))
    }
  }

  /// The current state of each node.
  package var states: [String: JSONValue] { configurations.mapValues(\.state) }

  /// Replays all steps, and compares the outcomes with the expected ones.
  /// - Throws: ``Failure`` at the first step with another outcome.
  package mutating func run(_ scenario: Scenario) throws(Failure) {
    for (index, step) in scenario.steps.enumerated() {
      try take(step, at: ["steps", String(index)])
    }
    try compare(scenario.end, at: ["end"])
    for (name, events) in scenario.pipes.sorted(by: { $0.key < $1.key }) {
      let path = ["pipes", name]
      guard model.pipe(named: name) != nil else { throw unknownPipe(name, at: path) }
      let queued = queues[name] ?? []
      guard queued.map(Self.canonical) != events.map(Self.canonical) else { continue }
      throw Failure(
        path: path,
        description: "pipe '\(name)' contains \(Self.text(queued)) at the end, expected "
          + "\(Self.text(events))")
    }
  }

  // MARK: Steps

  /// A node that takes part in a step.
  private struct Mover {
    let node: String
    let input: EvaluatorInput
    /// The reason why the node refuses the event in every state.
    var problem: String?
  }

  private mutating func take(_ step: ScenarioStep, at path: [String]) throws(Failure) {
    let (owner, event, origin): (String, JSONValue, ScenarioStep.Origin)
    switch step.action {
    case .sends(let node, let event, let pipe):
      return try replaySend(event, of: node, into: pipe, at: path)
    case .takes(let recipient, let taken, let from):
      (owner, event, origin) = (recipient, taken, from)
    case .ends(let node, let effect): return try end(effect, of: node, step.outcome, at: path)
    case .crash:
      throw Failure(
        path: path,
        description:
          "step 'crash' kills a process, and a replay in one process runs no nodes; remove the step"
      )
    }
    let movers = try movers(of: owner, event, origin, at: path)
    try checkCapacity(for: movers, at: path)
    let taken = try position(of: event, origin, movers, at: path)
    var moved: [(node: String, EvaluatorConfiguration, [EvaluatorSend])] = []
    var refusals: [(node: String, reason: String, EvaluatorConfiguration)] = []
    for mover in movers {
      switch try answer(mover, at: path, step.outcome) {
      case .accepted(let next, let sends): moved.append((mover.node, next, sends))
      case .refused(let refusal, let next): refusals.append((mover.node, refusal.code, next))
      case .undecodable:
        refusals.append(
          (mover.node, "undecodable", configurations[mover.node] ?? .init(state: .null)))
      case .undecided(let reason), .invalid(let reason):
        throw Failure(
          path: path, description: "node '\(mover.node)' cannot evaluate the step: \(reason)")
      case .opened, .projected, nil: return
      }
    }
    if case .refused(let node, let reason) = step.outcome {
      if let taken, isRemoved(afterRefusalIn: taken.pipe) {
        queues[taken.pipe]?.remove(at: taken.position)
      }
      return try checkRefusal(refusals, by: node, reason, owner, event, at: path)
    }
    if let first = refusals.first {
      throw Failure(
        path: path,
        description: "'\(first.node)' refuses event '\(event.caseText)' in state "
          + "'\(state(of: first.node).caseText)' (\(first.reason)), but should accept it")
    }
    if let taken { queues[taken.pipe]?.remove(at: taken.position) }
    let movingComposites = model.composites.filter { $0.moves(with: moved.map(\.node), in: model) }
    let before = movingComposites.map(states(of:))
    for (node, next, sends) in moved {
      configurations[node] = next
      send(sends)
    }
    for (composite, before) in zip(movingComposites, before) {
      do {
        send(
          try composite.sends(
            from: before, to: states(of: composite), movers: moved.map(\.node)))
      } catch {
        throw Failure(
          path: path,
          description:
            "cannot compute the state of composite '\(composite.name)' after the step: \(error)")
      }
    }
    if case .processEnds = step.outcome {
      throw Failure(
        path: path,
        description:
          "'\(owner)' accepts event '\(event.caseText)', but the step should end the process")
    }
    if case .states(let states) = step.outcome { try compare(states, at: path + ["expect"]) }
  }

  /// Returns the current states of a composite's nodes.
  private func states(of composite: ExploredComposite) -> [JSONValue] {
    composite.nodes.map { state(of: model.nodes[$0].name) }
  }

  private mutating func send(_ sends: [EvaluatorSend]) {
    for send in sends { queues[send.pipe, default: []].append(send.event) }
  }

  /// Returns whether a refused event leaves its pipe as a dead letter.
  ///
  /// Otherwise the event waits in the pipe for another state, or for the node's next process.
  private func isRemoved(afterRefusalIn pipe: String) -> Bool {
    model.pipe(named: pipe).map {
      [.record, .ignore].contains(model.pipes[$0].specification.onRefused)
    } ?? true
  }

  /// Sends an event from a node under `any`.
  private mutating func replaySend(
    _ event: JSONValue, of node: String, into pipe: String, at path: [String]
  ) throws(Failure) {
    guard let number = model.node(named: node) else { throw unknownNode(node, at: path + ["at"]) }
    guard case .any = model.nodes[number].kind else {
      throw Failure(
        path: path + ["sends"],
        description:
          "node '\(node)' sends events by its own steps; 'sends' requires a node listed under 'any'"
      )
    }
    guard let number = model.pipe(named: pipe), model.pipes[number].specification.sender == node
    else { throw unknownPipe(pipe, at: path + ["into"]) }
    try checkCapacity(in: model.pipes[number], for: node, at: path)
    queues[pipe, default: []].append(event)
  }

  /// Ends an effect without an event.
  private mutating func end(
    _ effect: String, of node: String, _ outcome: ScenarioStep.Outcome, at path: [String]
  ) throws(Failure) {
    guard model.node(named: node) != nil else { throw unknownNode(node, at: path + ["at"]) }
    try checkIsRunning(effect, of: node, at: path + ["ends"])
    let mover = Mover(node: node, input: .end(effect: effect))
    guard case .accepted(let next, _) = try answer(mover, at: path, outcome) else {
      throw Failure(
        path: path, description: "node '\(node)' cannot evaluate the end of effect '\(effect)'")
    }
    configurations[node] = next
    if case .states(let states) = outcome { try compare(states, at: path + ["expect"]) }
  }

  private mutating func checkRefusal(
    _ refusals: [(node: String, reason: String, EvaluatorConfiguration)], by node: String?,
    _ reason: String?, _ owner: String, _ event: JSONValue, at path: [String]
  ) throws(Failure) {
    let expectation = node.map { "by '\($0)'" } ?? "by any node"
    guard
      let found = refusals.first(where: { refusal in
        (node ?? refusal.node) == refusal.node && (reason ?? refusal.reason) == refusal.reason
      })
    else {
      let actualText =
        refusals.first.map { "'\($0.node)' refuses it (\($0.reason))" } ?? "'\(owner)' accepts it"
      throw Failure(
        path: path + ["refused"],
        description: "event '\(event.caseText)' should be refused \(expectation)"
          + (reason.map { " (\($0))" } ?? "") + ", but \(actualText)")
    }
    // The effect that emitted the event may have ended.
    configurations[found.node] = found.2
  }

  /// - Returns: The answer; `nil` if the process ends as expected.
  private func answer(
    _ mover: Mover, at path: [String], _ outcome: ScenarioStep.Outcome
  ) throws(Failure) -> EvaluatorAnswer? {
    guard let number = model.node(named: mover.node) else {
      throw unknownNode(mover.node, at: path)
    }
    let configuration = configurations[mover.node] ?? EvaluatorConfiguration(state: .null)
    switch model.nodes[number].kind {
    case .any: return .accepted(configuration: configuration, sends: [])
    case .constant: return .refused(reason: .noTransition, configuration: configuration)
    case .silent:
      throw Failure(path: path, description: "the program of node '\(mover.node)' did not answer")
    case .machine(let evaluator):
      if let problem = mover.problem { return .undecodable(error: problem) }
      switch evaluator.row(mover.node, configuration, [mover.input])[0] {
      case .answer(let answer): return answer
      case .impure(let answers): return answers[0]
      case .evaluatorError(.ended(let how)):
        if case .processEnds = outcome { return nil }
        throw Failure(path: path, description: "the process of node '\(mover.node)' ended: \(how)")
      case .evaluatorError(let evaluatorError):
        throw Failure(
          path: path, description: "node '\(mover.node)' did not answer: \(evaluatorError)")
      }
    }
  }

  // MARK: Possible steps

  private func movers(
    of owner: String, _ event: JSONValue, _ origin: ScenarioStep.Origin, at path: [String]
  ) throws(Failure) -> [Mover] {
    let name = event.caseName ?? ""
    var nodes: [String]
    if let number = model.node(named: owner) {
      nodes = [owner]
      if model.nodes[number].synchronized[name] != nil {
        return [
          Mover(
            node: owner, input: .take(event: event),
            problem: "'\(name)' is synchronized; the node accepts it only through a composite")
        ]
      }
    } else if loaded.topology.composite(owner) != nil {
      if let vector = model.vector(of: name, requestedFrom: owner) {
        nodes = vector.participants
      } else if let own = loaded.conflictClasses.lazy.compactMap({ $0[owner] }).first?.own[name] {
        nodes = [own]
      } else {
        throw Failure(
          path: path + ["takes"],
          description: "composite '\(owner)' does not accept event '\(name)'")
      }
    } else {
      throw unknownNode(owner, at: path + ["at"])
    }
    if case .effect(let emitter, let output) = origin, !nodes.contains(emitter) {
      throw Failure(
        path: path + ["from"],
        description:
          "effect '\(output)' of node '\(emitter)' cannot give events to '\(owner)': the effect "
          + "belongs to another node"
      )
    }
    return try nodes.map { (node) throws(Failure) in
      guard case .effect(let emitter, let output) = origin, emitter == node else {
        return Mover(node: node, input: .take(event: event))
      }
      try checkIsRunning(output, of: node, at: path + ["from"])
      return Mover(node: node, input: .give(effect: output, event: event))
    }
  }

  private func checkIsRunning(
    _ effect: String, of node: String, at path: [String]
  ) throws(Failure) {
    let running = configurations[node]?.effects ?? []
    guard !running.contains(effect) else { return }
    throw Failure(
      path: path,
      description: "effect '\(effect)' of node '\(node)' is not running in state "
        + "'\(state(of: node).caseText)'"
        + Suggestion.among(running, like: effect, verb: "running effects are"))
  }

  private func checkCapacity(for movers: [Mover], at path: [String]) throws(Failure) {
    let nodes = movers.map(\.node)
    let composites = model.composites.filter { $0.moves(with: nodes, in: model) }
    for sender in nodes + composites.map(\.name) {
      for pipe in model.pipes where pipe.specification.sender == sender {
        try checkCapacity(in: pipe, for: sender, at: path)
      }
    }
  }

  private func checkCapacity(
    in pipe: ExploredPipe, for sender: String, at path: [String]
  ) throws(Failure) {
    let capacity = pipe.specification.capacity
    guard (queues[pipe.name] ?? []).count >= capacity else { return }
    throw Failure(
      path: path,
      description: "'\(sender)' accepts no events: its outbound pipe '\(pipe.name)' is full with "
        + "\(capacity) events")
  }

  /// Returns the index of an event in its pipe; `nil` if the event does not come from a pipe.
  private func position(
    of event: JSONValue, _ origin: ScenarioStep.Origin, _ movers: [Mover], at path: [String]
  ) throws(Failure) -> (pipe: String, position: Int)? {
    guard case .pipe(let name) = origin else { return nil }
    guard let number = model.pipe(named: name) else { throw unknownPipe(name, at: path + ["from"]) }
    let queued = queues[name] ?? []
    let expectation = Self.canonical(event)
    guard let position = queued.firstIndex(where: { Self.canonical($0) == expectation }) else {
      throw Failure(
        path: path + ["from"],
        description: "pipe '\(name)' contains \(Self.text(queued)), expected '\(event.caseText)'")
    }
    guard position > 0 else { return (name, 0) }
    // Only events that the node refuses may come before it.
    let isPostponing = model.pipes[number].specification.onRefused == .postpone
    for earlier in queued[..<position] {
      var isRefused = false
      if isPostponing, movers.count == 1 {
        let mover = Mover(node: movers[0].node, input: .take(event: earlier))
        if case .refused = try answer(mover, at: path, .states([:])) { isRefused = true }
      }
      if isRefused { continue }
      throw Failure(
        path: path + ["from"],
        description:
          "event '\(earlier.caseText)' is before event '\(event.caseText)' in pipe '\(name)', "
          + "and must be taken first")
    }
    return (name, position)
  }

  // MARK: Comparing

  private func compare(_ expectation: [String: JSONValue], at path: [String]) throws(Failure) {
    for (name, state) in expectation.sorted(by: { $0.key < $1.key }) {
      guard let number = model.node(named: name) else { throw unknownNode(name, at: path + [name]) }
      let node = model.nodes[number]
      var condition = StateCondition(node.folded(EvaluatorConfiguration(state: state)).state)
      condition.fields = node.description?.stateFields?.map(\.name)
      let currentState = self.state(of: name)
      guard !condition.matches(node.folded(EvaluatorConfiguration(state: currentState)).state)
      else {
        continue
      }
      throw Failure(
        path: path + [name],
        description: "'\(name)' is in state '\(condition.text(of: currentState))', expected "
          + "'\(condition.text(of: state))'")
    }
  }

  private func state(of node: String) -> JSONValue { configurations[node]?.state ?? .null }

  private func unknownNode(_ name: String, at path: [String]) -> Failure {
    let names = loaded.topology.nodes.map(\.name) + loaded.topology.composites.map(\.name)
    return Failure(
      path: path,
      description: "the topology has no node '\(name)'" + Suggestion.among(names, like: name))
  }

  private func unknownPipe(_ name: String, at path: [String]) -> Failure {
    Failure(
      path: path,
      description: "the topology has no pipe '\(name)'"
        + Suggestion.among(model.pipes.map(\.name), like: name))
  }

  /// Returns the canonical form of an event: a case without fields is its bare label.
  private static func canonical(_ event: JSONValue) -> JSONValue {
    guard let name = event.caseName, event.caseMembers == [:] else { return event }
    return .string(name)
  }

  private static func text(_ events: [JSONValue]) -> String {
    events.isEmpty ? "no events" : events.map { "'\($0.caseText)'" }.joined(separator: ", ")
  }
}
