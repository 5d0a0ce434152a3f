import Glibc
import PipeRuntime

/// Tells in a file for as long as the process of a machine lives, so that two of one node at a time are seen.
///
/// It begins once the machine is made: a process that waits for its lease is none that lives as its node.
package enum Lives {
  /// The directory of the files; without it nothing is told.
  package static let variable = "SOAK_LIVES"

  /// Between two words. Unit: milliseconds.
  private static let pause = 10

  /// A program that only describes its machines makes them, too.
  private static let directory =
    CommandLine.arguments.dropFirst().first == "run" ? ProcessEnvironment.current[variable] : nil

  /// Begins to tell that a node lives here, which happens once in its process.
  static func begin(_ node: String) {
    guard let directory, !node.isEmpty else { return }
    let path = "\(directory)/\(node).\(UInt64.random(in: 1 ... .max))"
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { return }
    Task.detached {
      let first = now
      while true {
        // One write of both instants: whoever is killed in between has written the former ones.
        let line = "\(first) \(now)\n"
        _ = Array(line.utf8).withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, 0) }
        try? await Task.sleep(for: .milliseconds(pause))
      }
    }
  }

  /// Since the machine was started, which all hosts of a soak are namespaces of. Unit: nanoseconds.
  private static var now: Int {
    var now = timespec()
    clock_gettime(CLOCK_BOOTTIME, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec
  }
}
