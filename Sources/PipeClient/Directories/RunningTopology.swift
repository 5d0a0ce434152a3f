import Glibc
import PipeMachines
import PipeSupport
import PipeSystem

/// The contents of a running topology's lock file.
package struct RunningTopology: Hashable, Sendable {
  package let name: String
  /// The orchestrator's process.
  package let pid: Int32?
  /// The topology file, as an absolute path.
  package let file: String?
  /// The deployment file, as an absolute path; `nil` if all nodes are on one host.
  package let deployment: String?
  package let startedAt: Timestamp?

  /// Returns the running topologies by name, without leftovers of killed orchestrators.
  package static func all(in roots: RuntimeRoots = RuntimeRoots()) -> [RunningTopology] {
    FileSystem.entries(of: roots.runtime).compactMap { name in
      guard let directories = try? RuntimeDirectories(topology: name, roots: roots) else {
        return nil
      }
      return find(directories)
    }
  }

  /// Returns the topology, if it runs.
  package static func find(_ directories: RuntimeDirectories) -> RunningTopology? {
    read(directories, where: isHeld)
  }

  /// Whether a process holds the lock. The holder's lock is exclusive; this lock, if it is granted,
  /// ends with the descriptor.
  private static func isHeld(_ descriptor: Int32) -> Bool {
    flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
  }

  /// Whether no orchestrator can answer at a control socket on this host, until another one starts.
  package static func isOrchestratorGone(from endpoint: String) -> Bool {
    let prefix = "ipc://"
    guard endpoint.hasPrefix(prefix) else { return false }
    let socket = String(endpoint.dropFirst(prefix.count))
    let lock = FileSystem.directory(of: socket) + "/lock"
    let descriptor = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    // If another program has removed the lock file, an orchestrator may still listen.
    guard descriptor >= 0 else { return errno == ENOENT && !FileSystem.exists(socket) }
    defer { close(descriptor) }
    return !isHeld(descriptor)
  }

  /// Waits until the topology no longer runs. Blocks this thread.
  /// - Parameter orchestrator: The orchestrator's process, which takes a moment to end after it has
  ///   released the lock.
  /// - Returns: Whether the topology ended in time.
  package static func awaitEnd(
    of directories: RuntimeDirectories, _ orchestrator: AdoptedProcess?,
    until deadline: ContinuousClock.Instant
  ) -> Bool {
    if let orchestrator {
      // Once the lock is released, the wait lasts one more second. By then the orchestrator has
      // done everything.
      while !orchestrator.hasEnded, ContinuousClock.now < deadline {
        let isFree = find(directories) == nil
        _ = AdoptedProcess.wait(for: [orchestrator], until: min(deadline, .now + .seconds(1)))
        if isFree { break }
      }
    }
    // Only its lock shows the end of a process in another container.
    return Polling.wait(every: .milliseconds(10), until: deadline) {
      find(directories) == nil ? true : nil
    } == true
  }

  /// The orchestrator's process, if its number is valid on this host.
  package var process: AdoptedProcess? { pid.flatMap { AdoptedProcess(pid: $0) } }

  /// Returns the lock file's contents about the run that holds it, or held it last.
  static func last(_ directories: RuntimeDirectories) -> RunningTopology? {
    read(directories) { _ in true }
  }

  private static func read(
    _ directories: RuntimeDirectories, where accepts: (_ descriptor: Int32) -> Bool
  ) -> RunningTopology? {
    let descriptor = open(directories.lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    guard accepts(descriptor) else { return nil }
    let bytes = (try? FileSystem.read(descriptor, limit: 65536)) ?? []
    let record = try? JSONValue(parsing: bytes).decode(LockRecord.self)
    return RunningTopology(
      name: directories.topology, pid: record?.pid, file: record?.file,
      deployment: record?.deployment,
      startedAt: record?.startedAt)
  }
}

/// The contents of a topology's lock file.
struct LockRecord: Codable {
  var pid: Int32
  var file: String?
  var deployment: String?
  var started: String
  /// The start on the steady clock, in nanoseconds, and the boot of the system that it refers to.
  var clock: Int64?
  var boot: String?

  /// The start of the run, by the current setting of the clock.
  var startedAt: Timestamp? {
    guard let started = Timestamp(started) else { return nil }
    guard let clock, boot == BootClock.boot else { return started }
    let start = BootClock.Instant(time: started.nanoseconds, clock: clock)
    return Timestamp(nanoseconds: start.time(asOf: BootClock.now))
  }
}

/// A topology whose orchestrator was killed and whose nodes still run.
package struct OrphanedTopology: Sendable {
  package let name: String
  /// The topology file, as an absolute path.
  package let file: String?
  /// The deployment file, as an absolute path.
  package let deployment: String?
  package let nodes: [Survivor]

  /// Returns the orphaned topologies by name.
  package static func all(in roots: RuntimeRoots = RuntimeRoots()) -> [OrphanedTopology] {
    FileSystem.entries(of: roots.runtime).compactMap { name in
      (try? RuntimeDirectories(topology: name, roots: roots)).flatMap { find($0) }
    }
  }

  /// Returns the topology, if it is orphaned.
  package static func find(_ directories: RuntimeDirectories) -> OrphanedTopology? {
    // Without an orchestrator, a process that has not identified itself yet does so at once.
    guard RunningTopology.find(directories) == nil,
      let nodes = try? Survivor.all(in: directories, patience: .seconds(2)), !nodes.isEmpty,
      RunningTopology.find(directories) == nil
    else { return nil }
    let last = RunningTopology.last(directories)
    return OrphanedTopology(
      name: directories.topology, file: last?.file, deployment: last?.deployment, nodes: nodes)
  }

  /// Whether the topology runs with a deployment file.
  package var isDeployed: Bool { nodes.contains(where: \.isDeployed) }

  /// `orchestrator up FILE`, with the options that are required to continue as before.
  package var upCommand: String {
    Self.upCommand(file: file, deployment: deployment ?? (isDeployed ? "DEPLOYMENT" : nil))
  }

  static func upCommand(file: String?, deployment: String?) -> String {
    "orchestrator up \(file ?? "FILE")" + (deployment.map { " --deployment \($0)" } ?? "")
  }

  /// `orphaned: 2 nodes live`
  package var status: String {
    "orphaned: \(nodes.count == 1 ? "1 node is" : "\(nodes.count) nodes are") still running"
  }
}
