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
