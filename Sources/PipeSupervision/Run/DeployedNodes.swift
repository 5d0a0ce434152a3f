import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The processes of a deployed topology: which processes are admitted, which endpoints they have,
/// and which peer list each process gets.
///
/// Each process has its own key pair, which is created before the process starts, and revoked when
/// the process has ended.
final class DeployedNodes {
  typealias Notice = SentPeerLists.Notice

  /// A process that has a key pair.
  private struct AdmittedProcess {
    let incarnation: UInt64
    let key: PublicKey
    /// The endpoints of the process; `nil` until the process says hello.
    var endpoints: NodeEndpoints?
  }

  private let directories: RuntimeDirectories
  private var peerLists: PeerLists
  private let gate: PeerGate
  private let controlKey: PublicKey
  /// The key pair that all clients share. The orchestrator also uses this key pair to read feeds.
  private let clientKeyPair: CurveKeyPair
  /// The endpoint of the control socket, including the port.
  private let controlEndpoint: String
  private var admittedProcesses: [String: AdmittedProcess] = [:]
  private var sentPeerLists: SentPeerLists

  /// Binds the control socket for other hosts, and writes the key files of the orchestrator and the
  /// clients.
  /// - Parameters:
  ///   - binding: The endpoint to listen on.
  ///   - former: The state of a killed orchestrator; `nil` if there is none.
  ///   - adopted: The nodes whose processes this orchestrator adopts.
  init(
    _ nodes: [LaunchPlan.Node], at binding: ControlBinding, of control: ControlSocket,
    in directories: RuntimeDirectories, _ context: Context, loop: PollLoop,
    after former: ControlHandover?, of adopted: [String],
    report: @escaping (PeerRefusal) -> Void
  ) throws {
    self.directories = directories
    peerLists = Self.peerLists(of: nodes)
    // The gate exists before any socket is bound, since libzmq admits every client as long as there
    // is no ZAP handler.
    gate = try ZapHandler(in: context, loop: loop).makeGate("control", report: report)
    let pair = try binding.keys?.controlKeyPair ?? former?.controlKeyPair ?? CurveKeyPair.make()
    clientKeyPair = try binding.keys?.clientKeyPair ?? former?.clientKeyPair ?? CurveKeyPair.make()
    let generation =
      binding.keys == nil
      ? former.map { $0.generation + 1 } ?? 0
      : try AgentProcessRecord.countOrchestrator(in: directories)
    sentPeerLists = SentPeerLists(after: generation)
    try KeyFile.write(pair, to: directories.controlKeyFile)
    self.controlKey = pair.publicKey
    gate.allow(clientKeyPair.publicKey, as: .clientNames)
    for (node, key) in binding.keys?.agentKeys ?? [:] {
      gate.allow(key, as: .only(WireName.agent(ofNode: node)))
    }
    let bound = try control.bindToNetwork(
      at: binding.address, binding.port, former?.port, as: pair, behind: gate)
    controlEndpoint = binding.keys?.endpoint ?? bound
    try ControlEndpointRecord(endpoint: controlEndpoint, generation: generation).write(
      in: directories)
    // The key file contains all data that a client on another host needs to connect.
    try KeyFile.write(
      clientKeyPair,
      for: ControlAddress(
        topology: directories.topology, endpoint: controlEndpoint, key: pair.publicKey.text),
      to: directories.clientKeyFile)
    // Adopted processes can be admitted as late as here, since no process gets an answer before the
    // loop runs.
    for node in adopted { if let member = former?[node] { admit(node, as: member) } }
  }

  /// The endpoint on which the orchestrator listens.
  struct ControlBinding {
    var address: String
    /// The number of the port; `nil` lets the system choose a port.
    var port: Int?
    /// Existing keys; `nil` if the orchestrator creates its keys.
    var keys: AgentKeys?
  }

  /// Admits a process that a former orchestrator has started and that an agent runs. Call this
  /// before the loop runs: until then, no process gets an answer.
  func admit(_ node: String, by agentProcess: AgentProcessRecord) {
    guard let key = PublicKey(agentProcess.key) else { return }
    admit(
      node,
      as: .init(
        incarnation: agentProcess.record.incarnation, publicKey: key,
        endpoints: agentProcess.endpoints))
  }

  // MARK: Admitted peers

  /// Admits the next process of a node, and creates a key pair for it. Call this before the process
  /// starts.
  func admit(_ node: String, incarnation: UInt64) throws {
    revoke(node)
    let pair = try CurveKeyPair.make()
    let path = directories.keyFile(of: node)
    try KeyFile.write(pair, to: path)
    admit(
      node, as: .init(incarnation: incarnation, publicKey: pair.publicKey, endpoints: nil))
  }

