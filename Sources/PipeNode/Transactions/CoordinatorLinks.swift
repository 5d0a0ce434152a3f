import PipeMachines
import PipeTransport
import PipeWire

/// Takes what comes over the connections to participants.
protocol CoordinatorLinksOwner: AnyObject {
  func received(_ message: ParticipantMessage, from participant: String)
  /// A participant takes part; with `nil`, it is not connected any more.
  func changed(_ join: ParticipantJoin?, of participant: String)
  /// An effect of a participant asks for something.
  func take(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, of participant: String?,
    reply: @escaping Reply)
}

/// A coordinator's connections to its participants.
final class CoordinatorLinks {
  fileprivate weak var owner: (any CoordinatorLinksOwner)?
  private let loop: PollLoop
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var links: [String: CoordinatorLink] = [:]
  /// Those with replies that go out when the batch is done.
  @exclusivity(unchecked)
  private var withReplies: [CoordinatorLink] = []
  @exclusivity(unchecked)
  private var isInBatch = false

  /// How often a participant that has said nothing is asked for an answer.
  private static let probeInterval: Duration = .seconds(5)

  init(
    to components: [CoordinatorPlan.Component], of coordinator: String, services: NodeServices,
    log: NodeLog, owner: any CoordinatorLinksOwner
  ) throws(TransportError) {
    self.owner = owner
    loop = services.loop
    for component in components {
      links[component.name] = try CoordinatorLink(
        to: component, of: coordinator, among: self, services: services, log: log)
    }
    probeLater()
  }

  private func probeLater() {
    loop.schedule(after: Self.probeInterval, for: self) { links in
      guard !links.links.isEmpty else { return }
      for link in links.links.values { link.probe() }
      links.probeLater()
    }
  }

  func send(_ message: CoordinatorMessage, to participant: String) {
    links[participant]?.send(message)
  }

  fileprivate func answer(_ reply: RequestReply, to request: UInt64, over link: CoordinatorLink) {
    link.append(reply, to: request)
    if isInBatch { withReplies.append(link) } else { link.flush() }
  }

  /// Lets replies go out together with the messages of a batch, or at its end.
  func batch(_ body: () -> Void) {
    isInBatch = true
    body()
    isInBatch = false
    for link in withReplies { link.flush() }
    withReplies.removeAll(keepingCapacity: true)
  }

  /// Cuts connections, as a failing network would.
  /// - Parameter participant: To whom; `nil` for all.
  func cut(to participant: String?) {
    for (name, link) in links where participant == nil || name == participant { link.cut() }
  }

  func close() {
    for link in links.values { link.close() }
    links = [:]
  }

  var garbage: UInt64 { links.values.reduce(0) { $0 + $1.garbage } }

  /// The messages of all.
  var messages: NodeStatus.Messages {
    links.values.reduce(into: NodeStatus.Messages()) { sum, link in
      sum.sent += link.messages.sent
      sum.received += link.messages.received
    }
  }
}

/// A coordinator's connection to one participant: a DEALER to its inbox.
private final class CoordinatorLink {
  let participant: String
  let socket: Socket
  private let endpoint: String
  /// Tells of connections; of one within this process there is nothing to tell.
  private let connections: ConnectionMonitor?
  private let log: NodeLog
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var isConnected = false
  /// Whether the participant has said that it takes part, on the connection that there is.
  @exclusivity(unchecked)
  private(set) var isJoined = false
  /// Whether it ever has.
  private var hasJoined = false
  private(set) var garbage: UInt64 = 0
  @exclusivity(unchecked)
  private(set) var messages = NodeStatus.Messages()
  @exclusivity(unchecked)
  private var replies: [(RequestReply, request: UInt64)] = []
  private let name: String
  private let loop: PollLoop
  @exclusivity(unchecked)
  private var silence = PeerSilence()
  /// Whether the participant owes an answer, and messages that it has sent.
  @exclusivity(unchecked)
  private var isWaiting = false
  @exclusivity(unchecked)
  private var answers: UInt64 = 0
  private var answersAtProbe: UInt64 = 0
  @exclusivity(unchecked)
  private var isWatching = false
  private var reconnections: UInt64 = 0
  private weak var links: CoordinatorLinks?

