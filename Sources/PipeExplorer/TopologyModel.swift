import PipeExploration
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// A topology as a model of components and vectors, which grows while it is searched.
final class TopologyModel {
  /// What stands for a vector.
  struct Vector {
    let action: ExploredAction
    let endings: [ExploredAction.Ending]
    /// Of one that takes of a pipe that postpones: which events its receiver takes where it is permitted.
    /// `nil`: it only asks whether its own event is taken, and is never enabled.
    var lane: PostponingLane.Key?
  }

  /// Something that was found while the model grew; it is on the step behind a state.
  struct Discovery {
    let kind: ExplorationFinding.Kind
    let path: [String]
    /// `nil` where it is at the very start, or at no state.
    let state: StateReference?
    let action: ExploredAction?
    /// The node that refuses it, and why.
    let refusal: (node: String, reason: String)?
  }

  let loaded: LoadedTopology
  let section: ExploreSection
  var model = ExplorationModel()
  var nodes: [ExploredNode] = []
  var pipes: [ExploredPipe] = []
  /// Those that pipes lead from.
  var composites: [ExploredComposite] = []
  var vectors: [Vector] = []
  var values: EventValues
  var discoveries: [Discovery] = []
  /// What may become of the events of pipes that postpone.
  private var receptions: [ExploredSend: ExploredAction] = [:]
  /// What nodes are watched for, by the numbers of observations.
  private var watches: [(observation: Int, node: Int, condition: StateCondition)] = []
  /// For each pair of a node and an input what was answered in a configuration.
  private var answers: [Question: ExploredAction.Outcome] = [:]
  private var told: Set<ExplorationFinding.Kind> = []
  /// The node that has too many configurations.
  private(set) var overgrown: ExploredNode?
  private let nodeLimit: Int

  private struct Question: Hashable {
    let node: Int
    let configuration: Int
    let input: OracleInput
  }

  init(_ loaded: LoadedTopology, _ section: ExploreSection, nodeLimit: Int) {
    self.loaded = loaded
    self.section = section
    self.nodeLimit = nodeLimit
    values = EventValues(section)
  }

  func node(named name: String) -> Int? { nodes.firstIndex { $0.name == name } }
  func pipe(named name: String) -> Int? { pipes.firstIndex { $0.name == name } }

  /// The pipes that lead from a node, or a composite.
  func outs(of name: String) -> [Int] {
    pipes.indices.filter { pipes[$0].specification.sender == name }
  }

  // MARK: Watching

  /// Looks out for a combination of states; returns the number of the observation.
  func watch(_ combination: StateCombination) throws -> Int {
    var sets: [Int: Set<Int>] = [:]
    var added: [(node: Int, condition: StateCondition)] = []
    for (name, given) in combination.states {
      guard let place = node(named: name) else { continue }
      let node = nodes[place]
      var condition = given
      condition.fields = node.description?.stateFields?.map(\.name)
      added.append((place, condition))
      sets[node.component] = Set(
        node.configurations.indices.filter { condition.matches(node.state($0)) })
    }
    let number = try model.addObservation(sets)
    watches += added.map { (number, $0.node, $0.condition) }
    return number
  }

  // MARK: Configurations

  /// The number of a node's configuration, which may be new.
  func number(
    of configuration: OracleConfiguration, _ place: Int, in model: inout ExplorationModel
  ) -> Int {
    let node = nodes[place]
    let (number, isNew) = node.number(of: configuration)
    guard isNew else { return number }
    for watch in watches where watch.node == place && watch.condition.matches(node.state(number)) {
      model.include(number, of: node.component, in: watch.observation)
    }
    if node.configurations.count > nodeLimit { overgrown = node }
    return number
  }

  // MARK: Actions

  /// Adds an action, with the vectors for the endings that are known.
  func add(_ action: ExploredAction, to model: inout ExplorationModel) throws {
    if action.isPostponing {
      if let taken = action.taken { receptions[taken] = action }
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

  private func addVector(
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
      for pipe in outs(of: node.name) { operations[pipe, default: .init()].needsRoom = true }
    }
    // One that only asks moves nobody.
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
      for pipe in outs(of: composite.name) { operations[pipe, default: .init()].needsRoom = true }
    }
    for case .sends(let sends) in endings where isMoving {
      for send in sends { operations[send.pipe, default: .init()].appended.append(send.event) }
    }
    if let put = action.put {
      operations[put.pipe, default: .init()].needsRoom = true
      operations[put.pipe, default: .init()].appended.append(put.event)
    }
    if let taken = action.taken {
      operations[taken.pipe, default: .init()].taken = taken.event
      if action.isPostponing {
        operations[taken.pipe]?.amongst = lane?.accepted ?? [taken.event]
      }
    }
    roles += operations.sorted { $0.key < $1.key }.map {
      .queue(pipes[$0.key].component, $0.value)
    }
    let number = try model.addVector(roles, isFromOutside: action.isFromOutside)
    vectors.append(Vector(action: action, endings: endings, lane: lane))
    return number
  }

