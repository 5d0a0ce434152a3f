import PipeMachines

/// The body of `reply` to `explain`: how a node would now respond to each of its events.
package struct NodeExplanation: Codable, Hashable, Sendable {
  /// A reason why the node accepts no event now, whatever its state.
  package enum Hold: Codable, Hashable, Sendable {
    /// The node takes part in a synchronized event that is in progress.
    case transaction(InDoubtTransaction)
    /// The node is in doubt: it is prepared for a synchronized event and does not know the outcome.
    case doubt(InDoubtTransaction)
    /// An asynchronous transition of the node is running.
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
  /// The timer that is due first in the state; `nil` if no timer is running.
  package var timer: RunningTimer?
  /// Whether the instance does not exist yet, so that `state` is the initial state; `nil` for a
  /// node with one machine.
  package var isNew: Bool?
  /// The time at which the instance entered the state; `nil` for a node with one machine. Unit:
  /// nanoseconds since 1970. `cause` contains the cause of the entry.
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

/// A coordinator's answer to `explain`: the reasons why a synchronized event may have to wait.
package struct CoordinatorExplanation: Codable, Hashable, Sendable {
  /// A synchronized event that is in progress.
  package struct Transaction: Codable, Hashable, Sendable {
    package var transaction: TransactionID
    /// The participants, which accept no other synchronized event before this transaction ends.
    package var participants: [String]

    package init(transaction: TransactionID, participants: [String]) {
      self.transaction = transaction
      self.participants = participants
    }
  }

  /// The participants that are connected to the coordinator.
  package var connected: [String]
  package var transactions: [Transaction]

  package init(connected: [String], transactions: [Transaction] = []) {
    self.connected = connected
    self.transactions = transactions
  }
}

extension RequestReply {
  /// Returns a reply that contains the explanation as JSON.
  package static func explained(by explanation: some Encodable) -> RequestReply {
    do { return .explained(try JSONRecord.encode(explanation)) } catch {
      return .invalid("the explanation cannot be written as JSON: \(error)")
    }
  }
}

/// A dead letter: a refused event that the node has stored, with the reason.
public struct DeadLetter: Codable, Hashable, Sendable {
  /// The number of the dead letter. Each node counts its dead letters from 1.
  public var id: UInt64
  /// The pipe by which the event arrived; `request` if a client sent the event.
  public var pipe: String
  /// The event's number in the pipe.
  public var sequence: UInt64
  /// The event as JSON, or as text if it could not be decoded.
  public var event: JSONValue
  /// The reason why the event was not applied.
  public var reason: String
  /// The state that refused the event; `nil` if the event was not refused in a state.
  public var state: JSONValue?
  /// The node's version when the event became a dead letter.
  public var version: UInt64
  /// The time at which the event became a dead letter. Unit: nanoseconds since 1970.
  public var time: Int64
  /// The schema version of the event; `nil` for schema version 1, and 0 if the event was never an
  /// event of the machine.
  public var schema: Int?

  package init(
    id: UInt64, pipe: String, sequence: UInt64, event: JSONValue, reason: String,
    state: JSONValue? = nil, version: UInt64, time: Int64, schema: Int = 1
  ) {
    self.schema = schema == 1 ? nil : schema
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
  /// Returns the reason to refuse a request for a dead letter that does not exist.
  package static func unknownMessage(id: UInt64) -> String { "no such dead letter \(id)" }

  /// The maximum number of dead letters that a node keeps in memory. A node without a journal keeps
  /// only these.
  package static let maximumInMemoryCount = 100

  /// The approximate size of the dead letter in the journal. Unit: bytes.
  package var byteCount: Int {
    100 + pipe.utf8.count + event.bytes.count + reason.utf8.count + (state?.bytes.count ?? 0)
  }
}
