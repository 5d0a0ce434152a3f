import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// Evaluates single steps with a program. After a request that ends the process, it starts a new process.
final class ProgramEvaluator {
  enum Reply {
    case answer(EvaluatorAnswer)
    case evaluatorError(EvaluatorError)
    /// A second process gave another answer.
    case impure([EvaluatorAnswer])
  }

  private struct Question: Hashable {
    let node: String
    let configuration: EvaluatorConfiguration
    let input: EvaluatorInput
  }

  private let path: String
  private let environment: [String: String]
  private let answerTimeout: Duration
  private var opened: [String: EvaluatorRequest] = [:]
  /// The answers so far; a topology is searched several times, with the same questions.
  private var cache: [Question: Reply] = [:]
  private var process: EvaluatorProcess?
  private var secondProcess: EvaluatorProcess?
  /// The number of answers so far, by node.
  private var answerCounts: [String: Int] = [:]

  /// The maximum number of inputs in one request.
  private static let batchLimit = 64

  init(path: String, environment: [String: String], answerTimeout: Duration) {
    self.path = path
    self.environment = environment
    self.answerTimeout = answerTimeout
  }

  /// Opens a node for evaluation, and returns its initial configuration.
  func open(
    _ node: String, machine: String, parameters: JSONValue, outs: [EvaluatorOutPipe]
  ) throws(EvaluatorError) -> EvaluatorOpening {
    let request = EvaluatorRequest.open(
      node: node, machine: machine, parameters: parameters, outs: outs)
    let (answers, evaluatorError) = try start().query(request, 1)
    if let evaluatorError {
      process = nil
      throw evaluatorError
    }
    switch answers[0] {
    case .opened(let opening):
      opened[node] = request
      return opening
    case let other: throw .invalidAnswer(Self.text(of: other))
    }
  }

  /// Evaluates several inputs in one configuration of a node; returns a reply for each input.
  func row(
    _ node: String, _ configuration: EvaluatorConfiguration, _ inputs: [EvaluatorInput]
  ) -> [Reply] {
    let questions = inputs.map {
      Question(node: node, configuration: configuration, input: $0)
    }
    let open = questions.filter { cache[$0] == nil }
    if !open.isEmpty {
      for (question, reply) in zip(open, query(node, configuration, open.map(\.input))) {
        // Not stored: a program that could not be started may start later.
        if case .evaluatorError(.launchFailed) = reply {
          return questions.map { cache[$0] ?? reply }
        }
        cache[question] = reply
      }
    }
    return questions.compactMap { cache[$0] }
  }

  private func query(
    _ node: String, _ configuration: EvaluatorConfiguration, _ inputs: [EvaluatorInput]
  ) -> [Reply] {
    var replies: [Reply] = []
    while replies.count < inputs.count {
      let rest = Array(inputs[replies.count...].prefix(Self.batchLimit))
      do {
        let request = EvaluatorRequest.row(node: node, configuration: configuration, inputs: rest)
        let (answers, evaluatorError) = try start().query(request, rest.count)
        for (input, answer) in zip(rest, answers) {
          replies.append(check(answer, node, configuration, input))
        }
        if let evaluatorError {
          process = nil
          replies.append(.evaluatorError(evaluatorError))
        }
      } catch {
        // Without a process, the remaining inputs have no answer either.
        process = nil
        while replies.count < inputs.count { replies.append(.evaluatorError(error)) }
      }
    }
    return replies
  }

  /// Returns the projected state of a composite, given the states of its nodes.
  func project(_ composite: String, _ states: [JSONValue]) throws(EvaluatorError) -> JSONValue {
    let (answers, evaluatorError) = try start().query(
      .project(composite: composite, states: states), 1)
    if let evaluatorError {
      process = nil
      throw evaluatorError
    }
    guard case .projected(let state) = answers[0] else {
      throw .invalidAnswer(Self.text(of: answers[0]))
    }
    return state
  }

