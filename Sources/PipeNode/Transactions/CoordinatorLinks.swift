import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The owner of ``CoordinatorLinks``, which handles messages from participants.
protocol CoordinatorLinksOwner: AnyObject {
  func received(_ message: ParticipantMessage, from participant: String)
  /// Handles the join of a participant. If `join` is `nil`, handles the loss of its connection.
  func changed(_ join: ParticipantJoin?, of participant: String)
  /// Handles a request from an effect of a participant.
  func take(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, of participant: String?,
    reply: @escaping Reply)
}

/// A coordinator's connections to its participants. Connections to other processes share one
/// socket.
final class CoordinatorLinks {
  private(set) weak var owner: (any CoordinatorLinksOwner)?
  private let loop: PollLoop
  /// The routers, one for each ZeroMQ context that contains sockets of participants.
  @exclusivity(unchecked)
  private var routers: [ConnectingRouter] = []
  /// The connections. The index of a connection is the number by which routers identify the
  /// participant.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var links: [CoordinatorLink] = []
  @exclusivity(unchecked)
  private var numbersByParticipant: [String: Int] = [:]
  /// The connections with queued replies, which are sent at the end of the batch.
  @exclusivity(unchecked)
  private var linksWithReplies: [CoordinatorLink] = []
  @exclusivity(unchecked)
  private var isInBatch = false

  /// The interval after which the coordinator probes a silent participant.
  private static let probeInterval: Duration = .seconds(5)

  init(
    to components: [CoordinatorPlan.Component], of coordinator: String, journal: UInt64?,
    services: NodeServices,
    log: NodeLog, owner: any CoordinatorLinksOwner
  ) throws(TransportError) {
    self.owner = owner
    loop = services.loop
    let name = WireName.coordinator(coordinator)
    for component in components {
      let carrier = services.carrier.flatMap { $0.name == component.name ? $0 : nil }
      let link = CoordinatorLink(
        to: component.name, number: links.count, at: services.inbox(of: component),
        isLocal: carrier != nil,
        through: try router(in: carrier?.context ?? services.context, as: name),
        as: name, journal: journal, among: self, loop: loop, log: log)
      numbersByParticipant[component.name] = links.count
      links.append(link)
    }
    for link in links { try link.connect() }
    scheduleProbe()
    services.peers?.addListener(self)
  }

  /// Returns the router for this context. Creates the router if there is none.
  private func router(
    in context: Context, as name: String
  ) throws(TransportError) -> ConnectingRouter {
    if let existing = routers.first(where: { $0.context === context }) { return existing }
    let router = try ConnectingRouter(as: name, in: context)
    let index = routers.count
    routers.append(router)
    loop.add(router.socket, for: self) { $0.read(from: index) }
    loop.add(router.monitorSocket, for: self) { $0.readConnections(of: index) }
    return router
  }

  private func read(from router: Int) {
    while routers.indices.contains(router),
      routers[router].receive({ number, bytes in links[number].received(bytes) })
    {}
  }

  private func readConnections(of router: Int) {
    guard routers.indices.contains(router) else { return }
    routers[router].readConnectionEvents { number, event in links[number].connectionChanged(event) }
  }

  private func scheduleProbe() {
    loop.schedule(after: Self.probeInterval, for: self) { links in
      guard !links.links.isEmpty else { return }
      for link in links.links { link.probe() }
      links.scheduleProbe()
    }
  }

  func send(_ message: CoordinatorMessage, to participant: String) {
    guard let number = numbersByParticipant[InstanceName.node(of: participant)] else { return }
    links[number].send(message)
  }

  func answer(_ reply: RequestReply, to request: UInt64, over link: CoordinatorLink) {
    link.append(reply, to: request)
    if isInBatch { linksWithReplies.append(link) } else { link.flush() }
  }

  /// Runs `body`, and then sends the replies that `body` has queued. If `body` also sends a message
  /// to the same participant, the queued replies are sent before the message.
  func batch(_ body: () -> Void) {
    isInBatch = true
    body()
    isInBatch = false
    for link in linksWithReplies { link.flush() }
    linksWithReplies.removeAll(keepingCapacity: true)
  }

  /// Cuts connections, as a failing network would.
  /// - Parameter participant: The participant of the connection; `nil` for all connections.
  func cut(to participant: String?) {
    let node = participant.map { InstanceName.node(of: $0) }
    for link in links where node == nil || link.participant == node { link.cut() }
  }

