import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology

/// The leases granted to processes on other hosts that must not outlive their orchestrator; a pure value.
///
/// A process counts its lease from its request. The orchestrator counts from its answer, which is
/// later, and adds a tenth because clocks differ. So when a lease has expired here, the process has
/// ended. Instants are in nanoseconds of a clock that keeps running while the machine sleeps.
package struct Leases: Sendable {
  private struct Lease: Sendable {
    let incarnation: UInt64
    /// When the lease expires; `nil` if none was granted. A process without a lease has opened nothing.
    var end: Int64?
    var isGivenUp = false
  }

  private var leases: [String: Lease] = [:]
  /// Whether no process has a lease.
  package var isEmpty: Bool { leases.isEmpty }
  /// The duration of a lease as counted by the orchestrator. Unit: nanoseconds.
  private let term: Int64
  /// No lease counts as expired before this instant: a former orchestrator may have granted it.
  private let begin: Int64

  /// - Parameters:
  ///   - term: How long a process may run on without a renewal. Unit: nanoseconds.
  ///   - now: When this orchestrator started.
  package init(term: Int64, at now: Int64) {
    self.term = term + term / 10
    begin = now + self.term
  }

  /// Whether a process of a node may have a lease.
  package func has(_ node: String) -> Bool { leases[node] != nil }

  /// Registers a process that is about to start, which has no lease yet.
  package mutating func begin(_ node: String, incarnation: UInt64) {
    leases[node] = Lease(incarnation: incarnation)
  }

  /// Renews the lease of a process at its request.
  /// - Returns: Whether the orchestrator must confirm the renewal to the process.
  package mutating func renew(_ node: String, incarnation: UInt64, at now: Int64) -> Bool {
    guard let lease = leases[node], lease.incarnation == incarnation, !lease.isGivenUp else {
      return false
    }
    leases[node]?.end = now + term
    return true
  }

  /// Stops the renewal of the lease, because the process must end.
  package mutating func giveUp(_ node: String) { leases[node]?.isGivenUp = true }

  /// Removes the lease of a process that has ended.
  package mutating func forget(_ node: String) { leases[node] = nil }

  /// Whether the process of a node has certainly ended, or will never open anything. If so, its lease
  /// is given up.
  package mutating func confirmEnd(_ node: String, at now: Int64) -> Bool {
    guard let lease = leases[node], now >= max(begin, lease.end ?? begin) else { return false }
    giveUp(node)
    return true
  }
}

/// A file with the lease term that an orchestrator has granted, for use after the orchestrator was killed.
enum LeaseRecord {
  private static func path(in directories: RuntimeDirectories) -> String {
    directories.state + "/leases"
  }

  /// Records the lease term before the first lease is granted.
  static func write(_ term: Duration, in directories: RuntimeDirectories) throws {
    try FileSystem.replace(
      path(in: directories), with: Array("\(term.wholeMilliseconds)\n".utf8))
  }

  /// Removes the file once no process has a lease.
  static func remove(in directories: RuntimeDirectories) {
    unlink(path(in: directories))
  }

  /// Returns how long processes of a former orchestrator may run on; `nil` if that orchestrator stopped
  /// in order or granted no leases.
  static func left(in directories: RuntimeDirectories) -> Duration? {
    guard let text = FileSystem.text(of: path(in: directories)) else { return nil }
    let term =
      Int64(text.prefix { $0 != "\n" }) ?? Deployment.leaseRange.upperBound.wholeMilliseconds
    return .milliseconds(term + term / 10)
  }
}
