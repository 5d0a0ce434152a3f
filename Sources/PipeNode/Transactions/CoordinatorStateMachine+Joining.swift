import PipeMachines
import PipeWire

// Whether the journal is the one that this coordinator had, as its participants tell when they join.

extension CoordinatorStateMachine {
  /// The participants that the coordinator waits for after a start, before it aborts what it knows nothing of.
  package mutating func expect(_ participants: Set<String>) { joining.expected = participants }

  /// A participant says that it takes part.
  ///
  /// Where it is prepared for a transaction of an earlier process that is not recorded, it is answered when the others
  /// have joined, or have had time to: one of them may have taken what this journal lacks.
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

  /// Answers those that are prepared for what no participant has taken that runs.
  mutating func endJoining() -> [Action] {
    joining.end().reduce(into: []) { actions, waiting in
      actions += connected(
        waiting.participant, watermark: waiting.join.watermark, prepared: waiting.join.prepared)
    }
  }

  /// What a participant has recorded, and this journal lacks.
  private func mismatch(of participant: String, _ join: ParticipantJoin) -> JournalMismatch? {
    guard let id = identity.id, let history = join.history else { return nil }
    guard history.journal == id else {
      return identity.acceptsOthers ? nil : .otherJournal(participant)
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

/// By what a coordinator tells that a participant has recorded something under its journal.
struct JournalIdentity: Sendable {
  /// `nil` where the coordinator keeps none.
  let id: UInt64?
  /// Whether participants may name another one, as after a reset.
  let acceptsOthers: Bool
  /// Whether the last records may be gone, by a loss of power.
  let mayLackRecords: Bool
  /// Whether the coordinator ends, since it is not the journal that it had.
  var isRefused = false

  init(_ journal: CoordinatorJournal) {
    id = journal.id
    acceptsOthers = journal.followsReset
    mayLackRecords = journal.mayLackRecords
  }
}

/// The participants of a coordinator that has just started, while it waits for all of them.
struct JoiningParticipants: Sendable {
  var expected: Set<String> = []
  /// Those that wait for an answer, which is the end of what they are prepared for.
  private var waiting: [String: ParticipantJoin] = [:]
  private var isOver = false
  /// No transaction of this process is before this one.
  private let first: TransactionID

  init(after last: TransactionID) { first = last }

  func isWaiting(_ participant: String) -> Bool { waiting[participant] != nil }

  /// Whether a participant is prepared for what an earlier process has given.
  func mustWait(_ participant: String, _ join: ParticipantJoin, last: TransactionID) -> Bool {
    guard !isOver, let prepared = join.prepared else { return false }
    return prepared < first || prepared > last
  }

  mutating func wait(_ participant: String, _ join: ParticipantJoin) { waiting[participant] = join }

  mutating func remove(_ participant: String) { waiting[participant] = nil }

  /// Whether all have joined.
  func isComplete(_ connected: Set<String>) -> Bool {
    !isOver && expected.allSatisfy { connected.contains($0) || waiting[$0] != nil }
  }

  /// Waits for none any more.
  mutating func end() -> [(participant: String, join: ParticipantJoin)] {
    isOver = true
    defer { waiting = [:] }
    return waiting.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }
}

/// What tells a coordinator that its journal is not the one that it had.
package enum JournalMismatch: Hashable, Sendable {
  /// A participant was prepared under another journal of this coordinator, and there was no reset.
  case otherJournal(String)
  /// A participant has recorded a commit that the journal lacks.
  case lacksCommit(TransactionID, of: String)
  /// A participant is prepared for a transaction of a start that the journal lacks.
  case lacksStart(TransactionID, of: String)

  /// The reason as the node tells it.
  package var reason: String {
    switch self {
    case .otherJournal(let participant):
      "it is a new one or another one, and participant '\(participant)' has promised synchronized events under the "
        + "journal that this composite had: that was taken away, and was not reset"
    case .lacksCommit(let transaction, let participant):
      "participant '\(participant)' has taken synchronized event \(transaction), which this journal does not have: "
        + "it is an older copy"
    case .lacksStart(let transaction, let participant):
      "participant '\(participant)' has promised to take synchronized event \(transaction), of a start of this "
        + "composite which this journal does not have: it is an older copy"
    }
  }
}
