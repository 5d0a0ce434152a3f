import Glibc
import PipeSystem

// What a running node does where somebody removes the files of its journal.
extension Journal {
  /// Whether the journal's files are still what their names lead to.
  package var isInPlace: Bool { FileIdentity(path) == identityOfFile && mark.isInPlace }

  /// Writes the journal anew from what this process holds: its files are open, though nobody finds them.
  ///
  /// This process goes on with the old files; the next one takes the new ones.
  package func writeAnew() throws(JournalError) {
    do {
      try FileSystem.makeDirectories(FileSystem.directory(of: path), mode: 0o700)
      // The mark first: while there is one and no journal, the next start says that it is missing.
      try mark.writeAnew()
      let database = try upToDate()
      let temporary = path + ".new"
      for suffix in ["", "-wal", "-shm", "-journal"] { unlink(temporary + suffix) }
      try database.prepare("VACUUM INTO ?").run(.text(Array(temporary.utf8)))
      do {
        let copy = try Database(temporary, .readWrite)
        try copy.execute("PRAGMA journal_mode = WAL")
      }
      chmod(temporary, 0o600)
      try synchronize(temporary, O_RDWR)
      // A log of the old file would be taken for the new one's.
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
