import PipeClient
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// The state that a killed orchestrator of a deployed topology has left behind. The next
/// orchestrator needs this state, because nodes try to reconnect to the same port, and accept only
/// an orchestrator with the same key pair.
package final class ControlHandover {
  /// A node's process, with the endpoints and the key that its peers have received.
  struct Member {
    let incarnation: UInt64
    let publicKey: PublicKey
    /// The endpoints of the process; `nil` if the process had not reported them yet.
    let endpoints: NodeEndpoints?
  }

  let controlKeyPair: CurveKeyPair
  let port: ReservedPort
  /// The number of orchestrators that used this port before the killed orchestrator.
  let generation: UInt64
  /// The key pair of the clients; `nil` if its file is missing. The next orchestrator then creates
  /// a new key pair.
  let clientKeyPair: CurveKeyPair?
  private var members: [String: Member] = [:]

  /// Reads the state of the killed orchestrator, and reserves its port. Until the port is bound, no
  /// peer gets an answer.
  /// - Parameter address: The address on which the next orchestrator must listen.
  init(
    in directories: RuntimeDirectories, at address: String
  ) throws(ControlHandoverError) {
    let endpointRecord = try ControlEndpointRecord.read(in: directories)
    guard endpointRecord.endpoint.hasPrefix("tcp://\(address):") else {
      throw .otherAddress(endpointRecord.endpoint, wanted: address)
    }
    do { controlKeyPair = try KeyFile.read(directories.controlKeyFile) } catch { throw .key(error) }
    do { port = try ReservedPort(endpointRecord.endpoint) } catch { throw .port(error) }
    generation = endpointRecord.generation
    clientKeyPair = try? KeyFile.read(directories.clientKeyFile)
  }

  /// Reads the key and the endpoints that the peers of a node's process have received.
  func add(
    _ node: String, incarnation: UInt64, in directories: RuntimeDirectories
  ) throws(KeyFileError) {
    let pair = try KeyFile.read(directories.keyFile(of: node))
    members[node] = Member(
      incarnation: incarnation, publicKey: pair.publicKey,
      endpoints: NodeEndpointRecord.read(node, in: directories))
  }

  subscript(node: String) -> Member? { members[node] }
}

/// The reason why an orchestrator cannot replace a killed orchestrator.
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
  /// The number of earlier orchestrators that used this endpoint.
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

/// A file with the endpoints of a node's process. The file is written before the endpoints are sent
/// to peers.
///
/// If a process receives a peer list without a certain peer, the process disconnects from this peer
/// permanently. So an orchestrator that replaces a killed orchestrator must know all peers that the
/// killed orchestrator has announced, before any of these peers sends a frame.
enum NodeEndpointRecord {
  static func write(_ endpoints: NodeEndpoints, of node: String, in directories: RuntimeDirectories)
    throws
  {
    try FileSystem.replace(
      directories.endpointsFile(of: node), with: try JSONValue(encoding: endpoints).bytes + [0x0A])
  }

  /// - Returns: The endpoints; `nil` if the process has not reported them yet.
  static func read(_ node: String, in directories: RuntimeDirectories) -> NodeEndpoints? {
    FileSystem.contents(of: directories.endpointsFile(of: node)).flatMap {
      try? JSONValue(parsing: $0).decode(NodeEndpoints.self)
    }
  }
}
