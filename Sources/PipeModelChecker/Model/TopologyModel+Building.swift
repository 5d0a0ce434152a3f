import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

// The initial model: the nodes in their initial configurations, and the actions known before the search.
extension TopologyModel {
  /// - Parameter programEvaluators: The step evaluators of the programs.
  func build(_ programEvaluators: ProgramEvaluators) throws {
    if let node = loaded.topology.nodes.first(where: { $0.key != nil }) {
      throw KeyedNodeError(node: node.name)
    }
    for node in loaded.topology.nodes { addNode(node, programEvaluators) }
    try addPipes(programEvaluators)
    let origins = EventOrigins(self)
    try addEffects(origins)
    let first = nodes.indices.map { place in
      nodes[place].opening.map { number(of: $0.configuration, place, in: &model) } ?? 0
    }
    assert(first.allSatisfy { $0 == 0 })
    try addOutsideEvents(origins)
    for pipe in pipes.indices {
      for event in pipes[pipe].events.indices {
        try addReception(of: ExploredSend(pipe: pipe, event: event), to: &model)
      }
    }
    for node in nodes where !node.isEvaluated { try addAnyEvents(node) }
  }

  // MARK: Nodes

  private func addNode(
    _ node: NodeSpecification, _ programEvaluators: ProgramEvaluators
  ) {
    var synchronized: [String: [String]] = [:]
    for plan in loaded.conflictClasses where plan.participants.contains(node.name) {
      synchronized = plan.synchronizedEvents(of: node.name)
    }
    var kind: ExploredNode.Kind = .any
    var opening: EvaluatorOpening?
    if let state = node.constant {
      kind = .constant
      opening = Self.opening(in: state)
    } else if section.any.contains(node.name) {
      values.note(.anyBehaviour(node: node.name))
    } else {
      do {
        let asked = try programEvaluators.evaluator(of: node)
        opening = try self.opening(of: node, asked)
        kind = .machine(asked)
      } catch {
        recordFailure(of: error, node)
        // A remark on the verdict says that the program gave no answer.
        kind = .silent
        opening = Self.opening(in: .null)
      }
    }
    let explored = ExploredNode(
      node.name, component: model.addComponent(), kind, opening: opening,
      loaded.descriptions[node.name], synchronized: synchronized,
      fold: section.fold[node.name] ?? [:])
    if opening == nil { _ = explored.number(of: EvaluatorConfiguration(state: .null)) }
    nodes.append(explored)
  }

  /// Returns the initial configuration of a node, as its program reports it.
  private func opening(
    of node: NodeSpecification, _ evaluator: ProgramEvaluator
  ) throws(EvaluatorError) -> EvaluatorOpening {
    let opening = try evaluator.open(
      node.name, machine: node.machine ?? "", parameters: node.parameters,
      outs: loaded.pipes.filter { $0.sender == node.name }.map { pipe in
        EvaluatorOutPipe(
          name: pipe.name, port: pipe.outPort,
          rule: pipe.send.map { NodeConfiguration.Rule(when: pipe.when, send: $0) })
      })
    if let problem = answerCheck(of: node.name)?.problem(in: opening) {
      throw .invalidAnswer(problem)
    }
    return opening
  }

  private static func opening(in state: JSONValue) -> EvaluatorOpening {
    EvaluatorOpening(
      configuration: EvaluatorConfiguration(state: state), sends: [], effects: [], events: [:])
  }

  private func recordFailure(of evaluatorError: EvaluatorError, _ node: NodeSpecification) {
    let program = loaded.topology.program(of: node) ?? ""
    values.note(.limit(.noAnswer(program: program)))
    let kind: ExplorationFinding.Kind =
      switch evaluatorError {
      case .ended(let how): .crash(node: node.name, event: nil, state: .null, how: how)
      case .timedOut(let after): .lateAnswer(program: program, node: node.name, after: after)
      case .invalidAnswer(let problem), .launchFailed(let problem):
        .badAnswer(program: program, problem: problem)
      }
    discover(kind, at: ["nodes", node.name], nil, nil)
  }

