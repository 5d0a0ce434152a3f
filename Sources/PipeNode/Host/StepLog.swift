import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// The step log of one node process, in the directory of a recorded run. The log contains each
/// step, and each event that the node has consumed without a step.
///
/// The lines of a turn are written before the journal records the turn, and so before another
/// process learns of the steps. If the process is killed in between, the log ends with steps that
/// were lost. The log of the next process then begins before these steps.
final class StepLog {
  let path: String
  let node: String
  let incarnation: UInt64
  private let descriptor: Int32
  /// The lines that are not written yet.
  let pendingLines = LineBuffer()
  /// The time of the last line. Unit: nanoseconds since 1970.
  @exclusivity(unchecked)
  var lastTime: Int64 = 0
  /// The size of the file up to the last complete line. Unit: bytes.
  private var size: off_t = 0
  /// Whether lines can be added. `false` after the log was ended or a write has failed.
  private(set) var isOpen = true

  /// Creates the file of the log.
  init(in directory: String, node: String, incarnation: UInt64) throws(SystemError) {
    path = "\(directory)/\(node).\(incarnation)\(RunDirectory.stepLogSuffix)"
    self.node = node
    self.incarnation = incarnation
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
  }

  deinit { close(descriptor) }

  /// Writes the added lines. If this fails, the file ends with its last complete line.
  func write() throws(SystemError) {
    guard pendingLines.count > 0 else { return }
    defer { pendingLines.removeAll() }
    guard isOpen else { return }
    let (count, problem) = pendingLines.write(to: descriptor)
    if let problem {
      ftruncate(descriptor, size)
      isOpen = false
      throw SystemError("write", on: path, code: problem)
    }
    size += off_t(count)
  }

  /// Ends the log with a line that says that the process has ended gracefully.
  func end(version: UInt64) {
    pendingLines.reserve()
    pendingLines.append(#"{"ended":true,"version":"#)
    pendingLines.append(version)
    pendingLines.append(#","after":"#)
    pendingLines.append(WallClock.nanoseconds &- lastTime)
    pendingLines.append("}\n")
    try? write()
    isOpen = false
  }
}
