import PipeMachines

/// A node's answer to the question how it would respond to its events: a body of `reply`.
package struct NodeExplanation: Codable, Hashable, Sendable {
  /// The reason why the node takes no event now, whatever its state is.
  package enum Hold: Codable, Hashable, Sendable {
    /// The node is prepared to take an event together with other nodes, or is just taking it.
    case transaction(InDoubtTransaction)
    /// The node is prepared to take an event together with other nodes, and does not know the outcome.
    case doubt(InDoubtTransaction)
    /// An asynchronous transition has not returned.
    case transition
    /// These outbound pipes are full.
    case pipes([String])
  }

  /// The state as JSON.
  package var state: JSONValue
  /// The number of the node's steps.
  package var version: UInt64
  /// The node's responses, by the names of the events.
  package var events: [String: Evaluation]
  package var hold: Hold?
  /// Whether the node has no such instance yet, so that the state is the initial state; `nil` for a
  /// node with one machine.
  package var isNew: Bool?
  /// When the instance entered the state, and why; `nil` for a node with one machine. The time is in
  /// nanoseconds since 1970.
  package var time: Int64?
  package var cause: String?

  package init(
    state: JSONValue, version: UInt64, events: [String: Evaluation] = [:], hold: Hold? = nil
  ) {
    self.state = state
    self.version = version
    self.events = events
    self.hold = hold
  }
}

/// A coordinator's answer to the same question.
package struct CoordinatorExplanation: Codable, Hashable, Sendable {
  /// A synchronized event that is in progress.
  package struct Transaction: Codable, Hashable, Sendable {
    package var transaction: TransactionID
    /// The participants. None of them takes another synchronized event before this one ends.
    package var participants: [String]

    package init(transaction: TransactionID, participants: [String]) {
      self.transaction = transaction
      self.participants = participants
    }
  }

  /// The participants that the coordinator can ask.
  package var connected: [String]
  package var transactions: [Transaction]

  package init(connected: [String], transactions: [Transaction] = []) {
    self.connected = connected
    self.transactions = transactions
  }
}

extension RequestReply {
  /// Returns a reply with an explanation as JSON.
  package static func explained(by explanation: some Encodable) -> RequestReply {
    do { return .explained(try JSONRecord.encode(explanation)) } catch {
      return .invalid("the explanation cannot be written as JSON: \(error)")
    }
  }
}

/// An event that a machine refused and its pipe recorded.
public struct DeadLetter: Codable, Hashable, Sendable {
  /// The number of the dead letter in the node, from 1.
  public var id: UInt64
  /// The pipe by which the event arrived; `request` if a client sent it.
  public var pipe: String
  /// The event's number in that pipe.
  public var sequence: UInt64
  /// The event as JSON, or as text if it could not be decoded.
  public var event: JSONValue
  /// The reason why the event was not applied.
  public var reason: String
  /// The state that refused the event, if there was one.
  public var state: JSONValue?
  /// The node's version at that time.
  public var version: UInt64
  /// The time. Unit: nanoseconds since 1970.
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
  /// The number of dead letters that a node keeps in memory. A node without a journal keeps no others.
  package static let keptInMemory = 100
  /// The number of dead letters that a node with a journal keeps there.
  package static let limit = 10_000
  /// The maximum total size of the dead letters in a journal. Unit: bytes.
  package static let byteLimit = 64 << 20

  /// The approximate size of the dead letter in the journal. Unit: bytes.
  package var byteCount: Int {
    100 + pipe.utf8.count + event.bytes.count + reason.utf8.count + (state?.bytes.count ?? 0)
  }
}
