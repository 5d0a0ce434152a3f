import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The processes of a deployed topology: their admission, their endpoints, and the peer list that each
/// of them gets.
///
/// Each process has its own key pair, which is created before the process starts and revoked once it
/// has ended.
final class DeployedNodes {
  typealias Notice = SentPeerLists.Notice

  /// A process that has a key pair.
  private struct AdmittedProcess {
    let incarnation: UInt64
    let key: PublicKey
    /// `nil` until the process has said hello.
    var endpoints: NodeEndpoints?
  }

  private let directories: RuntimeDirectories
  private var peerLists: PeerLists
  private let gate: PeerGate
  private let control: PublicKey
  /// The key pair with which the orchestrator, like other clients, reads feeds.
  private let clients: CurveKeyPair
  /// The endpoint of the control socket, including the port.
  private let endpoint: String
  private var admitted: [String: AdmittedProcess] = [:]
  private var sentPeerLists: SentPeerLists

  /// Binds the control socket for other hosts, and writes the keys of the orchestrator and the clients.
  /// - Parameters:
  ///   - place: The endpoint to listen on.
  ///   - former: The state of a killed orchestrator.
  ///   - adopted: The nodes whose processes are adopted from it.
  init(
    _ nodes: [LaunchPlan.Node], at place: ControlBinding, of control: ControlSocket,
    in directories: RuntimeDirectories, _ context: Context, loop: PollLoop,
    after former: ControlHandover?, of adopted: [String],
    report: @escaping (PeerRefusal) -> Void
  ) throws {
    self.directories = directories
    peerLists = Self.peerLists(of: nodes)
    // The gate exists before any socket is bound: without a ZAP handler, libzmq admits every client.
    gate = try ZapHandler(in: context, loop: loop).makeGate("control", report: report)
    let pair = try place.keys?.control ?? former?.control ?? CurveKeyPair.make()
    clients = try place.keys?.clients ?? former?.clients ?? CurveKeyPair.make()
    let generation =
      place.keys == nil
      ? former.map { $0.generation + 1 } ?? 0
      : try AgentProcessRecord.countOrchestrator(in: directories)
    sentPeerLists = SentPeerLists(after: generation)
    try KeyFile.write(pair, to: directories.controlKey)
    self.control = pair.publicKey
    gate.allow(clients.publicKey, as: .clientNames)
    for (node, key) in place.keys?.agents ?? [:] {
      gate.allow(key, as: .only(WireName.agent(ofNode: node)))
    }
    let bound = try control.bindToNetwork(
      at: place.address, place.port, former?.port, as: pair, behind: gate)
    endpoint = place.keys?.endpoint ?? bound
    try ControlEndpointRecord(endpoint: endpoint, generation: generation).write(in: directories)
    // The client key file has all that a client on another host requires.
    try KeyFile.write(
      clients,
      for: ControlAddress(
        topology: directories.topology, endpoint: endpoint, key: pair.publicKey.text),
      to: directories.clientKey)
    // No process gets an answer before the loop runs, so that all are admitted in time.
    for node in adopted { if let member = former?[node] { admit(node, as: member) } }
  }

  /// The endpoint on which the orchestrator listens.
  struct ControlBinding {
    var address: String
    /// `nil` if the system chooses the port.
    var port: Int?
    /// Existing keys; `nil` if the orchestrator creates its keys.
    var keys: AgentKeys?
  }

  /// Admits the process of a node that a former orchestrator had started. No process gets an answer
  /// before the loop runs.
  func admit(_ node: String, by agentProcess: AgentProcessRecord) {
    guard let key = PublicKey(agentProcess.key) else { return }
    admit(
      node,
      as: .init(
        incarnation: agentProcess.record.incarnation, key: key, endpoints: agentProcess.endpoints))
  }

  // MARK: Admitted peers

  /// Admits the process that is about to start, with a new key pair.
  func admit(_ node: String, incarnation: UInt64) throws {
    revoke(node)
    let pair = try CurveKeyPair.make()
    let path = directories.key(of: node)
    try KeyFile.write(pair, to: path)
    admit(
      node, as: .init(incarnation: incarnation, key: pair.publicKey, endpoints: nil))
  }

