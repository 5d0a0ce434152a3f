import PipeMachines
import PipeWire

// What participants of synchronized events record, and their coordinators.
extension Journal {
  /// The node is prepared for a step: makes that as durable as a record, where it can without one.
  /// Returns `false` where it cannot.
  package func markPrepared(_ step: PreparedStep) -> Bool {
    guard durability == .process, mark.prepared.write(step, applied: lastApplied) else {
      return false
    }
    countRecord()
    return true
  }

  /// The node is prepared for a step.
  package func prepared(_ step: PreparedStep) throws {
    let statement = try transactionStatements.get().prepared
    try statement.run(
      .integer(step.transaction.epoch), .integer(step.transaction.sequence),
      .integer(step.move.version), .text(step.move.state), .text(step.event))
  }

  /// A step that was prepared is aborted.
  package func aborted(_ transaction: TransactionID) throws {
    if mark.prepared.abort(transaction) { return }
    try transactionStatements.get().aborted.run(
      .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// The step of a transaction is taken; recorded with the state that it has led to.
  package func applied(_ transaction: TransactionID) throws {
    lastApplied = transaction
    if durability == .process, mark.prepared.take(transaction) { return }
    let statement = try transactionStatements.get().applied
    try statement.run(.integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// A coordinator has started.
  package func coordinatorStarted(epoch: UInt64) throws {
    try transactionStatements.get().started.run(.integer(epoch))
  }

  /// A transaction is decided.
  package func committed(_ commit: CommitRecord) throws {
    let moves = commit.moves.mapValues { move -> JSONValue in
      [
        "version": .integer(Int64(bitPattern: move.version)),
        "state": .string(String(decoding: move.state, as: UTF8.self)),
      ]
    }
    try transactionStatements.get().committed.run(
      .integer(commit.transaction.epoch), .integer(commit.transaction.sequence),
      .text(commit.request.caller), .integer(commit.request.number),
      .text(JSONValue.object(moves).bytes))
  }

  /// All participants have the commit.
  package func acknowledged(_ transaction: TransactionID) throws {
    try transactionStatements.get().acknowledged.run(
      .integer(transaction.epoch), .integer(transaction.sequence))
  }

  /// Nobody needs the commit any more.
  package func forgotten(_ transaction: TransactionID) throws {
    let statements = try transactionStatements.get()
    let values = (
      SQLValue.integer(transaction.epoch), SQLValue.integer(transaction.sequence)
    )
    try statements.forgotten.run(values.0, values.1)
    try statements.forgottenThrough.run(values.0, values.1)
  }

  /// What the journal of a coordinator tells.
  package func coordinator() throws(JournalError) -> CoordinatorJournal {
    do { return try readCoordinator() } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  private func readCoordinator() throws -> CoordinatorJournal {
    var journal = CoordinatorJournal()
    try database.prepare(
      "SELECT epoch, forgotten_epoch, forgotten_sequence FROM coordinator"
    ).rows { row in
      journal.epoch = row.unsigned(0)
      journal.forgottenThrough = row.transaction(1)
    }
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

/// The statements of synchronized events.
struct TransactionStatements {
  let prepared, aborted, applied, started: Statement
  let committed, acknowledged, forgotten, forgottenThrough: Statement

  init(_ database: Database) throws(DatabaseError) {
    prepared = try database.prepare("REPLACE INTO prepared VALUES (1, ?, ?, ?, ?, ?)")
    aborted = try database.prepare("DELETE FROM prepared WHERE epoch = ? AND sequence = ?")
    applied = try database.prepare("REPLACE INTO applied VALUES (1, ?, ?)")
    started = try database.prepare(
      "INSERT INTO coordinator VALUES (1, ?1, 0, 0) ON CONFLICT (id) DO UPDATE SET epoch = ?1")
    committed = try database.prepare("REPLACE INTO committed VALUES (?, ?, ?, ?, ?, 0)")
    acknowledged = try database.prepare(
      "UPDATE committed SET acknowledged = 1 WHERE epoch = ? AND sequence = ?")
    forgotten = try database.prepare("DELETE FROM committed WHERE epoch = ? AND sequence = ?")
    forgottenThrough = try database.prepare(
      "UPDATE coordinator SET forgotten_epoch = ?1, forgotten_sequence = ?2 "
        + "WHERE (forgotten_epoch, forgotten_sequence) < (?1, ?2)")
  }
}
