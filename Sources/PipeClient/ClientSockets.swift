import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The sockets of one client, used on the thread of the client's loop.
final class ClientSockets {
  typealias Reply = @Sendable (Result<ClientRequest.Answer, TopologyClientError>) -> Void

  private let loop: PollLoop
  private let context = Context()
  /// The link to the orchestrator.
  let control: OrchestratorLink
  /// The link to the orchestrator that has replaced a killed orchestrator. The nodes continue to
  /// run while the orchestrator is replaced. Without this link, the client would not receive the
  /// new endpoint of a restarted node on another host.
  private var successor: OrchestratorLink?
  private let topology: String
  private let endpoint: String
  private let patience: Duration
  private var peers: [String: ClientPeer] = [:]
  /// A random number that distinguishes this client's requests from the requests of other clients.
  private let clientNumber = UInt64.random(in: 1...UInt64(Int64.max))
  /// The feeds that the client reads, by the ids of their watches.
  private var feedsByWatch: [UInt64: FollowedFeeds] = [:]
  private var lastWatchID: UInt64 = 0
  private let keys: ClientKeys?
  /// The client's key pair; `nil` until it is read.
  private var keyPair: CurveKeyPair?
  private var endpoints = DeployedEndpoints()
  private var isLookingUpEndpoints = false

  /// The interval of endpoint lookups. The client looks up endpoints while it reads feeds of nodes
  /// that accept connections from other hosts, or has requests to such nodes.
  private static let endpointLookupInterval: Duration = .milliseconds(200)
  /// The pause before the client asks the orchestrator about a node that has rejected a request.
  private static let nodeCheckDelay: Duration = .milliseconds(10)
  /// The interval at which the client checks whether a lost node is running again.
  private static let lostNodeCheckInterval: Duration = .milliseconds(200)

  /// - Parameter patience: The maximum wait for the first answer of an orchestrator on another
  ///   host.
  init(
    topology: String, control endpoint: String, keys: ClientKeys?, patience: Duration,
    loop: PollLoop
  ) throws {
    self.keys = keys
    self.loop = loop
    self.topology = topology
    self.endpoint = endpoint
    self.patience = patience
    control = try OrchestratorLink(
      topology: topology, at: endpoint, keys: keys, patience: patience, context, loop: loop)
    control.onDirectory = { [unowned self] in updateConnections($0) }
  }

  // MARK: Requests

  /// Sends a request to a node's inbox. While the connection is incomplete, the request waits in
  /// the client, not in the socket.
  func request(
    _ node: NodeInformation, _ content: ClientRequest.Content, timeout: Duration,
    _ completion: @escaping Reply
  ) {
    do {
      let peer = try peer(of: node)
      enqueue(
        ClientRequest(content: content, node: node, timeout: timeout, completion: completion),
        at: peer)
      lookUpEndpointsIfNeeded()
    } catch {
      completion(.failure(.failed("\(error)")))
    }
  }

  /// Sends a request if the connection is complete. Otherwise, returns `false` and does not call
  /// the completion.
  func requestIfConnected(
    _ node: NodeInformation, _ content: ClientRequest.Content, timeout: Duration,
    _ completion: @escaping @Sendable (Result<ClientRequest.Answer?, TopologyClientError>) -> Void
  ) -> Bool {
    guard let peer = peers[node.inboxName], peer.isConnected else { return false }
    enqueue(
      ClientRequest(content: content, node: node, timeout: timeout) { completion($0.map { $0 }) },
      at: peer)
    return true
  }

  /// Queues the request. The request is sent as soon as the number of requests in flight is below
  /// the limit.
  private func enqueue(_ request: ClientRequest, at peer: ClientPeer) {
    peer.append(request)
    sendWaiting(to: peer)
    if request.timer == nil { startTimer(of: request) }
  }

  private func sendWaiting(to peer: ClientPeer) {
    while let request = peer.beginNextRequest() {
      startTimer(of: request)
      submit(request, to: peer)
    }
  }

  private func startTimer(of request: ClientRequest) {
    if let timer = request.timer { loop.cancel(timer) }
    request.timer = loop.schedule(after: request.timeout, for: self) { $0.expire(request) }
  }