  private func admit(_ node: String, as member: ControlHandover.Member) {
    let name = Array(WireName.node(node).utf8)
    gate.allow(
      member.key, as: peerLists.isMonitor(node) ? .clientNamesAnd([name]) : .only([name]))
    admitted[node] = AdmittedProcess(
      incarnation: member.incarnation, key: member.key, endpoints: member.endpoints)
  }

  /// Returns the credentials of the present process of a node; `nil` if the node is not admitted.
  func entry(of node: String) -> NodeCredentials? {
    guard admitted[node] != nil else { return nil }
    return NodeCredentials(
      control: endpoint,
      keys: .init(path: directories.key(of: node), control: control.text))
  }

  /// Returns the contents of the key file of a node's present process, for a process that cannot read
  /// the file.
  func secret(of node: String) -> String? {
    guard let path = entry(of: node)?.keys.path else { return nil }
    return FileSystem.contents(of: path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Revokes the key of a process that has certainly ended, or was never started.
  /// - Returns: The peer lists to send to other nodes.
  @discardableResult
  func revoke(_ node: String) -> [Notice] {
    sentPeerLists.forget(node)
    guard let former = admitted.removeValue(forKey: node) else { return [] }
    gate.revoke(former.key)
    for path in [directories.key(of: node), directories.place(of: node)] { unlink(path) }
    return former.endpoints == nil ? [] : notices(around: node)
  }

  // MARK: Endpoints

  /// Records the endpoints from the hello of a process. The hello may be a repeated one, so that the
  /// last peer list may have been lost.
  /// - Returns: The peer lists to send, first to the process and then to others.
  func take(_ endpoints: NodeEndpoints, of node: String) -> [Notice] {
    guard admitted[node] != nil else { return [] }
    let isNew = admitted[node]?.endpoints != endpoints
    // Before any peer receives the endpoints: see ``NodeEndpointRecord``.
    if isNew { try? NodeEndpointRecord.write(endpoints, of: node, in: directories) }
    admitted[node]?.endpoints = endpoints
    sentPeerLists.forget(node)
    return [node].compactMap(notice) + (isNew ? notices(around: node) : [])
  }

  func endpoints(of node: String) -> NodeEndpoints? { admitted[node]?.endpoints }

  func key(of node: String) -> String? { admitted[node]?.key.text }

  /// Returns the endpoint of a node's feed; `nil` if it is unknown.
  func feed(of node: String) -> PeerEndpoint? {
    guard let member = admitted[node], let endpoints = member.endpoints else { return nil }
    return PeerEndpoint(endpoints.feed, key: member.key, own: clients)
  }

  // MARK: Announcements

  /// Applies the nodes of a new file. Nodes that are replaced have no process now.
  /// - Returns: The peer lists to send to the nodes that continue.
  func switchOver(to nodes: [LaunchPlan.Node]) -> [Notice] {
    peerLists = Self.peerLists(of: nodes)
    return admitted.keys.sorted().compactMap(notice)
  }

  private static func peerLists(of nodes: [LaunchPlan.Node]) -> PeerLists {
    PeerLists(
      nodes.map { .init($0.name, $0.configuration, isMonitor: $0.information.kind == .monitor) })
  }

  private func notices(around node: String) -> [Notice] {
    let affected = peerLists.peerNodes(of: node)?.sorted() ?? admitted.keys.sorted()
    return affected.filter { $0 != node }.compactMap(notice)
  }

  /// - Returns: `nil` if the node already has this peer list, or has not said hello.
  private func notice(to node: String) -> Notice? {
    guard admitted[node]?.endpoints != nil else { return nil }
    let peerList = peerLists.peerList(
      of: node, among: members, clients: [clients.publicKey.text])
    return sentPeerLists.announce(peerList, to: node)
  }

  /// Compares the number of the peer list that a node has with the number of the last list sent to it.
  /// - Returns: The peer list to send again.
  func has(_ number: UInt32, _ node: String) -> [Notice] {
    [sentPeerLists.again(node, has: number)].compactMap(\.self)
  }

  private var members: [String: PeerLists.Member] {
    admitted.compactMapValues { member in
      member.endpoints.map {
        .init(incarnation: member.incarnation, key: member.key.text, endpoints: $0)
      }
    }
  }
}

/// The credentials of a process that is bound for other hosts: its keys, and the endpoint of the
/// orchestrator.
struct NodeCredentials {
  let control: String
  let keys: NodeArguments.Keys
}