  /// Returns how many times a second process repeats an answer.
  ///
  /// A machine whose steps do not depend on state and event alone usually shows it in every answer,
  /// so the first answers are repeated often. A machine that rarely shows it is found by
  /// repetitions spread over the rest.
  /// - Parameter number: The number of the answer among the answers for its node.
  private static func repetitions(of number: Int) -> Int {
    // The high half of a product with the golden ratio chooses some numbers of every arithmetic
    // progression.
    let spread = (UInt64(number) &* 0x9E37_79B9_7F4A_7C15) >> 32
    switch number {
    case ..<64: return 8
    case ..<1_024: return spread % 8 == 0 ? 2 : 0
    default: return spread % 64 == 0 ? 1 : 0
    }
  }

  /// Compares some of the answers with a second process.
  private func check(
    _ answer: EvaluatorAnswer, _ node: String, _ configuration: EvaluatorConfiguration,
    _ input: EvaluatorInput
  ) -> Reply {
    let number = answerCounts[node, default: 0]
    answerCounts[node] = number + 1
    let repetitions = Self.repetitions(of: number)
    guard repetitions > 0 else { return .answer(answer) }
    do {
      let secondProcess = try self.secondProcess ?? begin()
      self.secondProcess = secondProcess
      let (answers, evaluatorError) = secondProcess.query(
        .row(
          node: node, configuration: configuration,
          inputs: Array(repeating: input, count: repetitions)), repetitions)
      if evaluatorError != nil { self.secondProcess = nil }
      guard let other = answers.first(where: { $0 != answer }) else { return .answer(answer) }
      return .impure([answer, other])
    } catch {
      return .answer(answer)
    }
  }

  private func start() throws(EvaluatorError) -> EvaluatorProcess {
    if let process { return process }
    let process = try begin()
    self.process = process
    return process
  }

  /// Starts a process, and opens all nodes in it.
  private func begin() throws(EvaluatorError) -> EvaluatorProcess {
    let process = try EvaluatorProcess(
      path: path, environment: environment, answerTimeout: answerTimeout)
    for request in opened.values {
      if let evaluatorError = process.query(request, 1).evaluatorError { throw evaluatorError }
    }
    return process
  }

  private static func text(of answer: EvaluatorAnswer) -> String {
    switch answer {
    case .invalid(let problem), .undecodable(let problem): problem
    case .undecided(let reason): reason
    case .opened, .accepted, .refused, .projected: "the answer does not match the request"
    }
  }
}

/// The step evaluators of a topology: one for each program and environment.
final class ProgramEvaluators {
  private struct Key: Hashable {
    let path: String
    let environment: [String: String]
  }

  private let loaded: LoadedTopology
  private let answerTimeout: Duration
  private var cache: [Key: ProgramEvaluator] = [:]

  /// - Parameter answerTimeout: The time limit for one answer of a program, spent on computing or waiting.
  init(_ loaded: LoadedTopology, answerTimeout: Duration) {
    self.loaded = loaded
    self.answerTimeout = answerTimeout
  }

  func evaluator(of node: NodeSpecification) throws(EvaluatorError) -> ProgramEvaluator {
    try evaluator(
      loaded.topology.program(of: node) ?? "", loaded.topology.environment(of: node))
  }

  func evaluator(of composite: CompositeSpecification) throws(EvaluatorError) -> ProgramEvaluator {
    try evaluator(
      loaded.topology.program(of: composite) ?? "", loaded.topology.environment)
  }

  private func evaluator(
    _ program: String, _ environment: [String: String]
  ) throws(EvaluatorError) -> ProgramEvaluator {
    guard let path = loaded.programs[program] else {
      throw .launchFailed("no such program '\(program)'")
    }
    let environment = ProcessEnvironment.current.merging(environment) { _, own in own }
    let key = Key(path: path, environment: environment)
    if let evaluator = cache[key] { return evaluator }
    let evaluator = ProgramEvaluator(
      path: path, environment: environment, answerTimeout: answerTimeout)
    cache[key] = evaluator
    return evaluator
  }
}
