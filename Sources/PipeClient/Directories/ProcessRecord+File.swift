import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The file of a record is locked by the process that it tells of: that inherits the lock from the
/// orchestrator through the fork and holds it until its end, whoever else ends before. Its second
/// line is the process's own `/proc/self/stat`, which it writes before it runs its program. So
/// there is no instant at which a process lives that no record tells of.
///
/// Where another program has removed the file, the orchestrator writes it again. That one is not locked; its third
/// line names the run of the system in which the second one means its process.
///
/// What a process is told later, to open more pipes, is in a file of its own beside it.
extension ProcessRecord {
  /// What the file's name ends with, behind the node's name.
  package static let suffix = ".process"

  /// Writes the file and locks it. The descriptor is for the child, and to be closed after the fork.
  package func write(in directories: RuntimeDirectories) throws -> Int32 {
    let path = Self.path(of: node, in: directories)
    // A new file: what a former process left to its own children may still hold the old one's lock.
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

  /// Whether the process has written which one it is.
  static func isSigned(_ bytes: [UInt8]) -> Bool { bytes.count { $0 == 0x0A } > 1 }

  /// The same record for a file that no process locks.
  static func unlocked(_ bytes: [UInt8]) -> [UInt8] {
    let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false).prefix(2)
    return Array(lines.joined(separator: [0x0A])) + Array("\n\(BootClock.boot)\n".utf8)
  }

  /// Notes that a process was told to open more pipes.
  package static func extend(
    _ node: String, by configuration: NodeConfiguration, in directories: RuntimeDirectories
  ) throws {
    try FileSystem.replace(
      directories.runtime + "/" + node + extensionSuffix,
      with: try JSONValue(encoding: configuration).bytes)
  }

  /// Takes what was noted of more pipes.
  fileprivate mutating func readExtension(in directories: RuntimeDirectories) {
    guard let text = FileSystem.text(of: directories.runtime + "/" + node + Self.extensionSuffix),
      let configuration = try? JSONValue(parsing: text.utf8)
    else { return }
    launch.configuration = configuration
  }

  package static func path(of node: String, in directories: RuntimeDirectories) -> String {
    directories.runtime + "/" + node + suffix
  }

  /// The records that are there, of processes that live and of such as have ended since.
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

  /// What a node's files in the runtime directory end with.
  package static let fileSuffixes = [
    suffix, extensionSuffix, keySuffix, placeSuffix, ".in", ".feed", ".out", ".err",
  ]
  /// What the file ends with that tells of pipes that were opened later.
  private static let extensionSuffix = suffix + ".outs"
  /// What the file of its key pair ends with.
  static let keySuffix = ".node.key"
  /// What the file ends with that tells where its sockets are.
  static let placeSuffix = ".node.place"
}

/// A process of a node that lives though nobody supervises it.
package struct Survivor: Sendable {
  package let node: String
  /// `nil` where another version of this program wrote it in a form that is not known.
  package let record: ProcessRecord?
  package let process: AdoptedProcess
  /// The node in whose process it lives; `nil` where that is its own.
  package var host: String? { record?.launch.host }
  /// Whether it is bound for other hosts, and so runs by a deployment file.
  package var isDeployed: Bool { record?.launch.address != nil }

  /// The live processes of a topology whose lock the caller holds, or at least nobody else does.
  /// - Parameter patience: How long one is waited for that was just forked and has not yet written
  ///   who it is.
  /// - Throws: ``DirectoryError/unknownProcess(record:)`` where it does not.
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
      // Between its fork and its program a process has no number that anybody knows.
      let lines = try Polling.wait(every: .milliseconds(2), until: deadline) {
        () throws(DirectoryError) in try linesOfHolder(path)
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
    return survivors + lodgersElsewhere(survivors, in: directories)
  }

  /// Those that live in processes on other hosts, where nobody can lock their records: they are taken for alive as long
  /// as these are.
  private static func lodgersElsewhere(
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

  /// The lines of a record; none where nobody holds it and it is a leftover, `nil` where its process has
  /// not written yet who it is.
  private static func linesOfHolder(
    _ path: String
  ) throws(DirectoryError) -> [ArraySlice<UInt8>]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    if descriptor < 0, errno == ENOENT || errno == ELOOP { return [] }
    guard descriptor >= 0 else { throw .system(SystemError("open", on: path, code: errno)) }
    defer { close(descriptor) }
    // The holder's lock is exclusive; this one, if it is granted, goes with the descriptor.
    let isLocked = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
    let bytes = (try? FileSystem.read(descriptor, limit: 4 << 20)) ?? []
    let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
    guard isLocked else {
      // Written again while its process lived: its start time tells whether it still does.
      return lines.count > 3 && lines[2].elementsEqual(BootClock.boot.utf8) ? lines : []
    }
    // Behind the last line's end there is an empty one.
    return lines.count > 2 ? lines : nil
  }
}
