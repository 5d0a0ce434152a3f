import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology

/// A file that tells, after the orchestrator was killed, how long processes may go on that it had granted leases.
enum LeaseMark {
  private static func path(in directories: RuntimeDirectories) -> String {
    directories.state + "/leases"
  }

  /// Leases are granted from now on.
  static func write(_ term: Duration, in directories: RuntimeDirectories) throws {
    try FileSystem.replace(
      path(in: directories), with: Array("\(term.wholeMilliseconds)\n".utf8))
  }

  /// No process has one any more.
  static func remove(in directories: RuntimeDirectories) {
    unlink(path(in: directories))
  }

  /// How long processes of a former orchestrator may go on; `nil` where it has ended in order, or granted none.
  static func left(in directories: RuntimeDirectories) -> Duration? {
    guard let text = FileSystem.text(of: path(in: directories)) else { return nil }
    let term =
      Int64(text.prefix { $0 != "\n" }) ?? Deployment.leaseTerms.upperBound.wholeMilliseconds
    return .milliseconds(term + term / 10)
  }
}
