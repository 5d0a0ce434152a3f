import PipeRuntime

/// Reads bytes as a sequence of frames. The byte before each frame contains its length, and says
/// whether the receiver or the sender of a pipe gets the frame. Both must keep their numbers in
/// order, and messages must survive a round trip.
enum FrameFuzz {
  static func take(_ bytes: UnsafeRawBufferPointer) {
    var receiver = InPipeStateMachine(capacity: 16, session: 3, isDurable: false)
    var sender = OutPipeStateMachine(capacity: 16, stream: 5)
    var rest = bytes[...]
    while let first = rest.popFirst() {
      let frame = UnsafeRawBufferPointer(rebasing: rest.prefix(Int(first & 0x7F)))
      rest = rest.dropFirst(frame.count)
      subscribe(frame)
      guard let header = try? FrameHeader(frame) else { continue }
      let body = UnsafeRawBufferPointer(rebasing: frame[FrameHeader.byteCount...])
      readMessages(header, body)
      readEvents(header, body)
      readFeed(frame)
      if first < 0x80 { take(header, body, &receiver) } else { take(header, body, &sender) }
    }
  }

  private static func take(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, _ pipe: inout InPipeStateMachine
  ) {
    switch header.kind {
    case .open:
      guard body.count == 8, header.sequence > 0 else { return }
      _ = pipe.opened(
        session: header.incarnationOrSession,
        stream: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)),
        first: header.sequence, lost: header.count)
    case .events:
      let before = pipe.lastReceived
      for action in pipe.arrived(
        session: header.incarnationOrSession, first: header.sequence, count: header.count)
      {
        guard case .take(_, let first) = action else { continue }
        check(first == before + 1, "an event was left out, or taken twice")
        for sequence in first...min(pipe.lastReceived, first + 64) {
          pipe.finish(sequence, of: pipe.stream)
        }
      }
    case .close: pipe.senderSaidGoodbye(session: header.incarnationOrSession)
    default: _ = pipe.connected()
    }
    pipe.record()
    _ = pipe.acknowledgementDue()
    check(pipe.lastApplied <= pipe.lastFinished, "recorded before it was finished")
    check(pipe.lastFinished <= pipe.lastReceived, "finished before it was received")
  }

  private static func take(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, _ pipe: inout OutPipeStateMachine
  ) {
    if !pipe.isFull { pipe.enqueue { $0 += Array("1".utf8) } }
    pipe.record()
    let before = pipe.lastAcknowledged
    switch header.kind {
    case .welcome:
      guard body.count == 8 else { return }
      _ = pipe.welcomed(
        session: header.incarnationOrSession,
        stream: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)),
        received: header.sequence, window: header.count, isDurable: header.flags & 1 != 0)
    case .credit:
      _ = pipe.credited(
        session: header.incarnationOrSession, applied: header.sequence, window: header.count)
    case .closed:
      pipe.receiverClosed(session: header.incarnationOrSession, applied: header.sequence)
    default: pipe.disconnected()
    }
    _ = pipe.flush()
    check(pipe.lastAcknowledged >= before, "an acknowledgement was taken back")
    check(pipe.lastAcknowledged <= pipe.lastQueued, "acknowledged before it was queued")
    check(pipe.lastSent <= pipe.lastQueued, "sent before it was queued")
  }

  private static func readMessages(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) {
    if let message = try? CoordinatorMessage(header, body) {
      let frame = message.frame
      let again = frame.body.withUnsafeBytes { try? CoordinatorMessage(frame.header, $0) }
      check(again == message, "a coordinator's message is read otherwise")
    }
    if let message = try? ParticipantMessage(header, body) {
      let frame = message.frame
      let again = frame.body.withUnsafeBytes { try? ParticipantMessage(frame.header, $0) }
      check(again == message, "a participant's message is read otherwise")
    }
    if let join = try? ParticipantJoin(header, body) {
      let frame = join.frame
      let again = frame.body.withUnsafeBytes { try? ParticipantJoin(frame.header, $0) }
      check(again == join, "a participant's join is read otherwise")
    }
  }

  private static func readFeed(_ frame: UnsafeRawBufferPointer) {
    _ = try? StateChange(frame: frame)
    _ = try? NodeStep(frame: frame)
    _ = try? TappedEvent(frame: frame)
  }

  /// Reads bytes as a message of an XPUB socket.
  private static func subscribe(_ bytes: UnsafeRawBufferPointer) {
    let topics: [FeedTopic] = [
      .states(areCommitted: nil), .summaries(of: nil), .steps(of: nil), .refusals(of: nil),
      .tap(pipe: nil),
    ]
    var subscriptions = FeedSubscriptions()
    guard let topic = subscriptions.take(bytes) else { return }
    let subscribedTopics = topics.filter { subscriptions.hasSubscriber(for: $0) }
    check(subscribedTopics.count < 2, "one topic asks for several kinds")
    check(
      subscribedTopics == topics.filter { $0.isRequested(by: topic) }, "a subscription is not kept")
    ([0] + topic).withUnsafeBytes { _ = subscriptions.take($0) }
    check(!topics.contains { subscriptions.hasSubscriber(for: $0) }, "a subscription does not end")
  }

  private static func readEvents(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) {
    guard header.kind == .events else { return }
    var count: UInt32 = 0
    try? EventBatch.forEach(in: body, count: header.count) { _ in count += 1 }
    check(count <= header.count, "more events than there are")
  }
}
