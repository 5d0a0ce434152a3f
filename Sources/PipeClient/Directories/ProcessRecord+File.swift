import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The file of a record is locked by the process that the record describes. The process inherits
/// the lock from the orchestrator at the fork, and holds the lock until the process ends, even if
/// the orchestrator ends earlier. The second line of the file is the `/proc/self/stat` of the
/// process, which the process writes before it runs its program. So the records describe all live
/// processes at every instant.
///
/// If another program removes the file, the orchestrator writes the file again, but no process
/// locks the new file. Instead, the new file has a third line with a boot id: the second line is
/// valid only until the system is booted again.
///
/// If a running process opens more pipes, the new configuration of the process is in another file
/// in the same directory.
extension ProcessRecord {
  /// The suffix of the file's name, after the node's name.
  package static let suffix = ".process"

  /// Writes the file and locks it. Returns the descriptor that holds the lock and that the child
  /// inherits. Close this process's copy of the descriptor after the fork.
  package func write(in directories: RuntimeDirectories) throws -> Int32 {
    let path = Self.path(of: node, in: directories)
    // Creates a new file, since children of a former process may still hold the lock on the old
    // file.
    let new = path + ".new"
    unlink(new)
    let descriptor = open(new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: new, code: errno) }
    do {
      guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
        throw SystemError("flock", on: new, code: errno)
      }
      try FileSystem.write(try JSONValue(encoding: self).bytes + [0x0A], to: descriptor, path: new)
      unlink(directories.runtime + "/" + node + Self.extensionSuffix)
      guard rename(new, path) == 0 else { throw SystemError("rename", on: path, code: errno) }
      return descriptor
    } catch {
      close(descriptor)
      unlink(new)
      throw error
    }
  }

  /// Whether the contents of a record include the line that the process itself adds.
  static func isIdentified(_ bytes: [UInt8]) -> Bool { bytes.count { $0 == 0x0A } > 1 }

  /// Returns the new contents of a record whose file was removed. The new contents end with the id
  /// of the current boot, because no process locks the new file.
  static func unlocked(_ bytes: [UInt8]) -> [UInt8] {
    let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false).prefix(2)
    return Array(lines.joined(separator: [0x0A])) + Array("\n\(BootClock.bootID)\n".utf8)
  }

  /// Records the new configuration of a running process that was asked to open more pipes.
  package static func extend(
    _ node: String, by configuration: NodeConfiguration, in directories: RuntimeDirectories
  ) throws {
    try FileSystem.replace(
      directories.runtime + "/" + node + extensionSuffix,
      with: try JSONValue(encoding: configuration).bytes)
  }

  /// Replaces the configuration if the process was asked to open more pipes after its start.
  fileprivate mutating func readExtension(in directories: RuntimeDirectories) {
    guard let text = FileSystem.text(of: directories.runtime + "/" + node + Self.extensionSuffix),
      let configuration = try? JSONValue(parsing: text.utf8)
    else { return }
    launch.configuration = configuration
  }

  package static func path(of node: String, in directories: RuntimeDirectories) -> String {
    directories.runtime + "/" + node + suffix
  }

  /// Returns all existing records, including records of processes that have ended.
  package static func all(in directories: RuntimeDirectories) -> [ProcessRecord] {
    FileSystem.entryNames(of: directories.runtime).filter { $0.hasSuffix(suffix) }.compactMap {
      name in
      let text = FileSystem.text(of: directories.runtime + "/" + name)
      let line = text?.split(separator: "\n", maxSplits: 1).first
      return line.flatMap { try? JSONValue(parsing: $0.utf8).decode(ProcessRecord.self) }
    }
  }

  /// Removes the record and the sockets of a node whose process has ended.
  package static func remove(_ node: String, in directories: RuntimeDirectories) {
    for suffix in fileSuffixes { unlink(directories.runtime + "/" + node + suffix) }
  }

  /// The suffixes of a node's files in the runtime directory.
  package static let fileSuffixes = [
    suffix, extensionSuffix, keySuffix, endpointsSuffix, ".in", ".feed", ".out", ".err",
  ]
  /// The suffix of the file with the new configuration of a running process that has opened more
  /// pipes.
  private static let extensionSuffix = suffix + ".outs"
  /// The suffix of the file with the node's key pair.
  static let keySuffix = ".node.key"
  /// The suffix of the file with the endpoints of the node's sockets.
  static let endpointsSuffix = ".node.place"
}

