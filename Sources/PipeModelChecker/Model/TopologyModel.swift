import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// The model of a topology, which grows during the search. Nodes, pipes and composites are
/// components of an ``ExplorationModel``, and steps are its vectors.
final class TopologyModel {
  /// The meaning of a vector in the topology: an action with certain endings.
  struct Vector {
    let action: ExploredAction
    let endings: [ExploredAction.Ending]
    /// For a pipe that postpones refused events: the key of the vector in the pipe's lane. The key
    /// contains the events that the receiver accepts in the configurations that permit the vector.
    ///
    /// `nil` for other pipes, and for a probe. A probe is a vector that is never enabled; it only
    /// asks whether the receiver accepts an event.
    var lane: PostponingLane.Key?
  }

  let loaded: LoadedTopology
  let section: ExploreSection
  var model = ExplorationModel()
  var nodes: [ExploredNode] = []
  var pipes: [ExploredPipe] = []
  /// The explored composites: composites with outbound pipes, or with states in the `explore` section.
  var composites: [ExploredComposite] = []
  var vectors: [Vector] = []
  var eventValues: EventValues
  var discoveries = Discoveries()
  /// The conditions that the search watches for.
  var stateWatches: [StateWatch] = []
  /// The outcomes of the evaluated steps.
  var outcomesByQuestion: [StepQuestion: ExploredAction.Outcome] = [:]
  /// The results of checking folds, by the index of the node.
  var foldProofs: [Int: FoldProof] = [:]
  /// A node that has more configurations than the limit; `nil` if there is no such node.
  private(set) var nodeOverLimit: ExploredNode?
  /// The keys of explored instances.
  var keys = ExploredKeys()
  /// The numbers that represent instance keys in ``SymbolKeys``, by the text of the key.
  var numbersByKey: [String: Int] = [:]
  /// The renamings of keys that are symmetries of the model; empty if the search visits all states.
  var symmetries: [KeySymmetry] = []
  /// Whether some renaming of keys is not a symmetry, because the image of some step is not a step
  /// of the topology. The search must then start again, without symmetries.
  var hasBrokenSymmetry = false
  /// Whether the step that is evaluated now is only the image of a step that the search has
  /// demanded. If so, no findings are recorded.
  var isMirroring = false
  /// The actions, by identity; empty without symmetries.
  private(set) var actionsByIdentity: [ExploredAction.Identity: ExploredAction] = [:]
  let usesSymmetries: Bool
  private let nodeLimit: Int
  /// The explored capacity of each pipe, in the order of the file. Unit: events.
  let capacities: [Int]

  /// - Parameters:
  ///   - capacities: The explored capacity of each pipe; `nil` for the capacities in `section`.
  ///   - usesSymmetries: Whether the search visits only one state of each group of states that
  ///     differ by a renaming of keys.
  init(
    _ loaded: LoadedTopology, _ section: ExploreSection, nodeLimit: Int, capacities: [Int]? = nil,
    usesSymmetries: Bool = false
  ) {
    self.usesSymmetries = usesSymmetries
    self.loaded = loaded
    self.section = section
    self.nodeLimit = nodeLimit
    self.capacities =
      capacities ?? loaded.pipes.map { ExploreSection.capacity(of: $0, in: section) }
    eventValues = EventValues(section)
  }

  func node(named name: String) -> Int? { nodes.firstIndex { $0.name == name } }
  func pipe(named name: String) -> Int? { pipes.firstIndex { $0.name == name } }

  /// Returns the indices of the outbound pipes of a node or a composite.
  func outPipes(of name: String) -> [Int] {
    pipes.indices.filter { pipes[$0].specification.sender == name }
  }

