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
  /// The content's participant in synchronized events, if it has one.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var participant: Participant?
  private var pipes: [InPipe] = []
  private let touched = TouchedPipes<InPipe>()
  @exclusivity(unchecked)
  private var pipeByPeer: [[UInt8]: InPipe] = [:]
  /// Senders and coordinators that connected before this node was configured.
  @exclusivity(unchecked)
  private var earlyPeers: Set<[UInt8]> = []
  @exclusivity(unchecked)
  private var isOpen = false
  @exclusivity(unchecked)
  private var isAcknowledgementScheduled = false
  @exclusivity(unchecked)
  private(set) var invalidFrames: UInt64 = 0
  /// The reason to answer requests with while the node does not run; `nil` while it runs.
  @exclusivity(unchecked)
  var unavailable: String? = "the node has not started yet"

  private static let coordinatorPrefix = Array(WireName.coordinator("").utf8)
  private static let pipePrefix = Array(WireName.pipe("").utf8)
  /// The frames that clients send.
  private static let clientFrames: Set<FrameKind> = [.request, .deadLetter, .synchronize, .explain]
  /// The maximum number of messages that one turn reads before steps are taken.
  private static let messagesPerTurn = 64
  /// The longest delay of an acknowledgement.
  private static let acknowledgementDelay: Duration = .milliseconds(20)

  init(
    session: UInt64, content: HostedContent, context: Context, loop: PollLoop, log: NodeLog
  ) throws(TransportError) {
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    self.session = session
    self.content = content
    self.loop = loop
    self.log = log
  }

  func open(
    _ configurations: [NodeConfiguration.In], restored: [String: JournalContents.Consumed]
  ) -> [InPipe] {
    for configuration in configurations {
      let pipe = InPipe(
        configuration, session: session, restored: restored[configuration.name], inbox: socket,
        among: touched, log: log)
      pipes.append(pipe)
      pipeByPeer[pipe.peer] = pipe
    }
    isOpen = true
    return pipes
  }

  /// Welcomes the peers that connected early: the content is connected now.
  func welcomeEarlyPeers() {
    participant = content.participant
    for peer in earlyPeers {
      pipeByPeer[peer]?.connected()
      if participant?.peer == peer { participant?.connected() }
    }
    earlyPeers = []
  }

  func read() {
    var count = 0
    while count < Self.messagesPerTurn,
      socket.receive({ peer, bytes in handle(peer, bytes) })
    { count += 1 }
  }

  /// Fills in the counts of malformed frames and of gaps.
  func fill(_ status: inout NodeStatus) {
    status.invalidFrames += invalidFrames
    status.gaps = pipes.reduce(0) { $0 + $1.gaps }
  }

  // MARK: Records

  var hasUnrecordedChanges: Bool { touched.pipes.contains { $0.hasUnrecordedChanges } }

  func record(into journal: Journal) throws {
    for pipe in touched.pipes { try pipe.record(into: journal) }
  }

  /// Acknowledges finished events, now or soon: they are recorded, or need no record.
  func didRecord() {
    var hasPendingAcknowledgement = false
    for pipe in touched.pipes {
      pipe.didRecord()
      if pipe.state.hasPendingAcknowledgement { hasPendingAcknowledgement = true }
    }
    touched.keepOnly { !$0.isRecorded }
    guard hasPendingAcknowledgement, !isAcknowledgementScheduled else { return }
    isAcknowledgementScheduled = true
    loop.schedule(after: Self.acknowledgementDelay, for: self) { inbox in
      inbox.isAcknowledgementScheduled = false
      for pipe in inbox.pipes { pipe.acknowledge() }
    }
  }

  // MARK: The end

  /// Says goodbye to the senders.
  func sayGoodbye() {
    for pipe in pipes { pipe.close() }
  }

  /// Closes the socket. The goodbye to a sender decides whether its events count as lost, so on a
  /// busy machine it may take longer than messages to other peers, which may be gone.
  func close(lingering linger: Duration) { socket.close(lingering: linger) }

  // MARK: Frames

  private func handle(_ peer: [UInt8], _ bytes: UnsafeRawBufferPointer) {
    if let participant, participant.peer == peer {
      return handle(bytes, from: participant)
    }
    if bytes.isEmpty, let pipe = pipeByPeer[peer] {
      // The empty message that a pipe's sender sends on each connection.
      return pipe.connected()
    }
    if !isOpen, peer.starts(with: Self.pipePrefix) {
      // The sender repeats its messages after it is welcomed.
      earlyPeers.insert(peer)
      return
    }
    if peer.starts(with: Self.coordinatorPrefix) {
      // Otherwise it belongs to a composite that this node is not in, or no longer in.
      if !isOpen, bytes.isEmpty { earlyPeers.insert(peer) }
      return
    }
    do {
      let header = try FrameHeader(bytes)
      let body = UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...])
      if let pipe = pipeByPeer[peer] {
        try handle(header, body, from: pipe)
      } else {
        try handleRequest(header, body, from: peer)
      }
    } catch {
      report(error, from: peer)
    }
  }

  private func handle(_ bytes: UnsafeRawBufferPointer, from participant: Participant) {
    if bytes.isEmpty { return participant.connected() }
    // The coordinator repeats the message when the node has joined.
    if unavailable != nil { return }
    do {
      try participant.received(
        FrameHeader(bytes), UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...]))
    } catch {
      report(error, from: participant.peer)
    }
  }

  private func report(_ error: any Error, from peer: [UInt8]) {
    invalidFrames += 1
    log.reportInvalidFrame(error, from: Self.describe(peer), count: invalidFrames)
  }

  private func handle(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from pipe: InPipe
  ) throws(FrameError) {
    switch header.kind {
    case .open: try pipe.opened(header, body)
    case .events: try pipe.arrived(header, body, accept: content.calls.accept)
    case .close: pipe.senderSaidGoodbye(header)
    default: throw .kind(header.kind.rawValue)
    }
  }

  /// Lets the content answer a client.
  private func handleRequest(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from peer: [UInt8]
  ) throws(FrameError) {
    guard Self.clientFrames.contains(header.kind) else { throw .kind(header.kind.rawValue) }
    let answer = answer(to: peer, header)
    if let unavailable { return answer(.unavailable(unavailable)) }
    switch header.kind {
    case .deadLetter:
      content.deadLetter(header.number, drops: header.count == 1, reply: answer)
    case .explain:
      // The key of an instance precedes the event.
      let keyLength = min(Int(header.count), body.count)
      content.explain(
        UnsafeRawBufferPointer(rebasing: body[keyLength...]),
        of: keyLength > 0 ? String(decoding: body[..<keyLength], as: UTF8.self) : nil,
        reply: answer)
    case _ where body.count > WireLimits.eventByteCount:
      answer(
        .invalid(
          "the event has \(body.count) bytes; the limit is \(WireLimits.eventByteCount)"))
    case .synchronize: content.synchronize(header, body, reply: answer)
    case _ where body.isEmpty: answer(.invalid("the request has no event"))
    default:
      let key = RequestKey(client: header.number, id: header.sequence)
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

  private static func describe(_ peer: [UInt8]) -> String {
    peer.first == 0 ? "a client" : "'\(String(decoding: peer, as: UTF8.self))'"
  }
}

extension Socket {
  /// Closes the socket. Pending messages are sent within this time, while the context ends.
  func close(lingering time: Duration) {
    setLinger(milliseconds: Int32(clamping: time.clampedNanoseconds / 1_000_000))
    close()
  }
}
