import Glibc
import PipeSystem
import PipeWire

/// The log of one process of a node in the directory of a recorded run: each step, and each event
/// that the node has consumed without a step.
///
/// The lines of a turn are written before the journal records the turn, and so before another
/// process learns of the steps. If the process is killed in between, the log has steps that never
/// happened: the log of the next process begins before them.
final class StepLog {
  let path: String
  private let descriptor: Int32
  /// The lines that are not written yet.
  private var pendingLines: [UInt8] = []
  /// The size of the file up to the last complete line. Unit: bytes.
  private var size: off_t = 0
  /// Whether lines can be added. `false` after the log is ended, or could not be written.
  private var isOpen = true

  /// Creates the file of the log.
  init(in directory: String, node: String, incarnation: UInt64) throws(SystemError) {
    path = "\(directory)/\(node).\(incarnation)\(RunDirectory.stepLogSuffix)"
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
  }

  deinit { close(descriptor) }

  /// Adds a line, which ``write()`` writes.
  func append(_ line: FeedBody) {
    guard isOpen else { return }
    pendingLines += line.bytes
    pendingLines.append(UInt8(ascii: "\n"))
  }

  /// Writes the added lines. If this fails, the file ends with its last complete line.
  func write() throws(SystemError) {
    guard !pendingLines.isEmpty else { return }
    let (count, problem) = FileSystem.write(pendingLines, to: descriptor)
    if let problem {
      ftruncate(descriptor, size)
      isOpen = false
      pendingLines = []
      throw SystemError("write", on: path, code: problem)
    }
    size += off_t(count)
    pendingLines.removeAll(keepingCapacity: true)
  }

  /// Ends the log with a line that says that the process has ended gracefully.
  func end(_ line: FeedBody) {
    var line = line
    line.add("ended", json: "true".utf8)
    append(line)
    try? write()
    isOpen = false
  }
}
