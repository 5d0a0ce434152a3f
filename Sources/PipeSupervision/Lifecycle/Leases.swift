import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology

/// What processes on other hosts were granted that must not go on without their orchestrator; a pure value.
///
/// A process counts its lease from when it asked, and here it counts from the answer, which is later, and a tenth
/// longer, since clocks differ: when it is over here, the process has ended. Instants are in nanoseconds of a clock
/// that goes on while the machine sleeps.
package struct Leases: Sendable {
  private struct Lease: Sendable {
    let incarnation: UInt64
    /// When it is over; `nil` where none was granted: then the process has opened nothing.
    var end: Int64?
    var isGivenUp = false
  }

  private var leases: [String: Lease] = [:]
  /// Whether no process has one.
  package var isEmpty: Bool { leases.isEmpty }
  /// How long one is here. Unit: nanoseconds.
  private let term: Int64
  /// Before that, no lease counts as over: a former orchestrator may have granted it.
  private let begin: Int64

  /// - Parameters:
  ///   - term: How long a process may go on. Unit: nanoseconds.
  ///   - now: When this orchestrator has begun.
  package init(term: Int64, at now: Int64) {
    self.term = term + term / 10
    begin = now + self.term
  }

  /// Whether a process of a node may have one.
  package func has(_ node: String) -> Bool { leases[node] != nil }

  /// A process is about to start, which has none so far.
  package mutating func begin(_ node: String, incarnation: UInt64) {
    leases[node] = Lease(incarnation: incarnation)
  }

  /// A process asks for its lease.
  /// - Returns: Whether it is to be answered that the lease goes on.
  package mutating func renew(_ node: String, incarnation: UInt64, at now: Int64) -> Bool {
    guard let lease = leases[node], lease.incarnation == incarnation, !lease.isGivenUp else {
      return false
    }
    leases[node]?.end = now + term
    return true
  }

  /// A process is to end: it is granted nothing more.
  package mutating func giveUp(_ node: String) { leases[node]?.isGivenUp = true }

  /// Its process has ended.
  package mutating func forget(_ node: String) { leases[node] = nil }

  /// Whether the process of a node has certainly ended, or will never open anything; it is given up then.
  package mutating func isOver(_ node: String, at now: Int64) -> Bool {
    guard let lease = leases[node], now >= max(begin, lease.end ?? begin) else { return false }
    giveUp(node)
    return true
  }
}

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