  // MARK: Pipes

  private func addPipes(_ programEvaluators: ProgramEvaluators) throws {
    for (place, pipe) in loaded.pipes.enumerated() {
      pipes.append(
        ExploredPipe(
          pipe, place: place, component: nodes.count + place, capacity: capacities[place]))
    }
    var contents = pipes.map { _ in [Int]() }
    try addComposites(behind: nodes.count + pipes.count, programEvaluators)
    let sentByComposites = try composites.flatMap { composite in
      try composite.sends(
        from: nil, to: composite.nodes.map { nodes[$0].opening?.configuration.state ?? .null },
        movers: composite.nodes.map { nodes[$0].name })
    }
    for sent in nodes.flatMap({ $0.opening?.sends ?? [] }) + sentByComposites {
      guard let place = pipe(named: sent.pipe) else { throw UnknownPipeError(name: sent.pipe) }
      contents[place].append(pipes[place].number(of: sent.event).number)
    }
    for (pipe, contents) in zip(pipes, contents) {
      _ = model.addQueue(capacity: pipe.capacity, contents: contents)
    }
    for composite in composites {
      _ = model.addComponent()
      _ = composite.number(of: composite.nodes.map { _ in 0 })
    }
  }

  private func addComposites(behind component: Int, _ programEvaluators: ProgramEvaluators) throws {
    for conflictClass in loaded.conflictClasses {
      try addComposites(of: conflictClass, behind: component, programEvaluators)
    }
  }

  private func addComposites(
    of conflictClass: ConflictClassPlan, behind component: Int,
    _ programEvaluators: ProgramEvaluators
  ) throws {
    for plan in conflictClass.composites {
      let own = loaded.pipes.filter { $0.sender == plan.name }
      guard !own.isEmpty || section.watchedNames.contains(plan.name) else { continue }
      if let unknown = plan.nodes.first(where: section.any.contains) {
        if !own.isEmpty {
          values.note(.silentComposite(composite: plan.name, node: unknown))
        }
        continue
      }
      var projection: (([JSONValue]) throws -> JSONValue)?
      if let name = plan.projection, let specification = loaded.topology.composite(plan.name) {
        let evaluator = try programEvaluators.evaluator(of: specification)
        projection = { try evaluator.project(name, $0) }
      }
      composites.append(
        ExploredComposite(
          plan, component: component + composites.count,
          nodes: plan.nodes.compactMap(node(named:)), pipes: own, projection: projection))
    }
  }

  /// Returns the explored composites that move with one of these nodes.
  private func composites(of movers: [ExploredAction.Mover]) -> [Int] {
    composites.indices.filter { number in
      movers.contains { composites[number].nodes.contains($0.node) }
    }
  }

  /// Makes an action that includes the composites that move with its nodes.
  private func action(
    owner: String, event: JSONValue, origin: ExploredAction.Origin,
    movers: [ExploredAction.Mover], taken: ExploredSend? = nil
  ) -> ExploredAction {
    ExploredAction(
      owner: owner, event: event, origin: origin, movers: movers,
      composites: composites(of: movers), taken: taken)
  }