  /// Passes the request to the socket. Returns whether the socket accepted the request.
  private func send(_ request: ClientRequest, to peer: ClientPeer) -> Bool {
    let (header, body) = request.frame(client: clientNumber, oldest: peer.oldestNumber)
    guard peer.isConnected, case .queued = peer.socket.send(header, body: body) else {
      return false
    }
    request.recordSend()
    if case .synchronize = request.content, let oldest = peer.oldestToReport() {
      peer.socket.send(
        FrameHeader(
          .synchronize, flags: SynchronizeFlag.acknowledge.rawValue, sequence: oldest,
          incarnationOrSession: clientNumber))
    }
    if request.isRepeatable { scheduleRepeat(of: request, to: peer) }
    return true
  }

  /// Sends a request again if the answer does not arrive in time. The socket may have passed the
  /// request to a connection that was closing, which the socket does not report. A node that
  /// already has the request does not apply the copy.
  private func scheduleRepeat(of request: ClientRequest, to peer: ClientPeer) {
    guard request.repeatTimer == nil else { return }
    request.repeatTimer = loop.schedule(after: request.repeatInterval, for: self) {
      request.repeatTimer = nil
      request.isRepeated = true
      request.repeatInterval = min(request.repeatInterval * 2, .seconds(5))
      if !request.isPostponed { $0.submit(request, to: peer) }
    }
  }

  /// Sends the request now or, if the connection is incomplete, when the connection is complete.
  private func submit(_ request: ClientRequest, to peer: ClientPeer) {
    guard peer.requests[request.id] === request, !request.isSubmitted, !send(request, to: peer)
    else { return }
    request.isSubmitted = true
    checkIfLost(at: peer)
    loop.schedule(after: .milliseconds(2), for: self) {
      request.isSubmitted = false
      $0.submit(request, to: peer)
    }
  }

  private func expire(_ request: ClientRequest) {
    guard let peer = peers[request.node.inboxName] else { return }
    request.timer = nil
    guard request.id != 0 else { return expireWaiting(request, at: peer) }
    let name = request.node.name
    let isUnapplied = request.isUnapplied && !request.isQuestion
    finish(
      request, of: peer,
      .failure(
        !isUnapplied
          ? .unknownOutcome(name, after: request.timeout)
          : .nodeDown(
            name,
            request.isSent
              ? "\(request.lastRejectionReason); waited \(request.timeout.shortText)"
              : "no answer from its inbox within \(request.timeout.shortText)")))
  }

  /// Fails a request that was never sent. If the node has recently answered another request, the
  /// request continues to wait instead.
  private func expireWaiting(_ request: ClientRequest, at peer: ClientPeer) {
    if let last = peer.lastAnswer, .now - last < request.timeout {
      return startTimer(of: request)
    }
    peer.giveUp(request)
    let time = request.timeout.shortText
    request.completion(
      .failure(
        peer.isConnected
          ? .busy(
            request.node.name,
            "\(peer.requests.count) requests of this client are waiting for answers, and the node "
              + "sent no answer within \(time)"
          )
          : .nodeDown(request.node.name, "no answer from its inbox within \(time)")))
  }

  private func finish(
    _ request: ClientRequest, of peer: ClientPeer,
    _ result: Result<ClientRequest.Answer, TopologyClientError>
  ) {
    guard peer.end(request) else { return }
    if let timer = request.timer { loop.cancel(timer) }
    if let timer = request.repeatTimer { loop.cancel(timer) }
    request.completion(result)
    sendWaiting(to: peer)
  }

  // MARK: Nodes that cannot process a request now

  /// Keeps a request until the node is running, and then sends the request again with the same
  /// number.
  private func postpone(_ request: ClientRequest, at peer: ClientPeer, because reason: String) {
    request.recordPostponement(because: reason)
    request.isPostponed = true
    checkNode(for: peer, after: Self.nodeCheckDelay)
  }

  /// Asks the orchestrator, after a pause, whether a node is running or will soon run. Call this if
  /// requests to the node are postponed, not sent yet, or may have to be sent again.
  private func checkNode(for peer: ClientPeer, after pause: Duration) {
    guard !peer.isLookupPending else { return }
    peer.isLookupPending = true
    loop.schedule(after: pause, for: self) { sockets in
      guard peer.needsLookup else {
        peer.isLookupPending = false
        return
      }
      sockets.control.command(
        .directory(fresh: false), timeout: .seconds(5), timeoutError: .closed
      ) { [handle = sockets.loop.handle, owner = LoopOwned((Weak(sockets), peer))] result in
        handle.post { owner.value.0.sockets?.handleLookup(for: owner.value.1, result) }
      }
    }
  }

