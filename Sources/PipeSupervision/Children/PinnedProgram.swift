import CProcess
import Glibc
import PipeSystem

/// The program file of a node at the time when the node was started. A restart after a crash uses this
/// file, even if a build has replaced it: only a request from the user runs the new build.
///
/// The file is kept open. While it is still at its path, it is started in the usual way.
final class PinnedProgram {
  /// An error: the program was overwritten in place, so that its former contents are lost.
  struct OverwrittenError: Error, CustomStringConvertible {
    let path: String

    var description: String {
      "program '\(path)' was overwritten while no process was running, and a restart after a crash "
        + "does not start another build; run 'orchestrator restart NODE' or 'orchestrator apply'"
    }
  }

  let path: String
  /// A text that distinguishes the build of the program from other builds.
  let build: String
  private let descriptor: Int32
  /// Whether the file is a copy of a script. Scripts are copied because they can be edited in place.
  private let isScript: Bool

  /// The maximum size of a script that is copied. Unit: bytes.
  private static let scriptLimit = 1 << 20

  /// Opens the program file.
  /// - Throws: `SystemError` if the file cannot be opened.
  init(_ path: String) throws {
    self.path = path
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw SystemError("open", on: path, code: errno) }
    build = FileSystem.version(of: file)
    guard let copy = Self.copy(ofScript: file) else {
      descriptor = file
      isScript = false
      return
    }
    close(file)
    descriptor = copy
    isScript = true
  }

  deinit { close(descriptor) }

  /// Returns the file to execute instead of the file at the path; `nil` if that file has not changed.
  func replacement() throws(OverwrittenError) -> ChildCommand.Program? {
    if FileSystem.version(of: path) == build { return nil }
    guard isScript || FileSystem.version(of: descriptor) == build else {
      throw OverwrittenError(path: path)
    }
    return ChildCommand.Program(descriptor: descriptor, isScript: isScript)
  }

  /// Returns a copy of a script in memory; `nil` if the file is not a script or cannot be copied.
  private static func copy(ofScript file: Int32) -> Int32? {
    var signature: [UInt8] = [0, 0]
    guard pread(file, &signature, 2, 0) == 2, signature == Array("#!".utf8),
      let text = try? FileSystem.read(file, limit: scriptLimit + 1), text.count <= scriptLimit
    else { return nil }
    let copy = pr_memory_file("script")
    guard copy >= 0 else { return nil }
    do {
      try FileSystem.write(text, to: copy, path: "script")
      return copy
    } catch {
      close(copy)
      return nil
    }
  }
}

/// The pinned program files of a topology's nodes.
struct PinnedPrograms {
  private var programs: [String: PinnedProgram] = [:]

  subscript(node: String) -> PinnedProgram? { programs[node] }

  /// Pins the file at a path: the node's processes are started from it until it is released. Nodes with
  /// the same build share one file.
  mutating func pin(_ path: String, of node: String) {
    guard programs[node]?.path != path else { return }
    let build = FileSystem.version(of: path)
    programs[node] =
      programs.values.first { $0.path == path && $0.build == build } ?? (try? PinnedProgram(path))
  }

  /// Releases the file of a node: its next process uses the file that is at the path then.
  mutating func release(_ node: String) { programs[node] = nil }
}
