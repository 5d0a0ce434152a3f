import PipeClient
import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// Takes the recorded steps of one node again, with a process of the node's program that reads the
/// log itself.
final class LogReplay {
  private let node: String
  private let openRequest: EvaluatorRequest
  private let path: String
  private let environment: [String: String]
  private let answerTimeout: Duration
  private var process: EvaluatorProcess?

  /// - Returns: `nil` if the node has no machine.
  init?(_ node: NodeSpecification, of loaded: LoadedTopology, answerTimeout: Duration) {
    guard let machine = node.machine,
      let path = loaded.programs[loaded.topology.program(of: node) ?? ""]
    else { return nil }
    let outs = loaded.pipes.filter { $0.sender == node.name }.map { pipe in
      EvaluatorOutPipe(
        name: pipe.name, port: pipe.outPort,
        rule: pipe.eventTemplate.map { NodeConfiguration.Rule(when: pipe.enteredState, send: $0) })
    }
    self.node = node.name
    openRequest = .open(
      node: node.name, machine: machine, parameters: node.parameters, outs: outs)
    self.path = path
    environment = ProcessEnvironment.current.merging(loaded.topology.environment(of: node)) {
      _, own in own
    }
    self.answerTimeout = answerTimeout
  }

  /// Takes the steps of a log again.
  /// - Parameters:
  ///   - line: The number of the last line.
  ///   - states: The file for the states; `nil` if they are not required.
  /// - Returns: The differences, and the line of the step that ends the process, if any.
  /// - Throws: ``EvaluatorError`` if the program cannot be asked.
  func run(
    _ log: String, through line: Int, states: String? = nil
  ) throws(EvaluatorError) -> (report: EvaluatorReplayReport, crash: (line: Int, exit: String)?) {
    var request = EvaluatorReplay(node: node, log: log, through: line, states: states)
    var position = 1
    switch try replay(request, &position) {
    case .report(let report): return (report, nil)
    case .ended: break
    }
    // Finds the step that ends the process, as it would end the node.
    request.announces = position
    guard case .ended(let exit) = try replay(request, &position) else {
      throw .invalidAnswer("node '\(node)' ends its process in some runs only")
    }
    request.announces = nil
    request.through = position - 1
    guard case .report(let report) = try replay(request, &position) else {
      throw .invalidAnswer("node '\(node)' ends its process in some runs only")
    }
    return (report, (request.through + 1, exit))
  }

  private enum Outcome {
    case report(EvaluatorReplayReport)
    case ended(String)
  }

  /// - Parameter position: The number of the last line that the program has announced.
  private func replay(
    _ request: EvaluatorReplay, _ position: inout Int
  ) throws(EvaluatorError) -> Outcome {
    var report: EvaluatorReplayReport?
    var invalid: String?
    let problem = try openProcess().query(.replay(request)) { answer in
      switch answer {
      case .replaying(let line):
        position = line
        return true
      case .replayed(let complete): report = complete
      case .invalid(let reason): invalid = reason
      default: invalid = "the answer does not match the request"
      }
      return false
    }
    if let report { return .report(report) }
    process = nil
    if case .ended(let exit) = problem { return .ended(exit) }
    throw problem ?? .invalidAnswer(invalid ?? "")
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
