import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The exclusive right to run a topology under its name, held until `release` or the end of this process.
///
/// The lock is a flock(2), which the kernel releases however the holder ends. A lock file that no
/// process holds is a leftover, whatever its contents.
package final class TopologyLock: Sendable {
  package let directories: RuntimeDirectories
  private let file: Locked<String?>
  private let deployment: Locked<String?>
  private let startedAt = BootClock.now
  private let held: Locked<Int32>
  private let former = Locked<[ProcessRecord]>([])

  private init(
    directories: RuntimeDirectories, file: String?, deployment: String?, descriptor: Int32
  ) {
    self.directories = directories
    self.deployment = Locked(deployment)
    self.file = Locked(file)
    held = Locked(descriptor)
  }

  deinit { close(descriptor) }

  private var descriptor: Int32 { held.withLock { $0 } }

  /// The processes that a killed orchestrator had started, whether they are alive or not.
  package var formerProcesses: [ProcessRecord] { former.withLock { $0 } }

  /// Creates the directories, takes the lock, and removes what a killed orchestrator left behind.
  /// Keeps the files of its live processes: see ``Survivor``.
  /// - Parameters:
  ///   - file: The topology file.
  ///   - deployment: The deployment file; `nil` if all nodes are on one host.
  /// - Throws: ``DirectoryError/alreadyRunning(topology:pid:file:)`` if another orchestrator holds the lock.
  package static func acquire(
    _ directories: RuntimeDirectories, file: String?, deployment: String? = nil
  ) throws(DirectoryError) -> TopologyLock {
    for directory in [directories.state, directories.logs, directories.journals] {
      try OwnedDirectory.makeWritable(directory)
    }
    // A process that only checks holds the lock for an instant, and an orchestrator that is ending
    // removes the lock's file.
    let lock = try Polling.wait(every: .milliseconds(2), until: .now + .milliseconds(50)) {
      () throws(DirectoryError) in try take(directories, file: file, deployment: deployment)
    }
    guard let lock else {
      let holder = RunningTopology.last(directories)
      throw .alreadyRunning(
        topology: directories.topology, pid: holder?.pid, file: holder?.file)
    }
    // This comes first: until then the file describes the former holder of the lock.
    lock.describe()
    lock.former.withLock { $0 = ProcessRecord.all(in: directories) }
    try lock.removeLeftovers()
    return lock
  }

  /// Returns the lock, or `nil` if another process has it, or its file was just removed.
  private static func take(
    _ directories: RuntimeDirectories, file: String?, deployment: String?
  ) throws(DirectoryError) -> TopologyLock? {
    try OwnedDirectory.make(directories.roots.runtime)
    try OwnedDirectory.make(directories.runtime)
    let descriptor = open(directories.lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw .system(SystemError("open", on: directories.lock, code: errno))
    }
    let lock = TopologyLock(
      directories: directories, file: file, deployment: deployment, descriptor: descriptor)
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return lock.isInPlace ? lock : nil }
    guard errno == EWOULDBLOCK else {
      throw .system(SystemError("flock", on: directories.lock, code: errno))
    }
    return nil
  }

  /// Removes the sockets and the runtime directory, and releases the name. Logs stay. If a process
  /// is still alive, the files by which it is found stay, and so do the keys that it knows.
  package func release() {
    // A directory that is no longer ours may belong to another run.
    if isInPlace, (try? removeLeftovers()) == true {
      unlink(directories.lock)
      rmdir(directories.runtime)
    }
    flock(descriptor, LOCK_UN)
  }

  /// Publishes in the lock file that the run has changed to other files.
  package func continueRun(with file: String, by deployment: String?) {
    self.file.withLock { $0 = file }
    self.deployment.withLock { $0 = deployment }
    describe()
  }

  /// Whether other processes still find the run that holds the lock.
  package enum Presence: Hashable, Sendable {
    case inPlace
    /// The lock's file had been removed, and was created again.
    case restored
    /// The lock's file had been removed, and another process is checking the file in its place. Ask again.
    case beingChecked
    /// The directory with the sockets was removed, or belongs to another run.
    case gone
  }

  /// Makes sure that other processes find the run: creates the lock's file again if another program
  /// has removed it.
  package func keepInPlace() -> Presence {
    if isInPlace { return .inPlace }
    // A topology on several hosts has no socket here, but a file with the endpoint of its orchestrator.
    let isFound = [directories.runtime + "/control", directories.controlEndpointFile].contains {
      FileSystem.exists($0)
    }
    guard isFound else { return .gone }
    let reopened = open(directories.lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard reopened >= 0 else { return .gone }
    guard flock(reopened, LOCK_EX | LOCK_NB) == 0 else {
      // A process that only checks shares the lock for an instant. Another run does not.
      let isShared = flock(reopened, LOCK_SH | LOCK_NB) == 0
      close(reopened)
      return isShared ? .beingChecked : .gone
    }
    close(descriptor)
    held.withLock { $0 = reopened }
    describe()
    // If the file has been removed again since, the next check creates it.
    return .restored
  }

  /// Whether the locked file is still the file at the lock's path.
  private var isInPlace: Bool {
    FileIdentity(directories.lock).map { $0 == FileIdentity(descriptor: descriptor) } == true
  }

  /// - Returns: Whether only the lock is left.
  @discardableResult
  private func removeLeftovers() throws(DirectoryError) -> Bool {
    let survivors = try Survivor.all(in: directories)
    var held = Set(
      survivors.flatMap { survivor in ProcessRecord.fileSuffixes.map { survivor.node + $0 } })
    if !survivors.isEmpty {
      // Nodes that are bound for other hosts find and authenticate the next orchestrator by these files.
      let files = [directories.controlKey, directories.controlEndpointFile, directories.clientKey]
      held.formUnion(files.map { String($0.dropFirst(directories.runtime.utf8.count + 1)) })
    }
    for name in FileSystem.entries(of: directories.runtime)
    where name != "lock" && !held.contains(name) {
      unlink(directories.runtime + "/" + name)
    }
    return survivors.isEmpty
  }

  private func describe() {
    let record = LockRecord(
      pid: getpid(), file: file.withLock { $0 }.map(FileSystem.absolute),
      deployment: deployment.withLock { $0 }.map(FileSystem.absolute),
      started: Timestamp(nanoseconds: startedAt.time).description, clock: startedAt.clock,
      boot: BootClock.boot)
    let bytes = ((try? JSONValue(encoding: record).bytes) ?? []) + [0x0A]
    ftruncate(descriptor, 0)
    // A full disk costs the description only; the lock itself holds.
    _ = pwrite(descriptor, bytes, bytes.count, 0)
  }
}
