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
