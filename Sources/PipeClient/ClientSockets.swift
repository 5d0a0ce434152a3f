import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The sockets of one client, on its loop's thread.
final class ClientSockets {
  typealias Answer = @Sendable (Result<ControlAnswer, TopologyClientError>) -> Void
  typealias Reply = @Sendable (Result<ClientRequest.Answer, TopologyClientError>) -> Void

  private struct Pending {
    let command: ControlCommand
    let timer: TimerQueue.ID
    let completion: Answer
  }

  private let topology: String
  private let loop: PollLoop
  private let context = Context()
  private let control: Socket
  private let controlConnections: ConnectionMonitor
  private var connection: ControlConnection
  /// Until when a connection is waited for.
  private var patience: TimerQueue.ID?
  private var commands: [UInt64: Pending] = [:]
  private var peers: [String: ClientPeer] = [:]
  /// Tells this client's requests from those of others.
  private let client = UInt64.random(in: 1...UInt64(Int64.max))
  /// What is read of feeds: how each is closed.
  private var watches: [UInt64: FollowedFeeds] = [:]
  private var lastID: UInt64 = 0
  /// Why the orchestrator is not to be reached any more.
  private var end: TopologyClientError?
  /// Whether it has told that the topology has ended.
  private var hasToldEnd = false
  private var asksForEnd = false
  private let keys: ClientKeys?
  /// Its pair, once it was needed.
  private var pair: CurveKeyPair?
  private var places = DeployedPlaces()
  private var isAskingForPlaces = false

  /// How often nodes that are bound for other hosts are looked for anew, while they are read or waited for.
  private static let placesPause: Duration = .milliseconds(200)

  /// How long a connection that has broken is waited for, from another host: longer than both ends need to notice.
  private static let healing: Duration = .seconds(10)

  /// - Parameter patience: How long an orchestrator on another host has until it answers.
  init(
    topology: String, control endpoint: String, keys: ClientKeys?, patience: Duration,
    loop: PollLoop
  ) throws {
    self.topology = topology
    self.keys = keys
    self.loop = loop
    let remote = keys?.remote
    connection = ControlConnection(isRemote: remote != nil)
    control = try Socket(.dealer, in: context)
    controlConnections = try ConnectionMonitor(
      of: control, in: context, tellsAttempts: remote != nil)
    try control.connect(to: keys?.place(of: endpoint) ?? PeerPlace(endpoint))
    loop.add(control, for: self) { $0.readAnswers() }
    loop.add(controlConnections.socket, for: self) { $0.readControlConnections() }
    if let remote { giveUp(after: patience) { remote.silence(after: patience, $0) } }
  }

  // MARK: The connection to the orchestrator

  private func readControlConnections() {
    controlConnections.readAttempts { attempt in
      // What it has said before it went.
      if attempt == .event(.disconnected) { readAnswers() }
      perform(connection.take(attempt, at: .now))
      if attempt == .event(.connected), let patience {
        loop.cancel(patience)
        self.patience = nil
      }
    }
  }

  private func perform(_ action: ControlConnection.Action) {
    switch action {
    case .nothing: break
    case .waitForIt:
      giveUp(after: Self.healing) { [topology] _ in .orchestratorGone(topology) }
      for (id, pending) in commands where !pending.command.isRepeatable {
        commands[id] = nil
        loop.cancel(pending.timer)
        pending.completion(.failure(.unreachable(keys?.remote?.endpoint ?? "", .lost)))
      }
    case .askAgain: for (id, pending) in commands { send(pending.command, as: id) }
    case .end(let ending):
      guard let endpoint = keys?.remote?.endpoint else {
        return end(because: .orchestratorGone(topology))
      }
      switch ending {
      case .gone: end(because: .orchestratorGone(topology))
      case .otherKey: end(because: .unreachable(endpoint, .otherKey))
      case .turnedAway: end(because: .unreachable(endpoint, .turnedAway))
      }
    }
  }

  /// Why a command was not answered, where an orchestrator of another host was never there.
  private func silence(after time: Duration) -> TopologyClientError? {
    connection.hasMet ? nil : keys?.remote?.silence(after: time, connection)
  }

  /// From another host nothing else tells an end from a network that carries nothing.
  func askForEnd() {
    guard let remote = keys?.remote, !asksForEnd else { return }
    asksForEnd = true
    let owner = LoopOwned(Weak(self))
    let handle = loop.handle
    command(.outcome, timeout: .seconds(1 << 30), late: .orchestratorGone(remote.name)) { answer in
      guard case .success(.ended) = answer else { return }
      handle.post {
        owner.value.sockets?.hasToldEnd = true
        owner.value.sockets?.end(because: .orchestratorGone(remote.name))
      }
    }
  }

