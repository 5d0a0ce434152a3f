import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// A topology as a model of components and vectors, which grows during the search.
final class TopologyModel {
  /// The topology's view of a vector.
  struct Vector {
    let action: ExploredAction
    let endings: [ExploredAction.Ending]
    /// The events that the receiver accepts where the vector is permitted, if the pipe postpones
    /// refused events.
    ///
    /// `nil` for other pipes, and for a probe: it only finds out whether its own event is accepted,
    /// and is never enabled.
    var lane: PostponingLane.Key?
  }

  let loaded: LoadedTopology
  let section: ExploreSection
  var model = ExplorationModel()
  var nodes: [ExploredNode] = []
  var pipes: [ExploredPipe] = []
  /// The composites with outbound pipes, or with states that the `explore` section refers to.
  var composites: [ExploredComposite] = []
  var vectors: [Vector] = []
  var values: EventValues
  var discoveries = Discoveries()
  /// The states that the search watches for.
  var watches: [StateWatch] = []
  /// The evaluated steps.
  var answers: [StepQuestion: ExploredAction.Outcome] = [:]
  /// The results of checking the folds, by node.
  var foldProofs: [Int: FoldProof] = [:]
  /// The node with too many configurations, if any.
  private(set) var nodeOverLimit: ExploredNode?
  private let nodeLimit: Int
  /// The explored capacity of each pipe, in the order of the file. Unit: events.
  let capacities: [Int]

  /// - Parameter capacities: The capacities; `nil` for the capacities of the section.
  init(
    _ loaded: LoadedTopology, _ section: ExploreSection, nodeLimit: Int, capacities: [Int]? = nil
  ) {
    self.loaded = loaded
    self.section = section
    self.nodeLimit = nodeLimit
    self.capacities =
      capacities ?? loaded.pipes.map { ExploreSection.capacity(of: $0, in: section) }
    values = EventValues(section)
  }

  func node(named name: String) -> Int? { nodes.firstIndex { $0.name == name } }
  func pipe(named name: String) -> Int? { pipes.firstIndex { $0.name == name } }

  /// Returns the outbound pipes of a node or a composite.
  func outs(of name: String) -> [Int] {
    pipes.indices.filter { pipes[$0].specification.sender == name }
  }

  /// Returns the origin of an action's event, for reports.
  func origin(of action: ExploredAction) -> ScenarioStep.Origin {
    switch action.origin {
    case .outside, .anything: .outside
    case .pipe(let place): .pipe(pipes[place].name)
    case .effect(let node, let name): .effect(node: nodes[node].name, output: name)
    }
  }

  // MARK: Configurations

  /// Returns the number of a node's configuration, which may be new.
  func number(
    of configuration: EvaluatorConfiguration, _ place: Int, in model: inout ExplorationModel
  ) -> Int {
    let node = nodes[place]
    let (number, isNew) = node.number(of: configuration)
    guard isNew else { return number }
    updateObservations(for: number, of: .node(place), in: &model)
    if node.configurations.count > nodeLimit { nodeOverLimit = node }
    return number
  }

  /// Returns the number of a composite's combination, which may be new.
  private func number(
    of combination: [Int], _ place: Int, in model: inout ExplorationModel
  ) -> Int {
    let (number, isNew) = composites[place].number(of: combination)
    if isNew { updateObservations(for: number, of: .composite(place), in: &model) }
    return number
  }

  // MARK: Actions

  /// Adds an action with the vectors for its known endings.
  func add(_ action: ExploredAction, to model: inout ExplorationModel) throws {
    if action.isPostponing {
      if let taken = action.taken { pipes[taken.pipe].lane.receptions[taken.event] = action }
      let endings = action.endings.map { $0[0] }
      action.probe = try addVector(action, endings, lane: nil, to: &model)
    } else {
      try addVectors(of: action, to: &model)
    }
  }

