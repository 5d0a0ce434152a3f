import Glibc
import PipeMachines
import PipeSystem
import PipeWire

/// Computes single steps of a program's machines on request: the command `PROGRAM explore`.
package struct EvaluatorServer {
  private let host: NodeHost
  private var evaluatorsByNode: [String: any AnyNodeStepEvaluator] = [:]

  /// - Parameter host: The host that knows the program's machines and composite states.
  package init(_ host: NodeHost) { self.host = host }

  /// The description of the command `PROGRAM explore`.
  package static func description(of program: String) -> CommandDescription {
    CommandDescription(
      "explore", of: program,
      "Evaluates single steps of the program's machines, for 'orchestrator check --explore'")
  }

  /// Reads requests from standard input and writes the answers to standard output, until the input
  /// ends. The output of the machines goes to standard error.
  /// - Returns: The exit code.
  package mutating func serve() -> Int32 {
    let answers = dup(STDOUT_FILENO)
    guard answers >= 0, dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 else { return 1 }
    _ = fcntl(answers, F_SETFD, FD_CLOEXEC)
    AnswerReaderWatch.start(for: answers)
    while let line = readLine(strippingNewline: true) {
      // Writes each answer before it evaluates the next input, since a step can crash the process.
      let isWritten = answer(line) { answer in
        guard var bytes = try? JSONRecord.encode(answer) else { return false }
        bytes.append(UInt8(ascii: "\n"))
        return Self.write(bytes, to: answers)
      }
      guard isWritten else { return 1 }
    }
    return 0
  }

  /// Answers one request. A request with several inputs has several answers.
  /// - Returns: Whether all answers were written.
  private mutating func answer(_ line: String, _ send: (EvaluatorAnswer) -> Bool) -> Bool {
    let request: EvaluatorRequest
    do {
      request = try JSONRecord.decode(EvaluatorRequest.self, from: Array(line.utf8))
    } catch {
      return send(.invalid(error: "malformed request: \(error)"))
    }
    switch request {
    case .open(let node, let machine, let parameters, let outs, let instance):
      do {
        let evaluator = try makeEvaluator(host.machine(machine), parameters, outs, instance)
        evaluatorsByNode[node] = evaluator
        return send(.opened(try evaluator.open()))
      } catch {
        return send(.invalid(error: "\(error)"))
      }
    case .row(let node, let configuration, let inputs):
      return inputs.allSatisfy { input in
        do {
          guard let evaluator = evaluatorsByNode[node] else {
            return send(.invalid(error: "node '\(node)' was not opened"))
          }
          return send(try evaluator.answer(input, in: configuration))
        } catch {
          return send(.invalid(error: "\(error)"))
        }
      }
    case .replay(let request):
      do {
        guard let evaluator = evaluatorsByNode[request.node] else {
          return send(.invalid(error: "node '\(request.node)' was not opened"))
        }
        var isRead = true
        let report = try evaluator.replay(request) { line in
          isRead = send(.replaying(line: line))
          return isRead
        }
        return isRead && send(.replayed(report))
      } catch {
        return send(.invalid(error: "\(error)"))
      }
    case .project(let composite, let states):
      do {
        guard let projection = host.projection(composite) else {
          return send(.invalid(error: "this program has no composite state '\(composite)'"))
        }
        return send(.projected(state: try projection(states)))
      } catch {
        return send(.invalid(error: "\(error)"))
      }
    }
  }

  private func makeEvaluator(
    _ machine: any Machine.Type, _ parameters: JSONValue, _ outs: [EvaluatorOutPipe],
    _ instance: EvaluatorInstance?
  ) throws -> any AnyNodeStepEvaluator {
    func evaluator<Hosted: Machine>(_ type: Hosted.Type) throws -> any AnyNodeStepEvaluator {
      try NodeStepEvaluator(type, parameters: parameters, outs: outs, instance: instance)
    }
    return try evaluator(machine)
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    var remaining = bytes[...]
    while !remaining.isEmpty {
      let count = remaining.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress!, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      remaining = remaining.dropFirst(count)
    }
    return true
  }
}

/// Ends this process when no process reads the answers any more, even if a step never returns.
///
/// The client that reads the answers can be killed. A process that is busy with a step would not
/// notice that its standard input has ended.
enum AnswerReaderWatch {
  /// - Parameter answers: The descriptor to which answers are written. It must stay open until the
  ///   process ends. If the descriptor is a regular file, the watch has no effect.
  static func start(for answers: Int32) {
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { argument in
        // `poll` always reports errors and hang-ups, so `events` is 0.
        var watched = pollfd(fd: Int32(Int(bitPattern: argument)), events: 0, revents: 0)
        while poll(&watched, 1, -1) < 0, errno == EINTR {}
        if watched.revents & Int16(POLLERR | POLLHUP) != 0 { _exit(EXIT_FAILURE) }
        return nil
      }, UnsafeMutableRawPointer(bitPattern: Int(answers)))
    // If the thread could not be created, the process ends only when it fails to write its next
    // answer.
    if code == 0 { pthread_detach(thread) }
  }
}