  func close() {
    for router in routers { router.close(linger: 300) }
    (routers, links, numbersByParticipant) = ([], [], [:])
  }

  var invalidFrames: UInt64 { links.reduce(0) { $0 + $1.invalidFrames } }

  /// The total number of messages over all connections.
  var messages: NodeStatus.Messages {
    links.reduce(into: NodeStatus.Messages()) { sum, link in
      sum.sent += link.messages.sent
      sum.received += link.messages.received
    }
  }
}

extension CoordinatorLinks: PeerConnector {
  func disconnectPeer(from peer: String, at endpoints: PeerEndpoints) {
    if let number = numbersByParticipant[peer] { links[number].disconnectPeer() }
  }

  func connectPeer(_ peer: String, at endpoints: PeerEndpoints) {
    if let number = numbersByParticipant[peer] { links[number].connectPeer(at: endpoints.inbox) }
  }
}

/// A coordinator's connection to the inbox of one participant.
final class CoordinatorLink {
  let participant: String
  private let number: Int
  /// The endpoint of the participant; `nil` while the endpoint is unknown.
  private var peerEndpoint: PeerEndpoint?
  /// Whether the participant is in this process. Such a connection ends only when this object cuts
  /// it.
  private let isLocal: Bool
  private let router: ConnectingRouter
  private let log: NodeLog
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var isConnected = false
  /// Whether the participant has joined on the current connection.
  @exclusivity(unchecked)
  private(set) var isJoined = false
  /// Whether the participant has ever joined.
  private var hasJoined = false
  private(set) var invalidFrames: UInt64 = 0
  @exclusivity(unchecked)
  private(set) var messages = NodeStatus.Messages()
  @exclusivity(unchecked)
  private var replies: [(RequestReply, request: UInt64)] = []
  private let name: String
  /// The id of the coordinator's journal; `nil` if the coordinator has no journal.
  private let journal: UInt64?
  private let loop: PollLoop
  @exclusivity(unchecked)
  private var silence = SilentPeerPolicy()
  /// Whether the coordinator expects an answer from the participant.
  @exclusivity(unchecked)
  private var isWaiting = false
  /// The number of messages from the participant.
  @exclusivity(unchecked)
  private var answerCount: UInt64 = 0
  private var answerCountAtProbe: UInt64 = 0
  @exclusivity(unchecked)
  private var isSilenceCheckScheduled = false
  private var reconnectionCount: UInt64 = 0
  private weak var links: CoordinatorLinks?

  init(
    to participant: String, number: Int, at peerEndpoint: PeerEndpoint?, isLocal: Bool,
    through router: ConnectingRouter,
    as name: String, journal: UInt64?, among links: CoordinatorLinks, loop: PollLoop, log: NodeLog
  ) {
    self.participant = participant
    self.number = number
    self.peerEndpoint = peerEndpoint
    self.isLocal = isLocal
    self.router = router
    self.name = name
    self.journal = journal
    self.links = links
    self.loop = loop
    self.log = log
  }

  /// Connects to the participant if its endpoint is known.
  func connect() throws(TransportError) {
    guard let peerEndpoint else { return }
    try router.connect(number, to: peerEndpoint)
    if isLocal { connected() }
  }

  /// Disconnects from the participant, because its process has ended or was replaced.
  func disconnectPeer() {
    guard !isLocal else { return }
    peerEndpoint = nil
    router.disconnect(number)
    disconnected()
  }

  /// Connects to the participant at a new endpoint.
  func connectPeer(at peerEndpoint: PeerEndpoint) {
    guard !isLocal else { return }
    disconnectPeer()
    self.peerEndpoint = peerEndpoint
    do {
      try connect()
    } catch {
      log.warning("cannot connect to participant '\(participant)': \(error)")
    }
  }

  /// Handles an event of the connection monitor.
  func connectionChanged(_ event: ConnectionMonitor.Event) {
    switch event {
    case .connected: connected()
    case .disconnected: disconnected()
    }
  }

  /// Sends a message if the participant has joined. If the message is lost, the coordinator sends
  /// it again, or the participant requests it.
  func send(_ message: CoordinatorMessage) {
    guard isJoined else { return }
    flush()
    let frame = message.frame(journal: journal)
    router.send(frame.header, body: frame.body, to: number)
    messages.sent += 1
    switch message {
    case .prepare, .commit: awaitAnswer()
    case .abort, .deliver: break
    }
  }

