import PipeClient
import PipeSystem
import PipeTransport

/// The keys of a topology whose processes are started by agents: they are there before it runs, and stay.
///
/// A directory has `control.key`, the pair of the orchestrator; `client.key`, that of clients, with the endpoint at which
/// the orchestrator is found from elsewhere; and for each agent `NODE.agent`, its public key.
package struct AgentKeys: Sendable {
  let control: CurveKeyPair
  let clients: CurveKeyPair
  /// Where nodes, agents and clients find the orchestrator.
  let endpoint: String
  let agents: [String: PublicKey]

  /// The name of the file of the orchestrator's pair.
  package static let controlFile = "control.key"
  package static let clientFile = "client.key"

  /// The name of the file with the public key of an agent.
  package static func agentFile(of node: String) -> String { node + ".agent" }

  /// The name of the file of an agent's pair, which the agent alone is to have.
  package static func ownFile(of node: String) -> String { node + ".agent.key" }

  /// Makes new keys for a topology: the files of its orchestrator, and those of each agent.
  /// - Parameters:
  ///   - nodes: Those that agents start.
  ///   - endpoint: Where agents, nodes and clients find the orchestrator.
  ///   - directory: Is made where it is not there.
  package static func make(
    of nodes: [String], for topology: String, at endpoint: String, in directory: String
  ) throws {
    try FileSystem.makeDirectories(directory, mode: 0o700)
    let control = try CurveKeyPair.make()
    let address = ControlAddress(
      topology: topology, endpoint: endpoint, key: control.publicKey.text)
    try KeyFile.write(control, to: directory + "/" + controlFile)
    try KeyFile.write(.make(), for: address, to: directory + "/" + clientFile)
    try make(of: nodes, for: address, in: directory)
  }

  /// Makes new keys for agents of an orchestrator that has its own.
  package static func make(
    of nodes: [String], for control: ControlAddress, in directory: String
  ) throws {
    for node in nodes {
      let pair = try CurveKeyPair.make()
      try KeyFile.write(pair, for: control, to: directory + "/" + ownFile(of: node))
      try FileSystem.replace(
        directory + "/" + agentFile(of: node), with: Array(pair.publicKey.text.utf8))
    }
  }

  /// - Parameter nodes: Those that agents start.
  package init(
    in directory: String, of nodes: [String], topology: String
  ) throws(AgentKeysError) {
    do {
      control = try KeyFile.read(directory + "/" + Self.controlFile)
      let (pair, address) = try KeyFile.readWithControl(directory + "/" + Self.clientFile)
      guard address.topology == topology else {
        throw AgentKeysError.otherTopology(directory, address.topology, wanted: topology)
      }
      guard address.key == control.publicKey.text else {
        throw AgentKeysError.mixed(directory)
      }
      clients = pair
      endpoint = address.endpoint
    } catch let error as KeyFileError {
      throw .file(error)
    } catch let error as AgentKeysError {
      throw error
    } catch {
      throw .mixed(directory)
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
    self.agents = agents
  }
}

/// Why the keys of a topology cannot be used whose processes are started by agents.
package enum AgentKeysError: Error, CustomStringConvertible {
  case file(KeyFileError)
  /// Its files come from several exports.
  case mixed(String)
  case otherTopology(String, String, wanted: String)
  case noAgent(String, path: String)
  /// The deployment asks for them, and nobody has named them.
  case notNamed(file: String)

  private static let advice =
    "'orchestrator export kubernetes FILE --deployment FILE --secrets' makes all keys anew"

  package var description: String {
    switch self {
    case .file(let error): "\(error). \(Self.advice)"
    case .mixed(let directory):
      "the files in '\(directory)' do not belong together: client.key names another orchestrator than control.key. "
        + Self.advice
    case .otherTopology(let directory, let found, let wanted):
      "the keys in '\(directory)' are those of topology '\(found)', and this is '\(wanted)'"
    case .noAgent(let node, let path):
      "'\(path)', which is to hold the public key of the agent of node '\(node)', is missing or holds none. "
        + Self.advice
    case .notNamed(let file):
      "'\(file)' has engine 'kubernetes': 'run' is called in the pod that 'orchestrator export kubernetes' describes, "
        + "with --keys DIRECTORY"
    }
  }
}