  private func handleLookup(
    for peer: ClientPeer, _ result: Result<ControlAnswer, TopologyClientError>
  ) {
    peer.isLookupPending = false
    let directory: TopologyDirectory? =
      if case .success(.directory(let directory)) = result { directory } else { nil }
    for request in peer.requests.values where peer.needsLookup(for: request) {
      let isPostponed = request.isPostponed
      request.isPostponed = false
      // If the orchestrator does not answer, the request waits for the node's own answer, unless
      // the connection to the node is lost and the orchestrator has reported the end of the
      // topology.
      guard let directory else {
        if request.isSent, !peer.isConnected, control.hasReportedEnd {
          finish(request, of: peer, .failure(.unknownOutcome(request.node.name, after: nil)))
        } else if isPostponed {
          submit(request, to: peer)
        }
        continue
      }
      let name = request.node.name
      let node = directory[node: name]
      if request.isUnapplied {
        guard let node, node.isRunning || node.isAboutToRun(in: directory) else {
          let reason = node.map { $0.reason ?? $0.phase } ?? request.lastRejectionReason
          finish(request, of: peer, .failure(.nodeDown(name, reason)))
          continue
        }
      } else if directory.phase == "running", node?.isTerminated ?? true {
        // In any other phase of the topology, the request waits. For example, the node may start
        // again while a changed topology file is being applied.
        finish(request, of: peer, .failure(.unknownOutcome(name, after: nil)))
        continue
      }
      if isPostponed { submit(request, to: peer) }
    }
    checkIfLost(at: peer)
  }

  /// Asks the orchestrator again, if the node is not connected and the client has requests that it
  /// has not sent yet, or may have to send again.
  private func checkIfLost(at peer: ClientPeer) {
    guard !peer.isLookupPending, peer.needsLookup else { return }
    checkNode(for: peer, after: Self.lostNodeCheckInterval)
  }

  private func peer(of node: NodeInformation) throws -> ClientPeer {
    let name = node.inboxName
    if let peer = peers[name] { return peer }
    control.requestEndReport()
    let (socket, connections) = try connect(to: peerEndpoint(of: name))
    let peer = ClientPeer(name, socket: socket, connections: connections)
    read(peer, node: node.name)
    peers[name] = peer
    return peer
  }

  private func connect(to peerEndpoint: PeerEndpoint?) throws(TransportError) -> (
    Socket, ConnectionMonitor
  ) {
    let socket = try Socket(.dealer, in: context)
    try socket.sendOnlyWhenConnected()
    let connections = try ConnectionMonitor(of: socket, in: context)
    if let peerEndpoint { try socket.connect(to: peerEndpoint) }
    return (socket, connections)
  }

  private func read(_ peer: ClientPeer, node: String) {
    peer.firstNode = node
    let connections = peer.connections
    peer.registrations = [
      loop.add(peer.socket, for: self) { $0.readReplies(peer, node: node) },
      loop.add(connections.socket, for: self) { sockets in
        connections.read { event in
          peer.isConnected = event == .connected
          guard event == .disconnected else { return }
          // The node may have sent replies before the connection was lost.
          sockets.readReplies(peer, node: node)
          sockets.handleLoss(of: peer)
        }
      },
    ]
  }

  /// Connects a peer to the node's new process.
  private func reconnect(_ peer: ClientPeer) throws {
    let (socket, connections) = try connect(to: peerEndpoint(of: peer.inboxName))
    readReplies(peer, node: peer.firstNode)
    for registration in peer.registrations { loop.remove(registration) }
    peer.replace(socket: socket, connections: connections)
    read(peer, node: peer.firstNode)
    handleLoss(of: peer)
  }

  // MARK: Nodes that accept connections from other hosts

  /// Returns the endpoint and key of an inbox or a feed; `nil` if the orchestrator has not reported
  /// them yet.
  private func peerEndpoint(of name: String) throws -> PeerEndpoint? {
    guard DeployedEndpoints.isName(name) else { return PeerEndpoint(name) }
    guard let keys else {
      throw TopologyClientError.failed(
        "the node requires a key, and this client has no key; attach by the topology's name"
      )
    }
    let own = try keyPair ?? keys.keyPair()
    keyPair = own
    return endpoints.peerEndpoint(of: name, own: own)
  }

