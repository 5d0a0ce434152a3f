import PipeMachines

/// The contents of a journal at one moment, for display.
package struct JournalSnapshot: Codable, Sendable {
  /// A record: the state after a batch of steps.
  package struct Record: Codable, Hashable, Sendable {
    package var version: UInt64
    package var incarnation: UInt64
    /// The time of the last step of the batch. Unit: nanoseconds since 1970.
    package var time: Int64
    /// The cause of the last step of the batch.
    package var cause: String
    /// The number of steps in the batch.
    package var stepCount: UInt64
    package var state: JSONValue

    private enum CodingKeys: String, CodingKey {
      case version, incarnation, time, cause, state
      case stepCount = "steps"
    }
  }

  /// An event, with its number in the pipe.
  package struct Event: Codable, Hashable, Sendable {
    package var sequence: UInt64
    package var event: JSONValue
  }

  /// An inbound pipe.
  package struct InPipe: Codable, Hashable, Sendable {
    package var name: String
    /// The id of the sender's journal, in hexadecimal.
    package var stream: String
    /// The highest sequence number up to which the node has applied, refused or postponed all
    /// events.
    package var lastConsumedNumber: UInt64
    /// Whether the sender has stopped gracefully.
    package var senderClosed: Bool
    package var postponedCount: Int
    /// The first postponed events.
    package var postponed: [Event] = []

    private enum CodingKeys: String, CodingKey {
      case name, stream, senderClosed, postponedCount, postponed
      case lastConsumedNumber = "consumed"
    }
  }

  /// An outbound pipe.
  package struct OutPipe: Codable, Hashable, Sendable {
    package var name: String
    package var queued: UInt64
    package var acknowledged: UInt64
    /// The first unacknowledged events.
    package var unacknowledgedEvents: [Event] = []
    package var waitingCount: UInt64 { queued - min(acknowledged, queued) }

    private enum CodingKeys: String, CodingKey {
      case name, queued, acknowledged
      case unacknowledgedEvents = "waiting"
    }
  }

  /// An unfinished effect.
  package struct Effect: Codable, Hashable, Sendable {
    /// The version of the step that started the effect.
    package var version: UInt64
    package var state: JSONValue
    /// The time of the effect's start or last event. Unit: nanoseconds since 1970.
    package var time: Int64
  }

  /// The next timer of the current state to expire.
  package struct Timer: Codable, Hashable, Sendable {
    /// The version of the step that entered the state.
    package var version: UInt64
    /// The time at which the machine entered the state. Unit: nanoseconds since 1970.
    package var time: Int64
    /// The time at which the timer expires. Unit: nanoseconds since 1970.
    package var due: Int64
  }

  /// The prepared step of a synchronized event whose transaction has not ended.
  package struct Prepared: Codable, Hashable, Sendable {
    package var transaction: TransactionID
    package var composite: String
    package var event: JSONValue
  }

  /// The value of `machine` in the journal of a composite, because a composite has no machine.
  package static let compositeMachine = "composite"

  /// The key in the table `meta` for the number of refused events that were discarded instead of
  /// becoming dead letters.
  static let deadLettersLostKey = "dead_letters_lost"

  /// The key of the table `meta` for the highest request number of a forgotten client.
  static let forgottenRequestsKey = "requests_forgotten"

  /// The key in the table `meta` for the coordinator that last prepared this participant for a
  /// step.
  static let coordinatorKey = "coordinator"

  /// The key in the table `meta` that marks a journal created after a reset of the node.
  static let resetKey = "reset"

  /// The key of the table `meta` for the reason why a composite must not continue with the journal.
  static let refusedKey = "refused"

  /// The key in the table `meta` for the name of the event field that selects the instance.
  static let instanceFieldKey = "instance_field"
  static let shardKey = "shard"

  /// The prefix of the keys in the table `meta` that record how far a composite has read each
  /// node's step reports.
  static let componentKey = "component "

  package var path: String
  /// The size of the database and its write-ahead log. Unit: bytes.
  package var byteCount: Int64
  package var topology: String
  package var node: String
  package var machine: String
  package var created: String
  /// The id of the journal in hexadecimal, as in an idempotency key. The id also identifies the
  /// numbering of the events that the node sends.
  package var id: String
  /// The names of the state's fields if the state is a struct; `nil` if the state is an enum.
  package var stateFields: [String]?
  /// The last records, oldest first. The last record has the current state.
  package var records: [Record] = []
  package var ins: [InPipe] = []
  package var outs: [OutPipe] = []
  package var effects: [Effect] = []
  /// The next timer to expire; `nil` if no timer is running.
  package var timer: Timer?
  package var deadLetterCount = 0
  /// The number of refused events that were discarded because the journal had the maximum number of
  /// dead letters.
  package var lostDeadLetters: UInt64 = 0
  package var requestCount = 0
  /// The prepared step of the node, or of the first prepared instance. The transaction may already
  /// be aborted, because the journal records an abort later.
  package var prepared: Prepared?
  /// The number of instances that are prepared for a step.
  package var preparedInstanceCount = 0
  /// The number of a composite's commits that some participants have not acknowledged. The actual
  /// number may be lower, because the journal records acknowledgements later.
  package var unacknowledgedCount = 0

  /// The amounts of unfinished work in the journal. If the journal were removed, this work would be
  /// lost.
  package var pending: Pending {
    Pending(
      outboxEventCount: outs.reduce(0) { $0 + Int(clamping: $1.waitingCount) },
      postponedEventCount: ins.reduce(0) { $0 + $1.postponedCount },
      deadLetterCount: deadLetterCount,
      effectCount: effects.count,
      preparedEventCount: max(prepared == nil ? 0 : 1, preparedInstanceCount),
      unacknowledgedCount: unacknowledgedCount)
  }

  /// The amounts of unfinished work.
  package struct Pending: Hashable, Sendable {
    /// The number of events in the outbox.
    package var outboxEventCount = 0
    package var postponedEventCount = 0
    package var deadLetterCount = 0
    package var effectCount = 0
    /// The number of synchronized events that the node or its instances are prepared for.
    package var preparedEventCount = 0
    /// The number of commits that some participants have not acknowledged.
    package var unacknowledgedCount = 0

    package var isEmpty: Bool { self == Pending() }
  }
}
