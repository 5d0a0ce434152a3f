import PipeMachines
import PipeWire

/// A subscriber to the feeds of nodes. The subscriber delivers each state change once, counts
/// missed states, and requests the last value again if the publisher may have dropped a message.
package final class FeedWatch {
  /// The last value received from a node.
  private struct LastValue {
    var incarnation: UInt64
    var version: UInt64
    var inDoubtTransactions: [InDoubtTransaction]
    var isIntermediate: Bool
    var summary: NodeSummary?

    init(_ change: StateChange) {
      incarnation = change.incarnation
      version = change.version
      inDoubtTransactions = change.doubts
      isIntermediate = change.isIntermediate
      summary = change.summary
    }

    /// Whether a change with the same version differs from this value in its summary or, if
    /// `reportsInDoubt` is set, in its in-doubt transactions.
    func differs(from change: StateChange, reportsInDoubt: Bool) -> Bool {
      if reportsInDoubt, inDoubtTransactions != change.doubts { return true }
      guard let other = change.summary else { return false }
      return summary != other || isIntermediate != change.isIntermediate
    }
  }

  private let socket: Socket
  private let loop: PollLoop
  private let topic: FeedTopic
  private let onChange: (StateChange) -> Void
  private var registration: PollLoop.Registration?
  private let reportsInDoubt: Bool
  private var lastValues: [String: LastValue] = [:]
  private var receivedCount = 0
  /// The number of messages read since the socket was last empty.
  private var backlogCount = 0
  private var timer: TimerQueue.ID?

  private static let maximumReadsPerTurn = 256
  private static let checkInterval: Duration = .milliseconds(500)

  /// - Parameters:
  ///   - topic: The topic to subscribe to: states or summaries.
  ///   - reportsInDoubt: Whether to deliver a state again when the node's in-doubt transactions
  ///     have changed.
  package init(
    feeds: [String], topic: FeedTopic = .states(areCommitted: nil), in context: Context,
    loop: PollLoop,
    reportsInDoubt: Bool = false, _ receive: @escaping (StateChange) -> Void
  ) throws(TransportError) {
    self.loop = loop
    self.topic = topic
    self.reportsInDoubt = reportsInDoubt
    self.onChange = receive
    socket = try Socket(.subscriber, in: context)
    try socket.setHighWaterMark(FeedSubscriptions.queueLimit)
    try socket.subscribe(to: topic.bytes)
    for feed in feeds { try socket.connect(feed) }
    registration = loop.add(socket, for: self) { $0.read() }
    scheduleChecks()
  }

  /// Subscribes to the feed of one more node. The node first sends its last value.
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

  /// Requests a node's last value again, and delivers the value even if it was delivered before.
  package func requestLastValue(_ node: String) {
    lastValues[node] = nil
    requestLastValue()
  }

  private func requestLastValue() { try? socket.subscribe(to: topic.bytes) }

  /// Reads all messages that have arrived.
  package func drain() { while read() == Self.maximumReadsPerTurn {} }

  /// Reads at most `maximumReadsPerTurn` messages, and returns their number.
  @discardableResult
  private func read() -> Int {
    var count = 0
    while count < Self.maximumReadsPerTurn,
      socket.receive({ _, bytes in
        if let change = try? StateChange(frame: bytes) { deliver(change) }
      })
    { count += 1 }
    receivedCount += count
    backlogCount += count
    if count < Self.maximumReadsPerTurn {
      if backlogCount >= Self.floodThreshold { requestLastValue() }
      backlogCount = 0
    }
    return count
  }

  private func deliver(_ change: StateChange) {
    var change = change
    if let last = lastValues[change.node] {
      if change.incarnation < last.incarnation { return }
      if change.incarnation == last.incarnation {
        change.isRepeated = change.version == last.version
        if change.isRepeated {
          guard last.differs(from: change, reportsInDoubt: reportsInDoubt) else { return }
        } else {
          guard change.version > last.version else { return }
          change.missedCount = change.version - last.version - 1
        }
      }
    }
    lastValues[change.node] = LastValue(change)
    onChange(change)
  }

  /// The number of messages that counts as a flood, if the messages are read before the socket is
  /// empty, or between two checks. In a flood, the publisher's queue may be full, and the publisher
  /// may drop the last value. So the last value is requested again.
  private static let floodThreshold = Int(FeedSubscriptions.queueLimit) / 4

  /// Schedules regular checks. After a flood of messages, a check requests the last value, which
  /// the publisher may have dropped at the high-water mark.
  private func scheduleChecks() {
    timer = loop.schedule(after: Self.checkInterval, for: self) { watch in
      if watch.receivedCount >= Self.floodThreshold { watch.requestLastValue() }
      watch.receivedCount = 0
      watch.scheduleChecks()
    }
  }
}

/// A subscriber to feeds, which passes each received frame to a closure.
package final class FeedReader {
  private let socket: Socket
  private let loop: PollLoop
  private let receive: (UnsafeRawBufferPointer) -> Void
  private var registration: PollLoop.Registration?

  private static let maximumReadsPerTurn = 256

  /// - Parameter receive: Called with each frame. The bytes are valid only during the call.
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

  /// Subscribes to another feed, or again to a disconnected feed.
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
    while count < Self.maximumReadsPerTurn, socket.receive({ _, bytes in receive(bytes) }) {
      count += 1
    }
  }
}
