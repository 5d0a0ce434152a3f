import PipeClient
import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// A replay of the recorded steps of one node. A process of the node's program reads the log and
/// evaluates the steps.
final class LogReplay {
  private let node: String
  private let openRequest: EvaluatorRequest
  private let path: String
  private let environment: [String: String]
  private let answerTimeout: Duration
  private var process: EvaluatorProcess?

  /// - Returns: `nil` if the node has no machine, or if its program is unknown.
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

  /// Replays the steps of a log.
  /// - Parameters:
  ///   - log: The path of the log.
  ///   - line: The number of the last line to replay.
  ///   - states: The path of the file to which the program writes the states; `nil` for no file.
  /// - Returns: The program's report about all replayed lines. If a step ends the process, the
  ///   report covers only the lines before this step, and `crash` contains the line of the step and
  ///   a description of the exit.
  /// - Throws: ``EvaluatorError`` if the program cannot be started, or gives no valid answer.
  func run(
    _ log: String, through line: Int, states: String? = nil
  ) throws(EvaluatorError) -> (report: EvaluatorReplayReport, crash: (line: Int, exit: String)?) {
    var request = EvaluatorReplay(node: node, log: log, through: line, states: states)
    var position = 1
    switch try replay(request, &position) {
    case .report(let report): return (report, nil)
    case .ended: break
    }
    // The process has ended: one of the steps crashed it, as the step would crash the node. A
    // second run finds this step: the program announces each line from `position` on, so the last
    // announced line contains the step.
    request.announces = position
    guard case .ended(let exit) = try replay(request, &position) else {
      throw .invalidAnswer("the steps of node '\(node)' crash the program only sometimes")
    }
    request.announces = nil
    request.through = position - 1
    guard case .report(let report) = try replay(request, &position) else {
      throw .invalidAnswer("the steps of node '\(node)' crash the program only sometimes")
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
