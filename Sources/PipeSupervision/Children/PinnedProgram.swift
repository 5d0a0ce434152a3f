import CProcess
import Glibc
import PipeSystem

/// The program file of a node as it was when the node was started: a build that replaces it is not run before
/// somebody asks for it, since a crash is no upgrade.
///
/// The file is kept open. Nothing else of a start changes while it is still at its path.
final class PinnedProgram {
  /// The program was overwritten in place, and what it held is gone.
  struct Overwritten: Error, CustomStringConvertible {
    let path: String

    var description: String {
      "its program '\(path)' was overwritten while no process ran it, and a crash does not start another build: "
        + "'orchestrator restart NODE' or 'orchestrator apply' does"
    }
  }

  let path: String
  /// Tells one build of the program from another.
  let build: String
  private let descriptor: Int32
  /// Whether it is the copy of a script, which can be edited in place.
  private let isScript: Bool

  /// The longest script that is copied. Unit: bytes.
  private static let scriptLimit = 1 << 20

  /// - Throws: `SystemError` where the file cannot be opened.
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

  /// What is executed in place of the file at the path; `nil` where that is still the same.
  func replacement() throws(Overwritten) -> ChildCommand.Program? {
    if FileSystem.version(of: path) == build { return nil }
    guard isScript || FileSystem.version(of: descriptor) == build else {
      throw Overwritten(path: path)
    }
    return ChildCommand.Program(descriptor: descriptor, isScript: isScript)
  }

  /// A copy of a script in memory; `nil` where the file is none, or cannot be copied.
  private static func copy(ofScript file: Int32) -> Int32? {
    var mark: [UInt8] = [0, 0]
    guard pread(file, &mark, 2, 0) == 2, mark == Array("#!".utf8),
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

/// The program files of a topology's nodes, as the orchestrator starts them.
struct PinnedPrograms {
  private var programs: [String: PinnedProgram] = [:]

  subscript(node: String) -> PinnedProgram? { programs[node] }

  /// Keeps the file that is there now, from which the node's processes are started until it is released. Nodes
  /// of one build share it.
  mutating func pin(_ path: String, of node: String) {
    guard programs[node]?.path != path else { return }
    let build = FileSystem.version(of: path)
    programs[node] =
      programs.values.first { $0.path == path && $0.build == build } ?? (try? PinnedProgram(path))
  }

  /// The next process of the node is of the program as it is then.
  mutating func release(_ node: String) { programs[node] = nil }
}
