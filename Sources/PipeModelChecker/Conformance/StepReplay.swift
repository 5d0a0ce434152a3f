import PipeMachines
import PipeWire

/// Takes the recorded steps of one node again, with a process of the node's program.
final class StepReplay {
  enum Comparison {
    case same
    /// The program cannot compute the step alone.
    case unverified
    case different(ConformanceReport.Violation.Code, String)
  }

  private let node: String
  private let openRequest: EvaluatorRequest
  private let path: String
  private let environment: [String: String]
  private let answerTimeout: Duration
  private var process: EvaluatorProcess?

  init(
    node: String, machine: String, parameters: JSONValue, outs: [EvaluatorOutPipe],
    path: String, environment: [String: String], answerTimeout: Duration
  ) {
    self.node = node
    openRequest = .open(node: node, machine: machine, parameters: parameters, outs: outs)
    self.path = path
    self.environment = environment
    self.answerTimeout = answerTimeout
  }

  /// Takes the step of a line again, in the state before it.
  /// - Throws: ``EvaluatorError`` if the program cannot be asked.
  func compare(_ line: StepLogLine) throws(EvaluatorError) -> Comparison {
    guard let from = line.from, let state = line.state else { return .unverified }
    let input: EvaluatorInput = line.event.map { .take(event: $0) } ?? .fire
    let request = EvaluatorRequest.row(
      node: node, configuration: EvaluatorConfiguration(state: from, effects: []), inputs: [input])
    let (answers, problem) = try openProcess().query(request, answerCount: 1)
    if let problem {
      process = nil
      // The step ends the process, as it would end the node.
      if case .ended(let exit) = problem {
        return .different(.otherStep, "the machine's step ends the process: \(exit)")
      }
      throw problem
    }
    switch answers[0] {
    case .accepted(let configuration, let sends, _), .fired(_, let configuration, let sends):
      guard configuration.state == state else {
        return .different(
          .otherStep,
          "the node went to state \(state.text), and the machine goes from \(from.text) to "
            + configuration.state.text)
      }
      return compare(sends, with: line.sent ?? [])
    case .refused(let refusal, _):
      return .different(
        .otherStep,
        "the node accepted \(line.event?.text ?? "a timer") in state \(from.text), and the machine "
          + "refuses it: \(refusal.wording)")
    case .undecided: return .unverified
    case .undecodable(let reason), .invalid(let reason):
      return .different(.otherStep, "the program cannot take the step: \(reason)")
    case .opened, .projected:
      throw .invalidAnswer("the answer does not match the request")
    }
  }

  private func compare(
    _ computed: [EvaluatorSend], with recorded: [NodeStep.PipedEvent]
  ) -> Comparison {
    let computed = Dictionary(grouping: computed, by: \.pipe).mapValues { $0.map(\.event) }
    let recorded = Dictionary(grouping: recorded, by: \.pipe)
      .mapValues { $0.map { $0.event ?? .null } }
    for pipe in Set(computed.keys).union(recorded.keys).sorted()
    where computed[pipe] != recorded[pipe] {
      func list(_ events: [JSONValue]?) -> String {
        events.map { $0.map(\.text).joined(separator: ", ") } ?? "nothing"
      }
      return .different(
        .otherEvents,
        "the node has sent \(list(recorded[pipe])) into pipe '\(pipe)', and the machine sends "
          + list(computed[pipe]))
    }
    return .same
  }

  private func openProcess() throws(EvaluatorError) -> EvaluatorProcess {
    if let process { return process }
    let process = try EvaluatorProcess(
      path: path, environment: environment, answerTimeout: answerTimeout)
    let (answers, problem) = process.query(openRequest, answerCount: 1)
    if let problem { throw problem }
    guard case .opened = answers[0] else {
      throw .invalidAnswer("node '\(node)' cannot be opened")
    }
    self.process = process
    return process
  }
}
