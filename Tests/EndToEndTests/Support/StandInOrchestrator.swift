import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// A test's stand-in for the orchestrator of nodes on other hosts: it gives them keys, answers
/// their hellos, pings them, and sends them their peers.
final class StandInOrchestrator: Sendable {
  /// A node and its wiring, independent of its processes.
  struct Member: Sendable {
    var content: NodeArguments.Content
    var configuration: NodeConfiguration
    /// The routing ids with which peers connect to the node's inbox, by peer.
    var routingIDsByPeer: [String: [String]]
  }

  /// A process of a member.
  struct Process: Sendable {
    let incarnation: UInt64
    let program: LaunchedProgram
    let pair: CurveKeyPair
    /// The process's latest hello.
    var hello: NodeHello?
    var status: NodeStatus?
    /// The number of the peer list that the process uses, as it last reported.
    var peerListNumber: UInt32 = 0

    fileprivate func peer(_ name: String, as names: [String]) -> PeerList.Peer? {
      guard let endpoints = hello?.endpoints else { return nil }
      return PeerList.Peer(
        name: name, incarnation: incarnation, endpoints: endpoints, key: pair.publicKey.text,
        names: names)
    }
  }

  private struct State: Sendable {
    var processes: [String: Process] = [:]
    /// The number of the latest peer list.
    var number: UInt64 = 0
    var ping: UInt64 = 0
  }

  // After their creation, the sockets are used only on the loop's thread.
  private final class ControlSockets: @unchecked Sendable {
    let router: Socket
    let gate: PeerGate
    private let context = Context(.few)
    private let loop: PollLoop

    init(as pair: CurveKeyPair, on loop: PollLoop) throws {
      self.loop = loop
      gate = try ZapHandler(in: context, loop: loop).makeGate("control") { _ in }
      router = try Socket(.router, in: context)
      try gate.secure(router, as: pair)
      try router.bind("tcp://127.0.0.1:*")
    }

    /// Calls `frame` for each frame that arrives, and `tick` every 50 ms.
    func open(
      _ frame: @escaping (FrameHeader, [UInt8], _ name: String) -> Void,
      tick: @escaping () -> Void
    ) {
      loop.add(router, for: self) { controlSockets in
        while controlSockets.router.receive({ peer, bytes in
          guard let header = try? FrameHeader(bytes) else { return }
          let name = String(decoding: peer.dropFirst(WireName.node("").utf8.count), as: UTF8.self)
          frame(header, Array(bytes.dropFirst(FrameHeader.byteCount)), name)
        }) {}
      }
      scheduleTick(tick)
    }

    private func scheduleTick(_ tick: @escaping () -> Void) {
      loop.schedule(after: .milliseconds(50), for: self) { controlSockets in
        tick()
        controlSockets.scheduleTick(tick)
      }
    }

    func close() {
      router.close()
      loop.stop()
    }
  }

  static let topology = "apart"
  /// The key pair of clients.
  let client: CurveKeyPair
  let endpoint: String
  let tool: CommandLineTool
  private let members: [String: Member]
  private let sendsPeerListFirst: Bool
  private let pair: CurveKeyPair
  private let state = Locked(State())
  private let controlSockets: ControlSockets
  private let thread: LoopThread

  /// - Parameter sendsPeerListFirst: Whether a node gets its peers before its configuration.
  init(
    _ members: [String: Member], in tool: CommandLineTool, sendsPeerListFirst: Bool = false
  ) throws {
    let pair = try CurveKeyPair.make()
    let made = Locked<Result<(ControlSockets, String), any Error>?>(nil)
    thread = LoopThread { loop in
      let result = Result {
        let controlSockets = try ControlSockets(as: pair, on: loop)
        return (controlSockets, controlSockets.router.lastEndpoint ?? "")
      }
      if case .failure = result { loop.stop() }
      made.withLock { $0 = result }
    }
    (controlSockets, endpoint) = try #require(made.withLock { $0 }).get()
    client = try CurveKeyPair.make()
    self.pair = pair
    self.members = members
    self.tool = tool
    self.sendsPeerListFirst = sendsPeerListFirst
    let handleFrame: @Sendable (FrameHeader, [UInt8], String) -> Void = { [weak self] in
      self?.handleFrame($0, $1, from: $2)
    }
    let ping: @Sendable () -> Void = { [weak self] in self?.pingAll() }
    thread.handle.post { [controlSockets] in controlSockets.open(handleFrame, tick: ping) }
  }

