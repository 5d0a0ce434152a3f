import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// Evaluates single steps with processes of one program. If a request crashes the process, the next
/// request starts a new process.
final class ProgramEvaluator {
  enum Reply {
    case answer(EvaluatorAnswer)
    case evaluatorError(EvaluatorError)
    /// A second process gave a different answer to the same question. The array contains the two
    /// answers.
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
  private var openRequests: [String: EvaluatorRequest] = [:]
  /// The replies so far. A topology is searched several times with the same questions, so each
  /// question is sent to a program only once.
  private var repliesByQuestion: [Question: Reply] = [:]
  private var process: EvaluatorProcess?
  private var secondProcess: EvaluatorProcess?
  /// The number of answers so far, by node.
  private var answerCounts: [String: Int] = [:]

  /// The maximum number of inputs in one request.
  private static let maximumBatchSize = 64

  init(path: String, environment: [String: String], answerTimeout: Duration) {
    self.path = path
    self.environment = environment
    self.answerTimeout = answerTimeout
  }

  /// Opens a node, or an instance of a node, for evaluation. Returns its initial configuration.
  func openNode(
    _ node: String, machine: String, parameters: JSONValue, outs: [EvaluatorOutPipe],
    instance: EvaluatorInstance? = nil
  ) throws(EvaluatorError) -> EvaluatorOpening {
    let request = EvaluatorRequest.open(
      node: node, machine: machine, parameters: parameters, outs: outs, instance: instance)
    let (answers, evaluatorError) = try startProcess().query(request, answerCount: 1)
    if let evaluatorError {
      process = nil
      throw evaluatorError
    }
    switch answers[0] {
    case .opened(let opening):
      openRequests[node] = request
      return opening
    case let other: throw .invalidAnswer(Self.text(of: other))
    }
  }

  /// Evaluates inputs in one configuration of a node. Returns one reply for each input.
  func evaluateRow(
    _ node: String, _ configuration: EvaluatorConfiguration, _ inputs: [EvaluatorInput]
  ) -> [Reply] {
    let questions = inputs.map {
      Question(node: node, configuration: configuration, input: $0)
    }
    let open = questions.filter { repliesByQuestion[$0] == nil }
    if !open.isEmpty {
      for (question, reply) in zip(open, query(node, configuration, open.map(\.input))) {
        // This reply is not stored, since a later attempt to start the program may succeed.
        if case .evaluatorError(.launchFailed) = reply {
          return questions.map { repliesByQuestion[$0] ?? reply }
        }
        repliesByQuestion[question] = reply
      }
    }
    return questions.compactMap { repliesByQuestion[$0] }
  }

  private func query(
    _ node: String, _ configuration: EvaluatorConfiguration, _ inputs: [EvaluatorInput]
  ) -> [Reply] {
    var replies: [Reply] = []
    while replies.count < inputs.count {
      let rest = Array(inputs[replies.count...].prefix(Self.maximumBatchSize))
      do {
        let request = EvaluatorRequest.row(node: node, configuration: configuration, inputs: rest)
        let (answers, evaluatorError) = try startProcess().query(request, answerCount: rest.count)
        for (input, answer) in zip(rest, answers) {
          replies.append(compareWithSecondProcess(answer, node, configuration, input))
        }
        if let evaluatorError {
          process = nil
          replies.append(.evaluatorError(evaluatorError))
        }
      } catch {
        // Without a process, there is no answer for the remaining inputs.
        process = nil
        while replies.count < inputs.count { replies.append(.evaluatorError(error)) }
      }
    }
    return replies
  }

  /// Returns the state of a composite. The composite's projection computes this state from the
  /// states of the components.
  func project(_ composite: String, _ states: [JSONValue]) throws(EvaluatorError) -> JSONValue {
    let (answers, evaluatorError) = try startProcess().query(
      .project(composite: composite, states: states), answerCount: 1)
    if let evaluatorError {
      process = nil
      throw evaluatorError
    }
    guard case .projected(let state) = answers[0] else {
      throw .invalidAnswer(Self.text(of: answers[0]))
    }
    return state
  }

  /// Returns how many times a second process must compute the same answer again, to detect steps
  /// that are not pure.
  ///
  /// A pure step depends only on the state and the event. In most machines with impure steps, every
  /// answer varies, so the first answers of a node are checked many times. For machines in which
  /// few answers vary, some of the later answers are checked, too.
  /// - Parameter number: The number of the answer. Each node's answers are counted from 0.
  private static func repetitions(of number: Int) -> Int {
    // Fibonacci hashing: the high half of the product with the golden ratio. The selected numbers
    // have no period, so the sample cannot miss answers that vary periodically.
    let spread = (UInt64(number) &* 0x9E37_79B9_7F4A_7C15) >> 32
    switch number {
    case ..<64: return 8
    case ..<1_024: return spread % 8 == 0 ? 2 : 0
    default: return spread % 64 == 0 ? 1 : 0
    }
  }

  /// Compares an answer with the answers of a second process. Skips most answers: only a sample is
  /// compared.
  /// - Returns: `.impure` if the second process gave a different answer, otherwise the given
  ///   answer.
  private func compareWithSecondProcess(
    _ answer: EvaluatorAnswer, _ node: String, _ configuration: EvaluatorConfiguration,
    _ input: EvaluatorInput
  ) -> Reply {
    let number = answerCounts[node, default: 0]
    answerCounts[node] = number + 1
    let repetitions = Self.repetitions(of: number)
    guard repetitions > 0 else { return .answer(answer) }
    do {
      let secondProcess = try self.secondProcess ?? startProcessWithNodes()
      self.secondProcess = secondProcess
      let (answers, evaluatorError) = secondProcess.query(
        .row(
          node: node, configuration: configuration,
          inputs: Array(repeating: input, count: repetitions)), answerCount: repetitions)
      if evaluatorError != nil { self.secondProcess = nil }
      guard let other = answers.first(where: { $0 != answer }) else { return .answer(answer) }
      return .impure([answer, other])
    } catch {
      return .answer(answer)
    }
  }

  private func startProcess() throws(EvaluatorError) -> EvaluatorProcess {
    if let process { return process }
    let process = try startProcessWithNodes()
    self.process = process
    return process
  }

  /// Starts a process, and opens in it all nodes that were opened so far.
  private func startProcessWithNodes() throws(EvaluatorError) -> EvaluatorProcess {
    let process = try EvaluatorProcess(
      path: path, environment: environment, answerTimeout: answerTimeout)
    for request in openRequests.values {
      if let evaluatorError = process.query(request, answerCount: 1).evaluatorError {
        throw evaluatorError
      }
    }
    return process
  }

  private static func text(of answer: EvaluatorAnswer) -> String {
    switch answer {
    case .invalid(let problem), .undecodable(let problem): problem
    case .undecided(let reason): reason
    case .opened, .accepted, .fired, .refused, .projected, .replaying, .replayed:
      "the answer does not match the request"
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
  private var evaluatorsByKey: [Key: ProgramEvaluator] = [:]

  /// - Parameter answerTimeout: The time limit for one answer of a program, not counting the time
  ///   in which the program waits for a processor.
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
    if let evaluator = evaluatorsByKey[key] { return evaluator }
    let evaluator = ProgramEvaluator(
      path: path, environment: environment, answerTimeout: answerTimeout)
    evaluatorsByKey[key] = evaluator
    return evaluator
  }
}
