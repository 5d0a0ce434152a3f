import Glibc
import PipeSystem

/// The files of a stopped node's journal. A lock prevents the node from starting.
package final class JournalFiles {
  package let path: String
  package let node: String
  private let descriptor: Int32?

  /// The suffix of the file that marks a reset. The file exists until the node has a new journal.
  static let resetSuffix = ".reset"

  /// Acquires the lock that a running node holds.
  /// - Throws: ``JournalError/locked(path:pid:)`` if a process holds the lock.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    let marker = path + ".step"
    let descriptor = open(marker, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      guard errno == ENOENT else {
        throw .inaccessible(path: marker, node: node, reason: SystemError.text(of: errno))
      }
      // If there is no step marker file, no process has ever opened the journal.
      self.descriptor = nil
      return
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let pid = StepMarkerFile.holderPID(descriptor)
      close(descriptor)
      throw .locked(path: path, pid: pid)
    }
    self.descriptor = descriptor
  }

  deinit { if let descriptor { close(descriptor) } }

  /// The endings of the files that a rename of the node renames.
  private static let movedSuffixes = ["", "-wal", "-journal", ".step", resetSuffix]

  /// Gives the files of the journal another path. The lock remains held.
  package func move(to target: String) throws(JournalError) {
    unlink(path + "-shm")
    for suffix in Self.movedSuffixes {
      guard rename(path + suffix, target + suffix) == 0 || errno == ENOENT else {
        throw .inaccessible(
          path: path + suffix, node: node,
          reason: "the file cannot be renamed: \(SystemError.text(of: errno))")
      }
    }
    try Self.synchronize(target, node: node)
  }

  /// Removes files to which a journal was moved.
  package static func removeMoved(_ path: String) {
    for suffix in movedSuffixes + ["-shm"] { unlink(path + suffix) }
  }

  /// Waits until the files of a journal and their names are on the disk.
  private static func synchronize(_ path: String, node: String) throws(JournalError) {
    let files = [path, path + "-wal", path + ".step", FileSystem.parentDirectory(of: path)]
    for file in files {
      let descriptor = open(file, O_RDONLY | O_CLOEXEC)
      if descriptor < 0, errno == ENOENT { continue }
      defer { close(descriptor) }
      guard descriptor >= 0, fsync(descriptor) == 0 else {
        throw .inaccessible(path: file, node: node, reason: SystemError.text(of: errno))
      }
    }
  }

  /// Removes the journal, so that the node starts in its initial state. The lock file is truncated
  /// but remains, because a starting process may be waiting for the lock on this file.
  package func remove() throws(JournalError) {
    // Truncates the lock file last, because it contains the number of the last record. After an
    // interrupted removal, the next start reports a damaged journal instead of using an older
    // state.
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
  /// Creates the file that marks a reset. Without this file, a composite whose journal is missing
  /// refuses to continue.
  fileprivate static func noteReset(_ path: String, node: String) throws(JournalError) {
    let marker = path + JournalFiles.resetSuffix
    do {
      try makeDirectories(parentDirectory(of: path), mode: 0o700)
      try replace(marker, with: [])
    } catch {
      throw .inaccessible(path: marker, node: node, reason: "\(error)")
    }
  }
}

// How a running node reacts when another process removes the files of the node's journal.
extension Journal {
  /// Whether the journal's paths still refer to the files that this process has open.
  package var isLinked: Bool { FileIdentity(path) == fileIdentity && marker.isLinked }

  /// Writes new journal files at the journal's paths after the original files were removed.
  ///
  /// This process continues to use its open files. The next process uses the new files.
  package func recreate() throws(JournalError) {
    do {
      try FileSystem.makeDirectories(FileSystem.parentDirectory(of: path), mode: 0o700)
      // Writes the step marker file first. If the process is killed before it has written the
      // database, the next start reports that the journal is missing.
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
      // Removes the write-ahead log of the removed database. Otherwise, SQLite would apply the log
      // to the new database.
      for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
      guard rename(temporary, path) == 0 else {
        throw SystemError("rename", on: path, code: errno)
      }
      try synchronize(FileSystem.parentDirectory(of: path), O_RDONLY | O_DIRECTORY)
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
