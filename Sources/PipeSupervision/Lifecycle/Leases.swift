import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology

/// The leases of processes on other hosts. A process must end when its lease expires, because the
/// orchestrator may be gone. The functions have no side effects: the caller passes the current
/// instant.
///
/// The process counts the time of its lease from its renewal request. The orchestrator counts from
/// its later answer to this request, and adds a tenth because clocks differ. So when a lease
/// expires for the orchestrator, the process has already ended. Instants are in nanoseconds on a
/// clock that also advances while the host is suspended.
package struct Leases: Sendable {
  private struct Lease: Sendable {
    let incarnation: UInt64
    /// The instant at which the lease expires; `nil` if no lease was granted yet. Without a lease,
    /// a process opens no files or connections.
    var expiryTime: Int64?
    var isGivenUp = false
  }

  private var leases: [String: Lease] = [:]
  /// Whether no process is registered with ``begin(_:incarnation:)``.
  package var isEmpty: Bool { leases.isEmpty }
  /// How long a lease lasts for the orchestrator: the term of the process, plus a tenth. Unit:
  /// nanoseconds.
  private let termNanoseconds: Int64
  /// The instant before which no lease counts as expired, because a former orchestrator may have
  /// granted leases that last until then.
  private let firstPossibleExpiry: Int64

  /// - Parameters:
  ///   - term: How long a process may run without renewing its lease. Unit: nanoseconds.
  ///   - now: The instant at which this orchestrator started.
  package init(term: Int64, at now: Int64) {
    self.termNanoseconds = term + term / 10
    firstPossibleExpiry = now + self.termNanoseconds
  }

  /// Whether the current process of a node was registered with ``begin(_:incarnation:)``.
  package func hasLease(_ node: String) -> Bool { leases[node] != nil }

  /// Registers a process that is about to start. The process has no lease yet.
  package mutating func begin(_ node: String, incarnation: UInt64) {
    leases[node] = Lease(incarnation: incarnation)
  }

  /// Renews the lease of a process, because the process has requested it.
  /// - Returns: Whether the orchestrator must confirm the renewal to the process.
  package mutating func renew(_ node: String, incarnation: UInt64, at now: Int64) -> Bool {
    guard let lease = leases[node], lease.incarnation == incarnation, !lease.isGivenUp else {
      return false
    }
    leases[node]?.expiryTime = now + termNanoseconds
    return true
  }

  /// Stops renewing the lease of a node's process, because the process must end.
  package mutating func giveUp(_ node: String) { leases[node]?.isGivenUp = true }

  /// Removes the lease of a process that has ended.
  package mutating func forget(_ node: String) { leases[node] = nil }

  /// Returns whether the process of a node has certainly ended, or will never open files or
  /// connections. If so, also stops renewing the lease of the process.
  package mutating func confirmEnd(_ node: String, at now: Int64) -> Bool {
    guard let lease = leases[node],
      now >= max(firstPossibleExpiry, lease.expiryTime ?? firstPossibleExpiry)
    else { return false }
    giveUp(node)
    return true
  }
}

/// The file in which an orchestrator stores its lease duration. If the orchestrator is killed, the
/// next orchestrator reads from the file how long processes on other hosts may still run.
enum LeaseRecord {
  private static func path(in directories: RuntimeDirectories) -> String {
    directories.state + "/leases"
  }

  /// Writes the lease duration, before the first lease is granted.
  static func write(_ term: Duration, in directories: RuntimeDirectories) throws {
    try FileSystem.replace(
      path(in: directories), with: Array("\(term.wholeMilliseconds)\n".utf8))
  }

  /// Removes the file once no process has a lease.
  static func remove(in directories: RuntimeDirectories) {
    unlink(path(in: directories))
  }

  /// Returns the longest time that processes of a former orchestrator may still run. Returns `nil`
  /// if that orchestrator stopped gracefully or granted no leases.
  static func remainingTime(in directories: RuntimeDirectories) -> Duration? {
    guard let text = FileSystem.text(of: path(in: directories)) else { return nil }
    let term =
      Int64(text.prefix { $0 != "\n" }) ?? Deployment.leaseRange.upperBound.wholeMilliseconds
    return .milliseconds(term + term / 10)
  }
}
