import PipeMachines

/// What a journal holds at one moment, for people to read.
package struct JournalSnapshot: Codable, Sendable {
  /// The state after a burst of steps.
  package struct Record: Codable, Hashable, Sendable {
    package var version: UInt64
    package var incarnation: UInt64
    /// Unit: nanoseconds since 1970.
    package var time: Int64
    /// What led to the last step of the burst.
    package var cause: String
    /// Steps in the burst.
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
    /// Names the sender's numbering. Hexadecimal.
    package var stream: String
    /// The last event of which all up to it are done with, or postponed.
    package var consumed: UInt64
    /// Whether the sender has stopped in order.
    package var senderClosed: Bool
    package var postponedCount: Int
    /// The first of them.
    package var postponed: [Event] = []
  }

  /// The sending end of a pipe.
  package struct OutPipe: Codable, Hashable, Sendable {
    package var name: String
    package var queued: UInt64
    package var acknowledged: UInt64
    /// The first events that wait for their acknowledgement.
    package var waiting: [Event] = []
    package var waitingCount: UInt64 { queued - min(acknowledged, queued) }
  }

  /// An effect that has not ended.
  package struct Effect: Codable, Hashable, Sendable {
    /// The version of the step that started it.
    package var version: UInt64
    package var state: JSONValue
    /// When it started, or last gave an event. Unit: nanoseconds since 1970.
    package var time: Int64
  }

  /// A step that the node is prepared to take together with others, and that has not ended.
  package struct Prepared: Codable, Hashable, Sendable {
    package var transaction: TransactionID
    package var composite: String
    package var event: JSONValue
  }

  /// The machine that a composite's journal names.
  package static let compositeMachine = "composite"

  /// The key of the table `meta` for the count of refused events that became no dead letters.
  static let lostLettersKey = "letters_lost"

  /// The key of the table `meta` for the highest number of a request of a client that was forgotten.
  static let forgottenRequestsKey = "requests_forgotten"

  /// The key of the table `meta` for the journal of its coordinator under which a participant was last prepared.
  static let coordinatorKey = "coordinator"

  /// The key of the table `meta` that says that the node was reset before the journal was made.
  static let resetKey = "reset"

  /// The key of the table `meta` for the reason why a composite must not go on with the journal.
  static let refusedKey = "refused"

  /// What the keys of the table `meta` begin with that say how far a node of a composite has got.
  static let componentKey = "component "

  package var path: String
  /// Of the database and its log.
  package var byteCount: Int64
  package var topology: String
  package var node: String
  package var machine: String
  package var created: String
  /// Names this journal, and the numbering of what the node sends. Hexadecimal, as in an idempotency key.
  package var id: String
  /// The names of the state's fields where that is a struct; `nil` where it is an enum.
  package var stateFields: [String]?
  /// The last records, oldest first; the very last is the current state.
  package var records: [Record] = []
  package var ins: [InPipe] = []
  package var outs: [OutPipe] = []
  package var effects: [Effect] = []
  package var letterCount = 0
  /// Refused events that became no dead letters, since there were too many.
  package var lostLetters: UInt64 = 0
  package var requestCount = 0
  /// That it was aborted may be recorded later.
  package var prepared: Prepared?
  /// A composite's commits that not all participants have said to know; that they have may be recorded
  /// later.
  package var unacknowledgedCount = 0

  /// What would be gone with the journal, of what was accepted and is not done.
  package var pending: Pending {
    Pending(
      waiting: outs.reduce(0) { $0 + Int(clamping: $1.waitingCount) },
      postponed: ins.reduce(0) { $0 + $1.postponedCount }, letters: letterCount,
      effects: effects.count, prepared: prepared == nil ? 0 : 1,
      unacknowledged: unacknowledgedCount)
  }

  /// Counts of what was accepted and is not done.
  package struct Pending: Hashable, Sendable {
    /// Events in the outbox.
    package var waiting = 0
    package var postponed = 0
    package var letters = 0
    package var effects = 0
    /// Synchronized events that the node is prepared to take.
    package var prepared = 0
    /// Commits of synchronized events.
    package var unacknowledged = 0

    package var isEmpty: Bool { self == Pending() }
  }
}