/// A live process of a node that no orchestrator supervises.
package struct Survivor: Sendable {
  package let node: String
  /// The record; `nil` if another version of this program has written the record in an unknown
  /// format.
  package let record: ProcessRecord?
  package let process: AdoptedProcess
  /// The carrier node of an embedded coordinator; `nil` if the node has its own process.
  package var host: String? { record?.launch.host }
  /// Whether the node accepts connections from other hosts. Such nodes exist only in a topology
  /// with a deployment file.
  package var isDeployed: Bool { record?.launch.address != nil }

  /// Returns the live processes of a topology. Precondition: no process other than the caller holds
  /// the topology's lock.
  /// - Parameter patience: How long to wait for a process that was just forked and has not added
  ///   its line to its record yet.
  /// - Throws: ``DirectoryError/unknownProcess(record:)`` if a process does not add its line to its
  ///   record in time.
  /// - Note: Each returned process has an open descriptor; see ``OpenFileLimit/raise()``.
  package static func all(
    in directories: RuntimeDirectories, patience: Duration = .seconds(5)
  ) throws(DirectoryError) -> [Survivor] {
    let deadline = ContinuousClock.now + patience
    var survivors: [Survivor] = []
    for name in FileSystem.entryNames(of: directories.runtime)
    where name.hasSuffix(ProcessRecord.suffix) {
      let path = directories.runtime + "/" + name
      let node = String(name.dropLast(ProcessRecord.suffix.count))
      // A child process that was just forked adds its process id to the record before it starts the
      // node's program. Until then, the record does not identify the process.
      let lines = try Polling.wait(every: .milliseconds(2), until: deadline) {
        () throws(DirectoryError) in try readHolderLines(path)
      }
      guard let lines else { throw .unknownProcess(record: path) }
      guard !lines.isEmpty else { continue }
      let process: AdoptedProcess?
      do { process = try AdoptedProcess(statLine: lines[1]) } catch { throw .system(error) }
      guard let process else { continue }
      var record = (try? JSONValue(parsing: lines[0])).flatMap {
        try? $0.decode(ProcessRecord.self)
      }
      record?.readExtension(in: directories)
      survivors.append(Survivor(node: node, record: record, process: process))
    }
    return survivors + remoteEmbeddedNodes(survivors, in: directories)
  }

  /// Returns the embedded coordinators that run in processes on other hosts. No process on this
  /// host can lock their records, so an embedded coordinator counts as alive as long as its carrier
  /// node is alive.
  private static func remoteEmbeddedNodes(
    _ survivors: [Survivor], in directories: RuntimeDirectories
  ) -> [Survivor] {
    let hosts = survivors.filter { $0.record?.step != nil }
    guard !hosts.isEmpty else { return [] }
    return ProcessRecord.all(in: directories).compactMap { record in
      hosts.first { $0.node == record.launch.host }.map {
        Survivor(node: record.node, record: record, process: $0.process)
      }
    }
  }

  /// Returns the lines of a record. Returns no lines if the record is a leftover, which no process
  /// locks. Returns `nil` if the process has not added its line yet.
  private static func readHolderLines(
    _ path: String
  ) throws(DirectoryError) -> [ArraySlice<UInt8>]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    if descriptor < 0, errno == ENOENT || errno == ELOOP { return [] }
    guard descriptor >= 0 else { throw .system(SystemError("open", on: path, code: errno)) }
    defer { close(descriptor) }
    // A live process holds an exclusive lock on its record. If this process gets a shared lock, the
    // record is a leftover. Closing the descriptor releases the shared lock.
    let isLocked = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
    let bytes = (try? FileSystem.read(descriptor, limit: 4 << 20)) ?? []
    let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
    guard isLocked else {
      // If another program removed the record, the orchestrator has written it again. The process
      // still locks the removed file, and not the new file. So the start time in the record must
      // later show whether the process is still alive.
      return lines.count > 3 && lines[2].elementsEqual(BootClock.bootID.utf8) ? lines : []
    }
    // Splitting adds an empty element after the last line.
    return lines.count > 2 ? lines : nil
  }
}
