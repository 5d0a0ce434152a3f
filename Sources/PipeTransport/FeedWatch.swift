import PipeMachines
import PipeWire

/// Reads the feeds of some nodes: drops what was told before, counts states that were missed, asks again for
/// the last value where the publisher may have dropped it.
package final class FeedWatch {
  /// What was told last of a node.
  private struct Told {
    var incarnation: UInt64
    var version: UInt64
    var doubts: [InDoubtTransaction]
    var isPassing: Bool
    var summary: NodeSummary?

    init(_ change: StateChange) {
      incarnation = change.incarnation
      version = change.version
      doubts = change.doubts
      isPassing = change.isPassing
      summary = change.summary
    }

    /// Whether there is something new beside the same state.
    func differs(from change: StateChange, tellsInDoubt: Bool) -> Bool {
      if tellsInDoubt, doubts != change.doubts { return true }
      guard let other = change.summary else { return false }
      return summary != other || isPassing != change.isPassing
    }
  }

  private let socket: Socket
  private let loop: PollLoop
  private let topic: FeedTopic
  private let receive: (StateChange) -> Void
  private var registration: PollLoop.Registration?
  private let tellsInDoubt: Bool
  private var seen: [String: Told] = [:]
  private var received = 0
  /// Messages since it last found nothing more to read.
  private var backlog = 0
  private var timer: TimerQueue.ID?

  private static let readsPerTurn = 256
  private static let checkInterval: Duration = .milliseconds(500)

  /// - Parameters:
  ///   - topic: What it takes: states, or summaries.
  ///   - tellsInDoubt: Whether a state is told again whose doubts have changed.
  package init(
    feeds: [String], topic: FeedTopic = .states(areCommitted: nil), in context: Context,
    loop: PollLoop,
    tellsInDoubt: Bool = false, _ receive: @escaping (StateChange) -> Void
  ) throws(TransportError) {
    self.loop = loop
    self.topic = topic
    self.tellsInDoubt = tellsInDoubt
    self.receive = receive
    socket = try Socket(.subscriber, in: context)
    try socket.setHighWaterMark(FeedSubscriptions.room)
    try socket.subscribe(to: topic.bytes)
    for feed in feeds { try socket.connect(feed) }
    registration = loop.add(socket, for: self) { $0.read() }
    check()
  }

  /// Reads the feed of one more node, which tells its last value first.
  package func connect(to place: PeerPlace) throws(TransportError) {
    try socket.connect(to: place)
  }

  /// Reads a feed no longer; what was queued from it is gone.
  package func disconnect(_ feed: String) { socket.disconnect(feed) }

  package func close() {
    if let registration { loop.remove(registration) }
    registration = nil
    if let timer { loop.cancel(timer) }
    socket.close()
  }

  /// Asks for a node's last value once more, and takes it whatever was told before.
  package func askAgain(_ node: String) {
    seen[node] = nil
    askAgain()
  }

  private func askAgain() { try? socket.subscribe(to: topic.bytes) }

  /// Reads all that has come.
  package func drain() { while read() == Self.readsPerTurn {} }

  /// Returns how many messages there were, of as many as are read in one go.
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
      if backlog >= Self.flood { askAgain() }
      backlog = 0
    }
    return count
  }

  private func take(_ change: StateChange) {
    var change = change
    if let last = seen[change.node] {
      if change.incarnation < last.incarnation { return }
      if change.incarnation == last.incarnation {
        change.isRepeated = change.version == last.version
        if change.isRepeated {
          guard last.differs(from: change, tellsInDoubt: tellsInDoubt) else { return }
        } else {
          guard change.version > last.version else { return }
          change.missed = change.version - last.version - 1
        }
      }
    }
    seen[change.node] = Told(change)
    receive(change)
  }

  /// So many messages without a pause that a publisher may have dropped the last one.
  private static let flood = Int(FeedSubscriptions.room) / 4

  /// After a flood the last value may have been dropped at the high-water mark: it is asked for.
  private func check() {
    timer = loop.schedule(after: Self.checkInterval, for: self) { watch in
      if watch.received >= Self.flood { watch.askAgain() }
      watch.received = 0
      watch.check()
    }
  }
}

/// Reads frames of some feeds, as they come.
package final class FeedReader {
  private let socket: Socket
  private let loop: PollLoop
  private let receive: (UnsafeRawBufferPointer) -> Void
  private var registration: PollLoop.Registration?

  private static let readsPerTurn = 256

  /// - Parameter receive: Told of each frame, which is valid during the call only.
  package init(
    feeds: [String], topics: [FeedTopic], in context: Context, loop: PollLoop,
    _ receive: @escaping (UnsafeRawBufferPointer) -> Void
  ) throws(TransportError) {
    self.loop = loop
    self.receive = receive
    socket = try Socket(.subscriber, in: context)
    try socket.setHighWaterMark(FeedSubscriptions.room)
    for topic in topics { try socket.subscribe(to: topic.bytes) }
    for feed in feeds { try socket.connect(feed) }
    registration = loop.add(socket, for: self) { $0.read() }
  }

  /// Reads a feed no longer; what was queued from it is gone.
  package func disconnect(_ feed: String) { socket.disconnect(feed) }

  /// Reads a feed again, or one more.
  package func connect(to place: PeerPlace) throws(TransportError) {
    try socket.connect(to: place)
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