  /// Returns the origin of an action's event, for reports.
  func origin(of action: ExploredAction) -> ScenarioStep.Origin {
    switch action.origin {
    case .outside, .unevaluated: .outside
    case .pipe(let place): .pipe(pipes[place].name)
    case .effect(let node, let name): .effect(node: nodes[node].name, output: name)
    case .timer(let node): .effect(node: nodes[node].name, output: TransitionCounts.timerEventName)
    }
  }

  // MARK: Numbers of configurations

  /// Returns the number of a node's configuration. Adds the configuration if it is new.
  func number(
    of configuration: EvaluatorConfiguration, _ place: Int, in model: inout ExplorationModel
  ) -> Int {
    let node = nodes[place]
    let (number, isNew) = node.number(of: configuration)
    guard isNew else { return number }
    updateObservations(for: number, of: .node(place), in: &model)
    mapConfiguration(number, of: place, in: &model)
    if node.configurations.count > nodeLimit { nodeOverLimit = node }
    return number
  }

  /// Returns the number of a composite's combination of configurations. Adds the combination if it
  /// is new.
  private func number(
    of combination: [Int], _ place: Int, in model: inout ExplorationModel
  ) -> Int {
    let (number, isNew) = composites[place].number(of: combination)
    if isNew { updateObservations(for: number, of: .composite(place), in: &model) }
    return number
  }

  // MARK: Adding actions and events

  /// Adds an action with the vectors for its known endings.
  func add(_ action: ExploredAction, to model: inout ExplorationModel) throws {
    if !symmetries.isEmpty { actionsByIdentity[action.identity] = action }
    if action.isPostponing {
      if let taken = action.takenEvent {
        pipes[taken.pipeIndex].lane.receptionsByEventNumber[taken.eventNumber] = action
      }
      let endings = action.endings.map { $0[0] }
      action.probeVector = try addVector(action, endings, lane: nil, to: &model)
    } else {
      try addVectors(of: action, to: &model)
    }
  }

  private func addVectors(
    of action: ExploredAction, to model: inout ExplorationModel
  ) throws {
    for endings in action.combinations where action.vectorsByEndings[endings] == nil {
      action.vectorsByEndings[endings] = try addVector(action, endings, lane: nil, to: &model)
    }
  }

  func addVector(
    _ action: ExploredAction, _ endings: [ExploredAction.Ending], lane: PostponingLane.Key?,
    to model: inout ExplorationModel
  ) throws -> Int {
    var roles: [ExplorationModel.Role] = []
    var operations: [Int: QueueOperation] = [:]
    for (place, mover) in action.movers.enumerated() {
      let node = nodes[mover.node]
      let cells = node.configurations.indices.map { number -> ExplorationModel.Cell in
        if action.isPostponing { return laneCell(action, number, lane) }
        return action.cell(of: place, in: number, ending: endings[place]) ?? .unknown
      }
      roles.append(.table(node.component, cells))
      // An effect that ends without an event sends nothing.
      guard action.endingEffect == nil else { continue }
      for pipe in outPipes(of: node.baseName) {
        operations[pipe, default: .init()].requiresCapacity = true
      }
    }
    // A probe, which only asks whether the event is accepted, moves no component.
    let isMoving = !action.isPostponing || lane != nil
    for (place, composite) in action.composites.enumerated() where isMoving {
      let composite = composites[composite]
      let place = action.movers.count + place
      roles.append(
        .table(
          composite.component,
          composite.combinations.indices.map {
            action.cell(of: place, in: $0, ending: endings[place]) ?? .unknown
          }))
      guard action.endingEffect == nil else { continue }
      for pipe in outPipes(of: composite.name) {
        operations[pipe, default: .init()].requiresCapacity = true
      }
    }
    for case .sends(let sends) in endings where isMoving {
      for send in sends {
        operations[send.pipeIndex, default: .init()].appendedSymbols.append(send.eventNumber)
      }
    }
    if let put = action.putEvent {
      operations[put.pipeIndex, default: .init()].requiresCapacity = true
      operations[put.pipeIndex, default: .init()].appendedSymbols.append(put.eventNumber)
    }
    if let taken = action.takenEvent {
      operations[taken.pipeIndex, default: .init()].removedSymbol = taken.eventNumber
      if action.isPostponing {
        operations[taken.pipeIndex]?.candidateSymbols =
          lane?.acceptedEventNumbers ?? [taken.eventNumber]
      }
    }
    roles += operations.sorted { $0.key < $1.key }.map {
      .queue(pipes[$0.key].component, $0.value)
    }
    let number = try model.addVector(roles, isFromOutside: action.isFromOutside)
    vectors.append(Vector(action: action, endings: endings, lane: lane))
    return number
  }

