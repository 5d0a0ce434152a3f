import Glibc
import PipeClient
import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire

/// The file that says that names in journals are being changed. It exists from before the first
/// change until all journals have the new names, or the former names again.
package struct RenameRecord: Codable, Hashable, Sendable {
  /// A journal whose names change.
  struct Journal: Codable, Hashable, Sendable {
    /// The former name of the node.
    var node: String
    /// The path of the journal before the change.
    var path: String
    /// The path of the journal after the change.
    var target: String
  }

  var journals: [Journal]

  private static func path(in directories: RuntimeDirectories) -> String {
    directories.state + "/rename.json"
  }

  private static func copy(in directories: RuntimeDirectories) -> JournalCopy {
    JournalCopy(at: directories.state + "/rename")
  }

  private var sources: [(node: String, path: String)] { journals.map { ($0.node, $0.path) } }

  /// Whether names are being changed, or were until the orchestrator was killed.
  static func exists(in directories: RuntimeDirectories) -> Bool {
    FileSystem.exists(path(in: directories))
  }

  /// Records the change durably, and copies the journals.
  func begin(in directories: RuntimeDirectories) throws {
    let copy = Self.copy(in: directories)
    copy.remove()
    try FileSystem.replace(
      Self.path(in: directories), with: try JSONValue(encoding: self).bytes + [0x0A])
    Failpoint.hit(.renameRecorded)
    try copy.make(of: sources)
    Failpoint.hit(.renameCopied)
  }

  /// Makes the change permanent.
  static func commit(in directories: RuntimeDirectories) throws {
    try remove(in: directories)
    Failpoint.hit(.renameCommitted)
    copy(in: directories).remove()
  }

  /// Restores the journals after an interrupted change. No process of their nodes may run.
  package static func rollBack(in directories: RuntimeDirectories) throws {
    let copy = copy(in: directories)
    guard let bytes = FileSystem.contents(of: path(in: directories), limit: .max) else {
      copy.remove()
      return
    }
    let record = try JSONValue(parsing: bytes).decode(RenameRecord.self)
    // Without a complete copy, no journal was changed.
    if copy.exists {
      for journal in record.journals where journal.target != journal.path {
        let lock = try JournalFiles(journal.target, node: journal.node)
        withExtendedLifetime(lock) { JournalFiles.removeMoved(journal.target) }
      }
      try copy.restore(record.sources)
    }
    Failpoint.hit(.renameRestored)
    try remove(in: directories)
    copy.remove()
  }

  /// Removes the record durably. Otherwise, a loss of power could restore it together with the copy.
  private static func remove(in directories: RuntimeDirectories) throws {
    guard unlink(path(in: directories)) == 0 || errno == ENOENT else {
      throw SystemError("unlink", on: path(in: directories), code: errno)
    }
    let descriptor = open(directories.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw SystemError("open", on: directories.state, code: errno)
    }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw SystemError("fsync", on: directories.state, code: errno)
    }
  }
}