  private func giveUp(
    after time: Duration,
    because error: @escaping (_ connection: ControlConnection) -> TopologyClientError
  ) {
    patience = loop.schedule(after: time, for: self) {
      $0.patience = nil
      let connection = $0.connection
      if $0.connection.giveUp() != .nothing { $0.end(because: error(connection)) }
    }
  }

  // MARK: Commands

  /// - Parameter late: What it fails with where there is no answer in time.
  func command(
    _ command: ControlCommand, timeout: Duration, late: TopologyClientError,
    _ completion: @escaping Answer
  ) {
    if let end { return completion(.failure(end)) }
    let id = nextID()
    let timer = loop.schedule(after: timeout, for: self) {
      $0.commands.removeValue(forKey: id)
      completion(.failure($0.silence(after: timeout) ?? late))
    }
    commands[id] = Pending(command: command, timer: timer, completion: completion)
    send(command, as: id)
  }

  private func send(_ command: ControlCommand, as id: UInt64) {
    guard let body = try? JSONRecord.encode(command) else {
      guard let pending = commands.removeValue(forKey: id) else { return }
      loop.cancel(pending.timer)
      return pending.completion(.failure(.failed("the command cannot be written as JSON")))
    }
    control.send(FrameHeader(.command, sequence: id), body: body)
  }

