import PipeMachines
import PipeSystem
import PipeWire

/// The names of nodes, composites and pipes in a journal. Source: docs/decisions/0101.
package struct JournalNames: Hashable, Sendable {
  /// The names of nodes and composites, including the node that the journal belongs to.
  package private(set) var members: Set<String> = []
  package private(set) var pipes: Set<String> = []

  /// The tables with a column that contains the name of a pipe.
  private static let pipeColumns = [
    ("consumed", "pipe"), ("postponed", "pipe"), ("sent", "pipe"), ("outbox", "pipe"),
    ("dead_letter", "pipe"), ("attempt", "source"),
  ]

  /// Reads the names in a journal. The node may be running.
  package init(inJournal path: String, of node: String) throws(JournalError) {
    let reader = try JournalReader(path, node: node)
    do {
      try self.init(reader.database)
      if let event = StepMarkerFile.preparedStep(ofJournal: path)?.step.event {
        members.formUnion(Self.composite(of: event))
      }
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  private init(_ database: Database) throws {
    for (table, column) in Self.pipeColumns {
      pipes.formUnion(try database.select("SELECT DISTINCT \(column) FROM \(table)") { $0.text(0) })
    }
    members.formUnion(try JournalCheck.metaValue("node", in: database).map { [$0] } ?? [])
    for (pipe, receiver) in try Self.receivers(in: database) {
      pipes.insert(pipe)
      members.insert(receiver.name)
    }
    members.formUnion(try Self.components(in: database))
    let coordinator = try JournalCheck.metaValue(JournalSnapshot.coordinatorKey, in: database)
      .flatMap { RecordedCoordinator(journalValue: $0) }
    members.formUnion(coordinator.map { [$0.name] } ?? [])
    for (_, event) in try Self.preparedEvents(in: database) {
      members.formUnion(Self.composite(of: event))
    }
    for commit in try Self.commits(in: database) {
      members.formUnion(commit.moves.keys.map(InstanceName.node(of:)))
      if let pipe = Self.pipe(ofCaller: commit.caller)?.name { pipes.insert(pipe) }
    }
  }

  /// Returns the changes that concern names in the journal.
  package func occurring(in changes: NameChanges) -> NameChanges {
    var found = NameChanges()
    found.members = changes.members.filter { members.contains($0.key) }
    found.pipes = changes.pipes.filter { pipes.contains($0.key) }
    return found
  }

  // MARK: The change

  /// Changes names in the journal of a stopped node. Leaves the journal at its path.
  /// - Parameters:
  ///   - node: The former name of the node.
  ///   - existing: The processes that have a journal under their present names already.
  /// - Throws: ``JournalError`` or ``JournalNameError``.
  package static func change(
    _ changes: NameChanges, inJournal path: String, of node: String, durability: Durability,
    existing: Set<String>
  ) throws {
    let reader = try JournalReader(path, node: node)
    let identity = try Journal.Identity(
      topology: JournalCheck.metaValue("topology", in: reader.database) ?? "", node: node,
      machine: reader.machine)
    let journal = try Journal(opening: path, identity: identity, durability: durability)
    do {
      let names = try JournalNames(journal.database)
      let prepared = journal.marker.preparedStepRecord.read()
      let isPreparedRenamed =
        prepared.map { changes.members[composite(of: $0.step.event).first ?? ""] != nil } ?? false
      try journal.changeBeforeBegin {
        if isPreparedRenamed { try recordPreparedStep(of: journal) }
        for (former, pipe) in changes.pipes where names.pipes.contains(former) {
          try rename(pipe, from: former, in: journal.database, of: node, existing: existing)
        }
        try renameMembers(changes.members, in: journal.database)
        try renameCommits(changes, in: journal.database)
      }
      if isPreparedRenamed { journal.marker.erasePreparedStep() }
      if let source = journal.marker.interruptedStep?.source, let pipe = changes.pipes[source] {
        journal.marker.renameInterruptedStep(to: pipe.name)
      }
    } catch let error as JournalNameError {
      throw error
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Writes the prepared step of the step marker file into the database, where its event can become
  /// longer.
  private static func recordPreparedStep(of journal: Journal) throws {
    let participant = journal.contents?.participant
    let database = journal.database
    if let applied = participant?.lastApplied, applied > .zero {
      try database.prepare(JournalOperation.applied.statement).run(
        .integer(applied.epoch), .integer(applied.sequence))
    }
    try database.execute("DELETE FROM prepared")
    guard let step = participant?.preparedStep else { return }
    try database.prepare(JournalOperation.prepared.statement).run(
      .integer(step.transaction.epoch), .integer(step.transaction.sequence),
      .integer(step.move.recordedVersion), .text(step.move.state), .text(step.event),
      .schema(step.schema))
  }

  /// Renames a pipe. If the journal has this pipe under both names, the progress that fits the journal
  /// at the other end of the pipe remains.
  private static func rename(
    _ pipe: NameChanges.Pipe, from former: String, in database: Database, of node: String,
    existing: Set<String>
  ) throws {
    for (table, events, end) in [
      ("consumed", "postponed", pipe.sender), ("sent", "outbox", pipe.receiver),
    ] {
      func count(_ table: String, _ name: String) throws -> Int64 {
        try database.select("SELECT count(*) FROM \(table) WHERE pipe = ?", .text(name)) {
          $0.integer(0)
        }.first ?? 0
      }
      guard try count(table, former) > 0, try count(table, pipe.name) > 0 else { continue }
      let obsolete = existing.contains(end) ? former : pipe.name
      guard try count(events, obsolete) == 0 else {
        throw JournalNameError.bothNames(node: node, pipe: pipe.name, former: former)
      }
      try database.prepare("DELETE FROM \(table) WHERE pipe = ?").run(.text(obsolete))
      if table == "sent" {
        try database.prepare("DELETE FROM meta WHERE key = ?")
          .run(.text(JournalSnapshot.receiverKey + obsolete))
      }
    }
    for (table, column) in pipeColumns {
      try database.prepare("UPDATE OR REPLACE \(table) SET \(column) = ? WHERE \(column) = ?")
        .run(.text(pipe.name), .text(former))
    }
    try database.prepare("UPDATE OR REPLACE meta SET key = ? WHERE key = ?").run(
      .text(JournalSnapshot.receiverKey + pipe.name), .text(JournalSnapshot.receiverKey + former))
  }

  private static func renameMembers(_ members: [String: String], in database: Database) throws {
    let setMeta = try database.prepare(
      "UPDATE OR REPLACE meta SET key = ?, value = ? WHERE key = ?")
    if let node = try JournalCheck.metaValue("node", in: database), let name = members[node] {
      try setMeta.run(.text("node"), .text(name), .text("node"))
    }
    for (pipe, receiver) in try receivers(in: database) {
      guard let name = members[receiver.name] else { continue }
      let key = JournalSnapshot.receiverKey + pipe
      try setMeta.run(
        .text(key), .text("\(receiver.lastNumberBeforeRedirection) \(name)"), .text(key))
    }
    for component in try components(in: database) {
      guard let name = members[component] else { continue }
      try database.prepare("UPDATE OR REPLACE meta SET key = ? WHERE key = ?").run(
        .text(JournalSnapshot.componentKey + name), .text(JournalSnapshot.componentKey + component))
    }
    let key = JournalSnapshot.coordinatorKey
    if var coordinator = try JournalCheck.metaValue(key, in: database)
      .flatMap({ RecordedCoordinator(journalValue: $0) }), let name = members[coordinator.name]
    {
      coordinator.name = name
      try setMeta.run(.text(key), .text(coordinator.journalValue), .text(key))
    }
    for (instance, event) in try preparedEvents(in: database) {
      guard var body = TransactionBody(event), let name = members[body.composite] else { continue }
      body.composite = name
      if let instance {
        try database.prepare("UPDATE prepared_instance SET event = ? WHERE key = ?")
          .run(.text(body.bytes), .text(instance))
      } else {
        try database.prepare("UPDATE prepared SET event = ?").run(.text(body.bytes))
      }
    }
  }

  private static func renameCommits(_ changes: NameChanges, in database: Database) throws {
    let update = try database.prepare(
      "UPDATE committed SET caller = ?, moves = ? WHERE epoch = ? AND sequence = ?")
    for commit in try commits(in: database) {
      let moves = commit.moves.map { (changes.name(ofParticipant: $0.key), $0.value) }
      let renamed = Dictionary(moves) { first, _ in first }
      var caller = commit.caller
      if let pipe = pipe(ofCaller: caller), let name = changes.pipes[pipe.name]?.name {
        caller = RequestID(pipe: name, stream: pipe.stream, sequence: 0).caller
      }
      guard renamed != commit.moves || caller != commit.caller else { continue }
      try update.run(
        .text(caller), .text(JSONValue.object(renamed).bytes), .integer(commit.epoch),
        .integer(commit.sequence))
    }
  }

  // MARK: Names in values

  private static func receivers(
    in database: Database
  ) throws -> [(pipe: String, receiver: JournalContents.Receiver)] {
    let key = JournalSnapshot.receiverKey
    return try database.select("SELECT key, value FROM meta WHERE key GLOB ?", .text(key + "*")) {
      row -> (String, JournalContents.Receiver)? in
      let parts = row.text(1).split(separator: " ", maxSplits: 1).map(String.init)
      guard parts.count == 2, let number = UInt64(parts[0]) else { return nil }
      return (
        String(row.text(0).dropFirst(key.count)),
        .init(parts[1], lastNumberBeforeRedirection: number)
      )
    }.compactMap(\.self)
  }

  private static func components(in database: Database) throws -> [String] {
    let key = JournalSnapshot.componentKey
    return try database.select("SELECT key FROM meta WHERE key GLOB ?", .text(key + "*")) {
      String($0.text(0).dropFirst(key.count))
    }
  }

  /// Returns the prepared events, each with the key of its instance; `nil` for the event of a node.
  private static func preparedEvents(
    in database: Database
  ) throws -> [(instance: String?, event: [UInt8])] {
    let own = try database.select("SELECT event FROM prepared") { (String?.none, $0.bytes(0)) }
    guard JournalSchema.hasPreparedInstances(try JournalCheck.version(of: database)) else {
      return own
    }
    return try own
      + database.select("SELECT key, event FROM prepared_instance") { ($0.text(0), $0.bytes(1)) }
  }

  private static func composite(of event: [UInt8]) -> Set<String> {
    TransactionBody(event).map { [$0.composite] } ?? []
  }

  private struct Commit {
    var epoch, sequence: UInt64
    var caller: String
    var moves: [String: JSONValue]
  }

  private static func commits(in database: Database) throws -> [Commit] {
    try database.select("SELECT epoch, sequence, caller, moves FROM committed") { row in
      guard case .object(let moves)? = try? JSONValue(parsing: row.bytes(3)) else {
        throw DatabaseError(resultCode: 11, message: "a commit cannot be read")
      }
      return Commit(
        epoch: row.unsigned(0), sequence: row.unsigned(1), caller: row.text(2), moves: moves)
    }
  }

  /// Returns the pipe whose events a coordinator commits under this caller id; `nil` for any other
  /// caller.
  private static func pipe(ofCaller caller: String) -> (name: String, stream: UInt64)? {
    let prefix = "pipe/"
    guard caller.hasPrefix(prefix), let slash = caller.lastIndex(of: "/"),
      let stream = UInt64(caller[caller.index(after: slash)...])
    else { return nil }
    let name = caller[..<slash].dropFirst(prefix.count)
    return name.isEmpty ? nil : (String(name), stream)
  }
}

/// The reason why names in a journal cannot be changed.
package enum JournalNameError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The journal has events of a pipe under the present and the former name.
  case bothNames(node: String, pipe: String, former: String)

  package var description: String {
    switch self {
    case .bothNames(let node, let pipe, let former):
      "the journal of node '\(node)' has pipe '\(pipe)' under its former name '\(former)', too, and "
        + "events that are not delivered under the name that would be dropped; remove the former name "
        + "from 'was', or reset node '\(node)'"
    }
  }
}
