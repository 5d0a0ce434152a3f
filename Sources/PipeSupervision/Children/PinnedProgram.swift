import Glibc
import PipeClient
import PipeSystem
import PipeWire

/// A copy of a node's program from the time when the node was started. A restart after a crash
/// executes this version of the program, even if the file at the path was replaced, overwritten or
/// removed.
package struct PinnedProgram: Hashable, Sendable {
  /// The path of the program.
  package let path: String
  /// A text that distinguishes the file from the files that were at this path before or after.
  package let build: String
  /// The hash of the file's contents.
  package let version: String
  /// The path of the copy; the path of the program if ``copyError`` is not `nil`.
  fileprivate let copy: String
  /// The reason why the program was not copied; `nil` if it was. Without a copy, a restart executes
  /// the file that is then at the path.
  package let copyError: String?

  /// The file to execute: the file at the path if it has not changed since it was pinned; otherwise
  /// the copy.
  package var executable: String { FileSystem.version(of: path) == build ? path : copy }
}

/// The pinned programs of a topology's nodes.
///
/// The copies are in the directory `programs` of the topology's state directory, in a directory for
/// each version. Each of these directories also has symbolic links to the files beside the program,
/// so that the program finds its shared libraries and its resources.
package struct PinnedPrograms: Sendable {
  /// The error that a program cannot be copied.
  struct CopyError: Error, CustomStringConvertible {
    let path: String
    let cause: SystemError

    var isDiskFull: Bool { SystemError.isDiskFull(cause.code) }

    var description: String {
      "cannot copy program '\(path)' to '\(cause.subject ?? "?")': \(SystemError.text(of: cause.code)); "
        + (isDiskFull ? "free disk space" : "make the state directory writable")
    }
  }

  private let directory: String
  private var programs: [String: PinnedProgram] = [:]
  /// The former and the next program of the node that is being upgraded.
  private var retainedPrograms: [PinnedProgram] = []

  /// The maximum number of files beside a program to which links are made. In larger directories,
  /// such as `/usr/bin`, links are made to shared libraries only.
  private static let maximumLinkCount = 500

  package init(in directories: RuntimeDirectories) { directory = Self.directory(in: directories) }

  private static func directory(in directories: RuntimeDirectories) -> String {
    directories.state + "/programs"
  }

  package subscript(node: String) -> PinnedProgram? { programs[node] }

  // MARK: Pinning programs

  /// Pins the file at a path: the node's processes are started from this file until the program is
  /// released. Nodes with the same program share one copy.
  /// - Returns: The program; `nil` if there is no file at the path.
  mutating func pin(_ path: String, of node: String) throws -> PinnedProgram? {
    if let program = programs[node], program.path == path { return program }
    let build = FileSystem.version(of: path)
    let known = allPrograms.first { $0.path == path && $0.build == build }
    do {
      guard let program = try known ?? makeCopy(of: path) else { return nil }
      programs[node] = program
      if known == nil { removeUnused() }
      return program
    } catch let error as CopyError where error.isDiskFull {
      // The node starts without a copy, because the disk may still have space enough for the work
      // of the node. The next start tries to copy the program again.
      programs[node] = nil
      return Self.programWithoutCopy(path, because: error)
    }
  }

  private static func programWithoutCopy(
    _ path: String, because error: CopyError
  ) -> PinnedProgram? {
    let source = open(path, O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { return nil }
    defer { close(source) }
    guard let hash = try? FileSystem.contentHash(of: source, path: path) else { return nil }
    return PinnedProgram(
      path: path, build: FileSystem.version(of: source), version: versionText(hash), copy: path,
      copyError: error.description)
  }

  /// Pins a program for a node.
  mutating func pin(_ program: PinnedProgram, of node: String) { programs[node] = program }

  /// Copies the file at a path. Keeps this program and `former` until ``endRetention()``.
  /// - Returns: The program at the path.
  mutating func retain(_ path: String, and former: PinnedProgram) throws -> PinnedProgram {
    let build = FileSystem.version(of: path)
    let known = allPrograms.first { $0.path == path && $0.build == build }
    guard let program = try known ?? makeCopy(of: path) else {
      throw SystemError("open", on: path, code: ENOENT)
    }
    retainedPrograms = [former, program]
    return program
  }

  mutating func endRetention() { retainedPrograms = [] }

  private var allPrograms: [PinnedProgram] { Array(programs.values) + retainedPrograms }

  /// Pins the program that the process of a node runs, according to its record.
  /// - Returns: Whether the copy of this program exists.
  @discardableResult
  mutating func adopt(_ launch: ProcessRecord.Launch, of node: String) -> Bool {
    guard let program = Self.program(of: launch, in: directory) else { return false }
    programs[node] = program
    return true
  }

  /// Releases the program of a node. The next process of the node then starts from the file that is
  /// at the path at that time.
  mutating func release(_ node: String) { programs[node] = nil }

  /// Pins the programs of processes that a killed orchestrator has left.
  package mutating func adopt(_ former: [String: PinnedProgram]) { programs = former }

  /// Returns the programs of the processes that a killed orchestrator has left, by node. If no
  /// process is left, returns no programs, so that the next run starts from the files at the paths.
  /// The result also contains the former program of a node whose upgrade was interrupted, because
  /// this node always returns to its former program.
  package static func former(in directories: RuntimeDirectories) -> [String: PinnedProgram] {
    guard FileSystem.exists(directory(in: directories)) else { return [:] }
    var programs: [String: PinnedProgram] = [:]
    if OrphanedTopology.find(directories) != nil {
      for record in ProcessRecord.all(in: directories) {
        programs[record.node] = program(of: record.launch, in: directory(in: directories))
      }
    }
    if let upgrade = UpgradeRecord.read(in: directories) {
      programs[upgrade.node] = program(of: upgrade.former, in: directory(in: directories))
    }
    return programs
  }

  private static func program(
    of launch: ProcessRecord.Launch, in directory: String
  ) -> PinnedProgram? {
    guard let version = launch.version else { return nil }
    let copy = Self.copy(of: launch.program, version, in: directory)
    guard FileSystem.exists(copy) else { return nil }
    return PinnedProgram(
      path: launch.program, build: launch.build, version: version, copy: copy, copyError: nil)
  }

  // MARK: Copies of programs

  /// Removes the copies that neither a node nor an upgrade uses.
  package func removeUnused() {
    let used = Set(allPrograms.map(\.copy))
    for entry in FileSystem.entryNames(of: directory) {
      let path = directory + "/" + entry
      if !used.contains(where: { FileSystem.parentDirectory(of: $0) == path }) {
        FileSystem.removeTree(path)
      }
    }
  }

  /// Removes all copies. Precondition: no node runs.
  package static func removeAll(in directories: RuntimeDirectories) {
    FileSystem.removeTree(directory(in: directories))
  }

  /// Returns the path of a copy. The copy keeps the name of the program, which ps(1) shows.
  private static func copy(of path: String, _ version: String, in directory: String) -> String {
    var origin: UInt32 = 2_166_136_261
    for byte in path.utf8 { origin = (origin ^ UInt32(byte)) &* 16_777_619 }
    let name = path.split(separator: "/").last.map(String.init) ?? ""
    return "\(directory)/\(version)-\(String(origin, radix: 16))/\(name)"
  }

  private func makeCopy(of path: String) throws -> PinnedProgram? {
    let source = open(path, O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { return nil }
    defer { close(source) }
    do {
      try FileSystem.makeDirectories(directory, mode: 0o700)
      let temporary = try FileSystem.makeTemporaryDirectory(directory + "/new-")
      defer { FileSystem.removeTree(temporary) }
      let build = FileSystem.version(of: source)
      let version = try Self.write(source, to: temporary + "/program")
      Failpoint.hit(.programCopied)
      let copy = Self.copy(of: path, version, in: directory)
      guard !FileSystem.exists(copy) else {
        return PinnedProgram(path: path, build: build, version: version, copy: copy, copyError: nil)
      }
      let name = String(copy.split(separator: "/").last ?? "program")
      rename(temporary + "/program", temporary + "/" + name)
      Self.linkNeighbors(of: path, in: temporary)
      let target = FileSystem.parentDirectory(of: copy)
      FileSystem.removeTree(target)
      guard rename(temporary, target) == 0 else {
        throw SystemError("rename", on: target, code: errno)
      }
      return PinnedProgram(path: path, build: build, version: version, copy: copy, copyError: nil)
    } catch let error as SystemError {
      throw CopyError(path: path, cause: error)
    }
  }

  /// Copies an open file. On a file system with reflinks, the two files share their blocks.
  /// - Returns: The version of the copy.
  private static func write(_ source: Int32, to path: String) throws(SystemError) -> String {
    let copy = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o700)
    guard copy >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(copy) }
    return versionText(try FileSystem.copy(source, to: copy, path: path))
  }

  private static func versionText(_ hash: UInt64) -> String {
    let digits = String(hash, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  /// Links the files beside a program into the directory of the copy. If the program is a symbolic
  /// link, links the files beside the target of the symbolic link, where the program finds its
  /// libraries.
  private static func linkNeighbors(of path: String, in directory: String) {
    let origin = FileSystem.parentDirectory(of: FileSystem.resolvedPath(path) ?? path)
    let neighbors = FileSystem.entryNames(of: origin)
    let isLarge = neighbors.count > maximumLinkCount
    for neighbor in neighbors where !isLarge || neighbor.contains(".so") {
      symlink(origin + "/" + neighbor, directory + "/" + neighbor)
    }
  }
}
