import PipeMachines

/// An event that a machine refused and its pipe recorded.
public struct DeadLetter: Codable, Hashable, Sendable {
  /// Its number in the node, from 1 on.
  public var id: UInt64
  /// The pipe it came by; `request` where a client sent it.
  public var pipe: String
  /// Its number in that pipe.
  public var sequence: UInt64
  /// The event as JSON, or as text where it did not decode.
  public var event: JSONValue
  /// Why it was not applied.
  public var reason: String
  /// The state that refused it, where there was one.
  public var state: JSONValue?
  /// The node's version then.
  public var version: UInt64
  /// Unit: nanoseconds since 1970.
  public var time: Int64

  package init(
    id: UInt64, pipe: String, sequence: UInt64, event: JSONValue, reason: String,
    state: JSONValue? = nil, version: UInt64, time: Int64
  ) {
    self.id = id
    self.pipe = pipe
    self.sequence = sequence
    self.event = event
    self.reason = reason
    self.state = state
    self.version = version
    self.time = time
  }
}

extension DeadLetter {
  /// How many a node keeps in memory; one without a journal has no others. Unit: letters.
  package static let keptInMemory = 100
  /// How many a node with a journal keeps there. Unit: letters.
  package static let limit = 10_000
  /// What those may take together. Unit: bytes.
  package static let byteLimit = 64 << 20

  /// What it takes in the journal, about.
  package var byteCount: Int {
    100 + pipe.utf8.count + event.bytes.count + reason.utf8.count + (state?.bytes.count ?? 0)
  }
}
