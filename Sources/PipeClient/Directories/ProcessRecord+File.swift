import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The file of a record is locked by the process that it describes. The process inherits the lock
/// from the orchestrator through the fork and holds it until it ends, whichever other processes end
/// before. The second line of the file is the process's own `/proc/self/stat`, which it writes
/// before it runs its program. So a record describes each live process at every instant.
///
/// If another program has removed the file, the orchestrator writes it again. The new file is not
/// locked. Its third line identifies the boot of the system for which the second line is valid.
///
/// Pipes that a running process opens later are described in a separate file beside it.
extension ProcessRecord {
  /// The suffix of the file's name, after the node's name.
  package static let suffix = ".process"

  /// Writes the file and locks it. The descriptor is for the child; close it after the fork.
  package func write(in directories: RuntimeDirectories) throws -> Int32 {
    let path = Self.path(of: node, in: directories)
    // Creates a new file, since children of a former process may still hold the old file's lock.
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

  /// Whether the process has identified itself in its record.
  static func isIdentified(_ bytes: [UInt8]) -> Bool { bytes.count { $0 == 0x0A } > 1 }

  /// Returns the same record for a file that no process locks.
  static func unlocked(_ bytes: [UInt8]) -> [UInt8] {
    let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false).prefix(2)
    return Array(lines.joined(separator: [0x0A])) + Array("\n\(BootClock.boot)\n".utf8)
  }

  /// Records that a process was asked to open more pipes.
  package static func extend(
    _ node: String, by configuration: NodeConfiguration, in directories: RuntimeDirectories
  ) throws {
    try FileSystem.replace(
      directories.runtime + "/" + node + extensionSuffix,
      with: try JSONValue(encoding: configuration).bytes)
  }

  /// Applies the record of more pipes.
  fileprivate mutating func readExtension(in directories: RuntimeDirectories) {
    guard let text = FileSystem.text(of: directories.runtime + "/" + node + Self.extensionSuffix),
      let configuration = try? JSONValue(parsing: text.utf8)
    else { return }
    launch.configuration = configuration
  }

  package static func path(of node: String, in directories: RuntimeDirectories) -> String {
    directories.runtime + "/" + node + suffix
  }

  /// Returns the existing records, of live processes and of processes that have ended since.
  package static func all(in directories: RuntimeDirectories) -> [ProcessRecord] {
    FileSystem.entries(of: directories.runtime).filter { $0.hasSuffix(suffix) }.compactMap { name in
      let text = FileSystem.text(of: directories.runtime + "/" + name)
      let line = text?.split(separator: "\n", maxSplits: 1).first
      return line.flatMap { try? JSONValue(parsing: $0.utf8).decode(ProcessRecord.self) }
    }
  }

  /// Removes a node's record and sockets, once its process has ended.
  package static func remove(_ node: String, in directories: RuntimeDirectories) {
    for suffix in fileSuffixes { unlink(directories.runtime + "/" + node + suffix) }
  }

  /// The suffixes of a node's files in the runtime directory.
  package static let fileSuffixes = [
    suffix, extensionSuffix, keySuffix, endpointsSuffix, ".in", ".feed", ".out", ".err",
  ]
  /// The suffix of the file that describes pipes opened later.
  private static let extensionSuffix = suffix + ".outs"
  /// The suffix of the file with the node's key pair.
  static let keySuffix = ".node.key"
  /// The suffix of the file with the endpoints of the node's sockets.
  static let endpointsSuffix = ".node.place"
}

/// A live process of a node that no orchestrator supervises.
package struct Survivor: Sendable {
  package let node: String
  /// The record; `nil` if another version of this program wrote it in an unknown format.
  package let record: ProcessRecord?
  package let process: AdoptedProcess
  /// The carrier node of an embedded coordinator; `nil` if the node has its own process.
  package var host: String? { record?.launch.host }
  /// Whether the node is bound for other hosts, and so belongs to a topology with a deployment file.
  package var isDeployed: Bool { record?.launch.address != nil }

  /// Returns the live processes of a topology. The caller, or no process, must hold the topology's lock.
  /// - Parameter patience: How long to wait for a process that was just forked and has not
  ///   identified itself yet.
  /// - Throws: ``DirectoryError/unknownProcess(record:)`` if the process does not identify itself.
  /// - Note: Each takes a descriptor; see ``OpenFileLimit/raise()``.
  package static func all(
    in directories: RuntimeDirectories, patience: Duration = .seconds(5)
  ) throws(DirectoryError) -> [Survivor] {
    let deadline = ContinuousClock.now + patience
    var survivors: [Survivor] = []
    for name in FileSystem.entries(of: directories.runtime)
    where name.hasSuffix(ProcessRecord.suffix) {
      let path = directories.runtime + "/" + name
      let node = String(name.dropLast(ProcessRecord.suffix.count))
      // Between its fork and the start of its program, no other process knows the number of a process.
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

  /// Returns the embedded coordinators in processes on other hosts, where no process can lock their
  /// records. They count as alive as long as their carrier nodes are.
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

  /// Returns the lines of a record: none if no process holds it, so that it is a leftover; `nil` if
  /// its process has not identified itself yet.
  private static func readHolderLines(
    _ path: String
  ) throws(DirectoryError) -> [ArraySlice<UInt8>]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    if descriptor < 0, errno == ENOENT || errno == ELOOP { return [] }
    guard descriptor >= 0 else { throw .system(SystemError("open", on: path, code: errno)) }
    defer { close(descriptor) }
    // The holder's lock is exclusive. This lock, if it is granted, ends with the descriptor.
    let isLocked = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
    let bytes = (try? FileSystem.read(descriptor, limit: 4 << 20)) ?? []
    let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
    guard isLocked else {
      // The record was written again while its process lived. The start time shows whether the
      // process still lives.
      return lines.count > 3 && lines[2].elementsEqual(BootClock.boot.utf8) ? lines : []
    }
    // An empty line follows the end of the last line.
    return lines.count > 2 ? lines : nil
  }
}
