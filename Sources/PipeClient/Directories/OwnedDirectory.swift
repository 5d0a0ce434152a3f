import Glibc
import PipeSystem

/// Directories that nobody else may look into.
package enum OwnedDirectory {
  /// Creates the directory with mode 0700, or checks that the one there is ours, is no link and is
  /// closed to others.
  package static func make(_ path: String) throws(DirectoryError) {
    do {
      try FileSystem.makeDirectories(FileSystem.directory(of: path))
    } catch {
      throw .unusable(.runtime, error as? SystemError ?? SystemError("mkdir", on: path, code: EIO))
    }
    if mkdir(path, 0o700) == 0 { return }
    guard errno == EEXIST else {
      throw .unusable(.runtime, SystemError("mkdir", on: path, code: errno))
    }
    var status = stat()
    guard lstat(path, &status) == 0 else {
      throw .system(SystemError("stat", on: path, code: errno))
    }
    guard status.st_mode & S_IFMT == S_IFDIR else { throw .notOurs(path: path, owner: nil) }
    guard status.st_uid == geteuid() else { throw .notOurs(path: path, owner: status.st_uid) }
    if status.st_mode & 0o077 != 0, chmod(path, 0o700) != 0 {
      throw .system(SystemError("chmod", on: path, code: errno))
    }
  }

  /// Creates a directory for what outlives a run, and those above it, or checks that the one there
  /// can be written to.
  static func makeWritable(_ path: String) throws(DirectoryError) {
    do {
      try FileSystem.makeDirectories(path, mode: 0o700)
    } catch {
      throw .unusable(.state, error as? SystemError ?? SystemError("mkdir", on: path, code: EIO))
    }
    guard access(path, W_OK | X_OK) == 0 else {
      throw .unusable(.state, SystemError("access", on: path, code: errno))
    }
  }

  /// The owner of a directory, or `nil` where there is none.
  static func owner(of path: String) -> uid_t? {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return nil }
    return status.st_uid
  }
}
