import Glibc
import PipeSystem

/// The files of a journal whose node does not run, locked so that the node cannot start.
package final class JournalFiles {
  package let path: String
  package let node: String
  private let descriptor: Int32?

  /// The suffix of the file that notes that the journal was removed on purpose. The file stays
  /// until there is a new journal.
  static let resetSuffix = ".reset"

  /// Takes the lock that the node's process holds while it lives.
  /// - Throws: ``JournalError/locked(path:pid:)`` if a process holds it.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    let marker = path + ".step"
    let descriptor = open(marker, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      guard errno == ENOENT else {
        throw .inaccessible(path: marker, node: node, reason: SystemError.text(of: errno))
      }
      // No process has ever opened the journal.
      self.descriptor = nil
      return
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let pid = StepMarkerFile.holder(descriptor)
      close(descriptor)
      throw .locked(path: path, pid: pid)
    }
    self.descriptor = descriptor
  }

  deinit { if let descriptor { close(descriptor) } }

  /// Removes the journal, so that the node starts from its initial state. Only the lock file stays,
  /// emptied, since a process that is just starting may wait for it.
  package func remove() throws(JournalError) {
    // The lock file records how far the journal went until all other files are removed: an
    // interrupted removal shows as damage, not as an older state.
    for suffix in [".new-journal", ".new-wal", ".new-shm", ".new", "-journal", "-shm", "-wal", ""] {
      guard unlink(path + suffix) == 0 || errno == ENOENT else {
        throw .inaccessible(
          path: path + suffix, node: node,
          reason: "the file cannot be removed: \(SystemError.text(of: errno))")
      }
    }
    try FileSystem.noteReset(path, node: node)
    guard let descriptor else { return }
    guard ftruncate(descriptor, 0) == 0 else {
      throw .inaccessible(
        path: path + ".step", node: node, reason: SystemError.text(of: errno))
    }
  }
}

extension FileSystem {
  /// Notes that a journal was removed on purpose. Without the note, a composite without a journal
  /// would refuse to continue.
  fileprivate static func noteReset(_ path: String, node: String) throws(JournalError) {
    let marker = path + JournalFiles.resetSuffix
    do {
      try makeDirectories(directory(of: path), mode: 0o700)
      try replace(marker, with: [])
    } catch {
      throw .inaccessible(path: marker, node: node, reason: "\(error)")
    }
  }
}

// The reaction of a running node to the removal of its journal's files.
extension Journal {
  /// Whether the names of the journal's files still refer to the open files.
  package var isLinked: Bool { FileIdentity(path) == fileIdentity && marker.isLinked }

  /// Writes new files of the journal from what this process holds: its files are open, but have no
  /// names any more.
  ///
  /// This process continues with the old files; the next process uses the new ones.
  package func recreate() throws(JournalError) {
    do {
      try FileSystem.makeDirectories(FileSystem.directory(of: path), mode: 0o700)
      // The mark first: while there is a mark but no journal, the next start reports the journal as
      // missing.
      try marker.recreate()
      let database = try updatedDatabase()
      let temporary = path + ".new"
      for suffix in ["", "-wal", "-shm", "-journal"] { unlink(temporary + suffix) }
      try database.prepare("VACUUM INTO ?").run(.text(Array(temporary.utf8)))
      do {
        let copy = try Database(temporary, .readWrite)
        try copy.execute("PRAGMA journal_mode = WAL")
      }
      chmod(temporary, 0o600)
      try synchronize(temporary, O_RDWR)
      // SQLite would take a log of the old file for the log of the new one.
      for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
      guard rename(temporary, path) == 0 else {
        throw SystemError("rename", on: path, code: errno)
      }
      try synchronize(FileSystem.directory(of: path), O_RDONLY | O_DIRECTORY)
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  private func synchronize(_ path: String, _ flags: Int32) throws(SystemError) {
    let descriptor = open(path, flags | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw SystemError("fsync", on: path, code: errno) }
  }
}
