import PipeMachines
import PipeWire

/// Reads the feeds of some nodes. Drops values that it has already delivered, counts missed states,
/// and requests the last value again if the publisher may have dropped it.
package final class FeedWatch {
  /// The last value received from a node.
  private struct LastValue {
    var incarnation: UInt64
    var version: UInt64
    var doubts: [InDoubtTransaction]
    var isIntermediate: Bool
    var summary: NodeSummary?

    init(_ change: StateChange) {
      incarnation = change.incarnation
      version = change.version
      doubts = change.doubts
      isIntermediate = change.isIntermediate
      summary = change.summary
    }

    /// Whether a change to the same state carries new information.
    func differs(from change: StateChange, reportsInDoubt: Bool) -> Bool {
      if reportsInDoubt, doubts != change.doubts { return true }
      guard let other = change.summary else { return false }
      return summary != other || isIntermediate != change.isIntermediate
    }
  }

  private let socket: Socket
  private let loop: PollLoop
  private let topic: FeedTopic
  private let receive: (StateChange) -> Void
  private var registration: PollLoop.Registration?
  private let reportsInDoubt: Bool
  private var lastValues: [String: LastValue] = [:]
  private var received = 0
  /// The number of messages since the last time that no message was left to read.
  private var backlog = 0
  private var timer: TimerQueue.ID?

  private static let readsPerTurn = 256
  private static let checkInterval: Duration = .milliseconds(500)

  /// - Parameters:
  ///   - topic: The topic to subscribe to: states or summaries.
  ///   - reportsInDoubt: Whether to deliver a state again when its doubts have changed.
  package init(
    feeds: [String], topic: FeedTopic = .states(areCommitted: nil), in context: Context,
    loop: PollLoop,
    reportsInDoubt: Bool = false, _ receive: @escaping (StateChange) -> Void
  ) throws(TransportError) {
    self.loop = loop
    self.topic = topic
    self.reportsInDoubt = reportsInDoubt
    self.receive = receive
    socket = try Socket(.subscriber, in: context)
    try socket.setHighWaterMark(FeedSubscriptions.queueLimit)
    try socket.subscribe(to: topic.bytes)
    for feed in feeds { try socket.connect(feed) }
    registration = loop.add(socket, for: self) { $0.read() }
    check()
  }

  /// Reads the feed of another node, which sends its last value first.
  package func connect(to peerEndpoint: PeerEndpoint) throws(TransportError) {
    try socket.connect(to: peerEndpoint)
  }

  /// Stops reading a feed. Messages queued from the feed are lost.
  package func disconnect(_ feed: String) { socket.disconnect(feed) }

  package func close() {
    if let registration { loop.remove(registration) }
    registration = nil
    if let timer { loop.cancel(timer) }
    socket.close()
  }

  /// Requests a node's last value again, and delivers it even if it was delivered before.
  package func requestLastValue(_ node: String) {
    lastValues[node] = nil
    requestLastValue()
  }

  private func requestLastValue() { try? socket.subscribe(to: topic.bytes) }

  /// Reads all messages that have arrived.
  package func drain() { while read() == Self.readsPerTurn {} }

  /// Reads some messages. Returns their number, at most `readsPerTurn`.
  @discardableResult
  private func read() -> Int {
    var count = 0
    while count < Self.readsPerTurn,
      socket.receive({ _, bytes in
        if let change = try? StateChange(frame: bytes) { take(change) }
      })
    { count += 1 }
    received += count
    backlog += count
    if count < Self.readsPerTurn {
      if backlog >= Self.flood { requestLastValue() }
      backlog = 0
    }
    return count
  }

  private func take(_ change: StateChange) {
    var change = change
    if let last = lastValues[change.node] {
      if change.incarnation < last.incarnation { return }
      if change.incarnation == last.incarnation {
        change.isRepeated = change.version == last.version
        if change.isRepeated {
          guard last.differs(from: change, reportsInDoubt: reportsInDoubt) else { return }
        } else {
          guard change.version > last.version else { return }
          change.missed = change.version - last.version - 1
        }
      }
    }
    lastValues[change.node] = LastValue(change)
    receive(change)
  }

  /// The number of messages without a pause after which a publisher may have dropped the last one.
  private static let flood = Int(FeedSubscriptions.queueLimit) / 4

  /// Checks for a flood at intervals. After a flood the publisher may have dropped the last value
  /// at the high-water mark, so the watch requests it.
  private func check() {
    timer = loop.schedule(after: Self.checkInterval, for: self) { watch in
      if watch.received >= Self.flood { watch.requestLastValue() }
      watch.received = 0
      watch.check()
    }
  }
}

/// Reads the frames of some feeds as they arrive.
package final class FeedReader {
  private let socket: Socket
  private let loop: PollLoop
  private let receive: (UnsafeRawBufferPointer) -> Void
  private var registration: PollLoop.Registration?

  private static let readsPerTurn = 256

  /// - Parameter receive: Receives each frame, which is valid during the call only.
  package init(
    feeds: [String], topics: [FeedTopic], in context: Context, loop: PollLoop,
    _ receive: @escaping (UnsafeRawBufferPointer) -> Void
  ) throws(TransportError) {
    self.loop = loop
    self.receive = receive
    socket = try Socket(.subscriber, in: context)
    try socket.setHighWaterMark(FeedSubscriptions.queueLimit)
    for topic in topics { try socket.subscribe(to: topic.bytes) }
    for feed in feeds { try socket.connect(feed) }
    registration = loop.add(socket, for: self) { $0.read() }
  }

  /// Stops reading a feed. Messages queued from the feed are lost.
  package func disconnect(_ feed: String) { socket.disconnect(feed) }

  /// Reads a feed again, or another feed.
  package func connect(to peerEndpoint: PeerEndpoint) throws(TransportError) {
    try socket.connect(to: peerEndpoint)
  }

  package func close() {
    if let registration { loop.remove(registration) }
    registration = nil
    socket.close()
  }

  private func read() {
    var count = 0
    while count < Self.readsPerTurn, socket.receive({ _, bytes in receive(bytes) }) { count += 1 }
  }
}
