import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

// The construction of the initial model: the nodes in their initial configurations, and the actions
// that are known before the search.
extension TopologyModel {
  /// Builds the initial model.
  /// - Parameter programEvaluators: The step evaluators of the programs.
  func build(_ programEvaluators: ProgramEvaluators) throws {
    keys = ExploredKeys(loaded, section, openings: openingsWithoutKey(programEvaluators))
    for node in loaded.topology.nodes {
      guard let keys = keys.keysByNode[node.name] else {
        addNode(node, nil, programEvaluators)
        continue
      }
      for key in keys { addNode(node, key, programEvaluators) }
      eventValues.note(
        .instances(
          node: node.name, keys: keys.map(\.text),
          keep: node.finalStates.isEmpty
            ? nil : node.keepDuration ?? NodeSpecification.defaultKeepDuration))
    }
    try addPipes(programEvaluators)
    addSymmetries()
    let origins = EventOrigins(self)
    try addEffects(origins)
    try addTimers()
    let first = nodes.indices.map { place in
      nodes[place].initialConfiguration.map { number(of: $0, place, in: &model) } ?? 0
    }
    assert(first.allSatisfy { $0 == 0 })
    try addOutsideEvents(origins)
    for pipe in pipes.indices {
      for event in pipes[pipe].events.indices {
        setKeys(of: ExploredSend(pipeIndex: pipe, eventNumber: event), in: &model)
      }
    }
    for pipe in pipes.indices {
      for event in pipes[pipe].events.indices {
        try addReception(of: ExploredSend(pipeIndex: pipe, eventNumber: event), to: &model)
      }
    }
    try mapInitialEvents()
    for node in nodes where !node.isEvaluated { try addAnyEvents(node) }
    checkActions()
  }

  // MARK: Adding nodes

  /// Returns the initial steps of the nodes whose descriptions do not show the type of the `key`.
  /// Only the programs know this type.
  private func openingsWithoutKey(
    _ programEvaluators: ProgramEvaluators
  ) -> [String: EvaluatorOpening] {
    var openings: [String: EvaluatorOpening] = [:]
    for node in loaded.topology.nodes where node.key != nil {
      let fields = loaded.descriptions[node.name]?.events.flatMap(\.fields) ?? []
      let isKnown = fields.contains { $0.name == node.key && SwiftType($0.type) != .unknown }
      guard !isKnown, node.constant == nil, !section.unevaluatedNodes.contains(node.name) else {
        continue
      }
      // An error is ignored here, since it is reported when the instances are opened.
      openings[node.name] = try? programEvaluators.evaluator(of: node).openNode(
        node.name, machine: node.machine ?? "", parameters: node.parameters, outs: [])
    }
    return openings
  }

  /// Adds a node, or one instance of a node with a `key`.
  /// - Parameter key: The key of the instance; `nil` for a node without a `key`.
  private func addNode(
    _ node: NodeSpecification, _ key: ExploredKeys.Key?, _ programEvaluators: ProgramEvaluators
  ) {
    var compositesByEvent: [String: [String]] = [:]
    for plan in loaded.conflictClasses where plan.participants.contains(node.name) {
      compositesByEvent = plan.synchronizedEvents(of: node.name)
    }
    var kind: ExploredNode.Kind = .unevaluated
    var opening: EvaluatorOpening?
    if let state = node.constant {
      kind = .constant
      opening = Self.opening(in: state)
    } else if section.unevaluatedNodes.contains(node.name) {
      eventValues.note(.anyBehaviour(node: node.name))
    } else {
      do {
        let asked = try programEvaluators.evaluator(of: node)
        opening = try self.opening(of: node, key, asked)
        kind = .machine(asked)
      } catch {
        recordFailure(of: error, node)
        // The verdict gets a remark that the program did not answer.
        kind = .unanswering
        opening = Self.opening(in: .null)
      }
    }
    let explored = ExploredNode(
      node, key, component: model.addComponent(), kind, opening: opening,
      loaded.descriptions[node.name], compositesByEvent: compositesByEvent,
      fold: section.foldModuli[node.name] ?? [:])
    if opening == nil { _ = explored.number(of: EvaluatorConfiguration(state: .null)) }
    nodes.append(explored)
  }

