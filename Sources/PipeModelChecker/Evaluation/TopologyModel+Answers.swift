import PipeMachines
import PipeTopology
import PipeWire

/// A question about a step: an input of a node in one of its configurations.
struct StepQuestion: Hashable {
  let node: Int
  let configuration: Int
  let input: EvaluatorInput
}

// The answers about steps, and the findings that follow from them.
extension TopologyModel {
  /// Returns the outcome for a mover in a configuration, and records findings.
  func outcome(
    of action: ExploredAction, _ place: Int, in configuration: Int, at state: StateReference,
    _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let mover = action.movers[place]
    if let known = action.outcomes[place][configuration] { return known }
    let outcome: ExploredAction.Outcome
    if let problem = mover.problem {
      outcome = .refused(reason: problem, to: configuration)
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
    let question = StepQuestion(
      node: mover.node, configuration: configuration, input: mover.input)
    if let known = answers[question] { return known }
    let node = nodes[mover.node]
    let outcome: ExploredAction.Outcome
    switch node.kind {
    case .any: outcome = .leads(to: configuration, sends: [])
    case .constant: outcome = .refused(reason: "noTransition", to: configuration)
    case .silent: outcome = .none
    case .machine(let evaluator):
      let current = node.configurations[configuration]
      switch mover.input {
      case .give(let effect, _) where !current.effects.contains(effect),
        .end(let effect) where !current.effects.contains(effect):
        return .none
      case .give, .end, .take: break
      }
      let reply = evaluator.row(node.name, current, [mover.input])[0]
      outcome = try take(reply, of: mover, in: configuration, action, at: state, &model)
    }
    answers[question] = outcome
    return outcome
  }

  private func take(
    _ reply: ProgramEvaluator.Reply, of mover: ExploredAction.Mover, in configuration: Int,
    _ action: ExploredAction, at state: StateReference, _ model: inout ExplorationModel
  ) throws -> ExploredAction.Outcome {
    let node = nodes[mover.node]
    let program = loaded.topology.node(node.name).flatMap(loaded.topology.program(of:)) ?? ""
    func discover(_ kind: ExplorationFinding.Kind) {
      self.discover(kind, at: ["nodes", node.name], state, action)
    }
    switch reply {
    case .answer(.accepted(let next, let sends)):
      if let problem = answerCheck(of: node.name)?.problem(in: sends) {
        return try take(
          .evaluatorError(.invalidAnswer(problem)), of: mover, in: configuration, action, at: state,
          &model)
      }
      return .leads(
        to: number(of: next, mover.node, in: &model),
        sends: try sends.map { try self.send($0, in: &model) })
    case .answer(.refused(let refusal, let next)):
      return .refused(
        reason: refusal.error.map { "thrown: \($0)" } ?? refusal.code,
        to: mover.refusal == .step ? number(of: next, mover.node, in: &model) : configuration)
    case .answer(.undecodable(let problem)):
      if case .pipe = action.origin { return .refused(reason: problem, to: configuration) }
      // The event does not occur in a run: the file or the search made it up.
      values.note(.limit(.notEvaluated(node: node.name, event: action.event, because: problem)))
      return .none
    case .answer(.undecided(let reason)):
      values.note(.limit(.notEvaluated(node: node.name, event: action.event, because: reason)))
      return .none
    case .answer(.opened), .answer(.invalid), .answer(.projected):
      values.note(.limit(.noAnswer(program: program)))
      discover(.badAnswer(program: program, problem: Self.text(of: reply)))
    case .impure(let answers):
      values.note(.impure(node: node.name))
      discover(
        .impure(
          node: node.name, event: action.event, state: node.state(configuration),
          answers: answers.map(Self.text)))
      // Either answer is possible; the search follows the first one.
      return try take(
        .answer(answers[0]), of: mover, in: configuration, action, at: state, &model)
    case .evaluatorError(.ended(let how)):
      discover(
        .crash(
          node: node.name, event: action.event, state: node.state(configuration), how: how))
    case .evaluatorError(.timedOut(let after)):
      values.note(.limit(.noAnswer(program: program)))
      discover(.lateAnswer(program: program, node: node.name, after: after))
    case .evaluatorError(.invalidAnswer(let details)), .evaluatorError(.launchFailed(let details)):
      values.note(.limit(.noAnswer(program: program)))
      discover(.badAnswer(program: program, problem: details))
    }
    return .none
  }

  /// Returns a check of the answers for a node against its machine; `nil` if the machine is unknown.
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
    case .accepted(let next, let sends):
      ([next.state.text] + sends.map { "sends \($0.event.text)" }).joined(separator: ", ")
    case .refused(let refusal, _): "refused: \(refusal.code)"
    case .undecodable(let problem), .invalid(let problem): problem
    case .undecided(let reason): reason
    case .opened, .projected: "the answer does not match the request"
    }
  }

  private func note(
    refusal reason: String, of action: ExploredAction, by mover: ExploredAction.Mover,
    in configuration: Int, at state: StateReference
  ) {
    guard case .pipe(let place) = action.origin else { return }
    let pipe = pipes[place]
    let node = nodes[mover.node]
    let path = ["pipes", String(pipe.place)]
    let currentState = node.state(configuration)
    switch mover.refusal {
    // A thrown error becomes a dead letter although other refusals are ignored.
    case .deadLetter,
      .ignored where Refusal(code: reason, error: nil)?.canBeIgnored != true:
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
    case .waits, .step, .postponed, .ignored: break
    }
  }
}

/// Checks a program's answers for a node against the program's description of the node's machine.
struct AnswerCheck {
  private let node: String
  private let description: MachineDescription
  /// The outbound pipes of the node.
  private let pipes: Set<String>

  /// - Parameter description: The machine, as reported by the program's `describe`.
  init(of node: String, _ description: MachineDescription, pipes: some Sequence<String>) {
    self.node = node
    self.description = description
    self.pipes = Set(pipes)
  }

  /// Returns a description of an error in a node's start, or `nil` if there is none.
  func problem(in opening: EvaluatorOpening) -> String? {
    let state = opening.configuration.state
    // Another encoding may write the same values differently, but the case is the same.
    if description.stateFields == nil, state.caseName != description.initial.caseName {
      return
        "node '\(node)' starts in state '\(state.caseText)', but \(machine) lists initial state "
        + "'\(description.initial.caseText)'"
    }
    if let name = Self.first(of: opening.events.keys, notIn: description.events.map(\.name)) {
      return "node '\(node)' accepts event '\(name)', which \(machine) does not list"
    }
    let effects = opening.effects.map(\.name).filter { !$0.hasPrefix("feedback") }
    if let name = Self.first(of: effects, notIn: description.outputs.map(\.name)) {
      return "node '\(node)' has output '\(name)', which \(machine) does not list"
    }
    return problem(in: opening.sends)
  }

  /// Returns a description of an error in the events that a step sends, or `nil` if there is none.
  func problem(in sends: [EvaluatorSend]) -> String? {
    Self.first(of: sends.map(\.pipe), notIn: pipes).map {
      "node '\(node)' sends to pipe '\($0)', which is not an outbound pipe of the node"
    }
  }

  private var machine: String { "the description of machine '\(description.machine)'" }

  private static func first(
    of names: some Sequence<String>, notIn known: some Collection<String>
  ) -> String? {
    names.sorted().first { !known.contains($0) }
  }
}