  // MARK: Demands

  /// Fills a cell that the search needs, with all that follows from it.
  func fill(_ demand: PipeExploration.Exploration.Demand, in model: inout ExplorationModel) throws {
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

  /// Finds out what a mover does in a configuration, and fills all cells that this tells of.
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
      try spread(outcome, of: action, place, in: configuration, &model)
    }
  }

  /// Fills the cells of all vectors of an action, and adds those for an ending that is new.
  private func spread(
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

  /// Finds out where a composite is led to, and what its rules send.
  private func resolveComposite(
    of action: ExploredAction, _ number: Int, in combination: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws {
    let place = action.movers.count + number
    let composite = composites[action.composites[number]]
    if action.outcomes[place][combination] == nil {
      action.outcomes[place][combination] = try compositeOutcome(
        of: action, composite, in: composite.combinations[combination], at: state, &model)
    }
    guard let outcome = action.outcomes[place][combination] else { return }
    if action.isPostponing {
      try fillLane(action, ofComposite: place, outcome, in: combination, &model)
    } else {
      try spread(outcome, of: action, place, in: combination, &model)
    }
  }

  private func compositeOutcome(
    of action: ExploredAction, _ composite: ExploredComposite, in combination: [Int],
    at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    var next = combination
    var moved: [String] = []
    for (place, mover) in action.movers.enumerated() {
      guard let part = composite.nodes.firstIndex(of: mover.node) else { continue }
      try resolve(action, place, in: combination[part], at: state, &model)
      switch action.outcomes[place][combination[part]] {
      case .leads(let target, _):
        guard mover.takes else { return .none }
        next[part] = target
        moved.append(nodes[mover.node].name)
      case .refused(_, let target): next[part] = target
      case .some(.none), nil: return .none
      }
    }
    guard !moved.isEmpty else { return .leads(to: composite.number(of: next), sends: []) }
    let states = { (combination: [Int]) in
      zip(composite.nodes, combination).map { self.nodes[$0].state($1) }
    }
    do {
      let sends = try composite.sends(
        from: states(combination), to: states(next), movers: moved)
      return .leads(
        to: composite.number(of: next), sends: try sends.map { try send($0, in: &model) })
    } catch let trouble as OracleTrouble {
      discover(
        .badAnswer(program: composite.name, problem: "\(trouble)"),
        at: ["composites", composite.name], state, action)
      return .none
    }
  }

  /// What a mover does in a configuration. What is found by that is noted.
  private func outcome(
    of action: ExploredAction, _ place: Int, in configuration: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let mover = action.movers[place]
    if let known = action.outcomes[place][configuration] { return known }
    let outcome: ExploredAction.Outcome
    if let problem = mover.problem {
      outcome = .refused(because: problem, to: configuration)
    } else {
      outcome = try answer(mover, in: configuration, action, at: state, &model)
    }
    if case .refused(let reason, _) = outcome {
      note(refusal: reason, of: action, by: mover, in: configuration, at: state)
    }
    return outcome
  }

  private func answer(
    _ mover: ExploredAction.Mover, in configuration: Int, _ action: ExploredAction,
    at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let question = Question(
      node: mover.node, configuration: configuration, input: mover.input)
    if let known = answers[question] { return known }
    let node = nodes[mover.node]
    let outcome: ExploredAction.Outcome
    switch node.kind {
    case .any: outcome = .leads(to: configuration, sends: [])
    case .constant: outcome = .refused(because: "noTransition", to: configuration)
    case .machine(let oracle):
      let asked = node.configurations[configuration]
      if case .give(let effect, _) = mover.input, !asked.effects.contains(effect) {
        return .none
      }
      let reply = oracle.row(node.name, asked, [mover.input])[0]
      outcome = try take(reply, of: mover, in: configuration, action, at: state, &model)
      checkFold(reply, oracle, mover, configuration)
    }
    answers[question] = outcome
    return outcome
  }

  private func take(
    _ reply: ProgramOracle.Reply, of mover: ExploredAction.Mover, in configuration: Int,
    _ action: ExploredAction, at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let node = nodes[mover.node]
    let program = loaded.topology.node(node.name).flatMap(loaded.topology.program(of:)) ?? ""
    func discover(_ kind: ExplorationFinding.Kind) {
      self.discover(kind, at: ["nodes", node.name], state, action)
    }
    switch reply {
    case .answer(.moved(let next, let sends)):
      return .leads(
        to: number(of: next, mover.node, in: &model),
        sends: try sends.map { try self.send($0, in: &model) })
    case .answer(.refused(let refusal, let next)):
      return .refused(
        because: refusal.error.map { "thrown: \($0)" } ?? refusal.code,
        to: mover.refusal == .step ? number(of: next, mover.node, in: &model) : configuration)
    case .answer(.undecodable(let problem)):
      return .refused(because: problem, to: configuration)
    case .answer(.unable):
      values.note(.limit(.noAnswer(program: program)))
      return .none
    case .answer(.opened), .answer(.invalid), .answer(.projected):
      discover(.badAnswer(program: program, problem: "\(reply)"))
    case .impure(let answers):
      discover(
        .impure(
          node: node.name, event: action.event, state: node.state(configuration),
          answers: answers.map(Self.text)))
      // One of the two is as good as the other.
      return try take(
        .answer(answers[0]), of: mover, in: configuration, action, at: state, &model)
    case .trouble(.ended(let how)):
      discover(
        .crash(
          node: node.name, event: action.event, state: node.state(configuration), how: how))
    case .trouble(.late(let after)):
      discover(.lateAnswer(program: program, node: node.name, after: after))
    case .trouble(.garbage(let said)), .trouble(.notStarted(let said)):
      discover(.badAnswer(program: program, problem: said))
    }
    return .none
  }

  private static func text(of answer: OracleAnswer) -> String {
    switch answer {
    case .moved(let next, let sends):
      ([next.state.text] + sends.map { "sends \($0.event.text)" }).joined(separator: ", ")
    case .refused(let refusal, _): "refused: \(refusal.code)"
    case .undecodable(let problem), .invalid(let problem): problem
    case .unable(let reason): reason
    case .opened, .projected: "an answer to another question"
    }
  }

  /// An event that was sent, which may be the first of its kind in its pipe.
  func send(
    _ sent: OracleSend, in model: inout ExplorationModel
  ) throws -> ExploredSend {
    guard let place = pipe(named: sent.pipe) else {
      throw UnknownPipe(name: sent.pipe)
    }
    let (number, isNew) = pipes[place].number(of: sent.event)
    let send = ExploredSend(pipe: place, event: number)
    if isNew { try addReception(of: send, to: &model) }
    return send
  }

  /// A program has sent something into a pipe that it was not told of.
  struct UnknownPipe: Error { let name: String }

  // MARK: Findings

  /// Notes a finding once.
  func discover(
    _ kind: ExplorationFinding.Kind, at path: [String], _ state: StateReference?,
    _ action: ExploredAction?, refusal: (node: String, reason: String)? = nil
  ) {
    guard told.insert(kind).inserted else { return }
    discoveries.append(
      Discovery(kind: kind, path: path, state: state, action: action, refusal: refusal))
  }

  private func note(
    refusal reason: String, of action: ExploredAction, by mover: ExploredAction.Mover,
    in configuration: Int, at state: StateReference
  ) {
    guard case .pipe(let place) = action.origin else { return }
    let pipe = pipes[place]
    let node = nodes[mover.node]
    let path = ["pipes", String(pipe.place)]
    let stands = node.state(configuration)
    switch mover.refusal {
    case .letter:
      discover(
        .deadLetter(
          pipe: pipe.name, node: node.name, event: action.event, state: stands, reason: reason),
        at: path, state, action, refusal: (node.name, reason))
    case .failure:
      discover(
        .fatalRefusal(
          pipe: pipe.name, node: node.name, event: action.event, state: stands, reason: reason),
        at: path, state, action, refusal: (node.name, reason))
    case .waits, .step, .postponed: break
    }
  }

  /// Asks the same of a configuration that was folded into this one.
  private func checkFold(
    _ reply: ProgramOracle.Reply, _ oracle: ProgramOracle, _ mover: ExploredAction.Mover,
    _ configuration: Int
  ) {
    let node = nodes[mover.node]
    guard let other = node.unfolded[configuration], case .answer(let answer) = reply,
      case .answer(let otherAnswer) = oracle.row(node.name, other, [mover.input])[0],
      folded(answer, node) != folded(otherAnswer, node),
      let field = section.fold[node.name]?.sorted(by: { $0.key < $1.key }).first
    else { return }
    let event: JSONValue? =
      switch mover.input {
      case .take(let event), .give(_, let event): event
      case .end: nil
      }
    discover(
      .brokenFold(
        node: node.name, field: field.key, modulo: field.value, event: event,
        states: [node.state(configuration), other.state]),
      at: ["explore", "fold", node.name, field.key], nil, nil)
  }

  private func folded(_ answer: OracleAnswer, _ node: ExploredNode) -> OracleAnswer {
    switch answer {
    case .moved(let next, let sends):
      .moved(configuration: node.folded(next), sends: sends)
    case .refused(let refusal, let next):
      .refused(because: refusal, configuration: node.folded(next))
    case .opened, .undecodable, .unable, .invalid, .projected: answer
    }
  }

  /// The remaining answers of a configuration that has just been found to be folded are compared, too.
  func checkFolds() {
    for (question, _) in answers {
      let node = nodes[question.node]
      guard node.unfolded[question.configuration] != nil, case .machine(let oracle) = node.kind
      else { continue }
      let reply = oracle.row(
        node.name, node.configurations[question.configuration], [question.input])[0]
      let mover = ExploredAction.Mover(
        node: question.node, input: question.input, refusal: .waits)
      checkFold(reply, oracle, mover, question.configuration)
    }
  }
}

// Pipes whose refused events wait, and let others pass.
extension TopologyModel {
  private func laneCell(
    _ action: ExploredAction, _ configuration: Int, _ lane: PostponingLane.Key?
  ) -> ExplorationModel.Cell {
    guard let taken = action.taken else { return .blocked }
    let known = pipes[taken.pipe].lane.accepted[configuration]
    guard let lane else {
      // One that asks is answered elsewhere.
      return action.outcomes[0][configuration] == nil ? .unknown : .blocked
    }
    guard let known else { return .unknown }
    guard Set(known.keys) == lane.accepted, let step = known[taken.event],
      step.sends == lane.sends
    else { return .blocked }
    return .leads(to: step.target)
  }

  /// Makes the vectors of a configuration anew, where one more event is known to be taken in it.
  private func fillLane(
    _ action: ExploredAction, _ outcome: ExploredAction.Outcome, in configuration: Int,
    _ model: inout ExplorationModel
  ) throws {
    guard let taken = action.taken else { return }
    let pipe = pipes[taken.pipe]
    let component = nodes[action.movers[0].node].component
    if let probe = action.probe {
      try model.setCell(of: component, in: configuration, for: probe, to: .blocked)
    }
    let before = pipe.lane.accepted[configuration] ?? [:]
    pipe.lane.accepted[configuration] = before
    guard case .leads(let target, let sends) = outcome else { return }
    pipe.lane.accepted[configuration]?[taken.event] = (target, sends)
    for (key, number) in pipe.lane.vectors where key.accepted == Set(before.keys) {
      // Where it was permitted, another one takes its place.
      try model.setCell(of: component, in: configuration, for: number, to: .blocked)
    }
    let now = pipe.lane.accepted[configuration] ?? [:]
    for (event, step) in now {
      guard let own = receptions[ExploredSend(pipe: taken.pipe, event: event)] else { continue }
      for combination in own.compositeCombinations {
        let key = PostponingLane.Key(
          event: event, sends: step.sends, accepted: Set(now.keys), composites: combination)
        if let number = pipe.lane.vectors[key] {
          try model.setCell(
            of: component, in: configuration, for: number, to: .leads(to: step.target))
        } else {
          pipe.lane.vectors[key] = try addVector(
            own, [.sends(step.sends)] + combination, lane: key, to: &model)
        }
      }
    }
  }

  /// The same for a composite that moves with the node.
  private func fillLane(
    _ action: ExploredAction, ofComposite place: Int, _ outcome: ExploredAction.Outcome,
    in combination: Int, _ model: inout ExplorationModel
  ) throws {
    guard let taken = action.taken else { return }
    let pipe = pipes[taken.pipe]
    if let ending = action.ending(of: outcome, place), !action.endings[place].contains(ending) {
      action.endings[place].append(ending)
      for (key, _) in pipe.lane.vectors where key.event == taken.event {
        for combination in action.compositeCombinations {
          let other = PostponingLane.Key(
            event: key.event, sends: key.sends, accepted: key.accepted, composites: combination)
          guard pipe.lane.vectors[other] == nil else { continue }
          pipe.lane.vectors[other] = try addVector(
            action, [.sends(key.sends)] + combination, lane: other, to: &model)
        }
      }
    }
    let component = composites[action.composites[place - action.movers.count]].component
    for (key, number) in pipe.lane.vectors where key.event == taken.event {
      let ending = key.composites[place - action.movers.count]
      guard let cell = action.cell(of: place, in: combination, ending: ending) else { continue }
      try model.setCell(of: component, in: combination, for: number, to: cell)
    }
  }
}