  private func admit(_ node: String, as member: ControlHandover.Member) {
    let name = Array(WireName.node(node).utf8)
    gate.allow(
      member.publicKey, as: peerLists.isMonitor(node) ? .clientNamesAnd([name]) : .only([name]))
    admittedProcesses[node] = AdmittedProcess(
      incarnation: member.incarnation, key: member.publicKey, endpoints: member.endpoints)
  }

  /// Returns the credentials of the current process of a node; `nil` if the node is not admitted.
  func credentials(of node: String) -> NodeCredentials? {
    guard admittedProcesses[node] != nil else { return nil }
    return NodeCredentials(
      controlEndpoint: controlEndpoint,
      keys: .init(path: directories.keyFile(of: node), orchestratorKey: controlKey.text))
  }

  /// Returns the contents of the key file of a node's current process. Used for processes on hosts
  /// where the file does not exist.
  func secret(of node: String) -> String? {
    guard let path = credentials(of: node)?.keys.path else { return nil }
    return FileSystem.contents(of: path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Revokes the key of a process that has certainly ended, or was never started.
  /// - Returns: The peer lists to send to other nodes.
  @discardableResult
  func revoke(_ node: String) -> [Notice] {
    sentPeerLists.forget(node)
    guard let former = admittedProcesses.removeValue(forKey: node) else { return [] }
    gate.revoke(former.key)
    for path in [directories.keyFile(of: node), directories.endpointsFile(of: node)] {
      unlink(path)
    }
    return former.endpoints == nil ? [] : notices(around: node)
  }

  // MARK: Endpoints of processes

  /// Stores the endpoints that a process has sent with its hello. If the process repeats its hello,
  /// the last peer list may have been lost, and is sent again.
  /// - Returns: The peer lists to send, first the list for the process itself, then the lists for
  ///   other processes.
  func store(_ endpoints: NodeEndpoints, of node: String) -> [Notice] {
    guard admittedProcesses[node] != nil else { return [] }
    let isNew = admittedProcesses[node]?.endpoints != endpoints
    // The endpoints are written before any peer receives them: see ``NodeEndpointRecord``.
    if isNew { try? NodeEndpointRecord.write(endpoints, of: node, in: directories) }
    admittedProcesses[node]?.endpoints = endpoints
    sentPeerLists.forget(node)
    return [node].compactMap(notice) + (isNew ? notices(around: node) : [])
  }

  func endpoints(of node: String) -> NodeEndpoints? { admittedProcesses[node]?.endpoints }

  func key(of node: String) -> String? { admittedProcesses[node]?.key.text }

  /// Returns the endpoint of a node's feed; `nil` if the node's process has not reported its
  /// endpoints yet.
  func feed(of node: String) -> PeerEndpoint? {
    guard let member = admittedProcesses[node], let endpoints = member.endpoints else { return nil }
    return PeerEndpoint(endpoints.feed, key: member.key, own: clientKeyPair)
  }

  // MARK: Announcing peer lists

  /// Applies the nodes of a new topology file. Precondition: the replaced nodes have no processes.
  /// - Returns: The peer lists to send to the nodes that continue to run.
  func switchOver(to nodes: [LaunchPlan.Node]) -> [Notice] {
    peerLists = Self.peerLists(of: nodes)
    return admittedProcesses.keys.sorted().compactMap(notice)
  }

  private static func peerLists(of nodes: [LaunchPlan.Node]) -> PeerLists {
    PeerLists(
      nodes.map { .init($0.name, $0.configuration, isMonitor: $0.information.kind == .monitor) })
  }

  private func notices(around node: String) -> [Notice] {
    let affected = peerLists.peerNodes(of: node)?.sorted() ?? admittedProcesses.keys.sorted()
    return affected.filter { $0 != node }.compactMap(notice)
  }

  /// Returns the peer list to send to a node. Returns `nil` if the node already has this list, or
  /// has not said hello.
  private func notice(to node: String) -> Notice? {
    guard admittedProcesses[node]?.endpoints != nil else { return nil }
    let peerList = peerLists.peerList(
      of: node, among: members, clients: [clientKeyPair.publicKey.text])
    return sentPeerLists.announce(peerList, to: node)
  }

  /// Returns the peer list that was last sent to a node, if the node has not received this list.
  /// - Parameter number: The lower 32 bits of the number of the peer list that the node has.
  /// - Returns: The list to send again; an empty array if the node has the last list.
  func noticesToRepeat(to node: String, has number: UInt32) -> [Notice] {
    [sentPeerLists.noticeToRepeat(node, has: number)].compactMap(\.self)
  }

  private var members: [String: PeerLists.Member] {
    admittedProcesses.compactMapValues { member in
      member.endpoints.map {
        .init(incarnation: member.incarnation, key: member.key.text, endpoints: $0)
      }
    }
  }
}

/// The credentials of a process that accepts connections from other hosts: its keys, and the
/// endpoint of the orchestrator.
struct NodeCredentials {
  let controlEndpoint: String
  let keys: NodeArguments.Keys
}