  init(
    to component: CoordinatorPlan.Component, of coordinator: String, among links: CoordinatorLinks,
    services: NodeServices, log: NodeLog
  ) throws(TransportError) {
    participant = component.name
    self.links = links
    let host = services.host.flatMap { $0.name == component.name ? $0 : nil }
    let context = host?.context ?? services.context
    endpoint = host?.inbox ?? component.inbox
    name = WireName.coordinator(coordinator)
    loop = services.loop
    self.log = log
    socket = try Socket(.dealer, in: context)
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(name)
    connections = host == nil ? try ConnectionMonitor(of: socket, in: context) : nil
    try socket.connect(endpoint)
    services.loop.add(socket, for: self) { $0.read() }
    if let connections {
      services.loop.add(connections.socket, for: self) { $0.readConnections() }
    } else {
      connected()
    }
  }

  /// Sends, if the participant takes part; what is lost is said again, or asked for.
  func send(_ message: CoordinatorMessage) {
    guard isJoined else { return }
    flush()
    let frame = message.frame
    socket.send(frame.header, body: frame.body)
    messages.sent += 1
    switch message {
    case .prepare, .commit: awaitAnswer()
    case .abort, .deliver: break
    }
  }

  // MARK: Silence

  /// Asks a participant that has said nothing since this was last called: nobody would miss
  /// what it says otherwise.
  func probe() {
    defer { answersAtProbe = answers }
    guard isConnected, !isWaiting, answers == answersAtProbe else { return }
    ask()
  }

  private func awaitAnswer() {
    isWaiting = true
    guard !isWatching else { return }
    isWatching = true
    scheduleLook()
  }

  private func scheduleLook() {
    loop.schedule(after: PeerSilence.interval, for: self) { $0.lookAtSilence() }
  }

  private func lookAtSilence() {
    guard isConnected else {
      isWatching = false
      return
    }
    switch silence.tick(isWaiting: isWaiting, progress: answers) {
    case .wait: break
    case .ask: ask()
    case .reconnect:
      // One that has not started yet has nothing to say.
      if hasJoined {
        reconnections += 1
        log.silence(
          of: "participant '\(participant)'", at: endpoint, as: name, count: reconnections)
      }
      reconnect()
    }
    isWatching = isWaiting && isConnected
    if isWatching { scheduleLook() }
  }

  private func connected() {
    isConnected = true
    ask()
  }

  private func reconnect() {
    disconnected()
    socket.disconnect(endpoint)
    try? socket.connect(endpoint)
    if connections == nil { connected() }
  }

  /// Asks whether it takes part, until it has answered: what is asked may go to one that has connected
  /// under this end's name, and so may the answer.
  private func ask() {
    socket.sendPart([], more: false)
    awaitAnswer()
  }

  private func disconnected() {
    isConnected = false
    isWaiting = false
    guard isJoined else { return }
    isJoined = false
    links?.owner?.changed(nil, of: participant)
  }

  /// Answers what an effect has asked for: with the next message, so that it wakes the participant
  /// together with that, or when told to ``flush()``.
  func append(_ reply: RequestReply, to request: UInt64) { replies.append((reply, request)) }

  /// Sends the replies that wait.
  func flush() {
    guard !replies.isEmpty else { return }
    defer { replies.removeAll(keepingCapacity: true) }
    guard isJoined else { return }
    for (reply, request) in replies {
      let (header, body) = Self.frame(of: reply, to: request)
      socket.send(header, body: body)
      messages.sent += 1
    }
  }

  /// An effect needs to know of a commit which one it is, and no more.
  private static func frame(
    of reply: RequestReply, to request: UInt64
  ) -> (FrameHeader, [UInt8]) {
    guard case .synchronized(.atomic(.committed(let transaction, _))) = reply else {
      return reply.frame(to: request)
    }
    let header = FrameHeader(
      .reply, count: RequestReply.Code.committed.rawValue, sequence: request,
      number: transaction.epoch)
    return (header, withUnsafeBytes(of: transaction.sequence.littleEndian, Array.init))
  }

  /// Cuts the connection, as a failing network would.
  func cut() {
    if connections == nil { reconnect() } else { LocalConnections.cut(endpoint) }
  }

  func close() {
    connections?.close()
    socket.setLinger(milliseconds: 300)
    socket.close()
  }

  private func readConnections() {
    connections?.read { event in
      switch event {
      case .connected: connected()
      case .disconnected: disconnected()
      }
    }
  }

  private func read() {
    while socket.receive({ _, bytes in
      answers += 1
      isWaiting = false
      do {
        let header = try FrameHeader(bytes)
        try take(header, UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...]))
      } catch {
        garbage += 1
        log.garbage(error, from: "participant '\(participant)'", count: garbage)
      }
    }) {}
  }

  private func take(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) {
    if case .join = header.kind {
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
