import FoundationEssentials
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
  /// Nothing came although the process had a processor for so long, or waited for something.
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
    guard var line = try? JSONEncoder().encode(request) else {
      return ([], .garbage("a state or an event that cannot be written as JSON"))
    }
    line.append(UInt8(ascii: "\n"))
    guard send([UInt8](line)) else { return ([], ending()) }
    var answers: [OracleAnswer] = []
    var waited: Duration = .zero
    var queue = ProcessorQueue()
    while answers.count < count {
      if let line = takeLine() {
        do {
          answers.append(try JSONDecoder().decode(OracleAnswer.self, checking: Data(line)))
        } catch {
          return (answers, .garbage(Self.text(of: line)))
        }
        waited = .zero
        continue
      }
      guard output.count < Self.lineLimit else { return (answers, .garbage(Self.text(of: output))) }
      guard open.contains(child.output) else { return (answers, ending()) }
      let start = ContinuousClock.now
      let slice = min(patience, .milliseconds(500))
      if read(until: start + slice) {
        waited = .zero
        continue
      }
      let threads = ProcessorQueue.threads(of: child.pid)
      waited += ContinuousClock.now - start - queue.take(threads, at: .now)
      if waited >= patience { return (answers, .late(after: patience)) }
    }
    return (answers, nil)
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

  private func send(_ bytes: [UInt8]) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.send(input, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
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
    String(decoding: bytes.prefix(200), as: UTF8.self)
  }
}
