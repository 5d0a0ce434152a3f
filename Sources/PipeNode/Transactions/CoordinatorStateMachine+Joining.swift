import PipeMachines
import PipeWire

// The check whether the journal is the one that this coordinator had, by what its participants
// report when they join.

extension CoordinatorStateMachine {
  /// Sets the participants that the coordinator waits for after a start, before it aborts
  /// transactions that it does not know.
  package mutating func expect(_ participants: Set<String>) { joining.expected = participants }

  /// Handles the join of a participant.
  ///
  /// If the participant is prepared for a transaction of an earlier process that is not recorded,
  /// it is answered when the other participants have joined, or have had time to. One of them may
  /// have taken what this journal lacks.
  package mutating func joined(_ participant: String, _ join: ParticipantJoin) -> [Action] {
    guard !identity.isRefused else { return [] }
    if let mismatch = mismatch(of: participant, join) {
      identity.isRefused = true
      phase = .ended
      return [.refuse(mismatch)]
    }
    if let prepared = join.prepared, transactions[prepared] == nil,
      joining.mustWait(participant, join, last: last)
    {
      joining.wait(participant, join)
      return joining.isComplete(connectedParticipants) ? endJoining() : []
    }
    let actions = connected(participant, watermark: join.watermark, prepared: join.prepared)
    return joining.isComplete(connectedParticipants) ? actions + endJoining() : actions
  }

  /// Answers the participants that wait: no running participant has taken their prepared
  /// transactions.
  mutating func endJoining() -> [Action] {
    joining.end().reduce(into: []) { actions, waiting in
      actions += connected(
        waiting.participant, watermark: waiting.join.watermark, prepared: waiting.join.prepared)
    }
  }

  /// Returns what the participant has recorded and this journal lacks.
  private func mismatch(of participant: String, _ join: ParticipantJoin) -> JournalMismatch? {
    guard let id = identity.id, let history = join.history else { return nil }
    guard history.journal == id else {
      return identity.acceptsOtherJournals ? nil : .otherJournal(participant)
    }
    guard !identity.mayLackRecords else { return nil }
    let committed = history.committed
    if committed > answers.forgottenThrough, answers.caller(of: committed) == nil,
      transactions[committed] == nil
    {
      return .lacksCommit(committed, of: participant)
    }
    if let prepared = join.prepared, prepared.epoch > epoch {
      return .lacksStart(prepared, of: participant)
    }
    return nil
  }
}

/// The identity of a coordinator's journal. It shows whether a participant's records were made
/// under this journal.
struct JournalIdentity: Sendable {
  /// The id of the journal; `nil` if the coordinator keeps none.
  let id: UInt64?
  /// Whether participants may name another journal, as after a reset.
  let acceptsOtherJournals: Bool
  /// Whether the last records may be lost, after a power failure.
  let mayLackRecords: Bool
  /// Whether the coordinator ends, since the journal is not the one that it had.
  var isRefused = false

  init(_ journal: CoordinatorJournal) {
    id = journal.id
    acceptsOtherJournals = journal.followsReset
    mayLackRecords = journal.mayLackRecords
  }
}

/// The participants of a coordinator that has just started, while it waits for all of them.
struct JoiningParticipants: Sendable {
  var expected: Set<String> = []
  /// The participants that wait for an answer: the outcome of their prepared transaction.
  private var waiting: [String: ParticipantJoin] = [:]
  private var hasEnded = false
  /// No transaction of this process is before this one.
  private let first: TransactionID

  init(after last: TransactionID) { first = last }

  func isWaiting(_ participant: String) -> Bool { waiting[participant] != nil }

  /// Whether a participant is prepared for a transaction that an earlier process issued.
  func mustWait(_ participant: String, _ join: ParticipantJoin, last: TransactionID) -> Bool {
    guard !hasEnded, let prepared = join.prepared else { return false }
    return prepared < first || prepared > last
  }

  mutating func wait(_ participant: String, _ join: ParticipantJoin) { waiting[participant] = join }

  mutating func remove(_ participant: String) { waiting[participant] = nil }

  /// Whether all expected participants have joined.
  func isComplete(_ connected: Set<String>) -> Bool {
    !hasEnded && expected.allSatisfy { connected.contains($0) || waiting[$0] != nil }
  }

  /// Stops waiting. Returns the participants that still wait for an answer.
  mutating func end() -> [(participant: String, join: ParticipantJoin)] {
    hasEnded = true
    defer { waiting = [:] }
    return waiting.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }
}

/// The evidence that a coordinator's journal is not the one that it had.
package enum JournalMismatch: Hashable, Sendable {
  /// A participant was prepared under another journal of this coordinator, and there was no reset.
  case otherJournal(String)
  /// A participant has recorded a commit that the journal lacks.
  case lacksCommit(TransactionID, of: String)
  /// A participant is prepared for a transaction of a start that the journal lacks.
  case lacksStart(TransactionID, of: String)

  /// The reason, for the log and the node's failure.
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
