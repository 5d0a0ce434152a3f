import PipeMachines

/// A step of a node in the node's feed, or a count of steps that were not published.
package struct NodeStep: Codable, Hashable, Sendable {
  /// The identity of an event in a pipe, and optionally the event.
  package struct PipedEvent: Codable, Hashable, Sendable {
    package var pipe: String
    /// The id of the stream in which the event has its number. Source: docs/PROTOCOL.md.
    package var stream: UInt64
    package var number: UInt64
    /// The event, if the step has sent the event; `nil` if the step has received the event.
    package var event: JSONValue?

    package init(pipe: String, stream: UInt64, number: UInt64, event: JSONValue? = nil) {
      self.pipe = pipe
      self.stream = stream
      self.number = number
      self.event = event
    }
  }

  /// The kind of a step that enters no state.
  package enum Entry: String, Codable, Hashable, Sendable {
    /// An internal transition, or a synchronized event that the node ignores.
    case `internal`
  }

  /// The identity of a client's request.
  package struct RequestOrigin: Codable, Hashable, Sendable {
    package var client: UInt64
    package var number: UInt64

    package init(client: UInt64, number: UInt64) {
      self.client = client
      self.number = number
    }
  }

  package var node: String
  /// The name of the instance that took the step, such as `orders[4711]`; `nil` if the node has no
  /// `key`, and for skipped steps.
  package var instance: String?
  package var incarnation: UInt64
  /// The version of the node or the instance after the step. For skipped steps, the version of the
  /// node after the last skipped step.
  package var version: UInt64
  /// The index of the step in the sequence of all steps of the node's process, including skipped steps.
  package var index: UInt64
  /// The number of steps that were not published, up to this version; `nil` if this is a published
  /// step.
  package var skipped: UInt64?
  /// The time of the step. Unit: nanoseconds since 1970.
  package var time: Int64?
  package var cause: String?
  package var from: JSONValue?
  package var event: JSONValue?
  package var state: JSONValue?
  /// The kind of the step; `nil` if the node has entered a state.
  package var entry: Entry?
  /// The pipe through which the event arrived; `nil` if the event has another source.
  package var source: PipedEvent?
  /// The client's request; `nil` if the event has another source.
  package var request: RequestOrigin?
  /// The transaction of a synchronized event; `nil` for all other events.
  package var transaction: TransactionID?
  /// The version of the step that started the effect; `nil` if no effect produced the event.
  package var effect: UInt64?
  /// The events that the step has sent.
  package var sent: [PipedEvent]?
}

/// An event that a node has sent into a pipe, or a count of events that were not published. Part of
/// the node's feed.
package struct TappedEvent: Codable, Hashable, Sendable {
  package var node: String
  package var pipe: String
  /// The id of the stream in which the event has its number. Source: docs/PROTOCOL.md.
  package var stream: UInt64
  /// The event's number. For skipped events, the number of the last skipped event.
  package var number: UInt64
  /// The number of events that were not published, up to `number`; `nil` if this is a published event.
  package var skipped: UInt64?
  /// The time of the event. Unit: nanoseconds since 1970.
  package var time: Int64?
  package var event: JSONValue?
}

extension NodeStep {
  /// The name of the instance or, if the node has no `key`, of the node.
  package var name: String { instance ?? node }

  /// Decodes a `step` frame of a feed.
  package init(frame: UnsafeRawBufferPointer) throws {
    self = try FeedBody.read(.step, in: frame)
  }
}

extension TappedEvent {
  /// Decodes a `tap` frame of a feed.
  package init(frame: UnsafeRawBufferPointer) throws {
    self = try FeedBody.read(.tap, in: frame)
  }
}

private enum FeedBody {
  static func read<Body: Decodable>(
    _ kind: FrameKind, in frame: UnsafeRawBufferPointer
  ) throws -> Body {
    let header = try FrameHeader(frame)
    guard header.kind == kind else { throw FrameError.kind(header.kind.rawValue) }
    return try JSONRecord.decode(
      Body.self, from: UnsafeRawBufferPointer(rebasing: frame[FrameHeader.byteCount...]))
  }
}
