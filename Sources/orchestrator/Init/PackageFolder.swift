import Glibc
import PipeRuntime

/// Writes the folder of a new package: all of it, or nothing.
package struct PackageFolder: Sendable {
  /// The folder's own path; the one that it is in is there.
  package let path: String
  private var parent: String { FileSystem.directory(of: path) }

  package init(path: String) { self.path = path }

  /// Writes the files beside the folder's place, and moves them there at once: a rename replaces an
  /// empty folder and nothing else.
  package func write(_ files: [PackageFile]) throws(InitError) {
    if FileSystem.isDirectory(path), !FileSystem.entries(of: path).isEmpty { throw .notEmpty(path) }
    let draft = try makeDraft()
    defer { FileSystem.removeTree(draft) }
    let folder = draft + "/package"
    do {
      for file in files { try write(file, in: folder) }
    } catch {
      throw .unwritable(path, error)
    }
    guard rename(folder, path) != 0 else { return }
    switch errno {
    case ENOTEMPTY, EEXIST: throw .notEmpty(path)
    case ENOTDIR: throw .notFolder(path)
    case let code: throw .unwritable(path, SystemError("rename", on: path, code: code))
    }
  }

  /// A hidden folder beside the one to be: in the same file system, and of this process alone.
  private func makeDraft() throws(InitError) -> String {
    do {
      return try FileSystem.makeTemporaryDirectory(parent + "/.init-")
    } catch {
      throw .unwritable(path, SystemError("mkdir", on: parent, code: error.code))
    }
  }

  private func write(_ file: PackageFile, in folder: String) throws(SystemError) {
    let path = folder + "/" + file.path
    do {
      try FileSystem.makeDirectories(FileSystem.directory(of: path), mode: 0o777)
    } catch let error as SystemError {
      throw error
    } catch {
      throw SystemError("mkdir", on: path, code: EIO)
    }
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    do {
      try FileSystem.write(file.text.utf8, to: descriptor, path: path)
    } catch {
      close(descriptor)
      throw error
    }
    // Some file systems tell only now that there is no room.
    guard close(descriptor) == 0 else { throw SystemError("close", on: path, code: errno) }
  }
}
