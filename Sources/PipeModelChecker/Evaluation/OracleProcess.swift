import Glibc
import PipeClient
import PipeMachines
import PipeSupervision
import PipeSupport
import PipeSystem
import PipeWire

/// Why a program has not answered.
package enum OracleTrouble: Error, Hashable, Sendable {
  case notStarted(String)
  /// The process has ended, as this says.
  case ended(String)
  /// Nothing came, or was read, although the process had a processor for so long, or waited for something.
  case late(after: Duration)
  /// It said this, which is no answer.
  case garbage(String)
}

/// A process of a program that answers for single steps.
final class OracleProcess {
  private var child: ChildProcess
  private let input: Int32
  private var open: Set<Int32>
  private var output: [UInt8] = []
  private var errors: [UInt8] = []
  private let patience: Duration

  /// The most that is read of one answer. Unit: bytes.
  private static let lineLimit = 16 << 20

  init(path: String, environment: [String: String], patience: Duration) throws(OracleTrouble) {
    var ends: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
      throw .notStarted("cannot make a socket: \(SystemError.text(of: errno))")
    }
    defer { close(ends[1]) }
    input = ends[0]
    self.patience = patience
    do {
      child = try ChildProcess.spawn(
        ChildCommand(
          path: path, arguments: ["explore"], environment: environment, input: ends[1],
          // The thread that asks may be another one each time, and end.
          deathSignal: nil))
    } catch {
      close(ends[0])
      throw .notStarted("\(error)")
    }
    open = [child.output, child.error]
  }

  deinit {
    child.signal(.kill, group: true)
    child.wait()
    child.closePipes()
    close(input)
  }

  /// Asks something.
  /// - Parameter count: The answers that are to come.
  /// - Returns: Those that have come, and why not all have. After trouble the process is of no use.
  func ask(
    _ request: OracleRequest, _ count: Int
  ) -> (answers: [OracleAnswer], trouble: OracleTrouble?) {
    guard var line = try? JSONRecord.encode(request) else {
      return ([], .garbage("a state or an event that cannot be written as JSON"))
    }
    line.append(UInt8(ascii: "\n"))
    // What nobody has asked for would be taken for the answer.
    guard output.isEmpty else { return ([], .garbage(Self.text(of: output))) }
    if let trouble = send(line) { return ([], trouble) }
    var answers: [OracleAnswer] = []
    var wait = Wait(for: child.pid)
    while answers.count < count {
      if let line = takeLine() {
        do {
          answers.append(try JSONRecord.decode(OracleAnswer.self, from: Array(line)))
        } catch {
          return (answers, .garbage(Self.text(of: line)))
        }
        wait.restart()
        continue
      }
      guard output.count < Self.lineLimit else { return (answers, .garbage(Self.text(of: output))) }
      guard open.contains(child.output) else { return (answers, ending()) }
      if read(until: .now + min(patience, .milliseconds(500))) {
        wait.restart()
      } else if wait.time() >= patience {
        return (answers, .late(after: patience))
      }
    }
    return (answers, nil)
  }

  /// How long nothing has come from a process, or been taken by it, but for the time in which it stood in the
  /// queue for a processor.
  private struct Wait {
    private let pid: Int32
    private var queue = ProcessorQueue()
    private var last = ContinuousClock.now
    private var waited: Duration = .zero

    init(for pid: Int32) { self.pid = pid }

    mutating func time() -> Duration {
      let now = ContinuousClock.now
      waited += now - last - queue.take(ProcessorQueue.threads(of: pid), at: now)
      last = now
      return waited
    }

    mutating func restart() {
      last = .now
      waited = .zero
    }
  }

  /// - Returns: Whether something came.
  private func read(until deadline: ContinuousClock.Instant) -> Bool {
    let openBefore = open.count
    var hasCome = false
    for (descriptor, bytes) in PipeReader.read(&open, until: deadline) {
      if descriptor == child.output {
        output += bytes
        hasCome = true
      } else {
        errors = (errors + bytes).suffix(4_000)
      }
    }
    return hasCome || open.count < openBefore
  }

  private func takeLine() -> [UInt8]? {
    guard let end = output.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
    defer { output.removeSubrange(...end) }
    return Array(output[..<end])
  }

  /// - Returns: Why not all was taken; `nil` where it was.
  private func send(_ bytes: [UInt8]) -> OracleTrouble? {
    var rest = bytes[...]
    var wait = Wait(for: child.pid)
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.send(input, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
      }
      if count > 0 {
        rest = rest.dropFirst(count)
        wait.restart()
        continue
      }
      guard count < 0, errno == EINTR || errno == EAGAIN else { return ending() }
      // One that writes much and reads nothing waits for us, too.
      _ = read(until: .now)
      var room = pollfd(fd: input, events: Int16(POLLOUT), revents: 0)
      if poll(&room, 1, 200) == 0, wait.time() >= patience { return .late(after: patience) }
    }
    return nil
  }

  private func ending() -> OracleTrouble {
    // It has closed its output, and ends. What it wrote last is there.
    let deadline = ContinuousClock.now + .seconds(1)
    while open.contains(child.error), ContinuousClock.now < deadline { _ = read(until: deadline) }
    child.signal(.kill, group: true)
    let exit = child.wait()?.description ?? "it is gone"
    let lines = String(decoding: errors, as: UTF8.self).split(separator: "\n")
    let said = lines.first { $0.contains("Fatal error") } ?? lines.last
    return .ended(said.map { "\(exit): \($0)" } ?? exit)
  }

  private static func text(of bytes: some Collection<UInt8>) -> String {
    // Of several lines the first.
    let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
    return String(decoding: line.prefix(200), as: UTF8.self)
  }
}
