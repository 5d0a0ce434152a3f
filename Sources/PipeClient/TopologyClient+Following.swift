import PipeSupport
import PipeTransport
import PipeWire

/// A message of a feed that reports a step or a sent event, and not a state.
package enum FeedMessage: Sendable {
  case step(NodeStep)
  case event(TappedEvent)
}

extension TopologyClient {
  /// Follows the steps of some nodes, or of all nodes. For each node, the stream delivers at most
  /// 2,000 steps a second, with the number of omitted steps. The stream ends when the topology ends
  /// or the client is closed.
  package func steps(of nodes: [String]? = nil) async throws -> AsyncStream<FeedMessage> {
    let directory = try await directory(fresh: false)
    let chosen =
      try nodes?.map { try node($0, in: directory) }
      ?? directory.nodes.filter { $0.kind != .monitor }
    return try await messages(
      of: Set(chosen.map(\.feedName)), chosen.map { .steps(of: $0.name) }
    ) { frame in
      // Different node names may have the same topic number, so a frame may describe another node.
      (try? NodeStep(frame: frame)).flatMap { step -> FeedMessage? in
        chosen.contains { $0.name == step.node } ? .step(step) : nil
      }
    }
  }

  /// Follows the events that a node sends through the pipe `name`. The stream has the same limit as
  /// the stream of ``steps(of:)``, and ends in the same cases.
  package func tap(_ name: String) async throws -> AsyncStream<FeedMessage> {
    let directory = try await directory(fresh: false)
    guard let pipe = directory.pipes.first(where: { $0.name == name }) else {
      throw TopologyClientError.unknownPipe(name, known: directory.pipes.map(\.name))
    }
    let sender = try node(pipe.from, in: directory)
    return try await messages(of: [sender.feedName], [.tap(pipe: name)]) { frame in
      (try? TappedEvent(frame: frame)).flatMap { event -> FeedMessage? in
        event.pipe == name ? .event(event) : nil
      }
    }
  }

  /// The maximum number of messages that wait to be read. Messages are numbered, so a slow reader
  /// notices when messages were dropped.
  private static let messageBufferLimit = 8_192

  private func messages(
    of feeds: Set<String>, _ topics: [FeedTopic],
    _ read: @escaping @Sendable (UnsafeRawBufferPointer) -> FeedMessage?
  ) async throws -> AsyncStream<FeedMessage> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: FeedMessage.self, bufferingPolicy: .bufferingNewest(Self.messageBufferLimit))
    let stop = try await follow(ending: { continuation.finish() }) { sockets in
      try sockets.readFrames(Array(feeds), topics) { frame in
        if let message = read(frame) { continuation.yield(message) }
      }
    }
    continuation.onTermination = { _ in stop() }
    return stream
  }
}

/// A received frame of a feed. A reader decodes only the parts that it uses.
package struct FeedFrame: Sendable {
  /// The topic number of the node's name; see ``FeedTopic``.
  package var topic: UInt32
  package var version: UInt64
  package var incarnation: UInt64
  /// Whether the frame reports a refused or postponed event, and not a step.
  package var isRefusal: Bool
  /// The body of the frame, as JSON.
  package var json: [UInt8]
}

/// A subscription to the steps of nodes.
package struct StepSubscription: Sendable {
  /// Ends the subscription.
  package let stop: @Sendable () -> Void
  /// Pauses or resumes the subscription to one node, given the name of the node's feed. While the
  /// subscription is paused, it has no measurable cost for the node.
  package let setActive: @Sendable (_ feed: String, _ isActive: Bool) -> Void
}

extension TopologyClient {
  /// Follows the steps of nodes, and the events that the nodes refuse or postpone. Delivers the
  /// received frames.
  /// - Parameters:
  ///   - nodes: The nodes to follow. Nodes that do not exist are omitted.
  ///   - end: Called when no more frames arrive, because the topology has ended or the client is
  ///     closed.
  ///   - receive: Called for each frame on the client's own thread. The closure must not block this
  ///     thread.
  package func followSteps(
    of nodes: [NodeInformation], ending end: @escaping @Sendable () -> Void,
    _ receive: @escaping @Sendable (FeedFrame) -> Void
  ) async throws -> StepSubscription {
    let feeds = Array(Set(nodes.map(\.feedName)))
    let reader = Locked<UInt64?>(nil)
    let stop = try await follow(ending: end) { sockets in
      let id = try sockets.readFrames(feeds, [.steps(of: nil), .refusals(of: nil)]) { frame in
        guard let header = try? FrameHeader(frame), header.kind == .step || header.kind == .refusal
        else { return }
        receive(
          FeedFrame(
            topic: header.count, version: header.sequence, incarnation: header.incarnationOrSession,
            isRefusal: header.kind == .refusal, json: Array(frame[FrameHeader.byteCount...])))
      }
      reader.withLock { $0 = id }
      return id
    }
    guard let id = reader.withLock({ $0 }) else { throw TopologyClientError.closed }
    return StepSubscription(
      stop: stop,
      setActive: { [weak self] feed, isActive in
        self?.post { $0.setReading(feed, by: id, isActive) }
      })
  }
}

/// The feeds of one subscription, which a client follows together.
final class FollowedFeeds {
  enum Source {
    case watch(FeedWatch)
    case reader(FeedReader)
  }

  private let source: Source
  private let feedNames: Set<String>
  /// Whether the endpoint of a feed may change later, because the feed is on another host.
  let mayMove: Bool

  /// - Parameter names: Endpoints on this host, or names of feeds on other hosts.
  init(_ source: Source, of names: [String]) {
    self.source = source
    feedNames = Set(names)
    mayMove = names.contains(where: DeployedEndpoints.isName)
  }

  func connect(to peerEndpoint: PeerEndpoint) throws(TransportError) {
    switch source {
    case .watch(let watch): try watch.connect(to: peerEndpoint)
    case .reader(let reader): try reader.connect(to: peerEndpoint)
    }
  }

  func disconnect(_ endpoint: String) {
    switch source {
    case .watch(let watch): watch.disconnect(endpoint)
    case .reader(let reader): reader.disconnect(endpoint)
    }
  }

  /// Connects to a feed at its new endpoint, after the node's process was replaced.
  func reconnect(_ name: String, from former: String?, to peerEndpoint: PeerEndpoint) {
    guard feedNames.contains(name) else { return }
    if let former { disconnect(former) }
    // If the connection fails, the node's new process has already ended.
    try? connect(to: peerEndpoint)
  }

  func close() {
    switch source {
    case .watch(let watch): watch.close()
    case .reader(let reader): reader.close()
    }
  }
}
