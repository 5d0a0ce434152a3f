import Glibc
import PipeRuntime

/// Records in a file for as long as the process of a machine lives, so that two processes of one
/// node at the same time are detected.
///
/// It starts once the machine is made. A process that still waits for its lease does not yet live
/// as its node.
package enum LifetimeRecorder {
  /// The variable with the directory of the files. Without it nothing is recorded.
  package static let variable = "SOAK_LIVES"

  /// The pause between two records. Unit: milliseconds.
  private static let pause = 10

  /// A program that only describes its machines makes them, too.
  private static let directory =
    CommandLine.arguments.dropFirst().first == "run" ? ProcessEnvironment.current[variable] : nil

  /// Starts to record that a node lives in this process. Called once per process.
  static func begin(_ node: String) {
    guard let directory, !node.isEmpty else { return }
    let path = "\(directory)/\(node).\(UInt64.random(in: 1 ... .max))"
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { return }
    Task.detached {
      let first = now
      while true {
        // Both instants in a single write: a process that is killed leaves a complete earlier
        // record.
        let line = "\(first) \(now)\n"
        _ = Array(line.utf8).withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, 0) }
        try? await Task.sleep(for: .milliseconds(pause))
      }
    }
  }

  /// The time since the machine was booted, which is common to all hosts of a soak, because they
  /// are namespaces. Unit: nanoseconds.
  private static var now: Int {
    var now = timespec()
    clock_gettime(CLOCK_BOOTTIME, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec
  }
}