  // MARK: Silent participants

  /// Asks the participant to join again if no message has arrived from it since the last call. One
  /// of its messages may have been lost.
  func probe() {
    defer { answerCountAtProbe = answerCount }
    guard isConnected, !isWaiting, answerCount == answerCountAtProbe else { return }
    ask()
  }

  private func awaitAnswer() {
    isWaiting = true
    guard !isSilenceCheckScheduled else { return }
    isSilenceCheckScheduled = true
    scheduleSilenceCheck()
  }

  private func scheduleSilenceCheck() {
    loop.schedule(after: SilentPeerPolicy.tickInterval, for: self) { $0.checkSilence() }
  }

  private func checkSilence() {
    guard isConnected else {
      isSilenceCheckScheduled = false
      return
    }
    switch silence.tick(isWaiting: isWaiting, progress: answerCount) {
    case .wait: break
    case .ask: ask()
    case .reconnect:
      // A participant that has not started yet cannot answer. Its silence is not worth a log entry.
      if hasJoined {
        reconnectionCount += 1
        log.logSilence(
          of: "participant '\(participant)'", at: peerEndpoint?.endpoint ?? "", as: name,
          count: reconnectionCount)
      }
      reconnect()
    }
    isSilenceCheckScheduled = isWaiting && isConnected
    if isSilenceCheckScheduled { scheduleSilenceCheck() }
  }

  private func connected() {
    isConnected = true
    ask()
  }

  private func reconnect() {
    disconnected()
    try? connect()
  }

  /// Asks the participant to join, and repeats the question until the participant has answered. The
  /// question or the answer can get lost if another program has connected under this coordinator's
  /// routing id.
  private func ask() {
    router.sendEmpty(to: number)
    awaitAnswer()
  }

  private func disconnected() {
    isConnected = false
    isWaiting = false
    guard isJoined else { return }
    isJoined = false
    links?.owner?.changed(nil, of: participant)
  }

  /// Queues the answer to a request of an effect. The answer is sent by ``flush()``, or with the
  /// next message to the participant, so that the participant wakes up only once.
  func append(_ reply: RequestReply, to request: UInt64) { replies.append((reply, request)) }

  /// Sends the queued replies.
  func flush() {
    guard !replies.isEmpty else { return }
    defer { replies.removeAll(keepingCapacity: true) }
    guard isJoined else { return }
    for (reply, request) in replies {
      let (header, body) = Self.frame(of: reply, to: request)
      router.send(header, body: body, to: number)
      messages.sent += 1
    }
  }

  /// Returns the frame of a reply to an effect. For a committed event, the frame contains only the
  /// transaction, because the effect requires nothing else.
  private static func frame(
    of reply: RequestReply, to request: UInt64
  ) -> (FrameHeader, [UInt8]) {
    guard case .synchronized(.atomic(.committed(let transaction, _))) = reply else {
      return reply.frame(to: request)
    }
    let header = FrameHeader(
      .reply, count: RequestReply.Code.committed.rawValue, sequence: request,
      incarnationOrSession: transaction.epoch)
    return (header, withUnsafeBytes(of: transaction.sequence.littleEndian, Array.init))
  }

  /// Cuts the connection, as a failing network would.
  func cut() {
    if isLocal { return reconnect() }
    if let peerEndpoint { LocalConnections.cut(peerEndpoint.endpoint) }
  }

  // MARK: Messages from participants

  func received(_ bytes: UnsafeRawBufferPointer) {
    answerCount += 1
    isWaiting = false
    do {
      let header = try FrameHeader(bytes)
      try handle(header, UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...]))
    } catch {
      invalidFrames += 1
      log.reportInvalidFrame(error, from: "participant '\(participant)'", count: invalidFrames)
    }
  }

  private func handle(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) {
    if case .join = header.kind {
      try header.checkEpoch(at: WallClock.nanoseconds)
      let join = try ParticipantJoin(header, body)
      isJoined = true
      hasJoined = true
      links?.owner?.changed(join, of: participant)
      return
    }
    if !SynchronizeFlag.isAcknowledgement(header) { messages.received += 1 }
    guard case .synchronize = header.kind else {
      let message = try ParticipantMessage(header, body)
      links?.owner?.received(message, from: participant)
      return
    }
    links?.owner?.take(header, body, of: participant) { [weak self] reply in
      guard let self else { return }
      links?.answer(reply, to: header.sequence, over: self)
    }
  }
}
