import PipeMachines
import PipeTopology
import PipeWire

/// A question to a step evaluator: which step does a node take for an input in a configuration?
struct StepQuestion: Hashable {
  let node: Int
  let configuration: Int
  let input: EvaluatorInput
}

// The answers of step evaluators, and the findings that follow from the answers.
extension TopologyModel {
  /// Returns the outcome of an action for one of the action's movers, the nodes that take part.
  /// Records findings.
  /// - Parameters:
  ///   - moverIndex: The index of the mover in the action.
  ///   - configuration: The number of the mover's configuration before the action.
  func outcome(
    of action: ExploredAction, _ moverIndex: Int, in configuration: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let mover = action.movers[moverIndex]
    if let known = action.outcomes[moverIndex][configuration] { return known }
    var outcome: ExploredAction.Outcome
    if let problem = mover.problem {
      outcome = .refused(reason: problem, to: configuration)
    } else {
      outcome = try answer(mover, in: configuration, action, at: state, &model)
    }
    if case .ignored = outcome, mover.isInstanceOfComposite,
      !nodes[mover.node].isCreated(configuration), let opening = nodes[mover.node].opening
    {
      // The commit of a synchronized event is a step of each participant, even if the participant
      // ignores the event. The first step of an instance creates the instance.
      outcome = .leads(
        to: number(of: opening.configuration, mover.node, in: &model),
        sends: try opening.sends.map { try send($0, by: mover, in: &model) })
    }
    if case .refused(let reason, _) = outcome {
      recordRefusal(refusal: reason, of: action, by: mover, in: configuration, at: state)
    }
    return outcome
  }

  private func answer(
    _ mover: ExploredAction.Mover, in configuration: Int, _ action: ExploredAction,
    at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let question = StepQuestion(
      node: mover.node, configuration: configuration, input: mover.input)
    if let known = outcomesByQuestion[question] { return known }
    let node = nodes[mover.node]
    let outcome: ExploredAction.Outcome
    switch node.kind {
    case .unevaluated: outcome = .leads(to: configuration, sends: [])
    case .constant: outcome = .refused(reason: "noTransition", to: configuration)
    case .unanswering: outcome = .none
    case .machine(let evaluator):
      let current = node.configurations[configuration]
      switch mover.input {
      case .give(let effect, _) where !current.effects.contains(effect),
        .end(let effect) where !current.effects.contains(effect):
        return .none
      case .give, .end, .take, .fire: break
      }
      let reply = evaluator.evaluateRow(node.name, current, [mover.input])[0]
      outcome = try handleReply(reply, of: mover, in: configuration, action, at: state, &model)
    }
    outcomesByQuestion[question] = outcome
    return outcome
  }

  private func handleReply(
    _ reply: ProgramEvaluator.Reply, of mover: ExploredAction.Mover, in configuration: Int,
    _ action: ExploredAction, at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let node = nodes[mover.node]
    let program = loaded.topology.node(node.baseName).flatMap(loaded.topology.program(of:)) ?? ""
    func discover(_ kind: ExplorationFinding.Kind) {
      self.discover(kind, at: ["nodes", node.baseName], state, action)
    }
    switch reply {
    case .answer(.accepted(let next, _, .ignored)):
      return .ignored(to: number(of: next, mover.node, in: &model))
    case .answer(.accepted(let next, let sends, let kind)):
      if let problem = answerCheck(of: node.baseName)?.problem(in: sends) {
        return try handleReply(
          .evaluatorError(.invalidAnswer(problem)), of: mover, in: configuration, action, at: state,
          &model)
      }
      return .leads(
        to: number(of: next, mover.node, in: &model),
        sends: try sends.map { try self.send($0, by: mover, in: &model) },
        isInternal: kind == .internal)
    case .answer(.fired(let delay, let next, let sends)):
      node.timerDurations[configuration] = delay
      return try handleReply(
        .answer(.accepted(configuration: next, sends: sends)), of: mover, in: configuration, action,
        at: state, &model)
    case .answer(.refused(let refusal, let next)):
      return .refused(
        reason: refusal.error.map { "thrown: \($0)" } ?? refusal.code,
        to: mover.refusal == .effectEnds ? number(of: next, mover.node, in: &model) : configuration)
    case .answer(.undecodable(let problem)):
      if case .pipe = action.origin { return .refused(reason: problem, to: configuration) }
      // At run time, no node sends this event: it comes from the topology file, or is a sample of
      // the search.
      eventValues.note(
        .limit(.notEvaluated(node: node.name, event: action.event, because: problem)))
      return .none
    case .answer(.undecided(let reason)):
      eventValues.note(.limit(.notEvaluated(node: node.name, event: action.event, because: reason)))
      return .none
    case .answer(.opened), .answer(.invalid), .answer(.projected), .answer(.replaying),
      .answer(.replayed):
      eventValues.note(.limit(.noAnswer(program: program)))
      discover(.badAnswer(program: program, problem: Self.text(of: reply)))
    case .impure(let answers):
      eventValues.note(.impure(node: node.name))
      discover(
        .impure(
          node: node.name, event: action.event, state: node.state(configuration),
          answers: answers.map(Self.text)))
      // The two answers differ, and both are possible. The search continues with the first answer.
      return try handleReply(
        .answer(answers[0]), of: mover, in: configuration, action, at: state, &model)
    case .evaluatorError(.ended(let how)):
      discover(
        .crash(
          node: node.name, event: action.event, state: node.state(configuration),
          exitDescription: how))
    case .evaluatorError(.timedOut(let after)):
      eventValues.note(.limit(.noAnswer(program: program)))
      discover(.lateAnswer(program: program, node: node.name, after: after))
    case .evaluatorError(.invalidAnswer(let details)), .evaluatorError(.launchFailed(let details)):
      eventValues.note(.limit(.noAnswer(program: program)))
      discover(.badAnswer(program: program, problem: details))
    }
    return .none
  }

