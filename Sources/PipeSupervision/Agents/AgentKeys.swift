import PipeClient
import PipeSystem
import PipeTransport

/// The keys of a topology whose processes are started by agents. The keys exist before the topology
/// runs, and do not change.
///
/// The directory of the keys contains three kinds of files: `control.key`, the key pair of the
/// orchestrator; `client.key`, the key pair of all clients, with the endpoint of the orchestrator;
/// and, for each agent, `NODE.agent` with the agent's public key.
package struct AgentKeys: Sendable {
  let controlKeyPair: CurveKeyPair
  let clientKeyPair: CurveKeyPair
  /// The endpoint at which nodes, agents and clients connect to the orchestrator.
  let endpoint: String
  let agentKeys: [String: PublicKey]

  /// The name of the file with the orchestrator's key pair.
  package static let controlFileName = "control.key"
  package static let clientFileName = "client.key"

  /// Returns the name of the file with the public key of an agent.
  package static func agentFile(of node: String) -> String { node + ".agent" }

  /// Returns the name of the file with an agent's key pair. Only the agent itself should have this
  /// file.
  package static func keyPairFile(of node: String) -> String { node + ".agent.key" }

  /// Creates new keys for a topology: the files of its orchestrator and of each agent.
  /// - Parameters:
  ///   - nodes: The nodes that agents start.
  ///   - endpoint: The endpoint at which agents, nodes and clients connect to the orchestrator.
  ///   - directory: The directory of the files. The call creates this directory if it does not
  ///     exist.
  package static func make(
    of nodes: [String], for topology: String, at endpoint: String, in directory: String
  ) throws {
    try FileSystem.makeDirectories(directory, mode: 0o700)
    let control = try CurveKeyPair.make()
    let address = ControlAddress(
      topology: topology, endpoint: endpoint, key: control.publicKey.text)
    try KeyFile.write(control, to: directory + "/" + controlFileName)
    try KeyFile.write(.make(), for: address, to: directory + "/" + clientFileName)
    try make(of: nodes, for: address, in: directory)
  }

  /// Creates new keys for agents of an orchestrator that already has keys.
  package static func make(
    of nodes: [String], for control: ControlAddress, in directory: String
  ) throws {
    for node in nodes {
      let pair = try CurveKeyPair.make()
      try KeyFile.write(pair, for: control, to: directory + "/" + keyPairFile(of: node))
      try FileSystem.replace(
        directory + "/" + agentFile(of: node), with: Array(pair.publicKey.text.utf8))
    }
  }

  /// Reads the keys from their directory, and checks that they are the keys of this topology.
  /// - Parameter nodes: The nodes that agents start.
  package init(
    in directory: String, of nodes: [String], topology: String
  ) throws(AgentKeysError) {
    do {
      controlKeyPair = try KeyFile.read(directory + "/" + Self.controlFileName)
      let (pair, address) = try KeyFile.readWithControl(directory + "/" + Self.clientFileName)
      guard address.topology == topology else {
        throw AgentKeysError.otherTopology(directory, address.topology, wanted: topology)
      }
      guard address.key == controlKeyPair.publicKey.text else {
        throw AgentKeysError.mismatchedFiles(directory)
      }
      clientKeyPair = pair
      endpoint = address.endpoint
    } catch let error as KeyFileError {
      throw .file(error)
    } catch let error as AgentKeysError {
      throw error
    } catch {
      throw .mismatchedFiles(directory)
    }
    var agents: [String: PublicKey] = [:]
    for node in nodes {
      let path = directory + "/" + Self.agentFile(of: node)
      let text = FileSystem.text(of: path)
      guard let text, let key = PublicKey(String(text.prefix { !$0.isWhitespace })) else {
        throw .noAgent(node, path: path)
      }
      agents[node] = key
    }
    self.agentKeys = agents
  }
}

/// The reason why the keys of a topology with agents cannot be used.
package enum AgentKeysError: Error, CustomStringConvertible {
  case file(KeyFileError)
  /// The files come from different exports, so they do not match.
  case mismatchedFiles(String)
  case otherTopology(String, String, wanted: String)
  case noAgent(String, path: String)
  /// The deployment requires keys, but no directory with keys was given.
  case keysNotGiven(file: String)

  private static let advice =
    "run 'orchestrator export kubernetes FILE --deployment FILE --secrets' to create new keys"

  package var description: String {
    switch self {
    case .file(let error): "\(error); \(Self.advice)"
    case .mismatchedFiles(let directory):
      "the files in '\(directory)' do not match: 'client.key' contains the key of another "
        + "orchestrator than 'control.key'; "
        + Self.advice
    case .otherTopology(let directory, let found, let wanted):
      "the keys in '\(directory)' are for topology '\(found)', not for '\(wanted)'"
    case .noAgent(let node, let path):
      "no public key for the agent of node '\(node)': '\(path)' does not exist or contains no key; "
        + Self.advice
    case .keysNotGiven(let file):
      "'\(file)' has engine 'kubernetes', for which 'run' requires '--keys DIRECTORY'; start 'run' "
        + "in the pod that 'orchestrator export kubernetes' describes"
    }
  }
}
