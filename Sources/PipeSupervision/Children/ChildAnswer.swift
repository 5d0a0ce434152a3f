import Glibc
import PipeClient
import PipeSystem
import PipeTransport

/// The output of a child until it ended or was killed.
struct ChildOutput {
  enum Outcome {
    case ended, timedOut
    /// The child wrote too much.
    case outputTooLarge
  }

  let ending: Outcome
  let exit: ProcessExit?
  let output: [UInt8]
  private let errors: [UInt8]

  /// Runs a child and reads its output. Kills the child if it takes too long or writes too much.
  /// - Parameter limit: The maximum size of the output. Unit: bytes.
  /// - Throws: ``SpawnError``
  static func read(
    _ command: ChildCommand, within timeout: Duration, limit: Int
  ) throws -> ChildOutput {
    var child = try ChildProcess.spawn(command)
    defer { child.closePipes() }
    let deadline = ContinuousClock.now + timeout
    var (output, errors): ([UInt8], [UInt8]) = ([], [])
    let ending = drain(child, until: deadline, limit: limit, &output, &errors)
    if ending != .ended { child.signal(.kill, group: true) }
    return ChildOutput(ending: ending, exit: child.wait(), output: output, errors: errors)
  }

  /// The beginning of the child's stderr; `nil` if it wrote nothing there.
  var problem: String? {
    let text = String(decoding: errors.prefix(2_000), as: UTF8.self).trimmed
    return text.isEmpty ? nil : text
  }

  /// Reads both pipes until both are closed.
  private static func drain(
    _ child: ChildProcess, until deadline: ContinuousClock.Instant, limit: Int,
    _ output: inout [UInt8], _ errors: inout [UInt8]
  ) -> Outcome {
    var open: Set<Int32> = [child.output, child.error]
    while !open.isEmpty {
      guard ContinuousClock.now < deadline else { return .timedOut }
      for (descriptor, bytes) in PipeReader.read(&open, until: deadline) {
        if descriptor == child.output { output += bytes } else { errors += bytes }
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

/// Runs short programs with short answers, while the loop continues.
final class ChildCalls {
  private final class Call {
    var child: ChildProcess
    var answer: [UInt8] = []
    let done: (String) -> Void

    init(_ child: ChildProcess, _ done: @escaping (String) -> Void) {
      self.child = child
      self.done = done
    }
  }

  let loop: PollLoop
  private var calls: [Int32: Call] = [:]
  /// The maximum run time of a program before it is killed.
  private static let timeout: Duration = .seconds(20)

  init(_ loop: PollLoop) { self.loop = loop }

  /// Starts a program.
  /// - Parameter done: Called when the program has ended, with its stdout; called with an empty text if
  ///   the program could not be started.
  func start(_ command: ChildCommand, done: @escaping (String) -> Void) {
    guard let child = try? ChildProcess.launch(command) else { return done("") }
    let call = Call(child, done)
    calls[child.pid] = call
    loop.schedule(after: Self.timeout, for: self) {
      // By then, the process id may belong to a later program.
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
      call.done(String(decoding: call.answer, as: UTF8.self))
    }
  }

  /// Reads the output from the pipe after the program has ended. The pipe holds all of it, because
  /// answers are short.
  private func read(_ call: Call) {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = Glibc.read(call.child.output, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return }
      call.answer += buffer[..<count]
    }
  }
}

/// Reads several non-blocking descriptors until a deadline.
package enum PipeReader {
  /// Waits until a descriptor is readable, and reads the available bytes. A descriptor at its end is
  /// removed from the set. Returns an empty array if the deadline passes first.
  package static func read(
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
