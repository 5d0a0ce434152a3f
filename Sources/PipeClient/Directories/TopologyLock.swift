import Glibc
import PipeMachines
import PipeSupport
import PipeWire

/// What a running topology's lock file tells.
package struct RunningTopology: Hashable, Sendable {
  package let name: String
  /// The orchestrator's process.
  package let pid: Int32?
  /// The topology file, as an absolute path.
  package let file: String?
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
    let descriptor = open(directories.lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    // The holder's lock is exclusive; ours, if we get it, goes with the descriptor.
    guard flock(descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK else { return nil }
    return RunningTopology(name: directories.topology, lockFile: descriptor)
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
        _ = AdoptedProcess.wait(for: [orchestrator], until: min(deadline, .now + .seconds(1)))
        if find(directories) == nil { break }
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
    let descriptor = open(directories.lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return RunningTopology(name: directories.topology, lockFile: descriptor)
  }

  init(name: String, lockFile descriptor: Int32) {
    lseek(descriptor, 0, SEEK_SET)
    let bytes = (try? FileSystem.read(descriptor, limit: 65536)) ?? []
    let document = try? JSONValue(parsing: bytes)
    self.name = name
    pid = document?["pid"]?.integer.flatMap { Int32(exactly: $0) }
    file = document?["file"]?.string
    startedAt = document?["started"]?.string.flatMap { Timestamp($0) }
  }
}

/// The exclusive right to run a topology under its name, held until `release` or our end.
///
/// It is a flock(2), which the kernel drops however the holder ends: a lock file that nobody holds
/// is a leftover, whatever it says.
package final class TopologyLock: Sendable {
  package let directories: RuntimeDirectories
  private let file: Locked<String?>
  private let startedAt = Timestamp.now
  private let held: Locked<Int32>

  private init(directories: RuntimeDirectories, file: String?, descriptor: Int32) {
    self.directories = directories
    self.file = Locked(file)
    held = Locked(descriptor)
  }

  deinit { close(descriptor) }

  private var descriptor: Int32 { held.withLock { $0 } }

  /// Creates the directories, takes the lock and removes what a killed orchestrator left, but for
  /// what its processes hold that live on: see ``Survivor``.
  /// - Throws: ``DirectoryError/alreadyRunning(topology:pid:file:)`` where another one holds it.
  package static func acquire(
    _ directories: RuntimeDirectories, file: String?
  ) throws(DirectoryError) -> TopologyLock {
    for directory in [directories.state, directories.logs, directories.journals] {
      try OwnedDirectory.makeWritable(directory)
    }
    // Somebody who only looks holds the lock for an instant, and an orchestrator that just ends takes
    // its file away.
    let lock = try Polling.wait(every: .milliseconds(2), until: .now + .milliseconds(50)) {
      () throws(DirectoryError) in try take(directories, file: file)
    }
    guard let lock else {
      let holder = RunningTopology.last(directories)
      throw .alreadyRunning(
        topology: directories.topology, pid: holder?.pid, file: holder?.file)
    }
    // First of all: until then the file tells of whoever held the lock before.
    lock.describe()
    try lock.removeLeftovers()
    return lock
  }

  /// The lock, or `nil` where another has it, or its file has just been taken away.
  private static func take(
    _ directories: RuntimeDirectories, file: String?
  ) throws(DirectoryError) -> TopologyLock? {
    try OwnedDirectory.make(directories.roots.runtime)
    try OwnedDirectory.make(directories.runtime)
    let descriptor = open(directories.lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw .system(SystemError("open", on: directories.lock, code: errno))
    }
    let lock = TopologyLock(directories: directories, file: file, descriptor: descriptor)
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return lock.isInPlace ? lock : nil }
    guard errno == EWOULDBLOCK else {
      throw .system(SystemError("flock", on: directories.lock, code: errno))
    }
    return nil
  }

  /// Removes the sockets and the runtime directory, and gives the name free. Logs stay; where a
  /// process lives on, so do its files, by which it is found.
  package func release() {
    // What is not ours any more may be another run's by now.
    if isInPlace, (try? removeLeftovers()) == true {
      unlink(directories.lock)
      rmdir(directories.runtime)
    }
    flock(descriptor, LOCK_UN)
  }

  /// Tells others that the run goes by another file from now on.
  package func goOn(with file: String) {
    self.file.withLock { $0 = file }
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
    guard FileSystem.exists(directories.runtime + "/control") else { return .gone }
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
    return isInPlace ? .restored : .gone
  }

  /// Whether the file that is locked is still the one under the lock's path.
  private var isInPlace: Bool {
    FileIdentity(directories.lock).map { $0 == FileIdentity(descriptor: descriptor) } == true
  }

  /// - Returns: Whether nothing but the lock is left.
  @discardableResult
  private func removeLeftovers() throws(DirectoryError) -> Bool {
    let survivors = try Survivor.all(in: directories)
    let held = Set(
      survivors.flatMap { survivor in ProcessRecord.fileSuffixes.map { survivor.node + $0 } })
    for name in FileSystem.entries(of: directories.runtime)
    where name != "lock" && !held.contains(name) {
      unlink(directories.runtime + "/" + name)
    }
    return survivors.isEmpty
  }

  private func describe() {
    let document: JSONValue = [
      "pid": .integer(Int64(getpid())),
      "file": file.withLock { $0 }.map { .string(FileSystem.absolute($0)) } ?? .null,
      "started": .string(startedAt.description),
    ]
    let bytes = document.bytes + [0x0A]
    ftruncate(descriptor, 0)
    // A full disk costs the description only; the lock itself holds.
    _ = pwrite(descriptor, bytes, bytes.count, 0)
  }
}
