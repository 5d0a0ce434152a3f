import PipeSupport
import PipeWire

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
