import PipeMachines

/// A step of a node as its feed publishes it, or a number of steps that were not published.
package struct NodeStep: Codable, Hashable, Sendable {
  /// An event of a pipe.
  package struct PipedEvent: Codable, Hashable, Sendable {
    package var pipe: String
    /// The stream that numbers the event.
    package var stream: UInt64
    package var number: UInt64
    /// The event, if the step has sent it.
    package var event: JSONValue?

    package init(pipe: String, stream: UInt64, number: UInt64, event: JSONValue? = nil) {
      self.pipe = pipe
      self.stream = stream
      self.number = number
      self.event = event
    }
  }

  /// An event that a client has sent.
  package struct RequestOrigin: Codable, Hashable, Sendable {
    package var client: UInt64
    package var number: UInt64

    package init(client: UInt64, number: UInt64) {
      self.client = client
      self.number = number
    }
  }

  package var node: String
  package var incarnation: UInt64
  /// The version after the step; for skipped steps, the version after the last one.
  package var version: UInt64
  /// The index of the step among the steps of the node's process, including skipped steps.
  package var index: UInt64
  /// The number of steps, up to this version, that were not published; `nil` if this is a step.
  package var skipped: UInt64?
  /// The time of the step. Unit: nanoseconds since 1970.
  package var time: Int64?
  package var cause: String?
  package var from: JSONValue?
  package var event: JSONValue?
  package var state: JSONValue?
  /// The source of the event, if it came from a pipe.
  package var source: PipedEvent?
  /// The source of the event, if a client sent it.
  package var request: RequestOrigin?
  /// The transaction, if the node took the event together with other nodes.
  package var transaction: TransactionID?
  /// The version of the step that started the effect, if an effect gave the event.
  package var effect: UInt64?
  /// The events that the step has sent.
  package var sent: [PipedEvent]?
}

/// An event that a node has sent into a pipe, as its feed publishes it, or a number of events that
/// were not published.
package struct TappedEvent: Codable, Hashable, Sendable {
  package var node: String
  package var pipe: String
  /// The stream that numbers the event.
  package var stream: UInt64
  /// The event's number; for skipped events, the number of the last one.
  package var number: UInt64
  /// The number of events, up to this number, that were not published; `nil` if this is an event.
  package var skipped: UInt64?
  /// The time of the event. Unit: nanoseconds since 1970.
  package var time: Int64?
  package var event: JSONValue?
}

extension NodeStep {
  /// Reads a frame of a feed.
  package init(frame: UnsafeRawBufferPointer) throws {
    self = try FeedBody.read(.step, in: frame)
  }
}

extension TappedEvent {
  /// Reads a frame of a feed.
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