  /// Returns the initial step of a node, as computed by its program.
  private func opening(
    of node: NodeSpecification, _ key: ExploredKeys.Key?, _ evaluator: ProgramEvaluator
  ) throws(EvaluatorError) -> EvaluatorOpening {
    let instance = key.map {
      EvaluatorInstance(field: node.key ?? "", key: $0.text, final: node.finalStates)
    }
    let name = key.map { InstanceName(node: node.name, key: $0.text).description } ?? node.name
    let opening = try evaluator.openNode(
      name, machine: node.machine ?? "", parameters: node.parameters,
      outs: loaded.pipes.filter { $0.sender == node.name }.map { pipe in
        EvaluatorOutPipe(
          name: pipe.name, port: pipe.outPort,
          rule: pipe.eventTemplate.map { NodeConfiguration.Rule(when: pipe.enteredState, send: $0) }
        )
      }, instance: instance)
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
    eventValues.note(.limit(.noAnswer(program: program)))
    let kind: ExplorationFinding.Kind =
      switch evaluatorError {
      case .ended(let how): .crash(node: node.name, event: nil, state: .null, exitDescription: how)
      case .timedOut(let after): .lateAnswer(program: program, node: node.name, after: after)
      case .invalidAnswer(let problem), .launchFailed(let problem):
        .badAnswer(program: program, problem: problem)
      }
    discover(kind, at: ["nodes", node.name], nil, nil)
  }

  // MARK: Adding pipes and their events

