import FoundationEssentials

/// The sockets of one client, on its loop's thread.
final class ClientSockets {
  typealias Answer = @Sendable (Result<ControlAnswer, TopologyClientError>) -> Void
  typealias Reply = @Sendable (Result<RequestOutcome, TopologyClientError>) -> Void

  private struct Pending<Completion> {
    let timer: TimerQueue.ID
    let completion: Completion
  }

  private final class Peer {
    let socket: Socket
    let connections: ConnectionMonitor
    var isConnected = false
    var pending: [UInt64: Pending<Reply>] = [:]

    init(socket: Socket, connections: ConnectionMonitor) {
      self.socket = socket
      self.connections = connections
    }
  }

  private let topology: String
  private let loop: PollLoop
  private let context = Context()
  private let control: Socket
  private let controlConnections: ConnectionMonitor
  private var commands: [UInt64: Pending<Answer>] = [:]
  private var peers: [String: Peer] = [:]
  /// Requests that wait for their connection.
  private var connecting: [UInt64: Pending<Reply>] = [:]
  private var watches: [UInt64: FeedWatch] = [:]
  private var lastID: UInt64 = 0
  private var isGone = false
  private var hasMet = false

  init(topology: String, control endpoint: String, loop: PollLoop) throws(TransportError) {
    self.topology = topology
    self.loop = loop
    control = try Socket(.dealer, in: context)
    controlConnections = try ConnectionMonitor(of: control, in: context)
    try control.connect(endpoint)
    loop.add(control) { [unowned self] in readAnswers() }
    loop.add(controlConnections.socket) { [unowned self] in
      controlConnections.read { event in
        switch event {
        case .connected: hasMet = true
        case .disconnected: if hasMet { orchestratorGone() }
        }
      }
    }
  }

  // MARK: Commands

  /// - Parameter late: What it fails with where there is no answer in time.
  func command(
    _ command: ControlCommand, timeout: Duration, late: TopologyClientError,
    _ completion: @escaping Answer
  ) {
    guard !isGone else { return completion(.failure(.orchestratorGone(topology))) }
    let id = nextID()
    guard let body = try? JSONEncoder().encode(command) else {
      return completion(.failure(.failed("the command cannot be written as JSON")))
    }
    let timer = loop.schedule(after: timeout) { [unowned self] in
      commands.removeValue(forKey: id)
      completion(.failure(late))
    }
    commands[id] = Pending(timer: timer, completion: completion)
    control.send(FrameHeader(.command, sequence: id), body: body)
  }

  private func readAnswers() {
    while control.receive({ _, bytes in
      guard let header = try? FrameHeader(bytes), header.kind == .answer,
        let pending = commands.removeValue(forKey: header.sequence)
      else { return }
      loop.cancel(pending.timer)
      let body = Data(bytes[FrameHeader.byteCount...])
      guard let answer = try? JSONDecoder().decode(ControlAnswer.self, from: body) else {
        return pending.completion(
          .failure(.failed("the orchestrator answered in a form that this client cannot read")))
      }
      pending.completion(.success(answer))
    }) {}
  }

  // MARK: Requests

  /// Sends an event to a node's inbox. Where the connection is not complete, nothing is queued.
  func request(
    _ node: NodeInformation, event: [UInt8], timeout: Duration, _ completion: @escaping Reply
  ) {
    do {
      let peer = try peer(of: node)
      attempt(node, peer, event, timeout, until: .now + timeout, completion)
    } catch {
      completion(.failure(.failed("\(error)")))
    }
  }

  /// Sends an event where the connection is complete. Returns `false` where it is not; then the
  /// completion is not called.
  func requestIfConnected(
    _ node: NodeInformation, event: [UInt8], timeout: Duration,
    _ completion: @escaping @Sendable (Result<RequestOutcome?, TopologyClientError>) -> Void
  ) -> Bool {
    guard let peer = peers[node.inbox] else { return false }
    return submit(node, peer, event, timeout, until: .now + timeout) { result in
      completion(result.map { $0 })
    }
  }

  /// Hands the request to the socket; returns whether it took it.
  private func submit(
    _ node: NodeInformation, _ peer: Peer, _ event: [UInt8], _ timeout: Duration,
    until deadline: ContinuousClock.Instant, _ completion: @escaping Reply
  ) -> Bool {
    let id = nextID()
    guard case .queued = peer.socket.send(FrameHeader(.request, sequence: id), body: event) else {
      return false
    }
    let timer = loop.schedule(after: deadline - .now) {
      peer.pending.removeValue(forKey: id)
      completion(.failure(.unknownOutcome(node.name, after: timeout)))
    }
    peer.pending[id] = Pending(timer: timer, completion: completion)
    return true
  }

