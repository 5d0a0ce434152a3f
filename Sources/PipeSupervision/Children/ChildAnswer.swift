import Glibc
import PipeClient
import PipeSystem
import PipeTransport

/// What a child wrote until it ended, or was ended.
struct ChildAnswer {
  enum Ending {
    case ended, late
    /// It wrote too much.
    case flooded
  }

  let ending: Ending
  let exit: ProcessExit?
  let output: [UInt8]
  private let errors: [UInt8]

  /// Runs a child and reads what it writes; kills it where that takes too long, or is too much.
  /// - Parameter limit: Unit: bytes.
  /// - Throws: ``SpawnError``
  static func read(
    _ command: ChildCommand, within patience: Duration, limit: Int
  ) throws -> ChildAnswer {
    var child = try ChildProcess.spawn(command)
    defer { child.closePipes() }
    let deadline = ContinuousClock.now + patience
    var (output, errors): ([UInt8], [UInt8]) = ([], [])
    let ending = drain(child, until: deadline, limit: limit, &output, &errors)
    if ending != .ended { child.signal(.kill, group: true) }
    return ChildAnswer(ending: ending, exit: child.wait(), output: output, errors: errors)
  }

  /// The beginning of what it wrote on stderr; `nil` where that is nothing.
  var problem: String? {
    let text = String(decoding: errors.prefix(2_000), as: UTF8.self).trimmed
    return text.isEmpty ? nil : text
  }

  /// Reads both pipes until both are closed.
  private static func drain(
    _ child: ChildProcess, until deadline: ContinuousClock.Instant, limit: Int,
    _ output: inout [UInt8], _ errors: inout [UInt8]
  ) -> Ending {
    var open: Set<Int32> = [child.output, child.error]
    while !open.isEmpty {
      guard ContinuousClock.now < deadline else { return .late }
      for (descriptor, bytes) in PipeReader.read(&open, until: deadline) {
        if descriptor == child.output { output += bytes } else { errors += bytes }
      }
      if output.count + errors.count > limit { return .flooded }
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

/// Short programs that are called while the loop goes on, with a little that they answer.
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
  /// The longest that one has before it is killed.
  private static let patience: Duration = .seconds(20)

  init(_ loop: PollLoop) { self.loop = loop }

  /// Calls a program.
  /// - Parameter done: Called at its end with what it wrote on stdout; with nothing where it could not be started.
  func start(_ command: ChildCommand, done: @escaping (String) -> Void) {
    guard let child = try? ChildProcess.launch(command) else { return done("") }
    let call = Call(child, done)
    calls[child.pid] = call
    loop.schedule(after: Self.patience, for: self) {
      // Its number may be that of a later one by then.
      if $0.calls[child.pid] === call { call.child.signal(.kill, group: true) }
    }
  }

  /// Takes the ends of those that have ended.
  func reap() {
    for (pid, call) in calls {
      guard call.child.reap() != nil else { continue }
      calls[pid] = nil
      read(call)
      call.child.closePipes()
      call.done(String(decoding: call.answer, as: UTF8.self))
    }
  }

  /// Reads what it wrote, as far as the pipe holds that: its answer is short.
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
  /// Waits for the first of them to be readable and reads what is there; one that has ended is
  /// taken out of the set. Nothing is read where the deadline came first.
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