  private func addPipes(_ programEvaluators: ProgramEvaluators) throws {
    for (index, pipe) in loaded.pipes.enumerated() {
      pipes.append(
        ExploredPipe(
          pipe, index: index, component: nodes.count + index, capacity: capacities[index],
          hasLockableReceiver: isParticipantWithKey(pipe.receiver)))
    }
    var contents = pipes.map { _ in [Int]() }
    try addComposites(behind: nodes.count + pipes.count, programEvaluators)
    let sentByComposites = try composites.flatMap { composite in
      try composite.sends(
        from: nil,
        to: composite.nodeIndices.map { nodes[$0].opening?.configuration.state ?? .null },
        movers: composite.nodeIndices.map { nodes[$0].name })
    }
    let sentByNodes = nodes.filter { $0.key == nil }.flatMap { $0.opening?.sends ?? [] }
    for sent in sentByNodes + sentByComposites {
      guard let place = pipe(named: sent.pipe) else { throw UnknownPipeError(name: sent.pipe) }
      contents[place].append(pipes[place].number(of: sent.event).number)
    }
    for (pipe, contents) in zip(pipes, contents) {
      _ = model.addQueue(capacity: pipe.capacity, contents: contents)
    }
    for composite in composites {
      _ = model.addComponent()
      _ = composite.number(of: composite.nodeIndices.map { _ in 0 })
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
      if let unknown = plan.nodes.first(where: section.unevaluatedNodes.contains) {
        if !own.isEmpty {
          eventValues.note(.silentComposite(composite: plan.name, node: unknown))
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

  /// Returns the indices of the explored composites that contain one of these movers.
  private func composites(of movers: [ExploredAction.Mover]) -> [Int] {
    composites.indices.filter { number in
      movers.contains { composites[number].nodeIndices.contains($0.node) }
    }
  }

  /// Creates an action with all composites that contain one of its movers.
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
    let pipe = pipes[send.pipeIndex]
    let event = pipe.events[send.eventNumber]
    let receiver = pipe.specification.receiver
    let refusal: ExploredAction.Refusal =
      switch pipe.specification.onRefused {
      case .record: .deadLetter
      case .ignore: .ignored
      case .postpone: .postponed
      case .fail: .failure
      }
    if loaded.topology.node(receiver)?.key != nil {
      return try addInstanceReception(of: send, event, by: receiver, refusal, to: &model)
    }
    if let place = node(named: receiver) {
      let problem = reasonToRefuse(unsynchronized: event, at: place)
      return try add(
        action(
          owner: receiver, event: event, origin: .pipe(send.pipeIndex),
          movers: [
            .init(
              node: place, input: .take(event: event),
              refusal: problem != nil && refusal != .failure ? .deadLetter : refusal,
              problem: problem)
          ], taken: send), to: &model)
    }
    // A composite handles the events of a pipe in order. A waiting event blocks all later events.
    guard let vector = vector(of: event.caseName ?? "", requestedFrom: receiver) else { return }
    let key = keys.key(of: event, at: receiver)
    let places: [Int]
    if let key {
      places = (try? key.get()).flatMap { instanceIndices(of: vector.participants, $0) } ?? []
    } else {
      places = vector.participants.compactMap(node(named:))
    }
    guard !places.isEmpty else {
      return try addDiscarding(of: send, by: vector, key, refusal, to: &model)
    }
    let owner = instanceName(of: receiver, key)
    try add(
      action(
        owner: owner, event: event, origin: .pipe(send.pipeIndex),
        movers: places.map {
          .init(
            node: $0, input: .take(event: event), refusal: .waits,
            isInstanceOfComposite: key != nil)
        }, taken: send), to: &model)
    guard refusal != .postponed else { return }
    for place in places {
      try add(
        action(
          owner: owner, event: event, origin: .pipe(send.pipeIndex),
          movers: [
            .init(
              node: place, input: .take(event: event), refusal: refusal,
              isInstanceOfComposite: key != nil, acceptsEvent: false)
          ], taken: send), to: &model)
    }
  }

  /// Returns the reason why a node refuses an event that does not come through a composite; `nil`
  /// if the event is not synchronized.
  func reasonToRefuse(unsynchronized event: JSONValue, at place: Int) -> String? {
    let name = event.caseName ?? ""
    guard nodes[place].compositesByEvent[name] != nil else { return nil }
    return "'\(name)' is synchronized; the node accepts it only through a composite"
  }

  func vector(of event: String, requestedFrom composite: String) -> SyncVector? {
    loaded.conflictClasses.lazy.compactMap { $0[composite] }.first?.vector(of: event)
  }

  /// Adds to each pipe the reception of an event that is never sent. This event represents all
  /// events that the search has not found yet.
  ///
  /// Only the contents of the pipe block the event's vector. Without this vector, a reduced search
  /// would assume that the receiver receives only the events that are already known.
  func addUnsentEvents() throws {
    for (place, pipe) in pipes.enumerated() {
      let receiver = pipe.specification.receiver
      let plan = loaded.conflictClasses.lazy.compactMap { $0[receiver] }.first
      let own = nodeIndices(of: receiver)
      let receivers = own.isEmpty ? plan?.nodes.flatMap(nodeIndices(of:)) ?? [] : own
      let moved = composites.indices.filter {
        composites[$0].nodeIndices.contains(where: receivers.contains)
      }
      let senders =
        Set(receivers.map { nodes[$0].baseName }).sorted() + moved.map { composites[$0].name }
      let outs = Set(senders.flatMap(outPipes(of:))).subtracting([place])
      let components =
        receivers.map { nodes[$0].component } + moved.map { composites[$0].component }
        + outs.sorted().map { pipes[$0].component }
      _ = try model.addVector(
        [.queue(pipe.component, .removeHead(Self.unsentEvent))] + components.map { .unchanged($0) })
      vectors.append(
        Vector(
          action: ExploredAction(
            owner: receiver, event: .null, origin: .pipe(place), movers: []), endings: []))
    }
  }

  /// The number of an event that no pipe ever contains.
  private static let unsentEvent = -1

  // MARK: Adding effects and timers

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
            eventValues.note(
              .assumedGives(
                node: node.baseName, output: work.name, events: patterns.map(\.event)))
          }
        }
        if patterns.isEmpty { continue }
        node.emittingEffects.insert(work.name)
        for pattern in patterns {
          let fields = node.opening?.events[pattern.event] ?? []
          // An event from an effect goes to the instance in which the effect runs.
          let key = node.key.flatMap { key in
            keys.field(of: node.baseName).map { (field: $0, values: [key.value]) }
          }
          if let field = key?.field, pattern.fields[field] == nil,
            fields.contains(where: { $0.name == field })
          {
            eventValues.note(.effectKeys(node: node.baseName, field: field))
          }
          for event in eventValues.events(pattern, of: node.baseName, fields, keyedBy: key) {
            try addEffect(place, work.name, event, isDeclared: declared != nil)
          }
        }
        if declared?.mayEnd == true { try addEffectEnd(of: work.name, place) }
      }
    }
  }

  /// Adds one action for each node with timers: of the timers of the current state, the timer that
  /// is due first fires.
  ///
  /// The program knows which timer of a state is due first. Timers of different nodes may fire in
  /// any order.
  private func addTimers() throws {
    for (place, node) in nodes.enumerated() where node.opening?.hasTimers == true {
      try add(
        action(
          owner: node.name, event: .string(TransitionCounts.timerEventName),
          origin: .timer(node: place),
          movers: [.init(node: place, input: .fire, refusal: .waits)]), to: &model)
    }
  }

  /// Adds the action in which an effect of a node ends without emitting an event.
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
        refusal: isDeclared ? .effectEnds : .waits)
    ]
    var owner = node.name
    if let composites = node.compositesByEvent[event.caseName ?? ""] {
      // An effect of an instance cannot emit a synchronized event: see `checkEffectsOfInstances()`.
      guard node.key == nil else { return }
      // In a run, the node ends if its effect emits an event of several composites. In the search,
      // the effect keeps running.
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

  // MARK: Adding events from outside the topology

  private func addOutsideEvents(_ origins: EventOrigins) throws {
    if let declared = section.fromOutside {
      for (owner, patterns) in declared.sorted(by: { $0.key < $1.key }) {
        for pattern in patterns { try addOutsideEvents(pattern, to: owner) }
      }
      return
    }
    for (owner, events) in origins.assumedOutside() where !events.isEmpty {
      eventValues.note(.assumedOutside(owner: owner, events: events))
      for event in events { try addOutsideEvents(EventPattern(event), to: owner) }
    }
  }

  private func addOutsideEvents(_ pattern: EventPattern, to owner: String) throws {
    if let key = keysToTry(for: owner) {
      return try addOutsideEvents(pattern, toInstancesOf: owner, key)
    }
    var nodeIndices: [Int] = []
    if let place = node(named: owner) {
      // The node refuses a synchronized event that does not come through its composite.
      guard nodes[place].compositesByEvent[pattern.event] == nil else { return }
      nodeIndices = [place]
    } else if let vector = vector(of: pattern.event, requestedFrom: owner) {
      nodeIndices = vector.participants.compactMap(node(named:))
    } else {
      let plan = loaded.conflictClasses.lazy.compactMap { $0[owner] }.first
      nodeIndices = [plan?.nodesByOwnEvent[pattern.event]].compactMap { $0.flatMap(node(named:)) }
    }
    guard !nodeIndices.isEmpty else { return }
    for event in eventValues.events(pattern, of: owner, fields(of: pattern.event, at: nodeIndices))
    {
      try add(
        action(
          owner: owner, event: event, origin: .outside,
          movers: nodeIndices.map {
            .init(node: $0, input: .take(event: event), refusal: .waits)
          }), to: &model)
    }
  }

  /// Adds the events from outside for the instances of a node, or for the instances of a composite's
  /// nodes with the same key.
  private func addOutsideEvents(
    _ pattern: EventPattern, toInstancesOf owner: String,
    _ key: (field: String, values: [JSONValue])
  ) throws {
    var receivers = [owner]
    var isSynchronized = false
    if let vector = vector(of: pattern.event, requestedFrom: owner) {
      receivers = vector.participants
      isSynchronized = true
    } else if loaded.topology.composite(owner) != nil {
      let plan = loaded.conflictClasses.lazy.compactMap { $0[owner] }.first
      receivers = [plan?.nodesByOwnEvent[pattern.event]].compactMap(\.self)
    }
    let first = receivers.compactMap { nodeIndices(of: $0).first }
    // A node refuses a synchronized event that does not come through its composite.
    guard !first.isEmpty, isSynchronized || nodes[first[0]].compositesByEvent[pattern.event] == nil
    else { return }
    let fields = fields(of: pattern.event, at: first)
    for event in eventValues.events(pattern, of: owner, fields, keyedBy: key) {
      // A client cannot send an event without a key.
      guard case .success(let key)? = keys.key(of: event, at: owner),
        let places = instanceIndices(of: receivers, key)
      else { continue }
      try add(
        action(
          owner: InstanceName(node: owner, key: key.text).description, event: event,
          origin: .outside,
          movers: places.map {
            .init(
              node: $0, input: .take(event: event), refusal: .waits,
              isInstanceOfComposite: isSynchronized)
          }), to: &model)
    }
  }

  /// Returns the fields of an event, as declared by any of the nodes. Each name is listed once.
  private func fields(of event: String, at places: [Int]) -> [EvaluatorOpening.Field] {
    var fields: [EvaluatorOpening.Field] = []
    for field in places.flatMap({ nodes[$0].opening?.events[event] ?? [] })
    where !fields.contains(where: { $0.name == field.name }) {
      fields.append(field)
    }
    return fields
  }

  // MARK: Adding the events of nodes listed under 'any'

  private func addAnyEvents(_ node: ExploredNode) throws {
    guard let place = self.node(named: node.name) else { return }
    for number in outPipes(of: node.name) {
      let pipe = pipes[number]
      let receiver = pipe.specification.receiver
      for name in EventOrigins.events(of: pipe.specification, in: loaded) {
        let receivers = vector(of: name, requestedFrom: receiver)?.participants ?? [receiver]
        let fields = fields(of: name, at: receivers.compactMap { nodeIndices(of: $0).first })
        for event in eventValues.events(
          EventPattern(name), of: receiver, fields, keyedBy: keysToTry(for: receiver))
        {
          let send = try self.send(
            EvaluatorSend(pipe: pipe.name, event: event), in: &model)
          try add(
            ExploredAction(
              owner: node.name, event: event, origin: .unevaluated(node: place), movers: [],
              put: send), to: &model)
        }
      }
    }
  }
}

extension ExploredNode {
  /// Whether the search evaluates the node's steps.
  fileprivate var isEvaluated: Bool {
    if case .unevaluated = kind { false } else { true }
  }
}