  private func attempt(
    _ node: NodeInformation, _ peer: Peer, _ event: [UInt8], _ timeout: Duration,
    until deadline: ContinuousClock.Instant, _ completion: @escaping Reply
  ) {
    if submit(node, peer, event, timeout, until: deadline, completion) { return }
    guard ContinuousClock.now < deadline else {
      return completion(
        .failure(
          .nodeDown(node.name, "nobody answered at its inbox within \(timeout.shortText)")))
    }
    let id = nextID()
    let timer = loop.schedule(after: .milliseconds(2)) { [unowned self] in
      connecting.removeValue(forKey: id)
      attempt(node, peer, event, timeout, until: deadline, completion)
    }
    connecting[id] = Pending(timer: timer, completion: completion)
  }

  private func peer(of node: NodeInformation) throws(TransportError) -> Peer {
    if let peer = peers[node.inbox] { return peer }
    let socket = try Socket(.dealer, in: context)
    try socket.sendOnlyWhenConnected()
    let peer = Peer(
      socket: socket, connections: try ConnectionMonitor(of: socket, in: context))
    try socket.connect(node.inbox)
    loop.add(socket) { [unowned self] in readReplies(peer, node: node.name) }
    loop.add(peer.connections.socket) { [loop] in
      peer.connections.read { event in
        guard event == .disconnected else { return }
        // The node is gone: whether it applied what was under way is not known.
        let pending = peer.pending
        peer.pending = [:]
        for entry in pending.values {
          loop.cancel(entry.timer)
          entry.completion(.failure(.unknownOutcome(node.name, after: nil)))
        }
      }
    }
    peers[node.inbox] = peer
    return peer
  }

  private func readReplies(_ peer: Peer, node: String) {
    while peer.socket.receive({ _, bytes in
      guard let header = try? FrameHeader(bytes), header.kind == .reply,
        let pending = peer.pending.removeValue(forKey: header.sequence)
      else { return }
      loop.cancel(pending.timer)
      pending.completion(RequestReply.outcome(header, bytes, node: node))
    }) {}
  }

  // MARK: Feeds

  func watch(
    _ feeds: [String], _ receive: @escaping @Sendable (StateChange) -> Void
  ) throws(TransportError) -> UInt64 {
    let id = nextID()
    watches[id] = try FeedWatch(feeds: feeds, in: context, loop: loop, receive)
    return id
  }

  func unwatch(_ id: UInt64) { watches.removeValue(forKey: id)?.close() }

  // MARK: The end

  /// Called once when the orchestrator goes.
  var onGone: (() -> Void)?

  func close() {
    fail(.closed)
    let requests = Array(connecting.values) + peers.values.flatMap(\.pending.values)
    connecting = [:]
    for peer in peers.values { peer.pending = [:] }
    for request in requests { request.completion(.failure(.closed)) }
    for watch in watches.values { watch.close() }
    watches = [:]
    for peer in peers.values {
      peer.socket.close()
      peer.connections.socket.close()
    }
    peers = [:]
    control.setLinger(milliseconds: 200)
    control.close()
    controlConnections.socket.close()
    loop.stop()
  }

  private func orchestratorGone() {
    guard !isGone else { return }
    isGone = true
    fail(.orchestratorGone(topology))
    onGone?()
  }

  private func fail(_ error: TopologyClientError) {
    let pending = commands.values
    commands = [:]
    for entry in pending {
      loop.cancel(entry.timer)
      entry.completion(.failure(error))
    }
  }

  private func nextID() -> UInt64 {
    lastID += 1
    return lastID
  }
}

extension RequestReply {
  /// Reads a reply's frame.
  static func outcome(
    _ header: FrameHeader, _ frame: UnsafeRawBufferPointer, node: String
  ) -> Result<RequestOutcome, TopologyClientError> {
    let body = try? JSONValue(parsing: frame[FrameHeader.byteCount...])
    let text = body?["error"]?.string ?? "no reason given"
    let state = body?["state"] ?? .null
    return switch Code(rawValue: header.count) {
    case .moved: .success(.moved(version: header.number, state: state))
    case .refused:
      .success(
        .refused(
          body?["reason"]?.string.flatMap(Refusal.init(rawValue:)) ?? .noTransition, state: state))
    case .busy: .failure(.busy(node, text))
    case .invalid: .failure(.invalidEvent(node, text))
    case .unavailable: .failure(.nodeDown(node, text))
    case nil: .failure(.failed("node '\(node)' answered with the unknown code \(header.count)"))
    }
  }
}
