import Glibc
import PipeSystem

/// A copy of a stopped node's journals, from which the journals can be restored.
package struct JournalCopy: Sendable {
  /// The directory of the copy.
  private let directory: String

  /// The suffixes of the files to copy. SQLite rebuilds the other files of a journal.
  private static let suffixes = ["", "-wal", "-journal", ".step", ".reset"]

  package init(at directory: String) { self.directory = directory }

  /// Whether the copy is complete.
  package var exists: Bool { FileSystem.exists(directory) }

  /// Copies the journals. Locks each journal during its copying, so that its node cannot start.
  /// - Throws: ``JournalError`` or `SystemError`.
  package func make(of journals: [(node: String, path: String)]) throws {
    let temporary = directory + ".new"
    FileSystem.removeTree(temporary)
    FileSystem.removeTree(directory)
    try FileSystem.makeDirectories(temporary, mode: 0o700)
    do {
      for (index, journal) in journals.enumerated() {
        let lock = try JournalFiles(journal.path, node: journal.node)
        try withExtendedLifetime(lock) {
          for suffix in Self.suffixes {
            try Self.copy(journal.path + suffix, over: "\(temporary)/\(index)\(suffix)")
          }
        }
      }
      guard rename(temporary, directory) == 0 else {
        throw SystemError("rename", on: directory, code: errno)
      }
      try Self.synchronize(FileSystem.parentDirectory(of: directory), O_RDONLY | O_DIRECTORY)
    } catch {
      FileSystem.removeTree(temporary)
      throw error
    }
  }

  /// Replaces the journals with their copies. Can be repeated after an interruption.
  /// - Parameter journals: The same journals as in ``make(of:)``.
  /// - Throws: ``JournalError`` or `SystemError`.
  package func restore(_ journals: [(node: String, path: String)]) throws {
    for (index, journal) in journals.enumerated() {
      let lock = try JournalFiles(journal.path, node: journal.node)
      try withExtendedLifetime(lock) {
        unlink(journal.path + "-shm")
        for suffix in Self.suffixes {
          try Self.copy("\(directory)/\(index)\(suffix)", over: journal.path + suffix)
        }
      }
      try Self.synchronize(
        FileSystem.parentDirectory(of: journal.path), O_RDONLY | O_DIRECTORY)
    }
  }

  /// Removes the copy.
  package func remove() {
    FileSystem.removeTree(directory)
    FileSystem.removeTree(directory + ".new")
  }

  /// Overwrites the contents of the file `target` with the contents of the file `path`. If there is
  /// no file `path`, removes `target`. Truncates a step marker file instead of removing it, because
  /// the journal's lock is on this file.
  private static func copy(_ path: String, over target: String) throws(SystemError) {
    let source = open(path, O_RDONLY | O_CLOEXEC)
    if source < 0, errno == ENOENT {
      if target.hasSuffix(".step") {
        guard truncate(target, 0) == 0 || errno == ENOENT else {
          throw SystemError("truncate", on: target, code: errno)
        }
      } else if unlink(target) != 0, errno != ENOENT {
        throw SystemError("unlink", on: target, code: errno)
      }
      return
    }
    guard source >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(source) }
    let copy = open(target, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard copy >= 0 else { throw SystemError("open", on: target, code: errno) }
    defer { close(copy) }
    _ = try FileSystem.copy(source, to: copy, path: target)
    guard fsync(copy) == 0 else { throw SystemError("fsync", on: target, code: errno) }
  }

  private static func synchronize(_ path: String, _ flags: Int32) throws(SystemError) {
    let descriptor = open(path, flags | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw SystemError("fsync", on: path, code: errno) }
  }
}
