import PipeClient
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// What the orchestrator of a deployed topology has left that was killed, and by which the next one takes its place:
/// nodes go on to connect to the port that they know, and take there nobody but who has the same key pair.
package final class ControlHandover {
  /// The process of a node, as its peers know it.
  struct Member {
    let incarnation: UInt64
    let key: PublicKey
    /// `nil` where it had not told yet.
    let endpoints: NodeEndpoints?
  }

  let control: CurveKeyPair
  let port: ReservedPort
  /// How many orchestrators had been there in its place.
  let generation: UInt64
  /// `nil` where their file is gone: then they are given another pair.
  let clients: CurveKeyPair?
  private var members: [String: Member] = [:]

  /// Takes the port, at which nobody is answered yet.
  /// - Parameter address: Where the next orchestrator is to listen.
  init(
    in directories: RuntimeDirectories, at address: String
  ) throws(ControlHandoverError) {
    let mark = try ControlMark.read(in: directories)
    guard mark.endpoint.hasPrefix("tcp://\(address):") else {
      throw .otherAddress(mark.endpoint, wanted: address)
    }
    do { control = try KeyFile.read(directories.controlKey) } catch { throw .key(error) }
    do { port = try ReservedPort(mark.endpoint) } catch { throw .port(error) }
    generation = mark.generation
    clients = try? KeyFile.read(directories.clientKey)
  }

  /// Reads how the process of a node is known to others.
  func add(
    _ node: String, incarnation: UInt64, in directories: RuntimeDirectories
  ) throws(KeyFileError) {
    let pair = try KeyFile.read(directories.key(of: node))
    members[node] = Member(
      incarnation: incarnation, key: pair.publicKey,
      endpoints: NodeMark.read(node, in: directories))
  }

  subscript(node: String) -> Member? { members[node] }
}

/// Why nobody can take the place of an orchestrator that was killed.
enum ControlHandoverError: Error, CustomStringConvertible {
  /// Its key pair cannot be read.
  case key(KeyFileError)
  /// What it had written down of its port cannot be read.
  case mark(path: String)
  case port(TransportError)
  case otherAddress(String, wanted: String)

  var description: String {
    switch self {
    case .key(let error): "what its orchestrator was known by is gone: \(error)"
    case .mark(let path):
      "where its orchestrator listened is not known any more: '\(path)' is gone, or is damaged"
    case .port(let error): "the port of its orchestrator cannot be taken again: \(error)"
    case .otherAddress(let endpoint, let wanted):
      "its orchestrator listened at '\(endpoint)', and 'address' in the deployment file is \(wanted) now"
    }
  }
}

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
