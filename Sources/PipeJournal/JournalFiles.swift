import Glibc
import PipeSystem

/// The files of a journal whose node does not run, held so that it cannot start meanwhile.
package final class JournalFiles {
  package let path: String
  package let node: String
  private let descriptor: Int32?

  /// What the name of a file ends with that says that the journal was removed on purpose, until there is a new one.
  static let resetSuffix = ".reset"

  /// Takes the lock that the node's process has while it lives.
  /// - Throws: ``JournalError/locked(path:pid:)`` where a process has it.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    let mark = path + ".step"
    let descriptor = open(mark, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      guard errno == ENOENT else {
        throw .inaccessible(path: mark, node: node, reason: SystemError.text(of: errno))
      }
      // No process has ever opened it.
      self.descriptor = nil
      return
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let pid = StepMark.holder(descriptor)
      close(descriptor)
      throw .locked(path: path, pid: pid)
    }
    self.descriptor = descriptor
  }

  deinit { if let descriptor { close(descriptor) } }

  /// Removes the journal: the node starts anew. What is left is its lock, emptied, since a process
  /// that is just starting may wait for it.
  package func remove() throws(JournalError) {
    // The lock's file tells how far the journal went until all else is gone: a removal that is cut
    // short shows as damage, and not as an older state.
    for suffix in [".new-journal", ".new-wal", ".new-shm", ".new", "-journal", "-shm", "-wal", ""] {
      guard unlink(path + suffix) == 0 || errno == ENOENT else {
        throw .inaccessible(
          path: path + suffix, node: node,
          reason: "it cannot be removed: \(SystemError.text(of: errno))")
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
  /// Leaves word that a journal was removed on purpose: a composite without a journal would refuse to go on.
  fileprivate static func noteReset(_ path: String, node: String) throws(JournalError) {
    let mark = path + JournalFiles.resetSuffix
    do {
      try makeDirectories(directory(of: path), mode: 0o700)
      try replace(mark, with: [])
    } catch {
      throw .inaccessible(path: mark, node: node, reason: "\(error)")
    }
  }
}
