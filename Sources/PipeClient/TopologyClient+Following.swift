import PipeSupport
import PipeTransport
import PipeWire

/// What is told of nodes beside their states.
package enum FeedMessage: Sendable {
  case step(NodeStep)
  case event(TappedEvent)
}

extension TopologyClient {
  /// The steps of some nodes, or of all, from now on: at most 2,000 a second of each, and of the others their
  /// number. It ends when the topology goes down or the client closes.
  package func steps(of nodes: [String]? = nil) async throws -> AsyncStream<FeedMessage> {
    let directory = try await directory(fresh: false)
    let chosen =
      try nodes?.map { try node($0, in: directory) }
      ?? directory.nodes.filter { $0.kind != .monitor }
    return try await messages(
      of: Set(chosen.map(\.feedName)), chosen.map { .steps(of: $0.name) }
    ) { frame in
      // Two names may have the same topic.
      (try? NodeStep(frame: frame)).flatMap { step -> FeedMessage? in
        chosen.contains { $0.name == step.node } ? .step(step) : nil
      }
    }
  }

  /// The events that go into a pipe, from now on, in the same way.
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

  /// Messages that may wait for who reads them; who misses some sees that by their numbers. Unit: messages.
  private static let messagesKept = 8_192

  private func messages(
    of feeds: Set<String>, _ topics: [FeedTopic],
    _ read: @escaping @Sendable (UnsafeRawBufferPointer) -> FeedMessage?
  ) async throws -> AsyncStream<FeedMessage> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: FeedMessage.self, bufferingPolicy: .bufferingNewest(Self.messagesKept))
    let stop = try await follow(ending: { continuation.finish() }) { sockets in
      try sockets.read(Array(feeds), topics) { frame in
        if let message = read(frame) { continuation.yield(message) }
      }
    }
    continuation.onTermination = { _ in stop() }
    return stream
  }
}

/// A frame of a feed as it came: who has no use for its parts needs not read it.
package struct FeedFrame: Sendable {
  /// The number of the node's name; see ``FeedTopic``.
  package var topic: UInt32
  package var version: UInt64
  package var incarnation: UInt64
  /// Whether it reports an event that was refused or postponed, and no step.
  package var isRefusal: Bool
  /// The body.
  package var json: [UInt8]
}

/// What follows the steps of nodes.
package struct StepFollowing: Sendable {
  /// Ends it.
  package let stop: @Sendable () -> Void
  /// Lets a node tell no steps any more, by its feed's name, or again: one that nobody asks does not feel it.
  package let ask: @Sendable (_ feed: String, _ isAsked: Bool) -> Void
}

extension TopologyClient {
  /// The steps of nodes, and the events that they refuse, from now on, as they came.
  /// - Parameters:
  ///   - nodes: Of these; those that are not there are left out.
  ///   - end: Called when no more comes: the topology has gone down, or the client is closed.
  ///   - receive: Called for each on the client's own thread, which it must not block.
  package func followSteps(
    of nodes: [NodeInformation], ending end: @escaping @Sendable () -> Void,
    _ receive: @escaping @Sendable (FeedFrame) -> Void
  ) async throws -> StepFollowing {
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
    return StepFollowing(
      stop: stop,
      ask: { [weak self] feed, isAsked in self?.post { $0.read(feed, by: id, isAsked) } })
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
  /// Whether any of them may be elsewhere later.
  let isMoving: Bool

  /// - Parameter names: Endpoints on this host, or what feeds on others are known by.
  init(_ source: Source, of names: [String]) {
    self.source = source
    self.names = Set(names)
    isMoving = names.contains(where: DeployedPlaces.isName)
  }

  func connect(to place: PeerPlace) throws(TransportError) {
    switch source {
    case .watch(let watch): try watch.connect(to: place)
    case .reader(let reader): try reader.connect(to: place)
    }
  }

  func disconnect(_ endpoint: String) {
    switch source {
    case .watch(let watch): watch.disconnect(endpoint)
    case .reader(let reader): reader.disconnect(endpoint)
    }
  }

  /// Another process of a node tells its states elsewhere.
  func move(_ name: String, from former: String?, to place: PeerPlace) {
    guard names.contains(name) else { return }
    if let former { disconnect(former) }
    // One that cannot be connected to is gone again.
    try? connect(to: place)
  }

  func close() {
    switch source {
    case .watch(let watch): watch.close()
    case .reader(let reader): reader.close()
    }
  }
}
