import PipeClient
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// The state of a killed orchestrator of a deployed topology that lets the next one replace it. Nodes
/// keep reconnecting to the known port, and accept only an orchestrator with the same key pair.
package final class ControlHandover {
  /// The process of a node, as its peers know it.
  struct Member {
    let incarnation: UInt64
    let key: PublicKey
    /// `nil` if the process had not reported them yet.
    let endpoints: NodeEndpoints?
  }

  let control: CurveKeyPair
  let port: ReservedPort
  /// The number of orchestrators before the killed one.
  let generation: UInt64
  /// The key pair of the clients; `nil` if its file is gone. Then clients get a new pair.
  let clients: CurveKeyPair?
  private var members: [String: Member] = [:]

  /// Takes the port, on which no peer gets an answer yet.
  /// - Parameter address: The address on which the next orchestrator must listen.
  init(
    in directories: RuntimeDirectories, at address: String
  ) throws(ControlHandoverError) {
    let endpointRecord = try ControlEndpointRecord.read(in: directories)
    guard endpointRecord.endpoint.hasPrefix("tcp://\(address):") else {
      throw .otherAddress(endpointRecord.endpoint, wanted: address)
    }
    do { control = try KeyFile.read(directories.controlKey) } catch { throw .key(error) }
    do { port = try ReservedPort(endpointRecord.endpoint) } catch { throw .port(error) }
    generation = endpointRecord.generation
    clients = try? KeyFile.read(directories.clientKey)
  }

  /// Reads the key and the endpoints by which the peers know the process of a node.
  func add(
    _ node: String, incarnation: UInt64, in directories: RuntimeDirectories
  ) throws(KeyFileError) {
    let pair = try KeyFile.read(directories.key(of: node))
    members[node] = Member(
      incarnation: incarnation, key: pair.publicKey,
      endpoints: NodeEndpointRecord.read(node, in: directories))
  }

  subscript(node: String) -> Member? { members[node] }
}

/// The reason why no orchestrator can replace a killed one.
enum ControlHandoverError: Error, CustomStringConvertible {
  /// The key pair of the orchestrator cannot be read.
  case key(KeyFileError)
  /// The file with the orchestrator's port cannot be read.
  case endpointRecord(path: String)
  case port(TransportError)
  case otherAddress(String, wanted: String)

  var description: String {
    switch self {
    case .key(let error): "cannot read the key pair of the former orchestrator: \(error)"
    case .endpointRecord(let path):
      "the endpoint of the former orchestrator is unknown: '\(path)' is missing or damaged"
    case .port(let error): "cannot listen on the port of the former orchestrator: \(error)"
    case .otherAddress(let endpoint, let wanted):
      "the former orchestrator listened on '\(endpoint)', and 'address' in the deployment file is "
        + "now '\(wanted)'"
    }
  }
}

/// A file with the endpoint of the control socket.
struct ControlEndpointRecord: Codable, Hashable {
  var endpoint: String
  /// The number of orchestrators that were bound there before.
  var generation: UInt64

  static func read(
    in directories: RuntimeDirectories
  ) throws(ControlHandoverError) -> ControlEndpointRecord {
    let path = directories.controlEndpointFile
    guard let text = FileSystem.contents(of: path),
      let endpointRecord = try? JSONValue(parsing: text).decode(ControlEndpointRecord.self)
    else { throw .endpointRecord(path: path) }
    return endpointRecord
  }

  func write(in directories: RuntimeDirectories) throws {
    try FileSystem.replace(
      directories.controlEndpointFile, with: try JSONValue(encoding: self).bytes + [0x0A])
  }
}

/// A file with the endpoints of a node's process. It is written before the endpoints are sent to peers.
///
/// A process disconnects for good from a peer that is missing in its peer list. So the successor of a
/// killed orchestrator must know all peers that the former one has announced, before any of them sends
/// a frame.
enum NodeEndpointRecord {
  static func write(_ endpoints: NodeEndpoints, of node: String, in directories: RuntimeDirectories)
    throws
  {
    try FileSystem.replace(
      directories.place(of: node), with: try JSONValue(encoding: endpoints).bytes + [0x0A])
  }

  /// - Returns: `nil` if the process has not reported its endpoints yet.
  static func read(_ node: String, in directories: RuntimeDirectories) -> NodeEndpoints? {
    FileSystem.contents(of: directories.place(of: node)).flatMap {
      try? JSONValue(parsing: $0).decode(NodeEndpoints.self)
    }
  }
}
