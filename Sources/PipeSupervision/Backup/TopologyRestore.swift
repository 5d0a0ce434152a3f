import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem

/// Restores a topology from a backup.
package struct TopologyRestore {
  package let manifest: BackupManifest
  private let file: String
  private let archive: ArchiveReader

  /// The maximum size of a manifest or a topology file. Unit: bytes.
  private static let textByteLimit = 64 << 20

  /// Opens a backup, and compares all of its contents with the recorded hashes.
  package init(reading file: String) throws(BackupError) {
    self.file = file
    do {
      archive = try ArchiveReader(file)
    } catch {
      throw .unreadable(file: file, reason: SystemError.text(of: error.code))
    }
    guard !archive.entries.isEmpty else { throw .notABackup(file: file) }
    guard archive.isComplete, let entry = archive.entry(BackupManifest.path) else {
      let isBackup = archive.entries.allSatisfy {
        $0.header.path.hasPrefix(BackupManifest.journalDirectory)
          || $0.header.path.hasPrefix("topology/") || $0.header.path == BackupManifest.path
      }
      throw isBackup ? .incomplete(file: file) : .notABackup(file: file)
    }
    do {
      manifest = try JSONValue(parsing: archive.bytes(of: entry, limit: Self.textByteLimit))
        .decode(BackupManifest.self)
    } catch {
      throw .notABackup(file: file)
    }
    guard manifest.version == BackupManifest.currentVersion else {
      throw .otherVersion(file: file, found: manifest.version)
    }
    for listed in manifest.files { try check(listed) }
  }

  private func check(_ listed: BackupManifest.File) throws(BackupError) {
    guard let entry = archive.entry(listed.path) else { throw .incomplete(file: file) }
    let hash: ContentHash
    do { hash = try archive.hash(of: entry) } catch {
      throw .unreadable(file: file, reason: "\(error)")
    }
    guard hash.byteCount == listed.byteCount, hash.text == listed.hash, isSafe(listed) else {
      throw .damaged(file: file, entry: listed.path)
    }
  }

  /// Whether `orchestrator backup` could have written a file with this path.
  private func isSafe(_ listed: BackupManifest.File) -> Bool {
    guard let node = listed.node else { return listed.path == manifest.topologyFile }
    return isSafeName(node)
      && [".sqlite", ".sqlite.reset"].contains {
        listed.path == BackupManifest.journalDirectory + node + $0
      }
  }

  /// Writes the journals, and the topology file if a directory for it is given. Either all journals
  /// are restored, or none.
  /// - Parameter fileDirectory: The directory for the topology file.
  /// - Returns: The path of the topology file; `nil` if it was not written.
  package func restore(
    to directories: RuntimeDirectories, fileDirectory: String? = nil
  ) throws -> String? {
    guard directories.topology == manifest.topology else {
      throw BackupError.otherTopology(
        file: file, found: manifest.topology, expected: directories.topology)
    }
    // The lock keeps orchestrators from starting the topology during the restore.
    let lock = try TopologyLock.acquire(directories, file: nil)
    defer { lock.release() }
    let leftovers = try leftovers(in: directories)
    let topologyFile = try fileDirectory.map(topologyFile)
    let new = directories.state + "/journals.new"
    do {
      FileSystem.removeTree(new)
      try FileSystem.makeDirectories(new, mode: 0o700)
      for listed in manifest.files where listed.node != nil {
        guard let entry = archive.entry(listed.path) else { continue }
        let name = listed.path.dropFirst(BackupManifest.journalDirectory.count)
        try archive.extract(entry, to: new + "/" + name)
      }
      try FileSystem.synchronizeDirectory(new)
      if let topologyFile { try FileSystem.replace(topologyFile.path, with: topologyFile.text) }
      // Records the incarnations first: if the restore fails later, incarnations without journals
      // have no effect.
      var incarnations = try Incarnations(in: directories)
      try incarnations.record(manifest.incarnations)
      UpgradeRecord.end(in: directories)
      for name in leftovers { unlink(directories.journals + "/" + name) }
      guard rename(new, directories.journals) == 0 else {
        throw SystemError("rename", on: directories.journals, code: errno)
      }
      try FileSystem.synchronizeDirectory(directories.state)
    } catch {
      FileSystem.removeTree(new)
      throw error.isDiskFull
        ? BackupError.noSpace(file: directories.journals, required: nil, available: nil) : error
    }
    return topologyFile?.path
  }

  /// Returns the names of the files in the directory of journals. All returned files are leftovers
  /// of reset journals.
  /// - Throws: ``BackupError/journalsExist(topology:nodes:)`` if the directory contains any other
  ///   file.
  private func leftovers(in directories: RuntimeDirectories) throws(BackupError) -> [String] {
    let names = FileSystem.entryNames(of: directories.journals)
    let existing = names.filter { name in
      let isEmptyStep =
        name.hasSuffix(".step")
        && FileSystem.byteCount(of: directories.journals + "/" + name) == 0
      return !name.hasSuffix(".reset") && !isEmptyStep
    }
    guard existing.isEmpty else {
      let nodes = Set(
        existing.map { name in
          name.firstRange(of: ".sqlite").map { String(name[..<$0.lowerBound]) } ?? name
        })
      throw .journalsExist(topology: directories.topology, nodes: nodes.sorted())
    }
    return names
  }

  /// Returns the path and the text of the topology file.
  private func topologyFile(in directory: String) throws -> (path: String, text: [UInt8]) {
    guard let name = manifest.topologyFile, let entry = archive.entry(name),
      let last = name.split(separator: "/").last
    else {
      throw BackupError.damaged(file: file, entry: manifest.topologyFile ?? "topology")
    }
    let text = try archive.bytes(of: entry, limit: Self.textByteLimit)
    let path = directory + "/" + last
    if let present = FileSystem.contents(of: path, limit: .max), present != text {
      throw BackupError.topologyFileExists(path: path)
    }
    try FileSystem.makeDirectories(directory)
    return (path, text)
  }
}