  private func readAnswers() {
    while control.receive({ _, bytes in
      guard let header = try? FrameHeader(bytes), header.kind == .answer,
        let pending = commands.removeValue(forKey: header.sequence)
      else { return }
      loop.cancel(pending.timer)
      let body = UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...])
      guard let answer = try? JSONRecord.decode(ControlAnswer.self, from: body) else {
        return pending.completion(
          .failure(.failed("the orchestrator answered in a form that this client cannot read")))
      }
      if case .directory(let directory) = answer { follow(directory) }
      pending.completion(.success(answer))
    }) {}
  }

  // MARK: Requests

  /// Sends an event to a node's inbox. Where the connection is not complete, nothing is queued.
  func request(
    _ node: NodeInformation, _ content: ClientRequest.Content, timeout: Duration,
    _ completion: @escaping Reply
  ) {
    do {
      let peer = try peer(of: node)
      let request = ClientRequest(
        id: nextID(), content: content, node: node, timeout: timeout, completion: completion)
      request.timer = loop.schedule(after: timeout, for: self) { $0.expire(request) }
      peer.requests[request.id] = request
      submit(request, to: peer)
    } catch {
      completion(.failure(.failed("\(error)")))
    }
  }

  /// Sends an event where the connection is complete. Returns `false` where it is not; then the
  /// completion is not called.
  func requestIfConnected(
    _ node: NodeInformation, _ content: ClientRequest.Content, timeout: Duration,
    _ completion: @escaping @Sendable (Result<ClientRequest.Answer?, TopologyClientError>) -> Void
  ) -> Bool {
    guard let peer = peers[node.inboxName] else { return false }
    let request = ClientRequest(
      id: nextID(), content: content, node: node, timeout: timeout
    ) { completion($0.map { $0 }) }
    peer.requests[request.id] = request
    guard send(request, to: peer) else {
      peer.requests[request.id] = nil
      return false
    }
    request.timer = loop.schedule(after: timeout, for: self) { $0.expire(request) }
    return true
  }

  /// Hands the request to the socket; returns whether it took it.
  private func send(_ request: ClientRequest, to peer: ClientPeer) -> Bool {
    let (header, body) = request.frame(client: client, oldest: peer.oldest(before: request.id))
    guard peer.isConnected, case .queued = peer.socket.send(header, body: body) else {
      return false
    }
    request.isSent = true
    if case .synchronize = request.content, let oldest = peer.oldestToTell(before: request.id) {
      peer.socket.send(
        FrameHeader(
          .synchronize, flags: SynchronizeFlag.acknowledge.rawValue, sequence: oldest,
          number: client))
    }
    if request.isRepeatable { scheduleRepeat(of: request, to: peer) }
    return true
  }

  /// Sends a request again that is not answered: the socket may have given it to a connection that
  /// was ending, which it then does not tell. One that waits at its node is not taken twice.
  private func scheduleRepeat(of request: ClientRequest, to peer: ClientPeer) {
    guard request.repeatTimer == nil else { return }
    request.repeatTimer = loop.schedule(after: request.pause, for: self) {
      request.repeatTimer = nil
      // A node that says that it does not run may be the second one that it is sent to.
      request.isRepeated = true
      request.pause = min(request.pause * 2, .seconds(5))
      $0.submit(request, to: peer)
    }
  }

  /// Sends the request as soon as the connection is complete.
  private func submit(_ request: ClientRequest, to peer: ClientPeer) {
    guard peer.requests[request.id] != nil, !send(request, to: peer) else { return }
    loop.schedule(after: .milliseconds(2), for: self) { $0.submit(request, to: peer) }
  }

  private func expire(_ request: ClientRequest) {
    guard peers[request.node.inboxName]?.requests.removeValue(forKey: request.id) != nil else {
      return
    }
    request.completion(
      .failure(
        request.isSent || request.isQuestion
          ? .unknownOutcome(request.node.name, after: request.timeout)
          : .nodeDown(
            request.node.name,
            "nobody answered at its inbox within \(request.timeout.shortText)")))
  }

  private func finish(
    _ request: ClientRequest, of peer: ClientPeer,
    _ result: Result<ClientRequest.Answer, TopologyClientError>
  ) {
    guard peer.requests.removeValue(forKey: request.id) != nil else { return }
    if let timer = request.timer { loop.cancel(timer) }
    if let timer = request.repeatTimer { loop.cancel(timer) }
    request.completion(result)
  }

  private func peer(of node: NodeInformation) throws -> ClientPeer {
    let name = node.inboxName
    if let peer = peers[name] { return peer }
    let (socket, connections) = try connect(to: place(of: name))
    let peer = ClientPeer(name, socket: socket, connections: connections)
    read(peer, node: node.name)
    peers[name] = peer
    if DeployedPlaces.isName(name) { lookForPlaces() }
    return peer
  }

  private func connect(to place: PeerPlace?) throws(TransportError) -> (Socket, ConnectionMonitor) {
    let socket = try Socket(.dealer, in: context)
    try socket.sendOnlyWhenConnected()
    let connections = try ConnectionMonitor(of: socket, in: context)
    if let place { try socket.connect(to: place) }
    return (socket, connections)
  }

  private func read(_ peer: ClientPeer, node: String) {
    peer.node = node
    let connections = peer.connections
    peer.registrations = [
      loop.add(peer.socket, for: self) { $0.readReplies(peer, node: node) },
      loop.add(connections.socket, for: self) { sockets in
        connections.read { event in
          peer.isConnected = event == .connected
          guard event == .disconnected else { return }
          // What it has said before it went.
          sockets.readReplies(peer, node: node)
          sockets.lost(peer)
        }
      },
    ]
  }

  /// There is another process of the node.
  private func move(_ peer: ClientPeer) throws {
    let (socket, connections) = try connect(to: place(of: peer.name))
    readReplies(peer, node: peer.node)
    for registration in peer.registrations { loop.remove(registration) }
    peer.take(socket: socket, connections: connections)
    read(peer, node: peer.node)
    lost(peer)
  }

  // MARK: Nodes that are bound for other hosts

  /// Where an inbox or a feed is; `nil` where nobody has told that yet.
  private func place(of name: String) throws -> PeerPlace? {
    guard DeployedPlaces.isName(name) else { return PeerPlace(name) }
    guard let keys else {
      throw TopologyClientError.failed(
        "the node is bound for other hosts, and this client has no key: attach by the topology's name"
      )
    }
    let own = try pair ?? keys.pair()
    pair = own
    return places.place(of: name, own: own)
  }

  /// Connects to where nodes are now that are bound for other hosts.
  private func follow(_ directory: TopologyDirectory) {
    for change in places.take(directory.nodes) {
      // One that cannot be connected to is looked for again, and said to be down meanwhile.
      if let peer = peers[change.name] { try? move(peer) }
      guard let place = try? place(of: change.name) else { continue }
      for feeds in watches.values { feeds.move(change.name, from: change.former, to: place) }
    }
  }

  /// Asks where they are, again and again while that matters.
  private func lookForPlaces() {
    guard !isAskingForPlaces, end == nil else { return }
    isAskingForPlaces = true
    loop.schedule(after: Self.placesPause, for: self) { sockets in
      sockets.isAskingForPlaces = false
      guard sockets.needsPlaces else { return }
      sockets.command(
        .directory(fresh: false), timeout: .seconds(5), late: .closed
      ) { [handle = sockets.loop.handle, owner = LoopOwned(Weak(sockets))] _ in
        handle.post { owner.value.sockets?.lookForPlaces() }
      }
    }
  }

  private struct Weak {
    weak var sockets: ClientSockets?
    init(_ sockets: ClientSockets) { self.sockets = sockets }
  }

  private var needsPlaces: Bool {
    watches.values.contains(where: \.isMoving)
      || peers.values.contains { DeployedPlaces.isName($0.name) && !$0.requests.isEmpty }
  }

  /// The node is gone. Where it keeps a journal, an event that it has not answered is sent again under
  /// the same number, so that it is applied once; else nobody knows whether it was. A letter is not
  /// resent: it may be what ended the node, and is still there if it was not applied.
  private func lost(_ peer: ClientPeer) {
    peer.forgetTold()
    for request in peer.requests.values where request.isSent {
      if request.isRepeatable {
        request.isRepeated = true
        submit(request, to: peer)
      } else {
        finish(request, of: peer, .failure(.unknownOutcome(request.node.name, after: nil)))
      }
    }
  }

  private func readReplies(_ peer: ClientPeer, node: String) {
    while peer.socket.receive({ _, bytes in
      guard let header = try? FrameHeader(bytes), header.kind == .reply,
        let request = peer.requests[header.sequence]
      else { return }
      let result = RequestReply.outcome(header, bytes, node: node)
      if request.isRepeated, case .failure(.nodeDown) = result {
        // Started again, and not running yet.
        loop.schedule(after: .milliseconds(5), for: self) { $0.submit(request, to: peer) }
      } else if request.isRepeated, case .deadLetter(_, drops: true) = request.content,
        case .failure(.invalidEvent) = result
      {
        // Dropped at the first time.
        finish(request, of: peer, .success(.outcome(.done)))
      } else {
        finish(request, of: peer, result)
      }
    }) {}
  }

  // MARK: Feeds

  func watch(
    _ feeds: [String], _ states: WatchedStates, tellsInDoubt: Bool,
    _ receive: @escaping @Sendable (StateChange) -> Void
  ) throws -> UInt64 {
    let watch = try FeedWatch(
      feeds: [], topic: states.topic, in: context, loop: loop, tellsInDoubt: tellsInDoubt,
      receive)
    return try keep(.watch(watch), of: feeds)
  }

  /// Reads frames of feeds as they are.
  func read(
    _ feeds: [String], _ topics: [FeedTopic],
    _ receive: @escaping @Sendable (UnsafeRawBufferPointer) -> Void
  ) throws -> UInt64 {
    let reader = try FeedReader(
      feeds: [], topics: topics, in: context, loop: loop, receive)
    return try keep(.reader(reader), of: feeds)
  }

  private func keep(_ source: FollowedFeeds.Source, of names: [String]) throws -> UInt64 {
    let feeds = FollowedFeeds(source, of: names)
    do {
      for name in names {
        if let place = try place(of: name) { try feeds.connect(to: place) }
      }
    } catch {
      feeds.close()
      throw error
    }
    let id = nextID()
    watches[id] = feeds
    askForEnd()
    if feeds.isMoving { lookForPlaces() }
    return id
  }

  func unwatch(_ id: UInt64) { watches.removeValue(forKey: id)?.close() }

  /// Lets what reads some feeds leave one out, or read it again.
  func read(_ feed: String, by id: UInt64, _ isWanted: Bool) {
    guard let feeds = watches[id], let place = try? place(of: feed) else { return }
    // One that cannot be connected to is gone.
    if isWanted { try? feeds.connect(to: place) } else { feeds.disconnect(place.endpoint) }
  }

  // MARK: The end

  /// Called once when the orchestrator goes, with whether it has told so.
  var onGone: ((_ hasTold: Bool) -> Void)?

  func close() {
    fail(.closed)
    let requests = peers.values.flatMap(\.requests.values)
    for peer in peers.values { peer.requests = [:] }
    for request in requests { request.completion(.failure(.closed)) }
    for feeds in watches.values { feeds.close() }
    watches = [:]
    for peer in peers.values { peer.close() }
    peers = [:]
    control.setLinger(milliseconds: 200)
    controlConnections.close()
    control.close()
    loop.stop()
  }

  private func end(because error: TopologyClientError) {
    guard end == nil else { return }
    end = error
    // What waits for an answer may ask why.
    onGone?(hasToldEnd)
    fail(error)
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
  ) -> Result<ClientRequest.Answer, TopologyClientError> {
    let body = try? JSONValue(parsing: frame[FrameHeader.byteCount...])
    let text = body?["error"]?.string ?? "no reason given"
    let state = body?["state"] ?? .null
    return switch Code(rawValue: header.count) {
    case .moved: .success(.outcome(.moved(version: header.number, state: state)))
    case .done: .success(.outcome(.done))
    case .refused:
      .success(
        .outcome(.refused(Refusal(of: body) ?? .noTransition, state: state)))
    case .synchronized:
      body.flatMap { TransactionReply(json: $0) }.map { .success(.synchronized($0)) }
        ?? .failure(.failed("composite '\(node)' answered in a form that this client cannot read"))
    case .explained:
      body.map { .success(.explained($0)) }
        ?? .failure(.failed("node '\(node)' answered in a form that this client cannot read"))
    case .busy: .failure(.busy(node, text))
    case .invalid: .failure(.invalidEvent(node, text))
    case .unavailable: .failure(.nodeDown(node, text))
    case .committed, nil:
      .failure(.failed("node '\(node)' answered with the unknown code \(header.count)"))
    }
  }
}
