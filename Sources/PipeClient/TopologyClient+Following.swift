import PipeSupport
import PipeTransport
import PipeWire

/// A message of a feed about steps or sent events, beside the states.
package enum FeedMessage: Sendable {
  case step(NodeStep)
  case event(TappedEvent)
}

extension TopologyClient {
  /// Follows the steps of some nodes, or of all. Delivers at most 2,000 steps a second of each
  /// node, and the number of the others. The stream ends when the topology goes down or the client closes.
  package func steps(of nodes: [String]? = nil) async throws -> AsyncStream<FeedMessage> {
    let directory = try await directory(fresh: false)
    let chosen =
      try nodes?.map { try node($0, in: directory) }
      ?? directory.nodes.filter { $0.kind != .monitor }
    return try await messages(
      of: Set(chosen.map(\.feedName)), chosen.map { .steps(of: $0.name) }
    ) { frame in
      // Two names may have the same topic number.
      (try? NodeStep(frame: frame)).flatMap { step -> FeedMessage? in
        chosen.contains { $0.name == step.node } ? .step(step) : nil
      }
    }
  }

  /// Follows the events that go into a pipe, in the same way.
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

  /// The maximum number of messages that wait for their reader. A reader that misses some detects
  /// that by their numbers. Unit: messages.
  private static let messageBufferLimit = 8_192

  private func messages(
    of feeds: Set<String>, _ topics: [FeedTopic],
    _ read: @escaping @Sendable (UnsafeRawBufferPointer) -> FeedMessage?
  ) async throws -> AsyncStream<FeedMessage> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: FeedMessage.self, bufferingPolicy: .bufferingNewest(Self.messageBufferLimit))
    let stop = try await follow(ending: { continuation.finish() }) { sockets in
      try sockets.read(Array(feeds), topics) { frame in
        if let message = read(frame) { continuation.yield(message) }
      }
    }
    continuation.onTermination = { _ in stop() }
    return stream
  }
}

/// A received frame of a feed. A reader need not decode the parts that it does not use.
package struct FeedFrame: Sendable {
  /// The number of the node's name; see ``FeedTopic``.
  package var topic: UInt32
  package var version: UInt64
  package var incarnation: UInt64
  /// Whether the frame reports a refused or postponed event instead of a step.
  package var isRefusal: Bool
  /// The body.
  package var json: [UInt8]
}

/// A subscription to the steps of nodes.
package struct StepSubscription: Sendable {
  /// Ends the subscription.
  package let stop: @Sendable () -> Void
  /// Stops or resumes the steps of a node, by its feed's name. A stopped subscription has no
  /// measurable cost for the node.
  package let setActive: @Sendable (_ feed: String, _ isActive: Bool) -> Void
}

extension TopologyClient {
  /// Follows the steps of nodes, and the events that they refuse, as received frames.
  /// - Parameters:
  ///   - nodes: The nodes to follow. Nodes that are not there are left out.
  ///   - end: Called when no more frames come: the topology has gone down, or the client is closed.
  ///   - receive: Called for each frame on the client's own thread, which it must not block.
  package func followSteps(
    of nodes: [NodeInformation], ending end: @escaping @Sendable () -> Void,
    _ receive: @escaping @Sendable (FeedFrame) -> Void
  ) async throws -> StepSubscription {
    let feeds = Array(Set(nodes.map(\.feedName)))
    let reader = Locked<UInt64?>(nil)
    let stop = try await follow(ending: end) { sockets in
      let id = try sockets.read(feeds, [.steps(of: nil), .refusals(of: nil)]) { frame in
        guard let header = try? FrameHeader(frame), header.kind == .step || header.kind == .refusal
        else { return }
        receive(
          FeedFrame(
            topic: header.count, version: header.sequence, incarnation: header.number,
            isRefusal: header.kind == .refusal, json: Array(frame[FrameHeader.byteCount...])))
      }
      reader.withLock { $0 = id }
      return id
    }
    guard let id = reader.withLock({ $0 }) else { throw TopologyClientError.closed }
    return StepSubscription(
      stop: stop,
      setActive: { [weak self] feed, isActive in self?.post { $0.read(feed, by: id, isActive) } })
  }
}

/// Feeds that a client follows together.
final class FollowedFeeds {
  enum Source {
    case watch(FeedWatch)
    case reader(FeedReader)
  }

  private let source: Source
  private let names: Set<String>
  /// Whether a feed may move to another endpoint later.
  let mayMove: Bool

  /// - Parameter names: Endpoints on this host, or names of feeds on other hosts.
  init(_ source: Source, of names: [String]) {
    self.source = source
    self.names = Set(names)
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

  /// Reads a feed at its new place, after the node has got another process.
  func move(_ name: String, from former: String?, to peerEndpoint: PeerEndpoint) {
    guard names.contains(name) else { return }
    if let former { disconnect(former) }
    // A feed that cannot be connected to is gone again.
    try? connect(to: peerEndpoint)
  }

  func close() {
    switch source {
    case .watch(let watch): watch.close()
    case .reader(let reader): reader.close()
    }
  }
}
