import PipeMachines

/// What a node answers when it is asked what it would say to its events: a body of `reply`.
package struct NodeExplanation: Codable, Hashable, Sendable {
  /// Why the node takes no event now, whatever its state is.
  package enum Hold: Codable, Hashable, Sendable {
    /// It is prepared to take an event together with others, or is just taking it.
    case transaction(InDoubtTransaction)
    /// It is prepared for that, and is not told the end.
    case doubt(InDoubtTransaction)
    /// An asynchronous transition has not returned.
    case transition
    /// These pipes that lead from it are full.
    case pipes([String])
  }

  /// The state as JSON.
  package var state: JSONValue
  /// The count of its steps.
  package var version: UInt64
  /// What it would say, by the names of the events.
  package var events: [String: Evaluation]
  package var hold: Hold?

  package init(
    state: JSONValue, version: UInt64, events: [String: Evaluation] = [:], hold: Hold? = nil
  ) {
    self.state = state
    self.version = version
    self.events = events
    self.hold = hold
  }
}

/// What a coordinator answers when it is asked so.
package struct CoordinatorExplanation: Codable, Hashable, Sendable {
  /// A synchronized event that is under way.
  package struct Transaction: Codable, Hashable, Sendable {
    package var transaction: TransactionID
    /// Who takes part: none of them takes another synchronized event before its end.
    package var participants: [String]

    package init(transaction: TransactionID, participants: [String]) {
      self.transaction = transaction
      self.participants = participants
    }
  }

  /// The participants that it can ask.
  package var connected: [String]
  package var transactions: [Transaction]

  package init(connected: [String], transactions: [Transaction] = []) {
    self.connected = connected
    self.transactions = transactions
  }
}

extension RequestReply {
  /// An explanation as it travels.
  package static func explained(by explanation: some Encodable) -> RequestReply {
    do { return .explained(try JSONRecord.encode(explanation)) } catch {
      return .invalid("what it would say cannot be written as JSON: \(error)")
    }
  }
}

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