  /// Connects to the new endpoints of nodes that accept connections from other hosts.
  private func updateConnections(_ directory: TopologyDirectory) {
    for change in endpoints.take(directory.nodes) {
      do {
        if let peer = peers[change.name] { try reconnect(peer) }
      } catch {
        // No sockets can be created, for example because too many files are open. The next lookup
        // tries again.
        endpoints.forget(change.name)
        continue
      }
      guard let peerEndpoint = try? peerEndpoint(of: change.name) else { continue }
      for feeds in feedsByWatch.values {
        feeds.reconnect(change.name, from: change.formerEndpoint, to: peerEndpoint)
      }
    }
  }

  /// Looks up endpoints if the client reads from a node whose endpoint may have changed, or has a
  /// request to such a node.
  private func lookUpEndpointsIfNeeded() { if needsEndpoints { lookUpEndpoints() } }

  /// Looks up endpoints repeatedly, until they are no longer needed.
  private func lookUpEndpoints() {
    guard !isLookingUpEndpoints, let link = try? linkForEndpointLookup() else { return }
    isLookingUpEndpoints = true
    loop.schedule(after: Self.endpointLookupInterval, for: self) { sockets in
      sockets.isLookingUpEndpoints = false
      guard sockets.needsEndpoints else { return }
      link.command(
        .directory(fresh: false), timeout: .seconds(5), timeoutError: .closed
      ) { [handle = sockets.loop.handle, owner = LoopOwned(Weak(sockets))] _ in
        handle.post { owner.value.sockets?.lookUpEndpoints() }
      }
    }
  }

  /// Returns the link for endpoint lookups; `nil` if no orchestrator can be reached.
  private func linkForEndpointLookup() throws -> OrchestratorLink? {
    guard control.hasEnded else { return control }
    guard control.isLocal else { return nil }
    if let successor, !successor.hasEnded { return successor }
    successor?.close()
    let next = try OrchestratorLink(
      topology: topology, at: endpoint, keys: keys, patience: patience, context, loop: loop)
    next.onDirectory = { [unowned self] in updateConnections($0) }
    successor = next
    return next
  }

  private struct Weak {
    weak var sockets: ClientSockets?
    init(_ sockets: ClientSockets) { self.sockets = sockets }
  }

  private var needsEndpoints: Bool {
    feedsByWatch.values.contains(where: \.mayMove)
      || peers.values.contains { DeployedEndpoints.isName($0.inboxName) && $0.hasRequests }
  }

  /// Handles the loss of the connection to a node. If the node keeps a journal, the client sends an
  /// unanswered event again with the same number, so that the node applies the event only once.
  /// Otherwise, the outcome of the event is unknown. A request to resend a dead letter is not
  /// repeated, since the dead letter may have crashed the node. If the request was not applied, the
  /// dead letter still exists.
  private func handleLoss(of peer: ClientPeer) {
    peer.resetReports()
    for request in peer.requests.values where request.isSent {
      if request.isPostponed { continue }
      if request.isRepeatable {
        request.isRepeated = true
        submit(request, to: peer)
      } else {
        finish(request, of: peer, .failure(.unknownOutcome(request.node.name, after: nil)))
      }
    }
    checkIfLost(at: peer)
    lookUpEndpointsIfNeeded()
  }

  private func readReplies(_ peer: ClientPeer, node: String) {
    while peer.socket.receive({ _, bytes in
      guard let header = try? FrameHeader(bytes), header.kind == .reply,
        let request = peer.requests[header.sequence]
      else { return }
      peer.recordAnswer(byteCount: bytes.count)
      let result = RequestReply.outcome(header, bytes, node: node)
      if request.isRepeatable, case .failure(.nodeDown(_, let reason)) = result {
        postpone(request, at: peer, because: reason)
      } else if RequestReply.Code(rawValue: header.count) == .forgotten {
        handleForgotten(request, of: peer, through: header.incarnationOrSession)
      } else if request.isRepeated, case .deadLetter(_, drops: true) = request.content,
        case .failure(.invalidEvent) = result
      {
        // The first copy of the request has already removed the dead letter, so the request was
        // successful.
        finish(request, of: peer, .success(.outcome(.done)))
      } else {
        finish(request, of: peer, result)
      }
    }) {}
  }

  /// Handles the answer `forgotten`: the node no longer knows which requests of this client it has
  /// applied. If the node has rejected all other copies of the request, the request was not
  /// applied. The request then gets a higher number and is sent again. Otherwise, the outcome of
  /// the request is unknown.
  private func handleForgotten(_ request: ClientRequest, of peer: ClientPeer, through last: UInt64)
  {
    if request.sentCopyCount == request.rejectedCopyCount + 1, peer.restart(request, after: last) {
      if let timer = request.repeatTimer { loop.cancel(timer) }
      request.repeatTimer = nil
      sendWaiting(to: peer)
    } else {
      finish(request, of: peer, .failure(.unknownOutcome(request.node.name, after: nil)))
    }
  }

