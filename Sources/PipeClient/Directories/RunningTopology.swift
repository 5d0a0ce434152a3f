import Glibc
import PipeMachines
import PipeSupport
import PipeSystem

/// What a running topology's lock file tells.
package struct RunningTopology: Hashable, Sendable {
  package let name: String
  /// The orchestrator's process.
  package let pid: Int32?
  /// The topology file, as an absolute path.
  package let file: String?
  /// The deployment file, as an absolute path; `nil` where all nodes are on one host.
  package let deployment: String?
  package let startedAt: Timestamp?

  /// The running topologies by name; leftovers of killed orchestrators are not among them.
  package static func all(in roots: RuntimeRoots = RuntimeRoots()) -> [RunningTopology] {
    FileSystem.entries(of: roots.runtime).compactMap { name in
      guard let directories = try? RuntimeDirectories(topology: name, roots: roots) else {
        return nil
      }
      return find(directories)
    }
  }

  /// The topology, if it runs.
  package static func find(_ directories: RuntimeDirectories) -> RunningTopology? {
    read(directories, where: isHeld)
  }

  /// The holder's lock is exclusive; ours, if we get it, goes with the descriptor.
  private static func isHeld(_ descriptor: Int32) -> Bool {
    flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
  }

  /// Whether no orchestrator can answer at a control socket on this host any more, or before another one starts.
  package static func isGone(from endpoint: String) -> Bool {
    let prefix = "ipc://"
    guard endpoint.hasPrefix(prefix) else { return false }
    let socket = String(endpoint.dropFirst(prefix.count))
    let lock = FileSystem.directory(of: socket) + "/lock"
    let descriptor = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    // A lock that somebody has removed tells nothing of one that still listens.
    guard descriptor >= 0 else { return errno == ENOENT && !FileSystem.exists(socket) }
    defer { close(descriptor) }
    return !isHeld(descriptor)
  }

  /// Waits until the topology does not run any more, and blocks this thread so long.
  /// - Parameter orchestrator: Its process, which still ends once it has given the lock free.
  /// - Returns: Whether that came in time.
  package static func awaitEnd(
    of directories: RuntimeDirectories, _ orchestrator: AdoptedProcess?,
    until deadline: ContinuousClock.Instant
  ) -> Bool {
    if let orchestrator {
      // One that has given the lock free is waited for a second more, and is then past all it does.
      while !orchestrator.hasEnded, ContinuousClock.now < deadline {
        let isFree = find(directories) == nil
        _ = AdoptedProcess.wait(for: [orchestrator], until: min(deadline, .now + .seconds(1)))
        if isFree { break }
      }
    }
    // Nothing tells of the end of a process in another container but its lock.
    return Polling.wait(every: .milliseconds(10), until: deadline) {
      find(directories) == nil ? true : nil
    } == true
  }

  /// The orchestrator's process, where its number is one here.
  package var process: AdoptedProcess? { pid.flatMap { AdoptedProcess(pid: $0) } }

  /// What the lock file tells of the run that holds it, or held it last.
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

/// What the file of a topology's lock says.
struct LockRecord: Codable {
  var pid: Int32
  var file: String?
  var deployment: String?
  var started: String
  /// The same on the steady clock, in nanoseconds, and the run of the system for which it counts.
  var clock: Int64?
  var boot: String?

  /// When the run began, by the present setting of the clock.
  var startedAt: Timestamp? {
    guard let started = Timestamp(started) else { return nil }
    guard let clock, boot == BootClock.boot else { return started }
    let start = BootClock.Instant(time: started.nanoseconds, clock: clock)
    return Timestamp(nanoseconds: start.time(asOf: BootClock.now))
  }
}

/// A topology whose orchestrator was killed and whose nodes live on.
package struct OrphanedTopology: Sendable {
  package let name: String
  /// The topology file, as an absolute path.
  package let file: String?
  /// The deployment file, as an absolute path.
  package let deployment: String?
  package let nodes: [Survivor]

  /// The orphaned topologies by name.
  package static func all(in roots: RuntimeRoots = RuntimeRoots()) -> [OrphanedTopology] {
    FileSystem.entries(of: roots.runtime).compactMap { name in
      (try? RuntimeDirectories(topology: name, roots: roots)).flatMap { find($0) }
    }
  }

  /// The topology, if it is orphaned.
  package static func find(_ directories: RuntimeDirectories) -> OrphanedTopology? {
    // Without an orchestrator one that has not said who it is yet does so at once.
    guard RunningTopology.find(directories) == nil,
      let nodes = try? Survivor.all(in: directories, patience: .seconds(2)), !nodes.isEmpty,
      RunningTopology.find(directories) == nil
    else { return nil }
    let last = RunningTopology.last(directories)
    return OrphanedTopology(
      name: directories.topology, file: last?.file, deployment: last?.deployment, nodes: nodes)
  }

  /// Whether its nodes run by a deployment file.
  package var isDeployed: Bool { nodes.contains(where: \.isDeployed) }

  /// `orchestrator up FILE`, with what else it takes to go on as before.
  package var upCommand: String {
    Self.upCommand(file: file, deployment: deployment ?? (isDeployed ? "DEPLOYMENT" : nil))
  }

  static func upCommand(file: String?, deployment: String?) -> String {
    "orchestrator up \(file ?? "FILE")" + (deployment.map { " --deployment \($0)" } ?? "")
  }

  /// `orphaned: 2 nodes live`
  package var status: String {
    "orphaned: \(nodes.count == 1 ? "1 node lives" : "\(nodes.count) nodes live")"
  }
}
