import PipeWire

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