  /// Returns the checker for the evaluator's answers about a node; `nil` if there is no description
  /// of the node's machine.
  func answerCheck(of node: String) -> AnswerCheck? {
    loaded.descriptions[node].map { description in
      AnswerCheck(
        of: node, description,
        pipes: loaded.pipes.lazy.filter { $0.sender == node }.map(\.name))
    }
  }

  private static func text(of reply: ProgramEvaluator.Reply) -> String {
    switch reply {
    case .answer(let answer): text(of: answer)
    case .impure(let answers): answers.map(text(of:)).joined(separator: " and ")
    case .evaluatorError(let evaluatorError): "\(evaluatorError)"
    }
  }

  private static func text(of answer: EvaluatorAnswer) -> String {
    switch answer {
    case .accepted(_, _, .ignored): "ignored"
    case .accepted(let next, let sends, let kind):
      ([next.state.text] + (kind == .internal ? ["without entry"] : [])
        + sends.map { "sends \($0.event.text)" }).joined(separator: ", ")
    case .fired(_, let next, let sends):
      text(of: .accepted(configuration: next, sends: sends))
    case .refused(let refusal, _): "refused: \(refusal.code)"
    case .undecodable(let problem), .invalid(let problem): problem
    case .undecided(let reason): reason
    case .opened, .projected, .replaying, .replayed: "the answer does not match the request"
    }
  }

  private func recordRefusal(
    refusal reason: String, of action: ExploredAction, by mover: ExploredAction.Mover,
    in configuration: Int, at state: StateReference
  ) {
    guard case .pipe(let place) = action.origin else { return }
    let pipe = pipes[place]
    let node = nodes[mover.node]
    let path = ["pipes", String(pipe.index)]
    // An instance that does not exist yet refuses the same events as an instance in the initial
    // state.
    let currentState =
      node.isCreated(configuration)
      ? node.state(configuration) : node.opening?.configuration.state ?? .null
    switch mover.refusal {
    case .ignored where Refusal(code: reason, error: nil)?.canBeIgnored == true:
      discover(
        .ignoredEvent(
          pipe: pipe.name, node: node.name, event: action.event, state: currentState, reason: reason
        ),
        at: path, state, action, refusal: (node.name, reason))
    // An event that is refused because of an error becomes a dead letter, even if the pipe ignores
    // refusals.
    case .deadLetter, .ignored:
      discover(
        .deadLetter(
          pipe: pipe.name, node: node.name, event: action.event, state: currentState, reason: reason
        ),
        at: path, state, action, refusal: (node.name, reason))
    case .failure:
      discover(
        .fatalRefusal(
          pipe: pipe.name, node: node.name, event: action.event, state: currentState, reason: reason
        ),
        at: path, state, action, refusal: (node.name, reason))
    case .waits, .effectEnds, .postponed: break
    }
  }
}

/// Checks a program's answers for a node against the program's description of the node's machine.
struct AnswerCheck {
  private let node: String
  private let description: MachineDescription
  /// The outbound pipes of the node.
  private let pipes: Set<String>

  /// - Parameters:
  ///   - node: The name of the node.
  ///   - description: The description of the node's machine, from the program's `describe` command.
  ///   - pipes: The names of the node's outbound pipes.
  init(of node: String, _ description: MachineDescription, pipes: some Sequence<String>) {
    self.node = node
    self.description = description
    self.pipes = Set(pipes)
  }

  /// Returns a description of an error in the initial step of a node; `nil` if there is none.
  func problem(in opening: EvaluatorOpening) -> String? {
    let state = opening.configuration.state
    // Compares only the names of the states, since the values in a state may be encoded
    // differently.
    if description.stateFields == nil, state.caseName != description.initial.caseName {
      return
        "node '\(node)' starts in state '\(state.caseText)', but \(machine) lists initial state "
        + "'\(description.initial.caseText)'"
    }
    if let name = Self.firstName(of: opening.events.keys, notIn: description.events.map(\.name)) {
      return "node '\(node)' accepts event '\(name)', which \(machine) does not list"
    }
    let effects = opening.effects.map(\.name).filter { !$0.hasPrefix("feedback") }
    if let name = Self.firstName(of: effects, notIn: description.outputs.map(\.name)) {
      return "node '\(node)' has output '\(name)', which \(machine) does not list"
    }
    return problem(in: opening.sends)
  }

  /// Returns a description of an error in the events that a step sends; `nil` if there is none.
  func problem(in sends: [EvaluatorSend]) -> String? {
    Self.firstName(of: sends.map(\.pipe), notIn: pipes).map {
      "node '\(node)' sends to pipe '\($0)', which is not an outbound pipe of the node"
    }
  }

  private var machine: String { "the description of machine '\(description.machine)'" }

  private static func firstName(
    of names: some Sequence<String>, notIn known: some Collection<String>
  ) -> String? {
    names.sorted().first { !known.contains($0) }
  }
}
