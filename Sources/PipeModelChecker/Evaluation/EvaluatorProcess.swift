import Glibc
import PipeClient
import PipeMachines
import PipeSupervision
import PipeSupport
import PipeSystem
import PipeWire

/// The reason why a step evaluator did not answer.
package enum EvaluatorError: Error, Hashable, Sendable {
  case launchFailed(String)
  /// The process has ended. The string describes the exit.
  case ended(String)
  /// The process sent and received no bytes for this time, not counting the time in which the
  /// process waited for a processor.
  case timedOut(after: Duration)
  /// The process sent an invalid answer, or the request could not be encoded. The string contains
  /// the answer or describes the error.
  case invalidAnswer(String)
}

extension EvaluatorError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .launchFailed(let reason): "the process cannot be started: \(reason)"
    case .ended(let exit): "the process \(exit)"
    case .timedOut(let time): "the process sent nothing for \(time)"
    case .invalidAnswer(let details): "the answer is invalid: \(details)"
    }
  }
}

/// A step evaluator: a process of a program that evaluates single steps.
final class EvaluatorProcess {
  private var child: ChildProcess
  private let inputDescriptor: Int32
  private var openDescriptors: Set<Int32>
  private var output: [UInt8] = []
  private var errorOutput: [UInt8] = []
  private let answerTimeout: Duration

  /// The maximum size of one answer. Unit: bytes.
  private static let maximumLineLength = 16 << 20