  // MARK: Feeds

  func watch(
    _ feeds: [String], _ states: WatchedStates, reportsInDoubt: Bool,
    _ receive: @escaping @Sendable (StateChange) -> Void
  ) throws -> UInt64 {
    let watch = try FeedWatch(
      feeds: [], topic: states.topic, in: context, loop: loop, reportsInDoubt: reportsInDoubt,
      receive)
    return try register(.watch(watch), of: feeds)
  }

  /// Passes the undecoded frames of feeds to `receive`. Returns the id of the watch.
  func readFrames(
    _ feeds: [String], _ topics: [FeedTopic],
    _ receive: @escaping @Sendable (UnsafeRawBufferPointer) -> Void
  ) throws -> UInt64 {
    let reader = try FeedReader(
      feeds: [], topics: topics, in: context, loop: loop, receive)
    return try register(.reader(reader), of: feeds)
  }

  private func register(_ source: FollowedFeeds.Source, of names: [String]) throws -> UInt64 {
    let feeds = FollowedFeeds(source, of: names)
    do {
      for name in names {
        if let peerEndpoint = try peerEndpoint(of: name) { try feeds.connect(to: peerEndpoint) }
      }
    } catch {
      feeds.close()
      throw error
    }
    lastWatchID += 1
    let id = lastWatchID
    feedsByWatch[id] = feeds
    control.requestEndReport()
    if feeds.mayMove { lookUpEndpoints() }
    return id
  }

  func unwatch(_ id: UInt64) { feedsByWatch.removeValue(forKey: id)?.close() }

  /// Starts or stops reading one feed of a watch.
  func setReading(_ feed: String, by id: UInt64, _ isWanted: Bool) {
    guard let feeds = feedsByWatch[id], let peerEndpoint = try? peerEndpoint(of: feed) else {
      return
    }
    // If the connection fails, the node's process and its feed have ended.
    if isWanted {
      try? feeds.connect(to: peerEndpoint)
    } else {
      feeds.disconnect(peerEndpoint.endpoint)
    }
  }

  // MARK: Closing the client

  func close() {
    control.failPendingCommands(.closed)
    let requests = peers.values.flatMap { $0.removeAll() }
    for request in requests { request.completion(.failure(.closed)) }
    for feeds in feedsByWatch.values { feeds.close() }
    feedsByWatch = [:]
    for peer in peers.values { peer.close() }
    peers = [:]
    control.close()
    successor?.failPendingCommands(.closed)
    successor?.close()
    loop.stop()
  }
}

extension RequestReply {
  /// Decodes the frame of a reply.
  static func outcome(
    _ header: FrameHeader, _ frame: UnsafeRawBufferPointer, node: String
  ) -> Result<ClientRequest.Answer, TopologyClientError> {
    let body = try? JSONValue(parsing: frame[FrameHeader.byteCount...])
    let text = body?["error"]?.string ?? "no reason given"
    let state = body?["state"] ?? .null
    return switch Code(rawValue: header.count) {
    case .accepted:
      .success(.outcome(.accepted(version: header.incarnationOrSession, state: state)))
    case .done: .success(.outcome(.done))
    case .refused:
      .success(
        .outcome(.refused(Refusal(of: body) ?? .noTransition, state: state)))
    case .synchronized:
      body.flatMap { TransactionReply(json: $0) }.map { .success(.synchronized($0)) }
        ?? .failure(.failed("composite '\(node)' sent an answer that this client cannot read"))
    case .explained:
      body.map { .success(.explained($0)) }
        ?? .failure(.failed("node '\(node)' sent an answer that this client cannot read"))
    case .gated:
      body.map { .success(.gated($0)) }
        ?? .failure(.failed("node '\(node)' sent an answer that this client cannot read"))
    case .busy: .failure(.busy(node, text))
    case .invalid: .failure(.invalidEvent(node, text))
    case .unavailable: .failure(.nodeDown(node, text))
    case .forgotten: .failure(.unknownOutcome(node, after: nil))
    case .committed, nil:
      .failure(.failed("node '\(node)' answered with the unknown code \(header.count)"))
    }
  }
}
