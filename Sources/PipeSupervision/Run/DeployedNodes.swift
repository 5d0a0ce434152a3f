import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The processes of a deployed topology: who is let in, where they are, and what each is told of the others.
///
/// Each process has a key pair of its own, which is made before it starts, and turned away once it has ended.
final class DeployedNodes {
  typealias Notice = ToldNeighbourhoods.Notice

  /// A process that was given keys.
  private struct Admitted {
    let incarnation: UInt64
    let key: PublicKey
    /// `nil` until it has said hello.
    var endpoints: NodeEndpoints?
  }

  private let directories: RuntimeDirectories
  private var neighbourhoods: Neighbourhoods
  private let gate: PeerGate
  private let control: PublicKey
  /// By which the orchestrator, like other clients, reads feeds.
  private let clients: CurveKeyPair
  /// Where the control socket is bound, with its port.
  private let endpoint: String
  private var admitted: [String: Admitted] = [:]
  private var told: ToldNeighbourhoods

  /// Binds the control socket for other hosts, and writes the keys that it and clients have.
  /// - Parameters:
  ///   - place: Where it listens.
  ///   - former: What an orchestrator has left that was killed.
  ///   - adopted: The nodes whose processes are taken over from it.
  init(
    _ nodes: [LaunchPlan.Node], at place: Place, of control: ControlSocket,
    in directories: RuntimeDirectories, _ context: Context, loop: PollLoop,
    after former: ControlHandover?, of adopted: [String],
    report: @escaping (PeerRefusal) -> Void
  ) throws {
    self.directories = directories
    neighbourhoods = Self.neighbourhoods(of: nodes)
    // Before anything is bound: libzmq lets everybody in where nobody answers for the gate.
    gate = try ZapHandler(in: context, loop: loop).makeGate("control", report: report)
    let pair = try place.keys?.control ?? former?.control ?? CurveKeyPair.make()
    clients = try place.keys?.clients ?? former?.clients ?? CurveKeyPair.make()
    let generation =
      place.keys == nil
      ? former.map { $0.generation + 1 } ?? 0
      : try AgentMark.countOrchestrator(in: directories)
    told = ToldNeighbourhoods(after: generation)
    try KeyFile.write(pair, to: directories.controlKey)
    self.control = pair.publicKey
    gate.allow(clients.publicKey, as: .ofClients)
    for (node, key) in place.keys?.agents ?? [:] {
      gate.allow(key, as: .only(WireName.agent(ofNode: node)))
    }
    let bound = try control.bindForOthers(
      at: place.address, place.port, former?.port, as: pair, behind: gate)
    endpoint = place.keys?.endpoint ?? bound
    try ControlMark(endpoint: endpoint, generation: generation).write(in: directories)
    // All that who works on another host needs.
    try KeyFile.write(
      clients,
      for: ControlAddress(
        topology: directories.topology, endpoint: endpoint, key: pair.publicKey.text),
      to: directories.clientKey)
    // Nobody is answered before the loop runs.
    for node in adopted { if let member = former?[node] { admit(node, as: member) } }
  }

  /// Where the orchestrator listens.
  struct Place {
    var address: String
    /// `nil` where the system chooses it.
    var port: Int?
    /// Those that are there before it; `nil` where it makes them.
    var keys: AgentKeys?
  }

  /// Lets in the process of a node that a former orchestrator had started. Nobody is answered before the loop runs.
  func admit(_ node: String, by mark: AgentMark) {
    guard let key = PublicKey(mark.key) else { return }
    admit(
      node,
      as: .init(incarnation: mark.record.incarnation, key: key, endpoints: mark.endpoints))
  }

  // MARK: Who is let in

