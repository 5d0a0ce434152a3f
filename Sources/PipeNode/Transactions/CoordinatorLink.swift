import PipeMachines
import PipeTransport
import PipeWire

/// A coordinator's connection to one participant: a DEALER to its inbox.
final class CoordinatorLink {
  let participant: String
  let socket: Socket
  private let endpoint: String
  private let connections: ConnectionMonitor
  private let log: NodeLog
  /// Whether the participant has said that it takes part, on the connection that there is.
  private(set) var isJoined = false
  private(set) var garbage: UInt64 = 0
  private(set) var messages = NodeStatus.Messages()
  private var held: [(RequestReply, request: UInt64)] = []
  private let name: String
  private let loop: PollLoop
  private var silence = PeerSilence()
  /// Whether the participant owes a word, and messages that it has sent.
  private var isWaiting = false
  private var answers: UInt64 = 0
  private var answersAtProbe: UInt64 = 0
  private var isWatching = false
  private var reconnections: UInt64 = 0
  /// Called with what the participant says.
  var onMessage: ((ParticipantMessage) -> Void)?
  /// Called with what an effect of the participant asks for.
  var onRequest: ((FrameHeader, UnsafeRawBufferPointer) -> Void)?
  /// Called when the participant takes part; with `nil` when it does so no more.
  var onChange: ((ParticipantJoin?) -> Void)?

  init(
    to component: CoordinatorPlan.Component, of coordinator: String, services: NodeServices,
    log: NodeLog
  ) throws(TransportError) {
    participant = component.name
    endpoint = component.inbox
    name = WireName.coordinator(coordinator)
    loop = services.loop
    self.log = log
    socket = try Socket(.dealer, in: services.context)
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(name)
    connections = try ConnectionMonitor(of: socket, in: services.context)
    try socket.connect(component.inbox)
    services.loop.add(socket, for: self) { $0.read() }
    services.loop.add(connections.socket, for: self) { $0.readConnections() }
  }

  /// Sends, if the participant takes part; what is lost is said again, or asked for.
  func send(_ message: CoordinatorMessage) {
    guard isJoined else { return }
    flush()
    let frame = message.frame
    socket.send(frame.header, body: frame.body)
    messages.sent += 1
    switch message {
    case .prepare, .commit: awaitWord()
    case .abort, .deliver: break
    }
  }

  // MARK: Silence

  /// Asks a participant for a word that has said nothing since this was last called: nobody would miss
  /// what it says otherwise.
  func probe() {
    defer { answersAtProbe = answers }
    guard isJoined, !isWaiting, answers == answersAtProbe else { return }
    ask()
    awaitWord()
  }

  private func awaitWord() {
    isWaiting = true
    guard !isWatching else { return }
    isWatching = true
    scheduleLook()
  }

  private func scheduleLook() {
    loop.schedule(after: PeerSilence.interval, for: self) { $0.lookAtSilence() }
  }

  private func lookAtSilence() {
    guard isJoined else {
      isWatching = false
      return
    }
    switch silence.tick(isWaiting: isWaiting, progress: answers) {
    case .wait: break
    case .ask: ask()
    case .reconnect:
      reconnections += 1
      log.silence(
        of: "participant '\(participant)'", at: endpoint, as: name, count: reconnections)
      leave()
      socket.disconnect(endpoint)
      try? socket.connect(endpoint)
    }
    isWatching = isWaiting && isJoined
    if isWatching { scheduleLook() }
  }

  /// Asks whether it takes part.
  private func ask() { socket.sendPart([], more: false) }

  private func leave() {
    guard isJoined else { return }
    isJoined = false
    isWaiting = false
    onChange?(nil)
  }

  /// Answers what an effect has asked for: with the next message, so that it wakes the participant
  /// together with that, or when told to ``flush()``.
  func hold(_ reply: RequestReply, to request: UInt64) { held.append((reply, request)) }

  /// Sends the answers that are held.
  func flush() {
    guard !held.isEmpty else { return }
    defer { held.removeAll(keepingCapacity: true) }
    guard isJoined else { return }
    for (reply, request) in held {
      let (header, body) = Self.frame(of: reply, to: request)
      socket.send(header, body: body)
      messages.sent += 1
    }
  }

  /// An effect needs to know of a commit which one it is, and no more.
  private static func frame(
    of reply: RequestReply, to request: UInt64
  ) -> (FrameHeader, [UInt8]) {
    if case .synchronized(.atomic(.committed(let transaction, _))) = reply {
      let header = FrameHeader(
        .reply, count: RequestReply.Code.committed.rawValue, sequence: request,
        number: transaction.epoch)
      return (header, withUnsafeBytes(of: transaction.sequence.littleEndian, Array.init))
    }
    let parts = reply.parts
    let header = FrameHeader(
      .reply, count: parts.code.rawValue, sequence: request, number: parts.version)
    return (header, parts.body)
  }

  /// Cuts the connection, as a failing network would.
  func cut() { LocalConnections.cut(endpoint) }

  func close() {
    connections.socket.close()
    socket.setLinger(milliseconds: 300)
    socket.close()
  }

  private func readConnections() {
    connections.read { event in
      switch event {
      case .connected: ask()
      case .disconnected: leave()
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
    if header.kind == .join {
      let join = try ParticipantJoin(header, body)
      isJoined = true
      onChange?(join)
      return
    }
    if !SynchronizeFlag.isSettling(header) { messages.received += 1 }
    if header.kind == .synchronize {
      onRequest?(header, body)
    } else {
      onMessage?(try ParticipantMessage(header, body))
    }
  }
}
