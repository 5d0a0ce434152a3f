import PipeClient
import PipeMachines
import PipeSystem
import PipeWire

/// A file that tells where the control socket is bound.
struct ControlMark: Codable, Hashable {
  var endpoint: String
  /// Of the orchestrators that were bound there one after the other.
  var generation: UInt64

  static func read(
    in directories: RuntimeDirectories
  ) throws(ControlHandoverError) -> ControlMark {
    let path = directories.controlPlace
    guard let text = FileSystem.contents(of: path),
      let mark = try? JSONValue(parsing: text).decode(ControlMark.self)
    else { throw .mark(path: path) }
    return mark
  }

  func write(in directories: RuntimeDirectories) throws {
    try FileSystem.replace(
      directories.controlPlace, with: try JSONValue(encoding: self).bytes + [0x0A])
  }
}

/// A file that tells where the sockets of a node's process are, before others are told.
///
/// A list of neighbours in which one is missing has them part from it for good. So who comes after an orchestrator that
/// was killed has to know all those that it had told of, before any of them is heard.
enum NodeMark {
  static func write(_ endpoints: NodeEndpoints, of node: String, in directories: RuntimeDirectories)
    throws
  {
    try FileSystem.replace(
      directories.place(of: node), with: try JSONValue(encoding: endpoints).bytes + [0x0A])
  }

  /// - Returns: `nil` where its process has told nobody yet.
  static func read(_ node: String, in directories: RuntimeDirectories) -> NodeEndpoints? {
    FileSystem.contents(of: directories.place(of: node)).flatMap {
      try? JSONValue(parsing: $0).decode(NodeEndpoints.self)
    }
  }
}