  /// Lets in the process that is about to start, with a pair of its own.
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
      member.key, as: neighbourhoods.isMonitor(node) ? .ofClientsAnd([name]) : .only([name]))
    admitted[node] = Admitted(
      incarnation: member.incarnation, key: member.key, endpoints: member.endpoints)
  }

  /// How the present process of a node gets in.
  func entry(of node: String) -> NodeEntry? {
    guard admitted[node] != nil else { return nil }
    return NodeEntry(
      control: endpoint,
      keys: .init(path: directories.key(of: node), control: control.text))
  }

  /// What the key file of a node's present process holds, for a process that cannot read it.
  func secret(of node: String) -> String? {
    guard let path = entry(of: node)?.keys.path else { return nil }
    return FileSystem.contents(of: path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// The process of a node has ended for certain, or none has come of it.
  /// - Returns: What is to be told to others.
  @discardableResult
  func revoke(_ node: String) -> [Notice] {
    told.forget(node)
    guard let former = admitted.removeValue(forKey: node) else { return [] }
    gate.revoke(former.key)
    for path in [directories.key(of: node), directories.place(of: node)] { unlink(path) }
    return former.endpoints == nil ? [] : notices(around: node)
  }

  // MARK: Where they are

  /// A process has said hello, perhaps once more, so that what it was told last may be lost.
  /// - Returns: What is to be told to it, and then to others.
  func take(_ endpoints: NodeEndpoints, of node: String) -> [Notice] {
    guard admitted[node] != nil else { return [] }
    let isNew = admitted[node]?.endpoints != endpoints
    // Before anybody is told: see ``NodeMark``.
    if isNew { try? NodeMark.write(endpoints, of: node, in: directories) }
    admitted[node]?.endpoints = endpoints
    told.forget(node)
    return [node].compactMap(notice) + (isNew ? notices(around: node) : [])
  }

  func endpoints(of node: String) -> NodeEndpoints? { admitted[node]?.endpoints }

  func key(of node: String) -> String? { admitted[node]?.key.text }

  /// Where a node's feed is read; `nil` where that is not known yet.
  func feed(of node: String) -> PeerPlace? {
    guard let member = admitted[node], let endpoints = member.endpoints else { return nil }
    return PeerPlace(endpoints.feed, key: member.key, own: clients)
  }

  // MARK: What they are told

  /// These are the nodes from now on; of those that are others, no process is there.
  /// - Returns: What is to be told to those that go on.
  func goOver(to nodes: [LaunchPlan.Node]) -> [Notice] {
    neighbourhoods = Self.neighbourhoods(of: nodes)
    return admitted.keys.sorted().compactMap(notice)
  }

  private static func neighbourhoods(of nodes: [LaunchPlan.Node]) -> Neighbourhoods {
    Neighbourhoods(
      nodes.map { .init($0.name, $0.configuration, isMonitor: $0.information.kind == .monitor) })
  }

  private func notices(around node: String) -> [Notice] {
    let affected = neighbourhoods.neighbours(of: node)?.sorted() ?? admitted.keys.sorted()
    return affected.filter { $0 != node }.compactMap(notice)
  }

  /// - Returns: `nil` where the node has been told that already, or has not said hello.
  private func notice(to node: String) -> Notice? {
    guard admitted[node]?.endpoints != nil else { return nil }
    let neighbourhood = neighbourhoods.neighbourhood(
      of: node, among: members, clients: [clients.publicKey.text])
    return told.tell(neighbourhood, to: node)
  }

  /// A node has said which list it has.
  /// - Returns: What is to be told to it once more.
  func has(_ number: UInt32, _ node: String) -> [Notice] {
    [told.again(node, has: number)].compactMap(\.self)
  }

  private var members: [String: Neighbourhoods.Member] {
    admitted.compactMapValues { member in
      member.endpoints.map {
        .init(incarnation: member.incarnation, key: member.key.text, endpoints: $0)
      }
    }
  }
}

/// How a process that is bound for other hosts gets in: its keys, and where the orchestrator is.
struct NodeEntry {
  let control: String
  let keys: NodeArguments.Keys
}