  /// Returns the numbers of a sent event and its pipe. If the event is new in this pipe, adds the
  /// action in which the receiver gets the event.
  /// - Parameter mover: The node that sends the event in its step; `nil` for another sender.
  func send(
    _ sent: EvaluatorSend, by mover: ExploredAction.Mover? = nil, in model: inout ExplorationModel
  ) throws -> ExploredSend {
    guard let place = pipe(named: sent.pipe) else {
      throw UnknownPipeError(name: sent.pipe)
    }
    let sender = mover.flatMap { mover in
      nodes[mover.node].compositesByEvent.isEmpty
        ? nil
        : nodes[mover.node].key.map {
          ExploredPipe.Sender(key: $0.value, isCommit: mover.isInstanceOfComposite)
        }
    }
    let (number, isNew) = pipes[place].number(of: sent.event, by: sender)
    let send = ExploredSend(pipeIndex: place, eventNumber: number)
    if isNew {
      setKeys(of: send, in: &model)
      try addReception(of: send, to: &model)
      try mapEvent(send, in: &model)
    }
    return send
  }

  /// The error that a program has sent an event into a pipe that its node does not have.
  struct UnknownPipeError: Error { let name: String }

  // MARK: Filling the demanded cells

  /// Fills a table cell that the search demands, and all cells that follow from the same step.
  func answerDemand(_ demand: Exploration.Demand, in model: inout ExplorationModel) throws {
    let vector = vectors[demand.vector]
    let action = vector.action
    if let moverIndex = action.composites.firstIndex(where: {
      composites[$0].component == demand.component
    }) {
      return try resolveComposite(
        of: action, moverIndex, in: demand.localState, at: demand.state, &model)
    }
    guard
      let moverIndex = action.movers.firstIndex(where: {
        nodes[$0.node].component == demand.component
      })
    else { return }
    if action.isPostponing, vector.lane != nil {
      let cell = laneCell(action, demand.localState, vector.lane)
      return try model.setCell(
        of: demand.component, in: demand.localState, for: demand.vector,
        to: cell == .unknown ? .blocked : cell)
    }
    try resolve(action, moverIndex, in: demand.localState, at: demand.state, &model)
  }

