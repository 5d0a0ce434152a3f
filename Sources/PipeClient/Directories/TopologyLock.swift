import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The exclusive right to run a topology under its name, held until `release` or our end.
///
/// It is a flock(2), which the kernel drops however the holder ends: a lock file that nobody holds
/// is a leftover, whatever it says.
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

  /// What an orchestrator that was killed had started, whether it lives on or not.
  package var formerProcesses: [ProcessRecord] { former.withLock { $0 } }

  /// Creates the directories, takes the lock and removes what a killed orchestrator left, but for
  /// what its processes hold that live on: see ``Survivor``.
  /// - Parameters:
  ///   - file: The topology file.
  ///   - deployment: The deployment file; `nil` where all nodes are on one host.
  /// - Throws: ``DirectoryError/alreadyRunning(topology:pid:file:)`` where another one holds it.
  package static func acquire(
    _ directories: RuntimeDirectories, file: String?, deployment: String? = nil
  ) throws(DirectoryError) -> TopologyLock {
    for directory in [directories.state, directories.logs, directories.journals] {
      try OwnedDirectory.makeWritable(directory)
    }
    // Somebody who only looks holds the lock for an instant, and an orchestrator that just ends takes
    // its file away.
    let lock = try Polling.wait(every: .milliseconds(2), until: .now + .milliseconds(50)) {
      () throws(DirectoryError) in try take(directories, file: file, deployment: deployment)
    }
    guard let lock else {
      let holder = RunningTopology.last(directories)
      throw .alreadyRunning(
        topology: directories.topology, pid: holder?.pid, file: holder?.file)
    }
    // First of all: until then the file tells of whoever held the lock before.
    lock.describe()
    lock.former.withLock { $0 = ProcessRecord.all(in: directories) }
    try lock.removeLeftovers()
    return lock
  }

  /// The lock, or `nil` where another has it, or its file has just been taken away.
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

  /// Removes the sockets and the runtime directory, and gives the name free. Logs stay; where a
  /// process lives on, so do its files, by which it is found, and the keys that it knows.
  package func release() {
    // What is not ours any more may be another run's by now.
    if isInPlace, (try? removeLeftovers()) == true {
      unlink(directories.lock)
      rmdir(directories.runtime)
    }
    flock(descriptor, LOCK_UN)
  }

  /// Tells others that the run goes by other files from now on.
  package func goOn(with file: String, by deployment: String?) {
    self.file.withLock { $0 = file }
    self.deployment.withLock { $0 = deployment }
    describe()
  }

  /// Whether others still find the run that holds the lock.
  package enum Presence: Hashable, Sendable {
    case inPlace
    /// The lock's file had been removed, and is there again.
    case restored
    /// The lock's file had been removed, and somebody just looks at the one in its place: to be asked
    /// again.
    case lookedAt
    /// The directory with the sockets has been removed, or is another run's.
    case gone
  }

  /// Sees to it that others find the run: makes the lock's file anew where somebody has removed it.
  package func keepInPlace() -> Presence {
    if isInPlace { return .inPlace }
    // Of a topology on several hosts there is no socket, but a file that says where its orchestrator listens.
    let isFound = [directories.runtime + "/control", directories.controlPlace].contains {
      FileSystem.exists($0)
    }
    guard isFound else { return .gone }
    let anew = open(directories.lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard anew >= 0 else { return .gone }
    guard flock(anew, LOCK_EX | LOCK_NB) == 0 else {
      // Who only looks shares it, for an instant; another run does not.
      let isShared = flock(anew, LOCK_SH | LOCK_NB) == 0
      close(anew)
      return isShared ? .lookedAt : .gone
    }
    close(descriptor)
    held.withLock { $0 = anew }
    describe()
    // A file that has been removed again meanwhile is made again at the next look.
    return .restored
  }

  /// Whether the file that is locked is still the one under the lock's path.
  private var isInPlace: Bool {
    FileIdentity(directories.lock).map { $0 == FileIdentity(descriptor: descriptor) } == true
  }

  /// - Returns: Whether nothing but the lock is left.
  @discardableResult
  private func removeLeftovers() throws(DirectoryError) -> Bool {
    let survivors = try Survivor.all(in: directories)
    var held = Set(
      survivors.flatMap { survivor in ProcessRecord.fileSuffixes.map { survivor.node + $0 } })
    if !survivors.isEmpty {
      // By these, those that are bound for other hosts find and know the next orchestrator.
      let files = [directories.controlKey, directories.controlPlace, directories.clientKey]
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