  deinit {
    thread.handle.post { [controlSockets] in controlSockets.close() }
    thread.join()
  }

  /// Returns the current process of a member.
  subscript(name: String) -> Process? { state.withLock { $0.processes[name] } }

  // MARK: Processes

  /// Starts a process of a member, which replaces the member's former process.
  /// - Parameters:
  ///   - address: The address to which the sockets of the process are bound.
  ///   - mode: The mode of the process's key file.
  @discardableResult
  func launch(
    _ name: String, incarnation: UInt64 = 1, at address: String = "tcp://127.0.0.1:*",
    mode: mode_t = 0o600
  ) throws -> Process {
    let (arguments, keyPair) = try prepare(name, incarnation, at: address, mode: mode)
    // While the lock is held, a hello of the process is not handled. So the process is registered
    // first.
    return try state.withLock { state in
      let program = try tool.start(
        program: CommandLineTool.products + "/TestNodes", arguments.arguments)
      let process = Process(incarnation: incarnation, program: program, pair: keyPair)
      state.processes[name] = process
      return process
    }
  }

  /// Embeds a coordinator in the process of another member.
  func embedCoordinator(_ name: String, in host: String, incarnation: UInt64 = 1) throws {
    let (arguments, keyPair) = try prepare(name, incarnation)
    let program = try #require(self[host]).program
    let record = ProcessRecord(
      node: name, incarnation: incarnation,
      launch: .init(
        program: "TestNodes", arguments: arguments.arguments, environment: [:],
        configuration: .init(), host: host),
      isDetached: false, dependencies: [], stopTimeout: .seconds(10))
    let path = try tool.directory.write(
      String(decoding: JSONRecord.encode(record), as: UTF8.self) + "\n",
      to: "\(name).\(incarnation).process")
    state.withLock {
      $0.processes[name] = Process(incarnation: incarnation, program: program, pair: keyPair)
    }
    let request = EmbeddedNodeRequest(arguments: arguments.arguments, record: path)
    thread.handle.post { [weak self] in self?.send(.embed, body: request, to: host) }
  }

  /// Creates the key pair of a process, and admits connections with this key pair.
  private func prepare(
    _ name: String, _ incarnation: UInt64, at address: String = "tcp://127.0.0.1:*",
    mode: mode_t = 0o600
  ) throws -> (NodeArguments, CurveKeyPair) {
    let member = try #require(members[name])
    let keyPair = try CurveKeyPair.make()
    let path = "\(tool.directory.path)/\(name).\(incarnation).key"
    try KeyFile.write(keyPair, to: path)
    #expect(chmod(path, mode) == 0)
    thread.handle.post { [controlSockets] in
      controlSockets.gate.allow(keyPair.publicKey, as: .only(WireName.node(name)))
    }
    let arguments = NodeArguments(
      topology: Self.topology, node: name, content: member.content, control: endpoint,
      inbox: address, feed: address, incarnation: incarnation,
      journal: .init(path: "\(tool.directory.path)/\(name).journal", durability: .process),
      keys: NodeArguments.Keys(path: path, orchestratorKey: pair.publicKey.text))
    return (arguments, keyPair)
  }

  /// Kills the process of a member, and with it all members in this process. Sends the other
  /// members their new peers.
  func kill(_ name: String) async throws {
    let program = try #require(self[name]).program
    program.signal(.kill)
    _ = try #require(try await program.waitForExit(within: .seconds(20)))
    let ended = state.withLock { state in
      let ended = state.processes.filter { $0.value.program === program }
      for name in ended.keys { state.processes[name] = nil }
      return ended.values.map(\.pair.publicKey)
    }
    thread.handle.post { [weak self, controlSockets] in
      for key in ended { controlSockets.gate.revoke(key) }
      self?.sendPeerLists()
    }
  }

