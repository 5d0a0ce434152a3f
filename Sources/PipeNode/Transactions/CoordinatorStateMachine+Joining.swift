import PipeMachines
import PipeWire

// Detects that the coordinator's journal was replaced or lacks records, from the data that
// participants send when they join.

extension CoordinatorStateMachine {
  /// Sets the participants that must join after a start before the coordinator aborts transactions
  /// that it does not know.
  package mutating func expect(_ participants: Set<String>) { joining.expected = participants }

  /// Handles the join of a participant.
  ///
  /// A participant can be prepared for transactions that an earlier process has issued, and that
  /// the journal does not contain. The coordinator then answers only after the other participants
  /// have joined, or have had time to join. If one of the other participants has applied the event,
  /// the journal lacks records.
  package mutating func joined(_ participant: String, _ join: ParticipantJoin) -> [Action] {
    guard !identity.isRefused else { return [] }
    if let mismatch = mismatch(of: participant, join) {
      identity.isRefused = true
      phase = .ended
      return [.refuse(mismatch)]
    }
    if joining.mustWait(
      join, last: lastTransaction, isKnown: { [transactionsByID] in transactionsByID[$0] != nil })
    {
      joining.wait(participant, join)
      return joining.isComplete(connectedParticipants) ? endJoining() : []
    }
    let actions = connected(participant, watermark: join.watermark, prepared: join.prepared)
    return joining.isComplete(connectedParticipants) ? actions + endJoining() : actions
  }

  /// Answers the participants that wait for their join to be handled.
  /// - Precondition: None of the running participants has applied the events for which the waiting
  ///   participants are prepared.
  mutating func endJoining() -> [Action] {
    joining.end().reduce(into: []) { actions, waiting in
      actions += connected(
        waiting.participant, watermark: waiting.join.watermark, prepared: waiting.join.prepared)
    }
  }

  /// Returns the evidence that this journal lacks a record that the participant has; `nil` if there
  /// is no such evidence.
  private func mismatch(of participant: String, _ join: ParticipantJoin) -> JournalMismatch? {
    guard let id = identity.id, let history = join.history else { return nil }
    guard history.journal == id else {
      return identity.acceptsOtherJournals ? nil : .otherJournal(participant)
    }
    guard !identity.mayLackRecords else { return nil }
    let committed = history.committed
    if committed > answers.forgottenThrough, answers.caller(of: committed) == nil,
      transactionsByID[committed] == nil
    {
      return .lacksCommit(committed, of: participant)
    }
    if let prepared = join.prepared.last, prepared.epoch > epoch {
      return .lacksStart(prepared, of: participant)
    }
    return nil
  }
}

/// The identity of a coordinator's journal. The identity shows whether the records of a participant
/// belong to this journal.
struct JournalIdentity: Sendable {
  /// The id of the journal; `nil` if the coordinator has no journal.
  let id: UInt64?
  /// Whether participants may have records that belong to another journal. Only after a reset.
  let acceptsOtherJournals: Bool
  /// Whether the journal may have lost its last records in a power failure.
  let mayLackRecords: Bool
  /// Whether the coordinator has refused to continue, because its journal was replaced or lacks
  /// records.
  var isRefused = false

  init(_ journal: CoordinatorJournal) {
    id = journal.id
    acceptsOtherJournals = journal.followsReset
    mayLackRecords = journal.mayLackRecords
  }
}

/// The participants that join while a coordinator waits for all participants after its start.
struct JoiningParticipants: Sendable {
  var expected: Set<String> = []
  /// The participants whose join is not handled yet, by name. They wait for the outcomes of their
  /// prepared transactions.
  private var waitingJoinsByParticipant: [String: ParticipantJoin] = [:]
  private var hasEnded = false
  /// The coordinator's last transaction at the start of this process. Earlier processes have issued
  /// only lower transactions.
  private let lastAtStart: TransactionID

  init(after last: TransactionID) { lastAtStart = last }

  func isWaiting(_ participant: String) -> Bool { waitingJoinsByParticipant[participant] != nil }

  /// Returns whether a participant is prepared for a transaction that this process has not issued
  /// and does not know.
  func mustWait(
    _ join: ParticipantJoin, last: TransactionID, isKnown: (TransactionID) -> Bool
  ) -> Bool {
    !hasEnded && join.prepared.contains { ($0 < lastAtStart || $0 > last) && !isKnown($0) }
  }

  mutating func wait(_ participant: String, _ join: ParticipantJoin) {
    waitingJoinsByParticipant[participant] = join
  }

  mutating func remove(_ participant: String) { waitingJoinsByParticipant[participant] = nil }

  /// Returns whether all expected participants have joined.
  /// - Parameter connected: The participants whose join was handled.
  func isComplete(_ connected: Set<String>) -> Bool {
    !hasEnded
      && expected.allSatisfy { connected.contains($0) || waitingJoinsByParticipant[$0] != nil }
  }

  /// Stops waiting. Returns the participants whose join must be handled now.
  mutating func end() -> [(participant: String, join: ParticipantJoin)] {
    hasEnded = true
    defer { waitingJoinsByParticipant = [:] }
    return waitingJoinsByParticipant.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }
}

/// The evidence that a coordinator's journal was replaced or lacks records.
package enum JournalMismatch: Hashable, Sendable {
  /// A participant was prepared under another journal of this coordinator, and there was no reset.
  case otherJournal(String)
  /// A participant has recorded a commit that the journal lacks.
  case lacksCommit(TransactionID, of: String)
  /// A participant is prepared for a transaction whose epoch this journal lacks.
  case lacksStart(TransactionID, of: String)

  /// The text of the evidence, for the log and for the node's failure reason.
  package var reason: String {
    switch self {
    case .otherJournal(let participant):
      "the journal was replaced: participant '\(participant)' has promised synchronized events "
        + "under the former journal of this composite, which was removed without a reset"
    case .lacksCommit(let transaction, let participant):
      "the journal is an older copy: it lacks synchronized event \(transaction), which participant "
        + "'\(participant)' has taken"
    case .lacksStart(let transaction, let participant):
      "the journal is an older copy: it lacks the epoch of synchronized event \(transaction), "
        + "which participant '\(participant)' has promised to take"
    }
  }
}
