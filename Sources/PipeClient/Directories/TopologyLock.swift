import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The exclusive right to run a topology under its name. The right lasts until ``release()`` is
/// called or this process ends.
///
/// The lock is a flock(2), which the kernel releases when the holder ends for any reason. If no
/// process holds the lock, the lock file is a leftover, whatever its contents are.
package final class TopologyLock: Sendable {
  package let directories: RuntimeDirectories
  private let file: Locked<String?>
  private let deployment: Locked<String?>
  private let startedAt = BootClock.now
  private let heldDescriptor: Locked<Int32>
  private let formerRecords = Locked<[ProcessRecord]>([])

  private init(
    directories: RuntimeDirectories, file: String?, deployment: String?, descriptor: Int32
  ) {
    self.directories = directories
    self.deployment = Locked(deployment)
    self.file = Locked(file)
    heldDescriptor = Locked(descriptor)
  }

  deinit { close(descriptor) }

  private var descriptor: Int32 { heldDescriptor.withLock { $0 } }

  /// The records of the processes that a killed orchestrator had started. Some of these processes
  /// may have ended.
  package var formerProcesses: [ProcessRecord] { formerRecords.withLock { $0 } }

  /// Creates the directories, acquires the lock, and removes the files that a killed orchestrator
  /// has left behind. The files of processes that are still alive stay: see ``Survivor``.
  /// - Parameters:
  ///   - file: The topology file.
  ///   - deployment: The deployment file; `nil` if all nodes are on one host.
  /// - Throws: ``DirectoryError/alreadyRunning(topology:pid:file:)`` if another orchestrator holds
  ///   the lock.
  package static func acquire(
    _ directories: RuntimeDirectories, file: String?, deployment: String? = nil
  ) throws(DirectoryError) -> TopologyLock {
    for directory in [directories.state, directories.logs, directories.journals] {
      try OwnedDirectory.makeWritable(directory)
    }
    // Another process may hold the lock for an instant: a process that checks the lock, or an
    // orchestrator that is about to remove the lock file and to end.
    let lock = try Polling.wait(every: .milliseconds(2), until: .now + .milliseconds(50)) {
      () throws(DirectoryError) in try tryAcquire(directories, file: file, deployment: deployment)
    }
    guard let lock else {
      let holder = RunningTopology.lastRun(directories)
      throw .alreadyRunning(
        topology: directories.topology, pid: holder?.pid, file: holder?.topologyFile)
    }
    // Writes the description first, because the file still describes the former holder of the lock.
    lock.writeDescription()
    lock.formerRecords.withLock { $0 = ProcessRecord.all(in: directories) }
    try lock.removeLeftovers()
    return lock
  }

  /// Tries to acquire the lock. Returns `nil` if another process holds the lock, or the lock file
  /// was just removed.
  private static func tryAcquire(
    _ directories: RuntimeDirectories, file: String?, deployment: String?
  ) throws(DirectoryError) -> TopologyLock? {
    try OwnedDirectory.make(directories.roots.runtime)
    try OwnedDirectory.make(directories.runtime)
    let descriptor = open(directories.lockFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw .system(SystemError("open", on: directories.lockFile, code: errno))
    }
    let lock = TopologyLock(
      directories: directories, file: file, deployment: deployment, descriptor: descriptor)
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return lock.isInPlace ? lock : nil }
    guard errno == EWOULDBLOCK else {
      throw .system(SystemError("flock", on: directories.lockFile, code: errno))
    }
    return nil
  }

  /// Removes the sockets and the runtime directory, and releases the lock. Logs stay. If a process
  /// of the topology is still alive, two kinds of files stay as well: the files that identify the
  /// process, and the keys with which the process connects to the next orchestrator.
  package func release() {
    // If the lock file was replaced, the directory may belong to another run, so nothing is
    // removed.
    if isInPlace, (try? removeLeftovers()) == true {
      unlink(directories.lockFile)
      rmdir(directories.runtime)
    }
    flock(descriptor, LOCK_UN)
  }

  /// Records another topology file and deployment file in the lock file, because the run continues
  /// with these files.
  package func continueRun(with file: String, by deployment: String?) {
    self.file.withLock { $0 = file }
    self.deployment.withLock { $0 = deployment }
    writeDescription()
  }

  /// Whether other processes can find the run that holds the lock.
  package enum Presence: Hashable, Sendable {
    case inPlace
    /// The lock file had been removed, and was created again.
    case restored
    /// The lock file was removed, and another process is checking the file that has replaced it.
    /// Check again later.
    case beingChecked
    /// The directory with the sockets was removed, or belongs to another run.
    case gone
  }

  /// Makes sure that other processes can find the run. If another program has removed the lock
  /// file, creates the file again.
  package func keepInPlace() -> Presence {
    if isInPlace { return .inPlace }
    // In a topology on several hosts, the orchestrator has no socket in this directory, but a file
    // with its endpoint.
    let isFound = [directories.runtime + "/control", directories.controlEndpointFile].contains {
      FileSystem.exists($0)
    }
    guard isFound else { return .gone }
    let reopened = open(directories.lockFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard reopened >= 0 else { return .gone }
    guard flock(reopened, LOCK_EX | LOCK_NB) == 0 else {
      // A process that only checks the lock holds a shared lock for an instant. Another run holds
      // an exclusive lock.
      let isShared = flock(reopened, LOCK_SH | LOCK_NB) == 0
      close(reopened)
      return isShared ? .beingChecked : .gone
    }
    close(descriptor)
    heldDescriptor.withLock { $0 = reopened }
    writeDescription()
    // If the file was removed again while it was being restored, the next call creates it again.
    return .restored
  }

  /// Whether the locked file is still the file at the lock's path.
  private var isInPlace: Bool {
    FileIdentity(directories.lockFile).map { $0 == FileIdentity(descriptor: descriptor) } == true
  }

  /// Removes the files of processes that have ended.
  /// - Returns: Whether only the lock file is left.
  @discardableResult
  private func removeLeftovers() throws(DirectoryError) -> Bool {
    let survivors = try Survivor.all(in: directories)
    var held = Set(
      survivors.flatMap { survivor in ProcessRecord.fileSuffixes.map { survivor.node + $0 } })
    if !survivors.isEmpty {
      // With these files, nodes that accept connections from other hosts find and authenticate the
      // next orchestrator.
      let files = [
        directories.controlKeyFile, directories.controlEndpointFile, directories.clientKeyFile,
      ]
      held.formUnion(files.map { String($0.dropFirst(directories.runtime.utf8.count + 1)) })
    }
    for name in FileSystem.entryNames(of: directories.runtime)
    where name != "lock" && !held.contains(name) {
      unlink(directories.runtime + "/" + name)
    }
    return survivors.isEmpty
  }

  private func writeDescription() {
    let record = LockRecord(
      pid: getpid(), file: file.withLock { $0 }.map(FileSystem.absolutePath),
      deployment: deployment.withLock { $0 }.map(FileSystem.absolutePath),
      started: Timestamp(nanoseconds: startedAt.timeOfDay).description,
      clock: startedAt.timeSinceBoot,
      boot: BootClock.bootID)
    let bytes = ((try? JSONValue(encoding: record).bytes) ?? []) + [0x0A]
    ftruncate(descriptor, 0)
    // If the disk is full, the file lacks the description, but the lock is still held.
    _ = pwrite(descriptor, bytes, bytes.count, 0)
  }
}
