import PipeMachines
import PipeSupervision
import PipeSupport
import PipeTopology
import PipeWire

/// Replays the steps of a scenario, one after the other.
///
/// The programs of the nodes evaluate each step; no node runs. The replay is independent of the
/// search, and records the states of nodes and the contents of pipes itself.
package struct ScenarioReplay {
  /// The reason why a scenario fails.
  package struct Failure: Error, Hashable, CustomStringConvertible {
    /// The location in the scenario file, as a path for `SourceMap`.
    package let path: [String]
    package let description: String
  }

  let loaded: LoadedTopology
  private let section: ExploreSection
  let model: TopologyModel
  /// The transitions and synchronized events that the steps so far have covered.
  package private(set) var coveredItems: Set<CoverageItem> = []
  private var configurations: [String: EvaluatorConfiguration] = [:]
  private var queues: [String: [QueuedEvent]] = [:]

  private struct QueuedEvent {
    let event: JSONValue
    let keys: SymbolKeys
  }

  /// Creates a replay in which all nodes are in their initial states.
  /// - Parameter section: The `explore` section with which the scenario was found; `nil` for the
  ///   section of the topology file.
  package init(
    _ loaded: LoadedTopology, section: ExploreSection? = nil,
    answerTimeout: Duration = .seconds(10)
  ) throws {
    self.loaded = loaded
    self.section = section ?? loaded.topology.explore ?? ExploreSection()
    model = TopologyModel(loaded, self.section, nodeLimit: .max)
    try model.build(ProgramEvaluators(loaded, answerTimeout: answerTimeout))
    for discovery in model.discoveries.all {
      throw Failure(
        path: [], description: ExplorationFinding(discovery.kind, at: []).message)
    }
    for node in model.nodes {
      configurations[node.name] = node.initialConfiguration
      if node.key == nil { send(node.opening?.sends ?? []) }
    }
    for composite in model.composites {
      send(
        try composite.sends(
          from: nil, to: states(of: composite),
          movers: composite.nodeIndices.map { model.nodes[$0].name }
        ))
    }
  }

  /// The current state of each node.
  package var states: [String: JSONValue] { configurations.mapValues(\.state) }

  /// Replays all steps, and compares the outcomes with the expected outcomes.
  /// - Throws: ``Failure`` at the first step whose outcome differs from the expected outcome.
  package mutating func run(_ scenario: Scenario) throws(Failure) {
    for (index, step) in scenario.steps.enumerated() {
      try take(step, at: ["steps", String(index)])
    }
    try compare(scenario.expectedStates, at: ["end"])
    for (name, events) in scenario.expectedPipeContents.sorted(by: { $0.key < $1.key }) {
      let path = ["pipes", name]
      guard model.pipe(named: name) != nil else { throw unknownPipe(name, at: path) }
      let queued = (queues[name] ?? []).map(\.event)
      guard queued.map(Self.canonicalForm) != events.map(Self.canonicalForm) else { continue }
      throw Failure(
        path: path,
        description: "pipe '\(name)' contains \(Self.text(queued)) at the end, expected "
          + "\(Self.text(events))")
    }
  }

  // MARK: Replaying steps

  /// A node that takes part in a step.
  private struct Mover {
    let node: String
    let input: EvaluatorInput
    /// The reason why the node refuses the event in every state; `nil` if the program decides.
    var problem: String?
    /// Whether the mover is an instance that takes part in a synchronized event.
    var isInstanceOfComposite = false
  }

  private mutating func take(_ step: ScenarioStep, at path: [String]) throws(Failure) {
    let (owner, event, origin): (String, JSONValue, ScenarioStep.Origin)
    switch step.action {
    case .sends(let node, let event, let pipe):
      return try replaySend(event, of: node, into: pipe, at: path)
    case .takes(let recipient, let taken, let from):
      (owner, event, origin) = (instance(of: recipient, taken), taken, from)
    case .ends(let node, let effect): return try end(effect, of: node, step.outcome, at: path)
    case .fires(let node, let delay):
      return try fire(delay, of: node, step.outcome, at: path)
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
    var movedNodes: [(node: String, EvaluatorConfiguration, [EvaluatorSend])] = []
    // The nodes whose step enters a state. Internal transitions and ignored events enter no state.
    var enteringNodes: [String] = []
    var ignoringNodes: Set<String> = []
    var refusals: [(node: String, reason: String, EvaluatorConfiguration)] = []
    for mover in movers {
      switch try answer(mover, at: path, step.outcome) {
      case .accepted(.notCreated, _, .ignored) where mover.isInstanceOfComposite:
        // The commit of a synchronized event creates an instance, even if the instance ignores the
        // event.
        guard let opening = model.node(named: mover.node).flatMap({ model.nodes[$0].opening })
        else { continue }
        movedNodes.append((mover.node, opening.configuration, opening.sends))
      case .accepted(let next, let sends, let kind):
        movedNodes.append((mover.node, next, sends))
        if kind == nil || kind == .external { enteringNodes.append(mover.node) }
        if kind == .ignored { ignoringNodes.insert(mover.node) }
      case .fired(_, let next, let sends):
        movedNodes.append((mover.node, next, sends))
        enteringNodes.append(mover.node)
      case .refused(let refusal, let next): refusals.append((mover.node, refusal.code, next))
      case .undecodable:
        refusals.append(
          (mover.node, "undecodable", configurations[mover.node] ?? .init(state: .null)))
      case .undecided(let reason), .invalid(let reason):
        throw Failure(
          path: path, description: "node '\(mover.node)' cannot evaluate the step: \(reason)")
      case .opened, .projected, .replaying, .replayed, nil: return
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
    let scenarioMovers = self.movers(of: step.action)
    if let item = scenarioMovers?.synchronizedEvent { coveredItems.insert(item) }
    for (node, next, _) in movedNodes
    where scenarioMovers?.synchronizedEvent != nil || !ignoringNodes.contains(node) {
      recordTransition(of: node, to: next.state, on: event.caseName ?? "")
    }
    try move(
      movedNodes, entering: enteringNodes,
      isCommit: movers.contains(where: \.isInstanceOfComposite), at: path)
    if case .processEnds = step.outcome {
      throw Failure(
        path: path,
        description:
          "'\(owner)' accepts event '\(event.caseText)', but the step should end the process")
    }
    if case .states(let states) = step.outcome { try compare(states, at: path + ["expect"]) }
  }

  /// Moves nodes to their next configurations, and sends the events of the nodes and their
  /// composites.
  /// - Parameters:
  ///   - moved: The nodes, each with its next configuration and the events that its step sends.
  ///   - entering: The nodes whose step enters a state.
  ///   - isCommit: Whether the nodes take a synchronized event.
  private mutating func move(
    _ moved: [(node: String, EvaluatorConfiguration, [EvaluatorSend])], entering: [String],
    isCommit: Bool = false, at path: [String]
  ) throws(Failure) {
    let movingComposites = model.composites.filter { $0.moves(with: moved.map(\.node), in: model) }
    let before = movingComposites.map(states(of:))
    for (node, next, sends) in moved {
      configurations[node] = next
      send(sends, by: node, isCommit: isCommit)
    }
    for (composite, before) in zip(movingComposites, before) {
      do {
        send(
          try composite.sends(
            from: before, to: states(of: composite),
            movers: entering))
      } catch {
        throw Failure(
          path: path,
          description:
            "cannot compute the state of composite '\(composite.name)' after the step: \(error)")
      }
    }
  }

  /// Records the transition of a node from its current state.
  private mutating func recordTransition(of name: String, to next: JSONValue, on event: String) {
    guard let number = model.node(named: name), case .machine = model.nodes[number].kind else {
      return
    }
    let node = model.nodes[number]
    let isCreated = configurations[name] != .notCreated
    let state = isCreated ? state(of: name) : node.opening?.configuration.state ?? .null
    coveredItems.insert(model.transition(of: node, from: state, on: event, to: next))
  }

  /// Replays the firing of a node's timer: the timer that is due first.
  /// - Parameter delay: The expected duration of the timer; `nil` for any duration.
  private mutating func fire(
    _ delay: String?, of node: String, _ outcome: ScenarioStep.Outcome, at path: [String]
  ) throws(Failure) {
    guard model.node(named: node) != nil else { throw unknownNode(node, at: path + ["at"]) }
    let mover = Mover(node: node, input: .fire)
    try checkCapacity(for: [mover], at: path)
    guard let answer = try answer(mover, at: path, outcome) else { return }
    let state = state(of: node).caseText
    guard case .fired(let actualDelay, let next, let sends) = answer else {
      throw Failure(
        path: path + ["timer"],
        description: "node '\(node)' has no timer that can fire in state '\(state)'")
    }
    guard delay == nil || delay == actualDelay else {
      throw Failure(
        path: path + ["timer"],
        description: "the timer of node '\(node)' in state '\(state)' fires after \(actualDelay), "
          + "expected \(delay ?? "")")
    }
    recordTransition(of: node, to: next.state, on: TransitionCounts.timerEventName)
    try move([(node, next, sends)], entering: [node], at: path)
    switch outcome {
    case .states(let states): try compare(states, at: path + ["expect"])
    case .processEnds:
      throw Failure(
        path: path,
        description: "the timer of '\(node)' fires, but the step should end the process")
    case .refused: break
    }
  }

  /// Returns the name of the instance that receives an event: the name of a node or composite, with
  /// the key in the event. Without a `key`, returns the name of the node or composite.
  private func instance(of owner: String, _ event: JSONValue) -> String {
    model.instanceName(of: owner, model.keys.key(of: event, at: owner))
  }

  /// Returns the current states of a composite's nodes.
  private func states(of composite: ExploredComposite) -> [JSONValue] {
    composite.nodeIndices.map { state(of: model.nodes[$0].name) }
  }

  /// - Parameters:
  ///   - sender: The node that sends the events; `nil` for a composite, and for the events that are
  ///     sent at the start.
  ///   - isCommit: Whether the node takes a synchronized event.
  private mutating func send(
    _ sends: [EvaluatorSend], by sender: String? = nil, isCommit: Bool = false
  ) {
    let node = sender.flatMap(model.node(named:)).map { model.nodes[$0] }
    let instance = node.flatMap { node in
      node.compositesByEvent.isEmpty
        ? nil : node.key.map { ExploredPipe.Sender(key: $0.value, isCommit: isCommit) }
    }
    for send in sends {
      let pipe = model.pipe(named: send.pipe).map { model.pipes[$0] }
      let keys = pipe.map { model.symbolKeys(of: send.event, by: instance, $0) }
      queues[send.pipe, default: []].append(
        QueuedEvent(event: send.event, keys: keys ?? SymbolKeys()))
    }
  }

  /// Returns whether a refused event leaves its pipe: the event becomes a dead letter, or is
  /// dropped.
  ///
  /// Otherwise the event stays in the pipe until the node's state changes, or until the node restarts.
  private func isRemoved(afterRefusalIn pipe: String) -> Bool {
    model.pipe(named: pipe).map {
      [.record, .ignore].contains(model.pipes[$0].specification.onRefused)
    } ?? true
  }

  /// Replays the sending of an event by a node listed under `any`.
  private mutating func replaySend(
    _ event: JSONValue, of node: String, into pipe: String, at path: [String]
  ) throws(Failure) {
    guard let number = model.node(named: node) else { throw unknownNode(node, at: path + ["at"]) }
    guard case .unevaluated = model.nodes[number].kind else {
      throw Failure(
        path: path + ["sends"],
        description:
          "node '\(node)' sends events by its own steps; 'sends' requires a node listed under 'any'"
      )
    }
    guard let number = model.pipe(named: pipe), model.pipes[number].specification.sender == node
    else { throw unknownPipe(pipe, at: path + ["into"]) }
    try checkCapacity(in: model.pipes[number], for: node, at: path)
    queues[pipe, default: []].append(QueuedEvent(event: event, keys: SymbolKeys()))
  }

  /// Replays the end of an effect that emits no event.
  private mutating func end(
    _ effect: String, of node: String, _ outcome: ScenarioStep.Outcome, at path: [String]
  ) throws(Failure) {
    guard model.node(named: node) != nil else { throw unknownNode(node, at: path + ["at"]) }
    try checkIsRunning(effect, of: node, at: path + ["ends"])
    let mover = Mover(node: node, input: .end(effect: effect))
    guard case .accepted(let next, _, _) = try answer(mover, at: path, outcome) else {
      throw Failure(
        path: path,
        description:
          "the program of node '\(node)' cannot evaluate the step after effect '\(effect)'")
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
    // Stores the node's new configuration: the refusal may have ended the effect that emitted the
    // event.
    configurations[found.node] = found.2
  }

  /// Asks the program of a node to evaluate the step for an input.
  /// - Returns: The answer; `nil` if the process ends, as the scenario expects.
  private func answer(
    _ mover: Mover, at path: [String], _ outcome: ScenarioStep.Outcome
  ) throws(Failure) -> EvaluatorAnswer? {
    guard let number = model.node(named: mover.node) else {
      throw unknownNode(mover.node, at: path)
    }
    let configuration = configurations[mover.node] ?? EvaluatorConfiguration(state: .null)
    switch model.nodes[number].kind {
    case .unevaluated: return .accepted(configuration: configuration, sends: [])
    case .constant: return .refused(reason: .noTransition, configuration: configuration)
    case .unanswering:
      throw Failure(path: path, description: "the program of node '\(mover.node)' did not answer")
    case .machine(let evaluator):
      if let problem = mover.problem { return .undecodable(error: problem) }
      switch evaluator.evaluateRow(mover.node, configuration, [mover.input])[0] {
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

  // MARK: Checking that a step is possible

  private func movers(
    of owner: String, _ event: JSONValue, _ origin: ScenarioStep.Origin, at path: [String]
  ) throws(Failure) -> [Mover] {
    let name = event.caseName ?? ""
    var nodes: [String]
    var isInstanceOfComposite = false
    if let number = model.node(named: owner) {
      nodes = [owner]
      if model.nodes[number].compositesByEvent[name] != nil {
        return [
          Mover(
            node: owner, input: .take(event: event),
            problem: "'\(name)' is synchronized; the node accepts it only through a composite")
        ]
      }
    } else if let composite = composite(of: owner) {
      if let vector = model.vector(of: name, requestedFrom: composite.name) {
        nodes = vector.participants
        isInstanceOfComposite = composite.key != nil
      } else if let own = loaded.conflictClasses.lazy.compactMap({ $0[composite.name] }).first?
        .nodesByOwnEvent[
          name]
      {
        nodes = [own]
      } else {
        throw Failure(
          path: path + ["takes"],
          description: "composite '\(owner)' does not accept event '\(name)'")
      }
      if composite.key != nil, let key = InstanceName(owner)?.key {
        nodes = nodes.map { InstanceName(node: $0, key: key).description }
      }
    } else {
      throw unknownNode(owner, at: path + ["at"])
    }
    if case .effect(let emitter, let output) = origin, !nodes.contains(emitter) {
      throw Failure(
        path: path + ["from"],
        description:
          "effect '\(output)' of node '\(emitter)' cannot send events to '\(owner)': the effect "
          + "belongs to another node"
      )
    }
    return try nodes.map { (node) throws(Failure) in
      guard case .effect(let emitter, let output) = origin, emitter == node else {
        return Mover(
          node: node, input: .take(event: event), isInstanceOfComposite: isInstanceOfComposite)
      }
      try checkIsRunning(output, of: node, at: path + ["from"])
      return Mover(node: node, input: .give(effect: output, event: event))
    }
  }

  /// Returns the composite with this name. For the name of an instance, returns the composite of
  /// the instance.
  func composite(of owner: String) -> CompositeSpecification? {
    if let composite = loaded.topology.composite(owner) { return composite }
    guard let name = InstanceName(owner)?.node else { return nil }
    return loaded.topology.composite(name).flatMap { $0.key == nil ? nil : $0 }
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
    let senders = nodes.map { InstanceName($0)?.node ?? $0 }
    for sender in senders + composites.map(\.name) {
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

  /// Returns the pipe of an event, and the event's index in the pipe; `nil` if the event does not
  /// come from a pipe.
  private func position(
    of event: JSONValue, _ origin: ScenarioStep.Origin, _ movers: [Mover], at path: [String]
  ) throws(Failure) -> (pipe: String, position: Int)? {
    guard case .pipe(let name) = origin else { return nil }
    guard let number = model.pipe(named: name) else { throw unknownPipe(name, at: path + ["from"]) }
    let all = queues[name] ?? []
    let queued = all.map(\.event)
    let expectation = Self.canonicalForm(event)
    let positions = queued.indices.filter { Self.canonicalForm(queued[$0]) == expectation }
    // An event can overtake earlier events whose receiving instance may be locked, or whose sending
    // instance may send them late.
    let free = positions.first { position in
      all[..<position].allSatisfy { all[position].keys.canOvertake($0.keys) }
    }
    if let free { return (name, free) }
    guard let position = positions.first else {
      throw Failure(
        path: path + ["from"],
        description: "pipe '\(name)' contains \(Self.text(queued)), expected '\(event.caseText)'")
    }
    // All earlier events in the pipe must be events that this event can overtake, or postponed
    // events, which the node refuses in its current state.
    let isPostponing = model.pipes[number].specification.onRefused == .postpone
    for (index, earlier) in queued[..<position].enumerated() {
      var isRefused = false
      if all[position].keys.canOvertake(all[index].keys) { continue }
      if isPostponing, movers.count == 1 {
        let mover = Mover(node: movers[0].node, input: .take(event: earlier))
        if case .refused = try answer(mover, at: path, .states([:])) { isRefused = true }
      }
      if isRefused { continue }
      throw Failure(
        path: path + ["from"],
        description:
          "event '\(earlier.caseText)' is before event '\(event.caseText)' in pipe '\(name)', "
          + "and must be accepted first")
    }
    return (name, position)
  }

  // MARK: Comparing states with expected states

  private func compare(_ expectation: [String: JSONValue], at path: [String]) throws(Failure) {
    for (name, state) in expectation.sorted(by: { $0.key < $1.key }) {
      guard model.node(named: name) != nil else { throw unknownNode(name, at: path + [name]) }
      try compare(self.state(of: name), of: name, with: state, at: path + [name])
    }
  }

  /// Compares the current state of a node with the expected state.
  func compare(
    _ currentState: JSONValue, of name: String, with state: JSONValue, at path: [String]
  ) throws(Failure) {
    guard let number = model.node(named: name) else { throw unknownNode(name, at: path) }
    let node = model.nodes[number]
    var condition = StateCondition(node.folded(EvaluatorConfiguration(state: state)).state)
    condition.fields = node.description?.stateFields?.map(\.name)
    guard !condition.matches(node.folded(EvaluatorConfiguration(state: currentState)).state) else {
      return
    }
    throw Failure(
      path: path,
      description: "'\(name)' is in state '\(condition.text(of: currentState))', expected "
        + "'\(condition.text(of: state))'")
  }

  private func state(of node: String) -> JSONValue { configurations[node]?.state ?? .null }

  func unknownNode(_ name: String, at path: [String]) -> Failure {
    let names = model.nodes.map(\.name) + loaded.topology.composites.map(\.name)
    return Failure(
      path: path,
      description: "the topology has no node '\(name)'" + Suggestion.among(names, like: name))
  }

  func unknownPipe(_ name: String, at path: [String]) -> Failure {
    Failure(
      path: path,
      description: "the topology has no pipe '\(name)'"
        + Suggestion.among(model.pipes.map(\.name), like: name))
  }

  /// Returns the canonical form of an event: a case without fields is only its name.
  static func canonicalForm(_ event: JSONValue) -> JSONValue {
    guard let name = event.caseName, event.caseMembers == [:] else { return event }
    return .string(name)
  }

  static func text(_ events: [JSONValue]) -> String {
    events.isEmpty ? "no events" : events.map { "'\($0.caseText)'" }.joined(separator: ", ")
  }
}