  init(path: String, environment: [String: String], answerTimeout: Duration) throws(EvaluatorError)
  {
    var pipeDescriptors: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, type, 0, &pipeDescriptors) == 0 else {
      throw .launchFailed("cannot create a socket pair: \(SystemError.text(of: errno))")
    }
    defer { close(pipeDescriptors[1]) }
    inputDescriptor = pipeDescriptors[0]
    self.answerTimeout = answerTimeout
    do {
      child = try ChildProcess.spawn(
        ChildCommand(
          path: path, arguments: ["explore"], environment: environment, input: pipeDescriptors[1],
          // No death signal: the system would send the signal when the thread that spawned the
          // process ends, although other threads may still use the process.
          deathSignal: nil))
    } catch {
      close(pipeDescriptors[0])
      throw .launchFailed("\(error)")
    }
    openDescriptors = [child.outputDescriptor, child.errorDescriptor]
  }

  deinit {
    child.signal(.kill, group: true)
    child.wait()
    child.closePipes()
    close(inputDescriptor)
  }

  /// Sends a request and waits for the answers.
  /// - Parameter answerCount: The number of expected answers.
  /// - Returns: The received answers, and an error if answers are missing. After an error, the
  ///   process cannot be used again.
  func query(
    _ request: EvaluatorRequest, answerCount: Int
  ) -> (answers: [EvaluatorAnswer], evaluatorError: EvaluatorError?) {
    guard answerCount > 0 else { return ([], nil) }
    var answers: [EvaluatorAnswer] = []
    let problem = query(request) { answer in
      answers.append(answer)
      return answers.count < answerCount
    }
    return (answers, problem)
  }

  /// Sends a request and passes each answer to `receive`, until `receive` returns `false`.
  /// - Returns: The error if answers are missing. After an error, the process cannot be used again.
  func query(
    _ request: EvaluatorRequest, _ receive: (EvaluatorAnswer) -> Bool
  ) -> EvaluatorError? {
    guard var line = try? JSONRecord.encode(request) else {
      return .invalidAnswer("cannot encode a state or an event as JSON")
    }
    line.append(UInt8(ascii: "\n"))
    // Unsolicited output would be mistaken for the answer to this request.
    guard output.isEmpty else { return .invalidAnswer(Self.text(of: output)) }
    if let evaluatorError = send(line) { return evaluatorError }
    var wait = Wait(for: child.pid)
    while true {
      if let line = removeLine() {
        let answer: EvaluatorAnswer
        do {
          answer = try JSONRecord.decode(EvaluatorAnswer.self, from: Array(line))
        } catch {
          return .invalidAnswer(Self.text(of: line))
        }
        guard receive(answer) else { return nil }
        wait.restart()
        continue
      }
      guard output.count < Self.maximumLineLength else {
        return .invalidAnswer(Self.text(of: output))
      }
      guard openDescriptors.contains(child.outputDescriptor) else { return exitError() }
      if read(until: .now + min(answerTimeout, .milliseconds(500))) {
        wait.restart()
      } else if wait.time() >= answerTimeout {
        return .timedOut(after: answerTimeout)
      }
    }
  }

  /// Measures how long a process has sent and received no bytes, not counting the time in which the
  /// process waited for a processor.
  private struct Wait {
    private let pid: Int32
    private var queue = RunQueueSampler()
    private var lastSampleTime = ContinuousClock.now
    private var waitedTime: Duration = .zero

    init(for pid: Int32) { self.pid = pid }

    mutating func time() -> Duration {
      let now = ContinuousClock.now
      waitedTime += now - lastSampleTime - queue.take(RunQueueSampler.threads(of: pid), at: now)
      lastSampleTime = now
      return waitedTime
    }

    mutating func restart() {
      lastSampleTime = .now
      waitedTime = .zero
    }
  }

  /// Reads available output and error output. If there is no output, waits for output until the
  /// deadline.
  /// - Returns: Whether the process has written output (other than error output), or has closed a
  ///   stream.
  private func read(until deadline: ContinuousClock.Instant) -> Bool {
    let openBefore = openDescriptors.count
    var hasOutput = false
    for (descriptor, bytes) in PipeReader.readAvailable(&openDescriptors, until: deadline) {
      if descriptor == child.outputDescriptor {
        output += bytes
        hasOutput = true
      } else {
        errorOutput = (errorOutput + bytes).suffix(4_000)
      }
    }
    return hasOutput || openDescriptors.count < openBefore
  }

  private func removeLine() -> [UInt8]? {
    guard let end = output.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
    defer { output.removeSubrange(...end) }
    return Array(output[..<end])
  }

  /// Writes bytes to the input of the process.
  /// - Returns: The error; `nil` if all bytes were sent.
  private func send(_ bytes: [UInt8]) -> EvaluatorError? {
    var rest = bytes[...]
    var wait = Wait(for: child.pid)
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.send(inputDescriptor, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
      }
      if count > 0 {
        rest = rest.dropFirst(count)
        wait.restart()
        continue
      }
      guard count < 0, errno == EINTR || errno == EAGAIN else { return exitError() }
      // Reads output while sending. Otherwise, a child process that writes much output before it
      // reads its input would wait forever.
      _ = read(until: .now)
      var pollItem = pollfd(fd: inputDescriptor, events: Int16(POLLOUT), revents: 0)
      if poll(&pollItem, 1, 200) == 0, wait.time() >= answerTimeout {
        return .timedOut(after: answerTimeout)
      }
    }
    return nil
  }

  private func exitError() -> EvaluatorError {
    // The process has closed its output and is about to end. Its error stream may still contain the
    // reason.
    let deadline = ContinuousClock.now + .seconds(1)
    while openDescriptors.contains(child.errorDescriptor), ContinuousClock.now < deadline {
      _ = read(until: deadline)
    }
    child.signal(.kill, group: true)
    let exit = child.wait()?.description ?? "unknown exit status"
    let lines = String(decoding: errorOutput, as: UTF8.self).split(separator: "\n")
    let errorLine = lines.first { $0.contains("Fatal error") } ?? lines.last
    return .ended(errorLine.map { "\(exit): \($0)" } ?? exit)
  }

  private static func text(of bytes: some Collection<UInt8>) -> String {
    let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
    return String(decoding: line.prefix(200), as: UTF8.self)
  }
}
