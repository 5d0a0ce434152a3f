import PipeMachines
import PipeWire

// The records that participants and coordinators make for transactions.
extension Journal {
  /// Writes a prepared step into the step marker file. In this file, the step survives a crash of
  /// the process, as it would in the database, but the write costs less. Returns `false` if the
  /// durability is not `process`, or if the step is too large.
  package func markPrepared(_ step: PreparedStep) -> Bool {
    guard durability == .process, marker.prepare(step, applied: lastApplied, schema: schema) else {
      return false
    }
    countRecord()
    return true
  }

  /// Records that the node is prepared for a step.
  /// - Parameter schema: The schema version of the machine that has evaluated the step; `nil` for
  ///   the schema version of this process.
  package func recordPrepared(_ step: PreparedStep, schema: Int? = nil) throws {
    run(
      .prepared, .integer(step.transaction.epoch), .integer(step.transaction.sequence),
      .integer(step.move.recordedVersion), .text(step.move.state), .text(step.event),
      .schema(schema ?? self.schema))
  }

  /// Records that a prepared step was aborted.
  package func recordAbort(of transaction: TransactionID) throws {
    if marker.preparedStepRecord.markAborted(transaction) { return }
    run(.aborted, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Records that an instance is prepared for a step.
  package func recordPrepared(_ step: PreparedStep, of key: InstanceKey) throws {
    run(
      .instancePrepared, .text(key.text), .integer(step.transaction.epoch),
      .integer(step.transaction.sequence), .integer(step.move.recordedVersion),
      .text(step.move.state), .text(step.event), .schema(schema))
  }

  /// Deletes the prepared step of an instance after its transaction has ended. For a committed
  /// step, the same record must also contain the resulting state.
  package func removePreparedStep(_ transaction: TransactionID, of key: InstanceKey) throws {
    run(
      .instanceDecided, .text(key.text), .integer(transaction.epoch),
      .integer(transaction.sequence))
  }

  /// Returns the steps that instances are prepared for, in the order of their transactions.
  package func preparedInstances() throws(JournalError) -> [(key: InstanceKey, step: PreparedStep)]
  {
    do { return try JournalContents.preparedInstances(of: updatedDatabase()) } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Records that the node has taken the step of a transaction. The same record must contain the
  /// resulting state.
  package func recordAppliedTransaction(_ transaction: TransactionID) throws {
    lastApplied = transaction
    if durability == .process, marker.preparedStepRecord.markTaken(transaction) { return }
    recordApplied(transaction)
  }

  func recordApplied(_ transaction: TransactionID) {
    run(.applied, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Records the coordinator for which the node is prepared, and the id of the coordinator's
  /// journal; `nil` if the coordinator has no journal.
  package func recordCoordinator(_ coordinator: RecordedCoordinator?) throws {
    if let coordinator {
      run(.meta, .text(JournalSnapshot.coordinatorKey), .text(coordinator.journalValue))
    } else {
      run(.metaRemoved, .text(JournalSnapshot.coordinatorKey))
    }
  }

  /// Records that the composite must not continue with this journal, neither in this process nor in
  /// a later process.
  /// - Returns: The error that the next process reports.
  package func refuse(because reason: String) throws(JournalError) -> JournalError {
    try changeDatabase {
      try database.prepare("REPLACE INTO meta VALUES (?, ?)").run(
        .text(JournalSnapshot.refusedKey), .text(reason))
    }
    return .damaged(path: path, node: identity.node, reason: reason)
  }

  /// Records the start of a coordinator.
  package func recordCoordinatorStart(epoch: UInt64) throws {
    run(.coordinatorStarted, .integer(epoch))
  }

  /// Records the commit of a transaction. The transaction is committed as soon as this record
  /// exists.
  package func recordCommit(_ commit: CommitRecord) throws {
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

  /// Records that all participants have acknowledged a commit.
  package func recordCommitAcknowledged(_ transaction: TransactionID) throws {
    run(.acknowledged, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Deletes the record of a commit, because the record is no longer required. Also records the
  /// highest transaction whose record was deleted.
  package func removeCommit(of transaction: TransactionID) throws {
    run(.forgotten, .integer(transaction.epoch), .integer(transaction.sequence))
    run(.forgottenThrough, .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Records that the coordinator no longer knows some requesters, whose request numbers were at
  /// most `last`.
  package func recordForgottenRequests(through last: UInt64) throws {
    run(.meta, .text(JournalSnapshot.forgottenRequestsKey), .text(String(last)))
  }

  /// Reads all records that a coordinator has made in this journal.
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
    ).forEachRow { row in
      journal.epoch = row.unsigned(0)
      journal.forgottenThrough = row.transaction(1)
    }
    journal.highestForgottenRequestNumber = try JournalCheck.highestForgottenRequestNumber(
      in: database)
    journal.id = stream
    journal.followsReset = try JournalCheck.metaValue(JournalSnapshot.resetKey, in: database) != nil
    journal.mayLackRecords = mayLackRecords
    try database.prepare(
      "SELECT epoch, sequence, caller, number, moves, acknowledged FROM committed "
        + "ORDER BY epoch, sequence"
    ).forEachRow { row in
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