  /// Waits until a member's process satisfies a condition, or has ended.
  func until(_ name: String, _ isSatisfied: (Process) -> Bool) async throws {
    let outcome: Bool? = try await poll(
      every: .milliseconds(20), within: .seconds(20), of: tool.directory
    ) {
      let process = try #require(self[name])
      let hasEnded = process.program.exit != nil
      return isSatisfied(process) ? true : hasEnded ? false : nil
    }
    let process = self[name]
    try #require(
      outcome == true,
      "\(name): \(process?.status.map { "\($0)" } ?? "no status")\n\(process?.program.errorText ?? "")"
    )
  }

  /// Waits until a member has sent its hello. The process may have ended since.
  func untilHello(_ name: String) async throws -> NodeHello {
    let hello = try await poll(
      every: .milliseconds(20), within: .seconds(20), of: tool.directory
    ) { self[name]?.hello }
    return try #require(hello, "\(self[name]?.program.errorText ?? "")")
  }

  /// The number of the latest peer list that was sent to all members.
  var lastList: UInt32 { state.withLock { UInt32(truncatingIfNeeded: $0.number) } }

  /// Waits until a member runs.
  func untilRunning(_ name: String) async throws { try await until(name) { $0.status != nil } }

  // MARK: Messages

  /// Sends a member a peer list, which may be incorrect.
  func sendPeerList(_ peerList: PeerList, to name: String, number: UInt64) {
    thread.handle.post { [weak self] in
      self?.send(.peers, sequence: number, body: peerList, to: name)
    }
  }

  private func pingAll() {
    let (number, running) = state.withLock { state in
      state.ping += 1
      return (state.ping, state.processes.filter { $0.value.hello?.phase == .running }.keys)
    }
    for name in running {
      // The next ping comes within 5 s.
      send(FrameHeader(.ping, count: 5_000, sequence: number), [], to: name)
    }
  }

  private func handleFrame(_ header: FrameHeader, _ body: [UInt8], from name: String) {
    let isCurrent = state.withLock {
      $0.processes[name]?.incarnation == header.incarnationOrSession
    }
    guard isCurrent, let member = members[name] else { return }
    switch header.kind {
    case .hello:
      guard let hello = try? JSONRecord.decode(NodeHello.self, from: body) else { return }
      state.withLock { $0.processes[name]?.hello = hello }
      if sendsPeerListFirst { sendPeerLists() }
      if hello.phase == .greeting, hello.temporaryFailure == nil {
        send(.configure, body: member.configuration, to: name)
      }
      if !sendsPeerListFirst { sendPeerLists() }
    case .ready:
      send(FrameHeader(.start), [], to: name)
      state.withLock { $0.processes[name]?.hello?.phase = .running }
    case .status:
      let status = try? JSONRecord.decode(NodeStatus.self, from: body)
      state.withLock {
        $0.processes[name]?.status = status
        $0.processes[name]?.peerListNumber = header.count
      }
    default: break
    }
  }

  /// Sends each running member its peers.
  private func sendPeerLists() {
    let (number, processes) = state.withLock { state in
      state.number += 1
      return (state.number, state.processes)
    }
    for (name, process) in processes where process.hello != nil {
      let peers = (members[name]?.routingIDsByPeer ?? [:]).compactMap { other, names in
        processes[other]?.peer(other, as: names)
      }
      send(
        .peers, sequence: number,
        body: PeerList(peers: peers, clients: [client.publicKey.text]), to: name)
    }
  }

  private func send(
    _ kind: FrameKind, sequence: UInt64 = 0, body: some Encodable, to name: String
  ) {
    do {
      send(FrameHeader(kind, sequence: sequence), try JSONRecord.encode(body), to: name)
    } catch {
      Issue.record(error)
    }
  }

  private func send(_ header: FrameHeader, _ body: [UInt8], to name: String) {
    controlSockets.router.send(header, body: body, to: Array(WireName.node(name).utf8))
  }
}
