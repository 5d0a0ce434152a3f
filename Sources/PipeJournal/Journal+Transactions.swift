import PipeMachines
import PipeWire

// The records of participants in synchronized events, and of their coordinators.
extension Journal {
  /// Makes a prepared step as durable as a record does, but without a record. Returns `false` if
  /// that is not possible.
  package func markPrepared(_ step: PreparedStep) -> Bool {
    guard durability == .process, marker.prepare(step, applied: lastApplied) else {
      return false
    }
    countRecord()
    return true
  }

  /// Records that the node is prepared for a step.
  package func prepared(_ step: PreparedStep) throws {
    run(
      .prepared, .integer(step.transaction.epoch), .integer(step.transaction.sequence),
      .integer(step.move.version), .text(step.move.state), .text(step.event))
  }

  /// Records that a prepared step is aborted.
  package func aborted(_ transaction: TransactionID) throws {
    if marker.prepared.abort(transaction) { return }
    run(.aborted, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Records that the step of a transaction is taken, together with the state that it has led to.
  package func applied(_ transaction: TransactionID) throws {
    lastApplied = transaction
    if durability == .process, marker.prepared.take(transaction) { return }
    recordApplied(transaction)
  }

  func recordApplied(_ transaction: TransactionID) {
    run(.applied, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Records the coordinator's journal under which the node is prepared; `nil` if the
  /// coordinator keeps none.
  package func coordinatorChanged(to coordinator: RecordedCoordinator?) throws {
    if let coordinator {
      run(.meta, .text(JournalSnapshot.coordinatorKey), .text(coordinator.journalValue))
    } else {
      run(.metaRemoved, .text(JournalSnapshot.coordinatorKey))
    }
  }

  /// Records that the composite must not continue with this journal, neither in this process nor in
  /// the next.
  /// - Returns: The error of the next process.
  package func refuse(because reason: String) throws(JournalError) -> JournalError {
    try change {
      try database.prepare("REPLACE INTO meta VALUES (?, ?)").run(
        .text(JournalSnapshot.refusedKey), .text(reason))
    }
    return .damaged(path: path, node: identity.node, reason: reason)
  }

  /// Records the start of a coordinator.
  package func coordinatorStarted(epoch: UInt64) throws {
    run(.coordinatorStarted, .integer(epoch))
  }

  /// Records a commit, which decides the transaction.
  package func committed(_ commit: CommitRecord) throws {
    let moves = commit.moves.mapValues { move -> JSONValue in
      [
        "version": .integer(Int64(bitPattern: move.version)),
        "state": .string(String(decoding: move.state, as: UTF8.self)),
      ]
    }
    run(
      .committed, .integer(commit.transaction.epoch), .integer(commit.transaction.sequence),
      .text(commit.request.caller), .integer(commit.request.number),
      .text(JSONValue.object(moves).bytes))
  }

  /// Records that all participants have the commit.
  package func acknowledged(_ transaction: TransactionID) throws {
    run(.acknowledged, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Deletes a commit that is no longer needed.
  package func forgotten(_ transaction: TransactionID) throws {
    run(.forgotten, .integer(transaction.epoch), .integer(transaction.sequence))
    run(.forgottenThrough, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Records that clients of a composite were forgotten, with their requests up to this number.
  package func requestsForgotten(through last: UInt64) throws {
    run(.meta, .text(JournalSnapshot.forgottenRequestsKey), .text(String(last)))
  }

  /// Reads the records of a coordinator.
  package func coordinator() throws(JournalError) -> CoordinatorJournal {
    do { return try readCoordinator() } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  private func readCoordinator() throws -> CoordinatorJournal {
    var journal = CoordinatorJournal()
    let database = try updatedDatabase()
    try database.prepare(
      "SELECT epoch, forgotten_epoch, forgotten_sequence FROM coordinator"
    ).rows { row in
      journal.epoch = row.unsigned(0)
      journal.forgottenThrough = row.transaction(1)
    }
    journal.requestsForgotten = try JournalCheck.forgottenRequests(in: database)
    journal.id = stream
    journal.followsReset = try JournalCheck.meta(JournalSnapshot.resetKey, in: database) != nil
    journal.mayLackRecords = mayLackRecords
    try database.prepare(
      "SELECT epoch, sequence, caller, number, moves, acknowledged FROM committed "
        + "ORDER BY epoch, sequence"
    ).rows { row in
      let transaction = row.transaction(0)
      journal.commits.append(
        CommitRecord(
          transaction: transaction,
          request: RequestID(caller: row.text(2), number: row.unsigned(3)),
          moves: try moves(row.bytes(4), of: transaction)))
      if row.integer(5) != 0 { journal.acknowledged.insert(transaction) }
    }
    return journal
  }

  private func moves(
    _ bytes: [UInt8], of transaction: TransactionID
  ) throws -> [String: ParticipantMove] {
    guard case .object(let members)? = try? JSONValue(parsing: bytes) else {
      throw JournalError.damaged(
        path: path, node: identity.node, reason: "commit \(transaction) cannot be read")
    }
    return members.mapValues { move in
      ParticipantMove(
        version: UInt64(bitPattern: move["version"]?.integer ?? 0),
        state: Array((move["state"]?.string ?? "null").utf8))
    }
  }
}
