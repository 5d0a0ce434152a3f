import PipeJournal
import PipeSupport
import PipeTransport
import PipeWire

/// A node's inbox: the ROUTER socket to which pipes and clients connect.
final class NodeInbox {
  let socket: Socket
  private let loop: PollLoop
  private let log: NodeLog
  private let content: HostedContent
  private let session: UInt64
  /// The content's participant in synchronized events; `nil` if the node takes part in none.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var participant: (any NodeParticipant)?
  private var pipes: [InPipe] = []
  private let touchedPipes = TouchedPipes<InPipe>()
  @exclusivity(unchecked)
  private var pipesByRoutingID: [[UInt8]: InPipe] = [:]
  /// The routing ids of senders and coordinators that connected before this node was configured.
  @exclusivity(unchecked)
  private var earlyPeers: Set<[UInt8]> = []
  @exclusivity(unchecked)
  private var isOpen = false
  @exclusivity(unchecked)
  private var isAcknowledgementScheduled = false
  @exclusivity(unchecked)
  private(set) var invalidFrames: UInt64 = 0
  /// The reason with which the inbox rejects requests while the node does not run; `nil` while it
  /// runs.
  @exclusivity(unchecked)
  var unavailableReason: String? = "the node has not started yet"

  private static let coordinatorPrefix = Array(WireName.coordinator("").utf8)
  private static let pipePrefix = Array(WireName.pipe("").utf8)
  /// The frames that clients send.
  private static let clientFrames: Set<FrameKind> = [
    .request, .deadLetter, .synchronize, .explain, .gate,
  ]
  /// The maximum number of messages that are read in a row before the node processes its inputs.
  private static let maximumMessagesPerTurn = 64
  /// The maximum time by which an acknowledgement is delayed.
  private static let acknowledgementDelay: Duration = .milliseconds(20)

  init(
    session: UInt64, content: HostedContent, context: Context, loop: PollLoop, log: NodeLog
  ) throws(TransportError) {
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setMaximumMessage(byteCount: WireLimits.maximumMessageByteCount)
    self.session = session
    self.content = content
    self.loop = loop
    self.log = log
  }

  func open(
    _ configurations: [NodeConfiguration.In], restored: [String: JournalContents.InPipeProgress]
  ) -> [InPipe] {
    for configuration in configurations {
      let pipe = InPipe(
        configuration, session: session, restored: restored[configuration.name], inbox: socket,
        among: touchedPipes, log: log)
      pipes.append(pipe)
      pipesByRoutingID[pipe.senderRoutingID] = pipe
    }
    isOpen = true
    return pipes
  }

  /// Welcomes the peers that connected before the node was configured. Called once the content is
  /// connected.
  func welcomeEarlyPeers() {
    participant = content.participant
    for peer in earlyPeers {
      pipesByRoutingID[peer]?.handleConnection()
      if participant?.peer == peer { participant?.connected() }
    }
    earlyPeers = []
  }

  func read() {
    var count = 0
    while count < Self.maximumMessagesPerTurn,
      socket.receive({ peer, bytes in handle(peer, bytes) })
    { count += 1 }
  }

  /// Fills in the numbers of malformed frames and of gaps in the pipes.
  func fill(_ status: inout NodeStatus) {
    status.invalidFrames += invalidFrames
    status.gaps = pipes.reduce(0) { $0 + $1.gapCount }
  }

  // MARK: Recording the pipes' progress

  var hasUnrecordedChanges: Bool { touchedPipes.pipes.contains { $0.hasUnrecordedChanges } }

  func record(into journal: Journal) throws {
    for pipe in touchedPipes.pipes { try pipe.record(into: journal) }
  }

  /// Acknowledges finished events, immediately or after a short delay. Called when the events are
  /// recorded or, if there is no journal, at the end of the turn.
  func didRecord() {
    var hasPendingAcknowledgement = false
    for pipe in touchedPipes.pipes {
      pipe.didRecord()
      if pipe.state.hasPendingAcknowledgement { hasPendingAcknowledgement = true }
    }
    touchedPipes.keepOnly { !$0.isRecorded }
    guard hasPendingAcknowledgement, !isAcknowledgementScheduled else { return }
    isAcknowledgementScheduled = true
    loop.schedule(after: Self.acknowledgementDelay, for: self) { inbox in
      inbox.isAcknowledgementScheduled = false
      for pipe in inbox.pipes { pipe.acknowledge() }
    }
  }

  // MARK: Closing the inbox

  /// Says goodbye to the senders of all pipes.
  func sayGoodbye() {
    for pipe in pipes { pipe.close() }
  }

