import Glibc
import PipeMachines
import PipeSupport
import PipeSystem

/// The contents of a running topology's lock file.
package struct RunningTopology: Hashable, Sendable {
  package let name: String
  /// The orchestrator's process id; `nil` if the lock file is damaged.
  package let pid: Int32?
  /// The topology file, as an absolute path.
  package let topologyFile: String?
  /// The deployment file, as an absolute path; `nil` if all nodes are on one host.
  package let deploymentFile: String?
  package let startedAt: Timestamp?

  /// Returns the running topologies, sorted by name. Leftovers of killed orchestrators are not
  /// included.
  package static func all(in roots: RuntimeRoots = RuntimeRoots()) -> [RunningTopology] {
    FileSystem.entryNames(of: roots.runtime).compactMap { name in
      guard let directories = try? RuntimeDirectories(topology: name, roots: roots) else {
        return nil
      }
      return find(directories)
    }
  }

  /// Returns the topology if it is running; otherwise `nil`.
  package static func find(_ directories: RuntimeDirectories) -> RunningTopology? {
    read(directories, where: isHeld)
  }

  /// Whether another process holds the exclusive lock. If not, this process gets a shared lock, and
  /// keeps the lock until the descriptor is closed.
  private static func isHeld(_ descriptor: Int32) -> Bool {
    flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
  }

  /// Whether a control socket on this host has no live orchestrator. In that case, requests to the
  /// socket get no answer until another orchestrator is started. Always `false` for an endpoint on
  /// another host.
  package static func isOrchestratorGone(from endpoint: String) -> Bool {
    let prefix = "ipc://"
    guard endpoint.hasPrefix(prefix) else { return false }
    let socket = String(endpoint.dropFirst(prefix.count))
    let lock = FileSystem.parentDirectory(of: socket) + "/lock"
    let descriptor = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    // Another program may have removed the lock file of a running orchestrator. The orchestrator is
    // gone only if its socket is gone, too.
    guard descriptor >= 0 else { return errno == ENOENT && !FileSystem.exists(socket) }
    defer { close(descriptor) }
    return !isHeld(descriptor)
  }

  /// Waits until the topology is no longer running. Blocks this thread.
  /// - Parameter orchestrator: The orchestrator's process, which ends a moment after it has
  ///   released the lock.
  /// - Returns: Whether the topology ended before the deadline.
  package static func awaitEnd(
    of directories: RuntimeDirectories, _ orchestrator: AdoptedProcess?,
    until deadline: ContinuousClock.Instant
  ) -> Bool {
    if let orchestrator {
      // After the lock is released, wait for the process at most one more second: an orchestrator
      // that releases the lock has finished all its work.
      while !orchestrator.hasEnded, ContinuousClock.now < deadline {
        let isFree = find(directories) == nil
        _ = AdoptedProcess.wait(for: [orchestrator], until: min(deadline, .now + .seconds(1)))
        if isFree { break }
      }
    }
    // If the orchestrator is in another container, only the lock shows that the orchestrator has
    // ended.
    return Polling.wait(every: .milliseconds(10), until: deadline) {
      find(directories) == nil ? true : nil
    } == true
  }

  /// The orchestrator's process; `nil` if no process on this host has the process id `pid`.
  package var process: AdoptedProcess? { pid.flatMap { AdoptedProcess(pid: $0) } }

  /// Returns the contents of the lock file. The lock file describes the run that holds the lock or,
  /// if no run holds the lock, the last run.
  static func lastRun(_ directories: RuntimeDirectories) -> RunningTopology? {
    read(directories) { _ in true }
  }

  private static func read(
    _ directories: RuntimeDirectories, where accepts: (_ descriptor: Int32) -> Bool
  ) -> RunningTopology? {
    let descriptor = open(directories.lockFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    guard accepts(descriptor) else { return nil }
    let bytes = (try? FileSystem.read(descriptor, limit: 65536)) ?? []
    let record = try? JSONValue(parsing: bytes).decode(LockRecord.self)
    return RunningTopology(
      name: directories.topology, pid: record?.pid, topologyFile: record?.file,
      deploymentFile: record?.deployment,
      startedAt: record?.startedAt)
  }
}

/// The contents of a topology's lock file.
struct LockRecord: Codable {
  var pid: Int32
  var file: String?
  var deployment: String?
  var started: String
  /// The time on the boot clock at which the run started. Unit: nanoseconds. The value is valid
  /// only as long as the boot id of the system is equal to `boot`.
  var clock: Int64?
  var boot: String?

  /// The time of day at which the run started. If the system's clock was set after the start, the
  /// time is corrected.
  var startedAt: Timestamp? {
    guard let started = Timestamp(started) else { return nil }
    guard let clock, boot == BootClock.bootID else { return started }
    let start = BootClock.Instant(timeOfDay: started.nanoseconds, timeSinceBoot: clock)
    return Timestamp(nanoseconds: start.timeOfDay(asOf: BootClock.now))
  }
}

/// A topology whose orchestrator was killed and whose nodes still run.
package struct OrphanedTopology: Sendable {
  package let name: String
  /// The topology file, as an absolute path.
  package let topologyFile: String?
  /// The deployment file, as an absolute path.
  package let deploymentFile: String?
  package let nodes: [Survivor]

  /// Returns the orphaned topologies, sorted by name.
  package static func all(in roots: RuntimeRoots = RuntimeRoots()) -> [OrphanedTopology] {
    FileSystem.entryNames(of: roots.runtime).compactMap { name in
      (try? RuntimeDirectories(topology: name, roots: roots)).flatMap { find($0) }
    }
  }

  /// Returns the topology if it is orphaned; otherwise `nil`.
  package static func find(_ directories: RuntimeDirectories) -> OrphanedTopology? {
    // Without an orchestrator, no new process is forked. A process that the orchestrator forked
    // just before its own end adds its process id to its record within a moment. So two seconds are
    // sufficient.
    guard RunningTopology.find(directories) == nil,
      let nodes = try? Survivor.all(in: directories, patience: .seconds(2)), !nodes.isEmpty,
      RunningTopology.find(directories) == nil
    else { return nil }
    let last = RunningTopology.lastRun(directories)
    return OrphanedTopology(
      name: directories.topology, topologyFile: last?.topologyFile,
      deploymentFile: last?.deploymentFile,
      nodes: nodes)
  }

  /// Whether the topology runs with a deployment file.
  package var isDeployed: Bool { nodes.contains(where: \.isDeployed) }

  /// The command that continues the run: `orchestrator up FILE`, with the run's deployment file.
  package var upCommand: String {
    Self.upCommand(
      file: topologyFile, deployment: deploymentFile ?? (isDeployed ? "DEPLOYMENT" : nil))
  }

  static func upCommand(file: String?, deployment: String?) -> String {
    "orchestrator up \(file ?? "FILE")" + (deployment.map { " --deployment \($0)" } ?? "")
  }

  /// The status of the topology as text, such as `orphaned: 2 nodes are still running`.
  package var status: String {
    "orphaned: \(nodes.count == 1 ? "1 node is" : "\(nodes.count) nodes are") still running"
  }
}
