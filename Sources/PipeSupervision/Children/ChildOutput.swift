import Glibc
import PipeClient
import PipeSystem
import PipeTransport

/// The output of a child, from its start until it ended or was killed.
struct ChildOutput {
  enum Outcome {
    case ended, timedOut
    /// The child wrote more than the limit.
    case outputTooLarge
  }

  let outcome: Outcome
  let exit: ProcessExit?
  let output: [UInt8]
  private let errorOutput: [UInt8]

  /// Runs a child and reads its output. Kills the child if it runs too long or writes too much.
  /// - Parameter limit: The maximum total size of stdout and stderr. Unit: bytes.
  /// - Throws: ``SpawnError``
  static func read(
    _ command: ChildCommand, within timeout: Duration, limit: Int
  ) throws -> ChildOutput {
    var child = try ChildProcess.spawn(command)
    defer { child.closePipes() }
    var (output, errors): ([UInt8], [UInt8]) = ([], [])
    let ending = drain(child, within: timeout, limit: limit, &output, &errors)
    if ending != .ended { child.signal(.kill, group: true) }
    return ChildOutput(outcome: ending, exit: child.wait(), output: output, errorOutput: errors)
  }

  /// The beginning of the text that the child wrote to stderr; `nil` if there is none.
  var errorText: String? {
    let text = String(decoding: errorOutput.prefix(2_000), as: UTF8.self).trimmed
    return text.isEmpty ? nil : text
  }

  /// Reads the pipes of stdout and stderr until both are closed. The time in which the child waits
  /// for a processor does not count towards the timeout.
  private static func drain(
    _ child: ChildProcess, within timeout: Duration, limit: Int,
    _ output: inout [UInt8], _ errors: inout [UInt8]
  ) -> Outcome {
    var deadline = ContinuousClock.now + timeout
    var queue = RunQueueSampler()
    var openDescriptors: Set<Int32> = [child.outputDescriptor, child.errorDescriptor]
    while !openDescriptors.isEmpty {
      let now = ContinuousClock.now
      deadline += queue.take(RunQueueSampler.threads(of: child.pid), at: now)
      guard now < deadline else { return .timedOut }
      let nextSample = min(deadline, now + .milliseconds(200))
      for (descriptor, bytes) in PipeReader.readAvailable(&openDescriptors, until: nextSample) {
        if descriptor == child.outputDescriptor { output += bytes } else { errors += bytes }
      }
      if output.count + errors.count > limit { return .outputTooLarge }
    }
    return .ended
  }
}

extension String {
  fileprivate var trimmed: String {
    let isSpace: (Character) -> Bool = { $0.isWhitespace }
    return String(drop(while: isSpace).reversed().drop(while: isSpace).reversed())
  }
}

/// Runs programs that write short answers to stdout, without blocking the loop.
final class ChildCalls {
  private final class Call {
    var child: ChildProcess
    var answer: [UInt8] = []
    let onEnd: (String) -> Void

    init(_ child: ChildProcess, _ done: @escaping (String) -> Void) {
      self.child = child
      self.onEnd = done
    }
  }

  let loop: PollLoop
  private var calls: [Int32: Call] = [:]
  /// The maximum run time of a program before it is killed.
  private static let timeout: Duration = .seconds(20)

  init(_ loop: PollLoop) { self.loop = loop }

  /// Starts a program.
  /// - Parameter done: Called with the program's stdout when the program has ended, or with an
  ///   empty text if the program cannot be started.
  func start(_ command: ChildCommand, done: @escaping (String) -> Void) {
    guard let child = try? ChildProcess.launch(command) else { return done("") }
    let call = Call(child, done)
    calls[child.pid] = call
    loop.schedule(after: Self.timeout, for: self) {
      // Another program may have received the same process id, so the call must still be in the
      // table.
      if $0.calls[child.pid] === call { call.child.signal(.kill, group: true) }
    }
  }

  /// Reaps the programs that have ended.
  func reap() {
    for (pid, call) in calls {
      guard call.child.reap() != nil else { continue }
      calls[pid] = nil
      read(call)
      call.child.closePipes()
      call.onEnd(String(decoding: call.answer, as: UTF8.self))
    }
  }

  /// Reads the output of a program that has ended. The output is not read while the program runs,
  /// because answers are short enough to fit into the pipe.
  private func read(_ call: Call) {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = Glibc.read(call.child.outputDescriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return }
      call.answer += buffer[..<count]
    }
  }
}

/// Reads several non-blocking descriptors until a deadline.
package enum PipeReader {
  /// Waits until a descriptor is readable, and reads the available bytes. Removes a descriptor from
  /// the set when its output has ended. Returns an empty array if the deadline passes first.
  package static func readAvailable(
    _ open: inout Set<Int32>, until deadline: ContinuousClock.Instant
  ) -> [(descriptor: Int32, bytes: [UInt8])] {
    var items = open.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    let wait = max(.zero, deadline - .now)
    guard poll(&items, nfds_t(items.count), Int32(clamping: wait.wholeMilliseconds + 1)) > 0 else {
      return []
    }
    var result: [(Int32, [UInt8])] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    for item in items where item.revents != 0 {
      let count = Glibc.read(item.fd, &buffer, buffer.count)
      if count > 0 {
        result.append((item.fd, Array(buffer[..<count])))
      } else if count == 0 || (errno != EAGAIN && errno != EINTR) {
        open.remove(item.fd)
      }
    }
    return result
  }
}