  /// Closes the socket. The linger period should be long enough for a busy host, because a sender
  /// that misses the goodbye may count its events as lost.
  func close(lingering linger: Duration) { socket.close(lingering: linger) }

  // MARK: Handling frames

  private func handle(_ peer: [UInt8], _ bytes: UnsafeRawBufferPointer) {
    if let participant, participant.peer == peer {
      return handle(bytes, from: participant)
    }
    if bytes.isEmpty, let pipe = pipesByRoutingID[peer] {
      // On each connection, the sender of a pipe first sends an empty message.
      return pipe.handleConnection()
    }
    if !isOpen, peer.starts(with: Self.pipePrefix) {
      // The message can be dropped: after its welcome, the sender repeats its messages.
      earlyPeers.insert(peer)
      return
    }
    if peer.starts(with: Self.coordinatorPrefix) {
      // Before the node is configured, any coordinator may be the node's coordinator. After the
      // configuration, none of the composites of this coordinator contains the node.
      if !isOpen, bytes.isEmpty { earlyPeers.insert(peer) }
      return
    }
    do {
      let header = try FrameHeader(bytes)
      let body = UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...])
      if let pipe = pipesByRoutingID[peer] {
        try handle(header, body, from: pipe)
      } else {
        try handleRequest(header, body, from: peer)
      }
    } catch {
      reportInvalidFrame(error, from: peer)
    }
  }

  private func handle(_ bytes: UnsafeRawBufferPointer, from participant: any NodeParticipant) {
    if bytes.isEmpty { return participant.connected() }
    // The node has not started yet, or is stopping. When the node joins again, the coordinator
    // repeats the message.
    if unavailableReason != nil { return }
    do {
      try participant.received(
        FrameHeader(bytes), UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...]))
    } catch {
      reportInvalidFrame(error, from: participant.peer)
    }
  }

  private func reportInvalidFrame(_ error: any Error, from peer: [UInt8]) {
    invalidFrames += 1
    log.reportInvalidFrame(error, from: Self.peerDescription(peer), count: invalidFrames)
  }

  private func handle(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from pipe: InPipe
  ) throws(FrameError) {
    switch header.kind {
    case .open: try pipe.handleOpen(header, body)
    case .events: try pipe.handleEvents(header, body, accept: content.stepCallbacks.accept)
    case .close: pipe.handleGoodbye(header)
    default: throw .kind(header.kind.rawValue)
    }
  }

  /// Passes a client's frame to the content, which answers the client.
  private func handleRequest(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from peer: [UInt8]
  ) throws(FrameError) {
    guard Self.clientFrames.contains(header.kind) else { throw .kind(header.kind.rawValue) }
    let answer = answer(to: peer, header)
    if let unavailableReason { return answer(.unavailable(unavailableReason)) }
    switch header.kind {
    case .deadLetter:
      content.resolveDeadLetter(
        header.incarnationOrSession, drops: header.count == 1, reply: answer)
    case .explain:
      // The body begins with the key of the instance, and the event follows.
      let keyLength = min(Int(header.count), body.count)
      content.explain(
        UnsafeRawBufferPointer(rebasing: body[keyLength...]),
        of: keyLength > 0 ? String(decoding: body[..<keyLength], as: UTF8.self) : nil,
        reply: answer)
    case .gate: content.gate(body, reply: answer)
    case _ where body.count > WireLimits.maximumEventByteCount:
      answer(
        .invalid(
          "the event has \(body.count) bytes; the limit is \(WireLimits.maximumEventByteCount)"))
    case .synchronize: content.synchronize(header, body, reply: answer)
    case _ where body.isEmpty: answer(.invalid("the request has no event"))
    default:
      let key = RequestKey(client: header.incarnationOrSession, id: header.sequence)
      let oldest = header.sequence - min(UInt64(header.count), header.sequence)
      content.request(
        body, key: key, oldest: oldest,
        wantsState: header.flags & RequestKey.withoutStateFlag == 0, reply: answer)
    }
  }

  private func answer(to peer: [UInt8], _ header: FrameHeader) -> Reply {
    { [socket] reply in
      let frame = reply.frame(to: header.sequence)
      socket.send(frame.header, body: frame.body, to: peer)
    }
  }

  private static func peerDescription(_ peer: [UInt8]) -> String {
    peer.first == 0 ? "a client" : "'\(String(decoding: peer, as: UTF8.self))'"
  }
}

extension Socket {
  /// Closes the socket. While the context ends, the socket sends pending messages for up to `time`.
  func close(lingering time: Duration) {
    setLinger(milliseconds: Int32(clamping: time.clampedNanoseconds / 1_000_000))
    close()
  }
}
