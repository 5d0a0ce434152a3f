import PipeMachines

/// A step that a participant is ready to take.
package struct PreparedStep: Hashable, Sendable {
  package var transaction: TransactionID
  package var event: [UInt8]
  package var move: ParticipantMove

  package init(transaction: TransactionID, event: [UInt8], move: ParticipantMove) {
    self.transaction = transaction
    self.event = event
    self.move = move
  }
}

/// The journal of its coordinator under which a participant was last prepared.
package struct KnownCoordinator: Hashable, Sendable {
  /// The coordinator's name.
  package var name: String
  /// The id of its journal.
  package var journal: UInt64
  /// The last transaction that the participant had taken before; it may be of another coordinator.
  package var since: TransactionID

  package init(name: String, journal: UInt64, since: TransactionID) {
    self.name = name
    self.journal = journal
    self.since = since
  }
}

/// A transaction that is committed.
package struct CommitRecord: Hashable, Sendable {
  package var transaction: TransactionID
  package var request: RequestID
  /// What each participant is prepared for.
  package var moves: [String: ParticipantMove]

  package init(
    transaction: TransactionID, request: RequestID, moves: [String: ParticipantMove]
  ) {
    self.transaction = transaction
    self.request = request
    self.moves = moves
  }

  package var reply: TransactionReply {
    .atomic(.committed(transaction, versions: moves.mapValues(\.version)))
  }
}

/// What a coordinator's journal tells at a start.
package struct CoordinatorJournal: Hashable, Sendable {
  /// The epoch of the last start; zero before the first.
  package var epoch: UInt64 = 0
  /// The commits, in the order of their records, without those that were forgotten.
  package var commits: [CommitRecord] = []
  /// Those of them that all participants have acknowledged.
  package var acknowledged: Set<TransactionID> = []
  /// The highest that was forgotten.
  package var forgottenThrough = TransactionID.zero
  /// The highest request of a client that was forgotten.
  package var requestsForgotten: UInt64 = 0
  /// The journal's id; `nil` where the coordinator keeps none.
  package var id: UInt64?
  /// Whether the composite was reset before the journal was made: participants may name an earlier one.
  package var followsReset = false
  /// Whether its last records may be gone, by a loss of power.
  package var mayLackRecords = false

  package init() {}
}
