import Glibc
import PipeClient
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// Makes one backup. One thread at a time uses the job: the caller calls ``open()``, then
/// ``take()`` while the nodes are paused, and then ``write(_:)``.
///
/// All processes that keep journals are paused when the journals are read. So the backup contains
/// the files that would be left if all of these processes were killed at one moment. Each node can
/// restart from such files, as after a crash.
final class BackupJob {
  /// The path of the backup.
  let file: String
  private let topology: String
  private let topologyFile: String
  private let journals: String
  private var cuts: [JournalCut] = []
  /// The nodes that were reset, and have not started since.
  private var resetNodes: [String] = []

  /// The directory in which the backup is made. It is beside the backup, on the same file system.
  private var workDirectory: String { file + ".new" }
  private var archivePath: String { workDirectory + "/backup.tar" }
  private static let resetSuffix = ".sqlite.reset"

  init(
    of topology: String, into file: String, topologyFile: String, journals: String
  ) {
    self.topology = topology
    self.file = file
    self.topologyFile = topologyFile
    self.journals = journals
  }

  /// Checks the destination, opens the journals, and creates the work directory.
  func open() throws(BackupError) {
    try checkDestination()
    cuts = []
    try openMissingCuts()
    try checkSpace()
    FileSystem.removeTree(workDirectory)
    do {
      try FileSystem.makeDirectories(workDirectory, mode: 0o700)
    } catch {
      throw .writing(error, to: file)
    }
  }

  /// Captures the contents of the backup: later changes of the journals are not in the backup.
  /// Precondition: the nodes are paused.
  func take() throws(BackupError) {
    // A node may have got its first journal, or may have been reset, since the journals were
    // opened.
    cuts.removeAll { !$0.isCurrent }
    try openMissingCuts()
    for cut in cuts {
      do { try cut.take() } catch { throw .journal(node: cut.node, error) }
    }
    resetNodes = FileSystem.entryNames(of: journals).filter { $0.hasSuffix(Self.resetSuffix) }
      .map { String($0.dropLast(Self.resetSuffix.count)) }
  }

  /// Releases the journals, because the pause of this attempt was too long.
  func release() {
    for cut in cuts { cut.release() }
    cuts = []
  }

  /// Gives up the backup: releases the journals, and removes the work directory.
  func cancel() {
    release()
    FileSystem.removeTree(workDirectory)
  }

  /// Writes the backup. A former backup with the same name is replaced when the new backup is
  /// complete.
  /// - Returns: The manifest with the files of the backup, and the size of the backup in bytes.
  func write(_ manifest: BackupManifest) throws(BackupError) -> (BackupManifest, Int64) {
    do {
      return try writeArchive(manifest)
    } catch {
      throw .writing(error, to: file)
    }
  }

  private func writeArchive(_ manifest: BackupManifest) throws -> (BackupManifest, Int64) {
    var manifest = manifest
    let archive = try ArchiveWriter(archivePath)
    if let text = FileSystem.contents(of: topologyFile, limit: .max) {
      let name = "topology/" + (topologyFile.split(separator: "/").last ?? "topology.yaml")
      let hash = try archive.add(name, text)
      manifest.topologyFile = name
      manifest.files.append(.init(path: name, node: nil, hash))
    }
    let copy = workDirectory + "/journal"
    while let cut = cuts.popLast() {
      do { try cut.write(to: copy) } catch {
        if case .full = error {
          throw BackupError.noSpace(file: file, required: nil, available: nil)
        }
        throw BackupError.journal(node: cut.node, error)
      }
      let name = BackupManifest.journalDirectory + cut.node + ".sqlite"
      let hash = try archive.add(name, contentsOf: copy)
      manifest.files.append(.init(path: name, node: cut.node, hash))
      JournalCut.remove(copy)
    }
    for node in resetNodes {
      let name = BackupManifest.journalDirectory + node + Self.resetSuffix
      manifest.files.append(.init(path: name, node: node, try archive.add(name, [])))
    }
    _ = try archive.add(
      BackupManifest.path, try JSONValue(encoding: manifest).bytes + [0x0A])
    try archive.finish()
    Failpoint.hit(.backupWritten)
    let byteCount = FileSystem.byteCount(of: archivePath)
    guard rename(archivePath, file) == 0 else {
      throw SystemError("rename", on: file, code: errno)
    }
    FileSystem.removeTree(workDirectory)
    try FileSystem.synchronizeDirectory(FileSystem.parentDirectory(of: file))
    return (manifest, byteCount)
  }

  private func openMissingCuts() throws(BackupError) {
    let known = Set(cuts.map(\.node))
    for node in JournalReader.nodesWithJournals(in: journals) where !known.contains(node) {
      do {
        cuts.append(
          try JournalCut(RuntimeDirectories.journal(of: node, in: journals), node: node))
      } catch {
        throw .journal(node: node, error)
      }
    }
  }

  /// Throws an error if a file that is not a backup would be replaced.
  private func checkDestination() throws(BackupError) {
    guard FileSystem.exists(file) else { return }
    guard !FileSystem.isDirectory(file), let reader = try? ArchiveReader(file),
      !reader.entries.isEmpty
    else { throw .otherFile(file: file) }
  }

  /// Throws an error if the backup cannot fit on its disk. The largest journal counts twice,
  /// because a journal is first copied into the work directory and then into the archive.
  private func checkSpace() throws(BackupError) {
    let sizes = cuts.map(\.byteCount)
    let required = sizes.reduce(0, +) + (sizes.max() ?? 0)
    var status = statvfs()
    guard statvfs(FileSystem.parentDirectory(of: file), &status) == 0 else {
      throw .writing(
        SystemError("statvfs", on: FileSystem.parentDirectory(of: file), code: errno), to: file)
    }
    let available = Int64(clamping: UInt64(status.f_bavail) &* UInt64(status.f_frsize))
    guard required <= available else {
      throw .noSpace(file: file, required: required, available: available)
    }
  }
}

extension BackupManifest.File {
  init(path: String, node: String?, _ hash: ContentHash) {
    self.init(path: path, node: node, byteCount: hash.byteCount, hash: hash.text)
  }
}