  /// Adds the actions for the reception of an event from a pipe.
  func addReception(
    of send: ExploredSend, to model: inout ExplorationModel
  ) throws {
    let pipe = pipes[send.pipe]
    let event = pipe.events[send.event]
    let receiver = pipe.specification.receiver
    let refusal: ExploredAction.Refusal =
      switch pipe.specification.onRefused {
      case .record: .deadLetter
      case .ignore: .ignored
      case .postpone: .postponed
      case .fail: .failure
      }
    if let place = node(named: receiver) {
      let name = event.caseName ?? ""
      let problem: String? =
        nodes[place].synchronized[name] == nil
        ? nil : "'\(name)' is synchronized; the node accepts it only through a composite"
      return try add(
        action(
          owner: receiver, event: event, origin: .pipe(send.pipe),
          movers: [
            .init(
              node: place, input: .take(event: event),
              refusal: problem != nil && refusal == .postponed ? .deadLetter : refusal,
              problem: problem)
          ], taken: send), to: &model)
    }
    // A composite processes the events of a pipe in order: a waiting event blocks all later ones.
    guard let vector = vector(of: event.caseName ?? "", requestedFrom: receiver) else { return }
    let places = vector.participants.compactMap(node(named:))
    try add(
      action(
        owner: receiver, event: event, origin: .pipe(send.pipe),
        movers: places.map {
          .init(node: $0, input: .take(event: event), refusal: .waits)
        }, taken: send), to: &model)
    guard refusal != .postponed else { return }
    for place in places {
      try add(
        action(
          owner: receiver, event: event, origin: .pipe(send.pipe),
          movers: [
            .init(node: place, input: .take(event: event), refusal: refusal, takes: false)
          ], taken: send), to: &model)
    }
  }

  func vector(of event: String, requestedFrom composite: String) -> SyncVector? {
    loaded.conflictClasses.lazy.compactMap { $0[composite] }.first?.vector(of: event)
  }

  /// Adds an event that is never sent to each pipe, in place of all events that are still to be
  /// found.
  ///
  /// Its vector is blocked only by the contents of the pipe. Without it, a reduced search would
  /// assume that the receiver never gets an event.
  func addUnsentEvents() throws {
    for (place, pipe) in pipes.enumerated() {
      let receiver = pipe.specification.receiver
      let plan = loaded.conflictClasses.lazy.compactMap { $0[receiver] }.first
      let receivers =
        node(named: receiver).map { [$0] } ?? plan?.nodes.compactMap(node(named:)) ?? []
      let moved = composites.indices.filter {
        composites[$0].nodes.contains(where: receivers.contains)
      }
      let senders = receivers.map { nodes[$0].name } + moved.map { composites[$0].name }
      let outs = Set(senders.flatMap(outs(of:))).subtracting([place])
      let components =
        receivers.map { nodes[$0].component } + moved.map { composites[$0].component }
        + outs.sorted().map { pipes[$0].component }
      _ = try model.addVector(
        [.queue(pipe.component, .take(Self.unsentEvent))] + components.map { .unchanged($0) })
      vectors.append(
        Vector(
          action: ExploredAction(
            owner: receiver, event: .null, origin: .pipe(place), movers: []), endings: []))
    }
  }

  /// The number of an event that no pipe ever contains.
  private static let unsentEvent = -1

  // MARK: Effects

  private func addEffects(_ origins: EventOrigins) throws {
    for place in nodes.indices {
      let node = nodes[place]
      for work in node.opening?.effects ?? [] {
        let patterns: [EventPattern]
        let declared = origins.declaredEvents(of: node, work.name)
        if let declared {
          patterns = declared.events
        } else {
          patterns = origins.assumedGives(of: node).map { EventPattern($0) }
          if !patterns.isEmpty {
            values.note(
              .assumedGives(
                node: node.name, output: work.name, events: patterns.map(\.event)))
          }
        }
        if patterns.isEmpty { continue }
        node.emittingEffects.insert(work.name)
        for pattern in patterns {
          let fields = node.opening?.events[pattern.event] ?? []
          for event in values.events(pattern, of: node.name, fields) {
            try addEffect(place, work.name, event, isDeclared: declared != nil)
          }
        }
        if declared?.mayEnd == true { try addEffectEnd(of: work.name, place) }
      }
    }
  }

  /// Adds the end of an effect without an event.
  private func addEffectEnd(of effect: String, _ place: Int) throws {
    try add(
      action(
        owner: nodes[place].name, event: .null, origin: .effect(node: place, name: effect),
        movers: [.init(node: place, input: .end(effect: effect), refusal: .waits)]), to: &model)
  }