  private func addVectors(
    of action: ExploredAction, to model: inout ExplorationModel
  ) throws {
    for endings in action.combinations where action.vectors[endings] == nil {
      action.vectors[endings] = try addVector(action, endings, lane: nil, to: &model)
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
      for pipe in outs(of: node.name) { operations[pipe, default: .init()].requiresCapacity = true }
    }
    // A probe moves no component.
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
      for pipe in outs(of: composite.name) {
        operations[pipe, default: .init()].requiresCapacity = true
      }
    }
    for case .sends(let sends) in endings where isMoving {
      for send in sends { operations[send.pipe, default: .init()].appended.append(send.event) }
    }
    if let put = action.put {
      operations[put.pipe, default: .init()].requiresCapacity = true
      operations[put.pipe, default: .init()].appended.append(put.event)
    }
    if let taken = action.taken {
      operations[taken.pipe, default: .init()].taken = taken.event
      if action.isPostponing {
        operations[taken.pipe]?.candidates = lane?.accepted ?? [taken.event]
      }
    }
    roles += operations.sorted { $0.key < $1.key }.map {
      .queue(pipes[$0.key].component, $0.value)
    }
    let number = try model.addVector(roles, isFromOutside: action.isFromOutside)
    vectors.append(Vector(action: action, endings: endings, lane: lane))
    return number
  }

  /// Returns the number of a sent event; adds its reception if it is new in its pipe.
  func send(
    _ sent: EvaluatorSend, in model: inout ExplorationModel
  ) throws -> ExploredSend {
    guard let place = pipe(named: sent.pipe) else {
      throw UnknownPipeError(name: sent.pipe)
    }
    let (number, isNew) = pipes[place].number(of: sent.event)
    let send = ExploredSend(pipe: place, event: number)
    if isNew { try addReception(of: send, to: &model) }
    return send
  }

  /// A program sent an event into a pipe that the node does not have.
  struct UnknownPipeError: Error { let name: String }

  // MARK: Demands

  /// Fills a cell that the search demands, and all cells that follow from it.
  func fill(_ demand: Exploration.Demand, in model: inout ExplorationModel) throws {
    let vector = vectors[demand.vector]
    let action = vector.action
    if let place = action.composites.firstIndex(where: {
      composites[$0].component == demand.component
    }) {
      return try resolveComposite(
        of: action, place, in: demand.localState, at: demand.state, &model)
    }
    guard
      let place = action.movers.firstIndex(where: { nodes[$0.node].component == demand.component })
    else { return }
    if action.isPostponing, vector.lane != nil {
      let cell = laneCell(action, demand.localState, vector.lane)
      return try model.setCell(
        of: demand.component, in: demand.localState, for: demand.vector,
        to: cell == .unknown ? .blocked : cell)
    }
    try resolve(action, place, in: demand.localState, at: demand.state, &model)
  }

  /// Evaluates a mover in a configuration, and fills all cells that depend on the outcome.
  private func resolve(
    _ action: ExploredAction, _ place: Int, in configuration: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws {
    guard action.outcomes[place][configuration] == nil else { return }
    let outcome = try outcome(of: action, place, in: configuration, at: state, &model)
    action.outcomes[place][configuration] = outcome
    if action.isPostponing {
      try fillLane(action, outcome, in: configuration, &model)
    } else {
      try fillCells(outcome, of: action, place, in: configuration, &model)
    }
  }

  /// Fills the cells of all vectors of an action, and adds vectors for a new ending.
  func fillCells(
    _ outcome: ExploredAction.Outcome, of action: ExploredAction, _ place: Int,
    in configuration: Int, _ model: inout ExplorationModel
  ) throws {
    if let ending = action.ending(of: outcome, place), !action.endings[place].contains(ending) {
      action.endings[place].append(ending)
      try addVectors(of: action, to: &model)
    }
    let component =
      place < action.movers.count
      ? nodes[action.movers[place].node].component
      : composites[action.composites[place - action.movers.count]].component
    for (endings, number) in action.vectors {
      guard let cell = action.cell(of: place, in: configuration, ending: endings[place]) else {
        continue
      }
      try model.setCell(of: component, in: configuration, for: number, to: cell)
    }
  }

  /// Determines the target of a composite, and the events that its rules send.
  private func resolveComposite(
    of action: ExploredAction, _ number: Int, in combination: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws {
    let place = action.movers.count + number
    let composite = composites[action.composites[number]]
    if action.outcomes[place][combination] == nil {
      action.outcomes[place][combination] = try compositeOutcome(
        of: action, action.composites[number], in: composite.combinations[combination], at: state,
        &model)
    }
    guard let outcome = action.outcomes[place][combination] else { return }
    if action.isPostponing {
      try fillLane(action, ofComposite: place, outcome, in: combination, &model)
    } else {
      try fillCells(outcome, of: action, place, in: combination, &model)
    }
  }

  private func compositeOutcome(
    of action: ExploredAction, _ number: Int, in combination: [Int],
    at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let composite = composites[number]
    var next = combination
    var moved: [String] = []
    for (place, mover) in action.movers.enumerated() {
      guard let part = composite.nodes.firstIndex(of: mover.node) else { continue }
      try resolve(action, place, in: combination[part], at: state, &model)
      switch action.outcomes[place][combination[part]] {
      case .leads(let target, _):
        guard mover.takes else { return .none }
        next[part] = target
        // An effect that ends without an event enters no state.
        if action.endingEffect == nil { moved.append(nodes[mover.node].name) }
      case .refused(_, let target): next[part] = target
      case .some(.none), nil: return .none
      }
    }
    guard !moved.isEmpty else {
      return .leads(to: self.number(of: next, number, in: &model), sends: [])
    }
    let states = { (combination: [Int]) in
      zip(composite.nodes, combination).map { self.nodes[$0].state($1) }
    }
    do {
      let sends = try composite.sends(
        from: states(combination), to: states(next), movers: moved)
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

// States that the file names, as the programs decode them.
extension TopologyModel {
  /// Checks that each state with values in the file is a valid state of its node.
  ///
  /// A state that the type cannot represent is never reached, and a property of it would be
  /// meaningless. `check` validates the types that it knows; only a program knows the values of
  /// other types.
  /// - Throws: `TopologyErrors` with the locations in the file.
  func checkConditions() throws {
    var errors: [Diagnostic] = []
    for (index, end) in section.end.enumerated() {
      let path = ["explore", "end"]
      let isListed = section.end.count > 1
      check(end, owner: "'explore', 'end'", at: isListed ? path + [String(index)] : path, &errors)
    }
    for property in section.properties {
      check(
        property.states, owner: "property '\(property.name)'",
        at: ["explore", "properties", property.name, property.demand.rawValue], &errors)
    }
    guard errors.isEmpty else { throw TopologyErrors(errors) }
  }

  private func check(
    _ combination: StateCombination, owner: String, at path: [String], _ errors: inout [Diagnostic]
  ) {
    for (name, condition) in combination.states.sorted(by: { $0.key < $1.key }) {
      // A label has no values to check, and some fields of a struct are not a complete state.
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

  /// Returns the program's error for a state that it cannot read; `nil` if it can read the state.
  ///
  /// The request is to end an effect that does not exist. A program refuses it in every state that
  /// it can read.
  private func problem(with state: JSONValue, of node: ExploredNode) -> String? {
    guard case .machine(let evaluator) = node.kind, let first = node.opening?.configuration else {
      return nil
    }
    func answer(in configuration: EvaluatorConfiguration) -> ProgramEvaluator.Reply {
      evaluator.row(node.name, configuration, [.end(effect: "")])[0]
    }
    guard case .answer(.invalid(let problem)) = answer(in: EvaluatorConfiguration(state: state)),
      case .answer(.invalid(let usual)) = answer(in: first), problem != usual
    else { return nil }
    return problem
  }
}

// Evaluation of events that nodes never received.
extension TopologyModel {
  /// The maximum number of evaluations for one event of one node.
  private static let questionLimit = 512
  /// The maximum number of values of an event to try in one state.
  private static let valueLimit = 8

  /// Returns whether a node accepts an event in one of the states that the search visited.
  ///
  /// An event that a reducer ignores in all of these states is not missing.
  func acceptsInSomeState(_ node: ExploredNode, _ event: String) -> Bool {
    guard case .machine(let evaluator) = node.kind, let fields = node.opening?.events[event] else {
      return false
    }
    // A copy: remarks on the values tried here do not belong to the search.
    var values = values
    let inputs = values.events(EventPattern(event), of: node.name, fields)
      .prefix(Self.valueLimit).map { EvaluatorInput.take(event: $0) }
    guard !inputs.isEmpty else { return false }
    for configuration in node.configurations.prefix(Self.questionLimit / inputs.count) {
      for reply in evaluator.row(node.name, configuration, inputs) {
        switch reply {
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
