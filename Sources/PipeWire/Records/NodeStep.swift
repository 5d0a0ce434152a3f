import PipeMachines

/// A step of a node, as its feed tells it; or how many were not told.
package struct NodeStep: Codable, Hashable, Sendable {
  /// An event of a pipe.
  package struct Piped: Codable, Hashable, Sendable {
    package var pipe: String
    /// The numbering that its number is of.
    package var stream: UInt64
    package var number: UInt64
    /// Of an event that the step has sent.
    package var event: JSONValue?

    package init(pipe: String, stream: UInt64, number: UInt64, event: JSONValue? = nil) {
      self.pipe = pipe
      self.stream = stream
      self.number = number
      self.event = event
    }
  }

  /// An event that a client has sent.
  package struct Requested: Codable, Hashable, Sendable {
    package var client: UInt64
    package var number: UInt64

    package init(client: UInt64, number: UInt64) {
      self.client = client
      self.number = number
    }
  }

  package var node: String
  package var incarnation: UInt64
  /// The version that it has led to; where steps were skipped, that of the last one.
  package var version: UInt64
  /// Its place among the steps of the node's process, those that were skipped included.
  package var place: UInt64
  /// Set where this tells of no step, but of so many that were not told, up to this version.
  package var skipped: UInt64?
  /// Unit: nanoseconds since 1970.
  package var time: Int64?
  package var cause: String?
  package var from: JSONValue?
  package var event: JSONValue?
  package var state: JSONValue?
  /// Where the event came from, if from a pipe.
  package var source: Piped?
  /// The same, if a client has sent it.
  package var request: Requested?
  /// The same, if it was taken together with others.
  package var transaction: TransactionID?
  /// The same, if an effect has given it: the version of the step that started the effect.
  package var effect: UInt64?
  /// What the step has sent.
  package var sent: [Piped]?
}

/// An event that a node has sent into a pipe, as its feed tells it; or how many were not told.
package struct TappedEvent: Codable, Hashable, Sendable {
  package var node: String
  package var pipe: String
  /// The numbering that the number is of.
  package var stream: UInt64
  /// Its number; where events were skipped, that of the last one.
  package var number: UInt64
  /// Set where this tells of no event, but of so many that were not told, up to this number.
  package var skipped: UInt64?
  /// Unit: nanoseconds since 1970.
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