  private func addEffect(
    _ place: Int, _ effect: String, _ event: JSONValue, isDeclared: Bool
  ) throws {
    let node = nodes[place]
    var movers = [
      ExploredAction.Mover(
        node: place, input: .give(effect: effect, event: event),
        refusal: isDeclared ? .step : .waits)
    ]
    var owner = node.name
    if let composites = node.synchronized[event.caseName ?? ""] {
      // In a run, an event of several composites ends the node; here the effect stays pending.
      guard composites.count == 1,
        let vector = vector(of: event.caseName ?? "", requestedFrom: composites[0])
      else { return }
      owner = composites[0]
      movers = [.init(node: place, input: movers[0].input, refusal: .waits)]
      for other in vector.participants.compactMap(self.node(named:)) where other != place {
        movers.append(.init(node: other, input: .take(event: event), refusal: .waits))
      }
    }
    try add(
      action(
        owner: owner, event: event, origin: .effect(node: place, name: effect), movers: movers),
      to: &model)
  }

  // MARK: Outside

  private func addOutsideEvents(_ origins: EventOrigins) throws {
    if let declared = section.fromOutside {
      for (owner, patterns) in declared.sorted(by: { $0.key < $1.key }) {
        for pattern in patterns { try addOutsideEvents(pattern, to: owner) }
      }
      return
    }
    for (owner, events) in origins.assumedOutside() where !events.isEmpty {
      values.note(.assumedOutside(owner: owner, events: events))
      for event in events { try addOutsideEvents(EventPattern(event), to: owner) }
    }
  }

  private func addOutsideEvents(_ pattern: EventPattern, to owner: String) throws {
    var places: [Int] = []
    if let place = node(named: owner) {
      // The node refuses a synchronized event that does not come through its composite.
      guard nodes[place].synchronized[pattern.event] == nil else { return }
      places = [place]
    } else if let vector = vector(of: pattern.event, requestedFrom: owner) {
      places = vector.participants.compactMap(node(named:))
    } else {
      let plan = loaded.conflictClasses.lazy.compactMap { $0[owner] }.first
      places = [plan?.own[pattern.event]].compactMap { $0.flatMap(node(named:)) }
    }
    guard !places.isEmpty else { return }
    for event in values.events(pattern, of: owner, fields(of: pattern.event, at: places)) {
      try add(
        action(
          owner: owner, event: event, origin: .outside,
          movers: places.map {
            .init(node: $0, input: .take(event: event), refusal: .waits)
          }), to: &model)
    }
  }

  /// Returns the fields of an event from all the given nodes, each name once.
  private func fields(of event: String, at places: [Int]) -> [EvaluatorOpening.Field] {
    var fields: [EvaluatorOpening.Field] = []
    for field in places.flatMap({ nodes[$0].opening?.events[event] ?? [] })
    where !fields.contains(where: { $0.name == field.name }) {
      fields.append(field)
    }
    return fields
  }

  // MARK: Nodes that are not asked

  private func addAnyEvents(_ node: ExploredNode) throws {
    guard let place = self.node(named: node.name) else { return }
    for number in outs(of: node.name) {
      let pipe = pipes[number]
      let receiver = self.node(named: pipe.specification.receiver).map { nodes[$0] }
      for name in EventOrigins.events(of: pipe.specification, in: loaded) {
        let fields = receiver?.opening?.events[name] ?? []
        for event in values.events(
          EventPattern(name), of: pipe.specification.receiver, fields)
        {
          let send = try self.send(
            EvaluatorSend(pipe: pipe.name, event: event), in: &model)
          try add(
            ExploredAction(
              owner: node.name, event: event, origin: .anything(node: place), movers: [],
              put: send), to: &model)
        }
      }
    }
  }
}

extension ExploredNode {
  /// Whether the search evaluates the node's steps.
  fileprivate var isEvaluated: Bool {
    if case .any = kind { false } else { true }
  }
}

/// The error for a topology whose states cannot be searched.
package struct KeyedNodeError: Error, Hashable, CustomStringConvertible {
  let node: String

  package var description: String {
    "node '\(node)' has a 'key', and nodes with instances cannot be explored yet; explore a copy of "
      + "the file without 'key', which has one instance"
  }
}