  /// Evaluates a mover in a configuration, and fills all cells that depend on the outcome.
  /// - Parameter moverIndex: The index of the mover.
  private func resolve(
    _ action: ExploredAction, _ moverIndex: Int, in configuration: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws {
    guard action.outcomes[moverIndex][configuration] == nil else { return }
    let outcome = try outcome(of: action, moverIndex, in: configuration, at: state, &model)
    action.outcomes[moverIndex][configuration] = outcome
    if action.isPostponing {
      try fillLane(action, outcome, in: configuration, &model)
    } else {
      try fillCells(outcome, of: action, moverIndex, in: configuration, &model)
    }
    try mirror(action, moverIndex, in: configuration, at: state, &model) {
      try resolve($0, moverIndex, in: $1, at: state, &$2)
    }
  }

  /// Fills the cells of all vectors of an action, and adds vectors for a new ending.
  /// - Parameter moverIndex: The index of a mover or, after the movers, of a composite.
  func fillCells(
    _ outcome: ExploredAction.Outcome, of action: ExploredAction, _ moverIndex: Int,
    in configuration: Int, _ model: inout ExplorationModel
  ) throws {
    if let ending = action.ending(of: outcome, moverIndex),
      !action.endings[moverIndex].contains(ending)
    {
      action.endings[moverIndex].append(ending)
      try addVectors(of: action, to: &model)
    }
    let component = component(of: action, moverIndex)
    for (endings, number) in action.vectorsByEndings {
      guard let cell = action.cell(of: moverIndex, in: configuration, ending: endings[moverIndex])
      else {
        continue
      }
      try model.setCell(of: component, in: configuration, for: number, to: cell)
    }
  }

  /// Determines the next combination of a composite, and the events that its rules send.
  private func resolveComposite(
    of action: ExploredAction, _ number: Int, in combination: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws {
    let moverIndex = action.movers.count + number
    let composite = composites[action.composites[number]]
    if action.outcomes[moverIndex][combination] == nil {
      action.outcomes[moverIndex][combination] = try compositeOutcome(
        of: action, action.composites[number], in: composite.combinations[combination], at: state,
        &model)
    }
    guard let outcome = action.outcomes[moverIndex][combination] else { return }
    if action.isPostponing {
      try fillLane(action, ofComposite: moverIndex, outcome, in: combination, &model)
    } else {
      try fillCells(outcome, of: action, moverIndex, in: combination, &model)
    }
    try mirror(action, moverIndex, in: combination, at: state, &model) {
      try resolveComposite(of: $0, number, in: $1, at: state, &$2)
    }
  }

  private func compositeOutcome(
    of action: ExploredAction, _ number: Int, in combination: [Int],
    at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let composite = composites[number]
    var next = combination
    var movedNodes: [String] = []
    for (place, mover) in action.movers.enumerated() {
      guard let part = composite.nodeIndices.firstIndex(of: mover.node) else { continue }
      try resolve(action, place, in: combination[part], at: state, &model)
      switch action.outcomes[place][combination[part]] {
      case .leads(let target, _, let isInternal):
        guard mover.acceptsEvent else { return .none }
        next[part] = target
        // An effect that ends without an event enters no state.
        if action.endingEffect == nil, !isInternal { movedNodes.append(nodes[mover.node].name) }
      case .ignored(let target):
        guard mover.acceptsEvent else { return .none }
        next[part] = target
      case .refused(_, let target): next[part] = target
      case .some(.none), nil: return .none
      }
    }
    guard !movedNodes.isEmpty else {
      return .leads(to: self.number(of: next, number, in: &model), sends: [])
    }
    let states = { (combination: [Int]) in
      zip(composite.nodeIndices, combination).map { self.nodes[$0].state($1) }
    }
    do {
      let sends = try composite.sends(
        from: states(combination), to: states(next), movers: movedNodes)
      return .leads(
        to: self.number(of: next, number, in: &model),
        sends: try sends.map { try send($0, in: &model) })
    } catch let evaluatorError as EvaluatorError {
      discover(
        .badAnswer(program: composite.name, problem: "\(evaluatorError)"),
        at: ["composites", composite.name], state, action)
      return .none
    }
  }
}

// Checks in which the programs validate the states of the `explore` section.
extension TopologyModel {
  /// Checks that each state that the file lists with values is a valid state of its node.
  ///
  /// A state that is not valid is never reached, so a property about it would be meaningless. The
  /// command `check` validates common types. For other types, only the program knows the valid
  /// values.
  /// - Throws: `TopologyErrors` with the locations in the file.
  func checkConditions() throws {
    var errors: [Diagnostic] = []
    for (index, end) in section.allowedEndStates.enumerated() {
      let path = ["explore", "end"]
      let isListed = section.allowedEndStates.count > 1
      checkCombination(
        end, owner: "'explore', 'end'", at: isListed ? path + [String(index)] : path, &errors)
    }
    for property in section.properties {
      checkCombination(
        property.states, owner: "property '\(property.name)'",
        at: ["explore", "properties", property.name, property.demand.rawValue], &errors)
    }
    guard errors.isEmpty else { throw TopologyErrors(errors) }
  }

  private func checkCombination(
    _ combination: StateCombination, owner: String, at path: [String], _ errors: inout [Diagnostic]
  ) {
    for (name, condition) in combination.states.sorted(by: { $0.key < $1.key }) {
      if node(named: name) == nil, let instance = InstanceName(name),
        let known = keys.keysByNode[instance.node]
      {
        errors.append(
          loaded.source.diagnostic(
            .badValue, at: loaded.source.position(ofKey: path + [name]),
            "\(owner): the search has no instance '\(name)'; the keys of '\(instance.node)' are "
              + known.map { "'\($0.text)'" }.joined(separator: ", ")
              + "; raise 'explore: keys', or name one of them"))
        continue
      }
      // A name alone has no values to check, and some fields of a struct are not a complete state.
      guard let place = node(named: name), condition.state.string == nil,
        nodes[place].description?.stateFields == nil,
        let problem = problem(with: condition.state, of: nodes[place])
      else { continue }
      errors.append(
        loaded.source.diagnostic(
          .typeMismatch, at: path + [name],
          "\(owner): node '\(name)' has no state '\(condition)': \(problem)"))
    }
  }

  /// Returns the program's error for an invalid state; `nil` if the program can read the state.
  ///
  /// Asks the program to end an effect that does not exist. The program rejects this request in
  /// every valid state, with the same error. A different error concerns the state.
  private func problem(with state: JSONValue, of node: ExploredNode) -> String? {
    guard case .machine(let evaluator) = node.kind, let first = node.opening?.configuration else {
      return nil
    }
    func answer(in configuration: EvaluatorConfiguration) -> ProgramEvaluator.Reply {
      evaluator.evaluateRow(node.name, configuration, [.end(effect: "")])[0]
    }
    guard case .answer(.invalid(let problem)) = answer(in: EvaluatorConfiguration(state: state)),
      case .answer(.invalid(let usual)) = answer(in: first), problem != usual
    else { return nil }
    return problem
  }
}

// Evaluation of events that nodes did not receive in the search.
extension TopologyModel {
  /// The maximum number of evaluations for one event of one node.
  private static let maximumQuestionCount = 512
  /// The maximum number of values of an event to try in one state.
  private static let maximumValueCount = 8

  /// Returns whether a node accepts an event in one of the states that the search visited.
  ///
  /// An ignored event does not count as accepted. So the search does not report that an event is
  /// never enabled if the node only ignores the event.
  func acceptsInSomeState(_ node: ExploredNode, _ event: String) -> Bool {
    guard case .machine(let evaluator) = node.kind, let fields = node.opening?.events[event] else {
      return false
    }
    // Uses a copy, since remarks on these values do not belong to the search.
    var values = eventValues
    let inputs = values.events(
      EventPattern(event), of: node.baseName, fields, keyedBy: keysToTry(for: node.baseName)
    )
    .filter { event in
      guard let key = node.key, case .success(let own)? = keys.key(of: event, at: node.baseName)
      else {
        return true
      }
      return own.text == key.text
    }
    .prefix(Self.maximumValueCount).map { EvaluatorInput.take(event: $0) }
    guard !inputs.isEmpty else { return false }
    for configuration in node.configurations.prefix(Self.maximumQuestionCount / inputs.count) {
      for reply in evaluator.evaluateRow(node.name, configuration, inputs) {
        switch reply {
        case .answer(.accepted(_, _, .ignored)): continue
        case .answer(.accepted), .answer(.undecided), .impure: return true
        case .answer: continue
        // A step that traps or hangs here is not a finding, because the search did not need it.
        case .evaluatorError: return false
        }
      }
    }
    return false
  }
}
