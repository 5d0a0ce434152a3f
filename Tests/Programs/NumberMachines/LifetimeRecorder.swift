import Glibc
import PipeRuntime

/// Records in a file how long the process of a machine lives. A check of these files detects two
/// processes of the same node that live at the same time.
///
/// Recording starts when the machine is created. A process that still waits for its lease does not
/// yet count as living.
package enum LifetimeRecorder {
  /// The environment variable that names the directory for the files. Nothing is recorded if the
  /// variable is not set.
  package static let variable = "SOAK_LIVES"

  /// The pause between two records. Unit: milliseconds.
  private static let pause = 10

  /// The directory for the files. It is `nil` unless the program runs a node: a program that
  /// describes its machines creates them, too.
  private static let directory =
    CommandLine.arguments.dropFirst().first == "run" ? ProcessEnvironment.current[variable] : nil

  /// Starts to record that a node lives in this process. Must be called once per process.
  static func begin(_ node: String) {
    guard let directory, !node.isEmpty else { return }
    let path = "\(directory)/\(node).\(UInt64.random(in: 1 ... .max))"
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { return }
    Task.detached {
      let first = now
      while true {
        // Write both times in a single call, so that a process that is killed leaves a complete
        // record.
        let line = "\(first) \(now)\n"
        _ = Array(line.utf8).withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, 0) }
        try? await Task.sleep(for: .milliseconds(pause))
      }
    }
  }

  /// The time since the computer was booted. All hosts of a soak have the same boot time, because
  /// they are namespaces of one computer. Unit: nanoseconds.
  private static var now: Int {
    var now = timespec()
    clock_gettime(CLOCK_BOOTTIME, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec
  }
}
