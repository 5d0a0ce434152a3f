import Glibc
import PipeClient
import PipeMachines
import PipeSystem

/// How often each node of a topology was started, in all its runs: a number is never given to two
/// processes of a node, since pipes and journals tell them apart by it.
package struct Incarnations: Sendable {
  /// The file cannot be read as what it should be.
  package struct Damaged: Error, Hashable, CustomStringConvertible {
    package let path: String

    package var description: String {
      "'\(path)', which counts the starts of the nodes, is damaged: put in the highest start of "
        + "each node that its log tells of, or remove it with all else of this topology beside it"
    }
  }

  package let path: String
  package private(set) var counts: [String: Int] = [:]

  /// Reads what former runs left; nothing, where there was none.
  package init(in directories: RuntimeDirectories) throws {
    path = directories.state + "/incarnations.json"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT { return }
      throw SystemError("open", on: path, code: errno)
    }
    defer { close(descriptor) }
    let bytes = try FileSystem.read(descriptor)
    guard let document = try? JSONValue(parsing: bytes),
      let counts = try? document.decode([String: Int].self)
    else { throw Damaged(path: path) }
    self.counts = counts
  }

  /// Writes the numbers down for good; to be done before the processes that bear them are started.
  package mutating func record(_ starts: [String: Int]) throws {
    let next = counts.merging(starts) { max($0, $1) }
    guard next != counts else { return }
    try FileSystem.replace(path, with: try JSONValue(encoding: next).bytes + [0x0A])
    counts = next
  }
}
