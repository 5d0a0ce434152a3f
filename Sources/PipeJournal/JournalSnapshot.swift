import PipeMachines

/// The contents of a journal at one moment, for people to read.
package struct JournalSnapshot: Codable, Sendable {
  /// The state after a burst of steps.
  package struct Record: Codable, Hashable, Sendable {
    package var version: UInt64
    package var incarnation: UInt64
    /// The time of the last step of the burst. Unit: nanoseconds since 1970.
    package var time: Int64
    /// The cause of the last step of the burst.
    package var cause: String
    /// The number of steps in the burst.
    package var steps: UInt64
    package var state: JSONValue
  }

  /// An event and its number in its pipe.
  package struct Event: Codable, Hashable, Sendable {
    package var sequence: UInt64
    package var event: JSONValue
  }

  /// The receiving end of a pipe.
  package struct InPipe: Codable, Hashable, Sendable {
    package var name: String
    /// Identifies the sender's numbering. Hexadecimal.
    package var stream: String
    /// The last event up to which all events are applied, refused for good or postponed.
    package var consumed: UInt64
    /// Whether the sender has stopped gracefully.
    package var senderClosed: Bool
    package var postponedCount: Int
    /// The first postponed events.
    package var postponed: [Event] = []
  }

  /// The sending end of a pipe.
  package struct OutPipe: Codable, Hashable, Sendable {
    package var name: String
    package var queued: UInt64
    package var acknowledged: UInt64
    /// The first unacknowledged events.
    package var waiting: [Event] = []
    package var waitingCount: UInt64 { queued - min(acknowledged, queued) }
  }

  /// An effect that has not ended.
  package struct Effect: Codable, Hashable, Sendable {
    /// The version of the step that started the effect.
    package var version: UInt64
    package var state: JSONValue
    /// The time when the effect started, or last emitted an event. Unit: nanoseconds since 1970.
    package var time: Int64
  }

  /// A step that the node is prepared to take together with others, and whose transaction has not
  /// ended.
  package struct Prepared: Codable, Hashable, Sendable {
    package var transaction: TransactionID
    package var composite: String
    package var event: JSONValue
  }

  /// The name in a composite's journal in place of a machine's name.
  package static let compositeMachine = "composite"

  /// The key of the table `meta` for the number of refused events that were lost without a dead letter.
  static let deadLettersLostKey = "dead_letters_lost"

  /// The key of the table `meta` for the highest request number of a forgotten client.
  static let forgottenRequestsKey = "requests_forgotten"

  /// The key of the table `meta` for the coordinator's journal under which a participant was last
  /// prepared.
  static let coordinatorKey = "coordinator"

  /// The key of the table `meta` that notes that the node was reset before the journal was created.
  static let resetKey = "reset"

  /// The key of the table `meta` for the reason why a composite must not continue with the journal.
  static let refusedKey = "refused"

  /// The key of the table `meta` for the field that is the key of the instances.
  static let instanceFieldKey = "instance_field"

  /// The prefix of the keys in the table `meta` that hold the progress of a composite's nodes.
  static let componentKey = "component "

  package var path: String
  /// The size of the database and its write-ahead log. Unit: bytes.
  package var byteCount: Int64
  package var topology: String
  package var node: String
  package var machine: String
  package var created: String
  /// Identifies this journal, and the numbering of the events that the node sends. Hexadecimal, as
  /// in an idempotency key.
  package var id: String
  /// The names of the fields of a state that is a struct; `nil` for an enum.
  package var stateFields: [String]?
  /// The last records, oldest first. The last record has the current state.
  package var records: [Record] = []
  package var ins: [InPipe] = []
  package var outs: [OutPipe] = []
  package var effects: [Effect] = []
  package var deadLetterCount = 0
  /// The number of refused events that were lost, since there were too many dead letters.
  package var lostDeadLetters: UInt64 = 0
  package var requestCount = 0
  /// The step that the node is prepared for. Its abort may be recorded later.
  package var prepared: Prepared?
  /// The number of a composite's commits that not all participants have acknowledged.
  /// Acknowledgements may be recorded later.
  package var unacknowledgedCount = 0

  /// The accepted work that is not done, and that would be lost with the journal.
  package var pending: Pending {
    Pending(
      waiting: outs.reduce(0) { $0 + Int(clamping: $1.waitingCount) },
      postponed: ins.reduce(0) { $0 + $1.postponedCount }, deadLetters: deadLetterCount,
      effects: effects.count, prepared: prepared == nil ? 0 : 1,
      unacknowledged: unacknowledgedCount)
  }

  /// The amounts of accepted work that is not done.
  package struct Pending: Hashable, Sendable {
    /// Events in the outbox.
    package var waiting = 0
    package var postponed = 0
    package var deadLetters = 0
    package var effects = 0
    /// Synchronized events that the node is prepared to take.
    package var prepared = 0
    /// Commits of synchronized events.
    package var unacknowledged = 0

    package var isEmpty: Bool { self == Pending() }
  }
}
