import PipeMachines

/// One event that a pipe has brought, or bytes that are none.
package struct PipeEvent<Event> {
  package enum Content {
    case event(Event)
    /// Why it is none, and the bytes: as JSON, or as text where they are not JSON either.
    case undecodable(String, JSONValue)
  }

  package let sequence: UInt64
  /// The numbering that it came in; its sender may have begun another one since.
  package let stream: UInt64
  package let content: Content
  /// Its number among the events that were postponed, where it was.
  package var postponement: Int64?

  package init(
    _ content: consuming Content, sequence: UInt64, stream: UInt64, postponement: Int64? = nil
  ) {
    self.sequence = sequence
    self.stream = stream
    self.content = content
    self.postponement = postponement
  }
}

extension PipeEvent.Content where Event: Codable & Sendable {
  /// What is in the bytes.
  init(_ bytes: UnsafeRawBufferPointer, readBy codec: EventCodec<Event>) {
    do {
      self = .event(try codec.decode(bytes))
    } catch {
      self = .undecodable("\(error)", JSONValue(shown: Array(bytes)))
    }
  }
}
