import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// A move of a stopped node's instances between the journals of its shards, after the number of
/// shards has changed.
///
/// Afterwards, each instance is in the journal of the shard that owns its key, and each undelivered
/// event goes to the shard that owns the event's key. If a move is interrupted at any point, the
/// next run completes the move. Source: docs/decisions/0090.
package struct ShardMove {
  /// A process of the node, or of another node that sends events to the node.
  package struct Process: Hashable, Sendable {
    package var name: String
    /// The path of the journal.
    package var journalPath: String
    package var machine: String
    package var durability: Durability

    package init(name: String, journalPath: String, machine: String, durability: Durability) {
      self.name = name
      self.journalPath = journalPath
      self.machine = machine
      self.durability = durability
    }
  }

  /// A pipe that leads from a sender to the node, with one end for each shard.
  package struct Pipe: Hashable, Sendable {
    package var sender: Process
    /// The ends of the pipe before the move, each with the shard that receives its events.
    package var formerEnds: [PipeEnd]
    package var newEnds: [PipeEnd]

    package init(sender: Process, former: [PipeEnd], ends: [PipeEnd]) {
      self.sender = sender
      self.formerEnds = former
      self.newEnds = ends
    }
  }

  /// One end of a pipe.
  package struct PipeEnd: Hashable, Sendable {
    package var name: String
    package var receiver: String

    package init(_ name: String, to receiver: String) {
      self.name = name
      self.receiver = receiver
    }
  }

  /// The outcome of a move.
  package struct Report: Hashable, Sendable {
    /// The number of instances that were moved to another journal.
    package var instanceCount = 0
    /// The number of undelivered events that were distributed to the shards.
    package var eventCount = 0
  }

  private let topology: String
  private let node: String
  /// The name of the event field whose value selects the instance.
  private let keyField: String
  /// The processes after the move. The index of a process is the index of its shard.
  private let processes: [Process]
  /// The processes that have journals before the move.
  private let formerProcesses: [Process]
  private let pipes: [Pipe]
  /// The receiver of each outbound pipe of the node's processes, by pipe; `nil` for a receiver
  /// without a journal.
  private let receiversByPipe: [String: Process?]

  /// Creates a move.
  /// - Parameters:
  ///   - node: The name of the node in the topology file.
  ///   - key: The name of the event field whose value selects the instance.
  ///   - processes: The processes after the move. The index of a process is the index of its shard.
  ///   - former: The processes that have journals before the move.
  ///   - pipes: The pipes from other nodes, and from the node itself, to the node.
  ///   - receiversByPipe: The receiver of each outbound pipe of the former processes, by pipe;
  ///     `nil` for a receiver without a journal.
  package init(
    of node: String, key: String, topology: String, to processes: [Process],
    from former: [Process], pipes: [Pipe], receiversByPipe: [String: Process?]
  ) {
    self.node = node
    self.keyField = key
    self.topology = topology
    self.processes = processes
    self.formerProcesses = former
    self.pipes = pipes
    self.receiversByPipe = receiversByPipe
  }

  // MARK: Checking whether a move is required

  /// Returns the text that identifies a shard in its journal's table `meta`, such as `0/4`; `nil`
  /// if the node has only one shard.
  private static func shardMark(_ index: Int, of count: Int) -> String? {
    count == 1 ? nil : "\(index)/\(count)"
  }

  /// Returns the number of shards that a node had when its journal was written. Returns `nil` if
  /// the journal does not belong to a keyed node.
  package static func shardCount(ofJournal path: String, of name: String) throws(JournalError)
    -> Int?
  {
    let reader = try JournalReader(path, node: name)
    do {
      let isKeyed =
        try JournalCheck.metaValue(JournalSnapshot.instanceFieldKey, in: reader.database) != nil
      guard isKeyed else { return nil }
      let mark = try JournalCheck.metaValue(JournalSnapshot.shardKey, in: reader.database)
      return mark.flatMap { $0.split(separator: "/").last }.flatMap { Int($0) } ?? 1
    } catch {
      throw JournalError(error, path: path, node: name)
    }
  }

  /// Whether a move is required: the number of shards has changed since a journal was written, or a
  /// move was interrupted.
  package func isNeeded() throws(JournalError) -> Bool {
    for process in formerProcesses {
      guard let index = processes.firstIndex(where: { $0.name == process.name }) else {
        return true
      }
      let reader = try JournalReader(process.journalPath, node: process.name)
      do {
        let mark = try JournalCheck.metaValue(JournalSnapshot.shardKey, in: reader.database)
        let isMoving = try !Self.incompleteMoveMarkers(reader.database).isEmpty
        if mark != Self.shardMark(index, of: processes.count) || isMoving { return true }
      } catch {
        throw JournalError(error, path: process.journalPath, node: process.name)
      }
    }
    return false
  }

  // MARK: Running the move

  /// Moves the instances and the undelivered events to the shards that own them.
  /// - Throws: ``ShardMoveError`` if nothing was moved. After any other error, the move is
  ///   incomplete, and must be run again before a process of the node can start.
  package func run() throws -> Report {
    var journals: [String: Journal] = [:]
    for process in formerProcesses { journals[process.name] = try open(process) }
    try checkUnfinishedMoves(journals)
    try checkDelivery(journals)
    try checkNoInstanceWaits(journals)
    for process in processes where journals[process.name] == nil {
      journals[process.name] = try open(process)
    }
    // The keys in the table `meta` prevent each process of the node from starting until the move is
    // complete.
    for journal in journals.values {
      try journal.changeDatabase {
        try Self.setMeta(
          Self.moveMarkerKeyPrefix + "begun", String(processes.count), in: journal.database)
      }
    }
    try recordForgottenRequests(journals)
    var report = Report()
    for pipe in pipes { report.eventCount += try routeEvents(pipe, journals) }
    Failpoint.hit(.shardsRouted)
    for source in formerProcesses {
      guard let from = journals[source.name] else { continue }
      for (index, target) in processes.enumerated() where target.name != source.name {
        guard let to = journals[target.name] else { continue }
        report.instanceCount += try copy(from, to, shard: index, isRemoved: isRemoved(source))
        Failpoint.hit(.shardCopied)
      }
    }
    for (index, target) in processes.enumerated() {
      if let journal = journals[target.name] { try removeMoved(from: journal, keeping: index) }
      Failpoint.hit(.shardTrimmed)
    }
    for journal in journals.values {
      try journal.finish()
      journal.releaseLock()
    }
    journals = [:]
    for source in formerProcesses where isRemoved(source) {
      try JournalFiles(source.journalPath, node: source.name).remove()
      Failpoint.hit(.shardRemoved)
    }
    try removeMarks()
    return report
  }

  private func isRemoved(_ process: Process) -> Bool {
    !processes.contains { $0.name == process.name }
  }

  /// Opens the journal of a process. Creates the journal if it does not exist.
  private func open(_ process: Process) throws(JournalError) -> Journal {
    var machine = process.machine
    do {
      if try JournalCheck.exists(process.journalPath, node: process.name) {
        let reader = try JournalReader(process.journalPath, node: process.name)
        machine = try JournalCheck.metaValue("machine", in: reader.database) ?? machine
      }
    } catch {
      throw JournalError(error, path: process.journalPath, node: process.name)
    }
    return try Journal(
      process.journalPath,
      identity: .init(topology: topology, node: process.name, machine: machine),
      durability: process.durability)
  }

  // MARK: Checks before the move

  /// The prefix of the keys in the table `meta` that mark an incomplete move. The rest of such a
  /// key is `begun`, or the id of a journal whose instances were copied into this journal.
  static let moveMarkerKeyPrefix = "moved "

  /// Returns the markers of an incomplete move.
  /// - Returns: `id` is `begun`, or the id of a journal whose instances were copied into this
  ///   journal. `count` is the number of shards after the move.
  static func incompleteMoveMarkers(_ database: Database) throws -> [(id: String, count: Int)] {
    try database.select(
      "SELECT key, value FROM meta WHERE key GLOB ?", .text(moveMarkerKeyPrefix + "*")
    ) {
      (String($0.text(0).dropFirst(moveMarkerKeyPrefix.count)), Int($0.text(1)) ?? 0)
    }
  }

  private func checkUnfinishedMoves(_ journals: [String: Journal]) throws {
    for journal in journals.values {
      let marks = try Self.incompleteMoveMarkers(journal.updatedDatabase())
      if let other = marks.first(where: { $0.count != processes.count }) {
        throw ShardMoveError.unfinished(node: node, count: other.count)
      }
    }
  }

  /// Checks that all events that the node has sent were delivered. After the move, the next events
  /// of an instance may come from another process. These next events could overtake undelivered
  /// events.
  private func checkDelivery(_ journals: [String: Journal]) throws {
    for source in formerProcesses {
      guard let journal = journals[source.name] else { continue }
      for (pipe, sent) in try journal.readCurrentContents()?.outPipeProgressByPipe ?? [:]
      where !sent.events.isEmpty {
        guard let known = receiversByPipe[pipe] else { continue }
        var lastAcceptedNumber: UInt64 = 0
        if let receiver = known {
          lastAcceptedNumber = try self.lastAcceptedNumber(
            of: pipe, from: journal, by: receiver, journals)
        }
        let count = sent.lastQueuedNumber - max(sent.lastAcknowledged, lastAcceptedNumber)
        if count > 0 {
          throw ShardMoveError.undelivered(node: node, pipe: pipe, count: count)
        }
      }
    }
  }

  /// Checks that no instance is prepared for a synchronized event, and that no event is postponed.
  /// Prepared instances and postponed events are possible only if the node has just been removed
  /// from a composite.
  private func checkNoInstanceWaits(_ journals: [String: Journal]) throws {
    for journal in journals.values {
      let prepared = try journal.preparedInstances().count
      let waiting = try JournalCheck.selectNumber(
        "SELECT count(*) FROM postponed", in: journal.updatedDatabase())
      if prepared > 0 || waiting > 0 {
        throw ShardMoveError.inTransaction(
          node: node, prepared: prepared, waiting: Int(clamping: waiting))
      }
    }
  }

  /// Returns the number of the pipe's last event that the receiver has recorded; 0 if the receiver
  /// has recorded no event of the pipe.
  private func lastAcceptedNumber(
    of pipe: String, from sender: Journal, by receiver: Process, _ journals: [String: Journal]
  ) throws -> UInt64 {
    if let journal = journals[receiver.name] {
      return try Self.lastAcceptedNumber(of: pipe, stream: sender.stream, journal.updatedDatabase())
    }
    do {
      let reader = try JournalReader(receiver.journalPath, node: receiver.name)
      return try Self.lastAcceptedNumber(of: pipe, stream: sender.stream, reader.database)
    } catch JournalError.missing {
      return 0
    }
  }

  private static func lastAcceptedNumber(
    of pipe: String, stream: UInt64, _ database: Database
  ) throws -> UInt64 {
    try database.select(
      "SELECT applied FROM consumed WHERE pipe = ? AND stream = ?", .text(pipe), .integer(stream)
    ) { $0.unsigned(0) }.first ?? 0
  }

  // MARK: Moving events

  /// Distributes the undelivered events of a pipe to the pipe's new ends. Each event goes to the
  /// end whose shard owns the event's key.
  /// - Returns: The number of undelivered events.
  private func routeEvents(_ pipe: Pipe, _ journals: [String: Journal]) throws -> Int {
    let isOpen = journals[pipe.sender.name]
    let sender = try isOpen ?? open(pipe.sender)
    let recorded = try sender.readCurrentContents()?.outPipeProgressByPipe ?? [:]
    var keys = InstanceKeyReader(field: keyField)
    var waiting = Array(repeating: [RecordedEvents.Event](), count: pipe.newEnds.count)
    var positions: [String: UInt64] = [:]
    for end in Self.distinctEnds(pipe.formerEnds + pipe.newEnds) {
      guard let sent = recorded[end.name] else { continue }
      let receiver = journals[end.receiver]
      let taken = try receiver.map {
        try Self.lastAcceptedNumber(of: end.name, stream: sender.stream, $0.updatedDatabase())
      }
      let position = max(sent.lastAcknowledged, taken ?? 0)
      positions[end.name] = position
      let delivered = Int(clamping: position - sent.lastAcknowledged)
      for event in sent.events.dropFirst(delivered) {
        let key = try? keys.key(ofEvent: Array(event.json))
        let shard = key.map { NodeShard.index(of: $0, among: pipe.newEnds.count) } ?? 0
        waiting[shard].append(event)
      }
    }
    guard !positions.isEmpty else { return 0 }
    try sender.changeDatabase {
      for end in Self.distinctEnds(pipe.formerEnds + pipe.newEnds) {
        try sender.database.prepare("DELETE FROM outbox WHERE pipe = ?").run(.text(end.name))
        try sender.database.prepare("DELETE FROM sent WHERE pipe = ?").run(.text(end.name))
        try sender.database.prepare("DELETE FROM meta WHERE key = ?")
          .run(.text(JournalSnapshot.receiverKey + end.name))
      }
      for (end, events) in zip(pipe.newEnds, waiting) {
        let position = positions[end.name] ?? 0
        let last = position + UInt64(events.count)
        try sender.database.prepare("INSERT INTO sent VALUES (?, ?, ?)").run(
          .text(end.name), .integer(last), .integer(position))
        // All events of a row must have the same schema version.
        var rest = events[...]
        while let schema = rest.first?.schema {
          let row = rest.prefix { $0.schema == schema }
          rest = rest.dropFirst(row.count)
          try sender.database.prepare("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)").run(
            .text(end.name), .integer(last - UInt64(rest.count)), .integer(Int64(row.count)),
            .text(Array(row.map(\.json).joined(separator: [0x0A]))), .schema(schema))
        }
      }
    }
    // Each receiver continues at the same number as its sender, even if the receiver is new or was
    // reset.
    for end in pipe.newEnds {
      guard let receiver = journals[end.receiver] else { continue }
      try receiver.changeDatabase {
        try receiver.database.prepare("REPLACE INTO consumed VALUES (?, ?, ?, 0)").run(
          .text(end.name), .integer(sender.stream), .integer(positions[end.name] ?? 0))
      }
    }
    if isOpen == nil {
      try sender.finish()
      sender.releaseLock()
    }
    return waiting.reduce(0) { $0 + $1.count }
  }

  private static func distinctEnds(_ ends: [PipeEnd]) -> [PipeEnd] {
    var seenNames: Set<String> = []
    return ends.filter { seenNames.insert($0.name).inserted }
  }

  // MARK: Keeping request numbers

  /// Stores the highest request number of all journals in the journal of each shard. A client may
  /// repeat a request that a former process has recorded. Without this number, a shard with the
  /// same name as that process, but with another journal, would apply the request again.
  private func recordForgottenRequests(_ journals: [String: Journal]) throws {
    var highest: UInt64 = 0
    for journal in journals.values {
      let database = try journal.updatedDatabase()
      let recorded = try JournalCheck.selectNumber(
        "SELECT coalesce(max(id), 0) FROM request", in: database)
      highest = max(
        highest, UInt64(recorded), try JournalCheck.highestForgottenRequestNumber(in: database))
    }
    for process in processes {
      guard let journal = journals[process.name] else { continue }
      try journal.changeDatabase {
        try Self.setMeta(
          JournalSnapshot.forgottenRequestsKey, String(highest), in: journal.database)
      }
    }
  }

  // MARK: Moving instances

  /// Copies the instances that a shard owns from one journal to another. Does nothing if the target
  /// already contains these instances.
  /// - Parameters:
  ///   - index: The index of the target's shard.
  ///   - isRemoved: Whether the source will be removed. Its dead letters then go to the first
  ///     shard.
  /// - Returns: The number of copied instances.
  private func copy(
    _ source: Journal, _ target: Journal, shard index: Int, isRemoved: Bool
  ) throws -> Int {
    let mark = Self.moveMarkerKeyPrefix + String(source.stream)
    guard try JournalCheck.metaValue(mark, in: target.updatedDatabase()) == nil else { return 0 }
    let from = try source.updatedDatabase()
    var count = 0
    try target.changeDatabase {
      let insert = try target.database.prepare(
        """
        INSERT INTO instance (key, version, time, cause, label, state, ended, schema)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
          version = excluded.version, time = excluded.time, cause = excluded.cause,
          label = excluded.label, state = excluded.state, ended = excluded.ended,
          schema = excluded.schema
        """)
      let rows = try from.prepare(
        "SELECT \(RecordedInstance.instanceColumns) FROM instance ORDER BY id")
      try rows.forEachRow { row in
        let instance = RecordedInstance(row)
        guard owns(instance.key, index) else { return }
        count += 1
        try insert.run(
          .text(instance.key.text), .integer(instance.version), .integer(instance.time),
          .text(instance.cause), .text(instance.label), .text(instance.state),
          instance.ended.map { .integer($0) } ?? .null, .schema(instance.schema))
      }
      try copyEffects(from, source.stream, to: target, shard: index)
      if isRemoved, index == 0 { try copyDeadLetters(from, to: target) }
      try target.database.prepare("REPLACE INTO meta VALUES (?, ?)").run(
        .text(mark), .text(String(processes.count)))
    }
    return count
  }

  private func owns(_ key: InstanceKey, _ index: Int) -> Bool {
    NodeShard.index(of: key, among: processes.count) == index
  }

  /// Copies the effects of the instances that a shard owns. The idempotency keys of an effect
  /// remain the same, because the copy stores the id of the journal in which the effect began.
  private func copyEffects(
    _ source: Database, _ stream: UInt64, to target: Journal, shard index: Int
  ) throws {
    let insert = try target.database.prepare(
      "REPLACE INTO instance_effect SELECT id, ?, ?, ?, ?, ?, ?, ?, ? FROM instance WHERE key = ?")
    try source.prepare(
      """
      SELECT key, instance_effect.version, feedback, instance_effect.state, instance_effect.time,
        boot, clock, coalesce(stream, ?), instance_effect.schema
      FROM instance_effect JOIN instance ON id = instance
      """
    ).forEachRow(.integer(stream)) { row in
      guard owns(InstanceKey(recorded: row.text(0)), index) else { return }
      try insert.run(
        .integer(row.integer(1)), .integer(row.integer(2)), .text(row.bytes(3)),
        .integer(row.integer(4)), .text(row.bytes(5)), .integer(row.integer(6)),
        .integer(row.integer(7)), .schema(row.schema(8)), .text(row.bytes(0)))
    }
  }

  private func copyDeadLetters(_ source: Database, to target: Journal) throws {
    let insert = try target.database.prepare(
      "INSERT INTO dead_letter VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)")
    try source.prepare(
      """
      SELECT pipe, sequence, event, reason, state, version, time, schema FROM dead_letter
      WHERE pipe NOT GLOB 'effect *' AND pipe NOT GLOB 'feedback *' ORDER BY id
      """
    ).forEachRow { row in
      try insert.run(
        .text(row.bytes(0)), .integer(row.integer(1)), .text(row.bytes(2)), .text(row.bytes(3)),
        .text(row.bytes(4)), .integer(row.integer(5)), .integer(row.integer(6)),
        .schema(row.schema(7)))
    }
  }

  /// Deletes the instances that the journal's shard does not own. Also records the index of the
  /// shard, and the number of instances in each state.
  /// - Parameter index: The index of the journal's shard.
  private func removeMoved(from journal: Journal, keeping index: Int) throws {
    let database = try journal.updatedDatabase()
    var movedIDs: [Int64] = []
    try database.prepare("SELECT id, key FROM instance").forEachRow { row in
      if !owns(InstanceKey(recorded: row.text(1)), index) { movedIDs.append(row.integer(0)) }
    }
    try journal.changeDatabase {
      let removeInstance = try database.prepare("DELETE FROM instance WHERE id = ?")
      let removeEffects = try database.prepare("DELETE FROM instance_effect WHERE instance = ?")
      for id in movedIDs {
        try removeInstance.run(.integer(id))
        try removeEffects.run(.integer(id))
      }
      try Self.setMeta(JournalSnapshot.instanceFieldKey, keyField, in: database)
      try Self.setMeta(
        JournalSnapshot.shardKey, Self.shardMark(index, of: processes.count), in: database)
    }
    let last = try journal.readCurrentContents()?.record
    let counts = try database.select("SELECT label, count(*) FROM instance GROUP BY label") {
      ($0.text(0), JSONValue.integer($0.integer(1)))
    }
    let state = JSONValue.object(
      Dictionary(counts.map { ($0.0.isEmpty ? "instances" : $0.0, $0.1) }) { first, _ in first })
    let version = try max(
      last?.version ?? 0,
      UInt64(
        JournalCheck.selectNumber("SELECT coalesce(sum(version), 0) FROM instance", in: database)))
    journal.hasInstances = true
    try journal.record {
      try journal.recordState(
        to: state.bytes, version: version + 1, steps: 1, cause: "shards",
        time: WallClock.nanoseconds,
        incarnation: 0)
    }
  }

  private static func setMeta(_ key: String, _ value: String?, in database: Database) throws {
    if let value {
      try database.prepare("REPLACE INTO meta VALUES (?, ?)").run(.text(key), .text(value))
    } else {
      try database.prepare("DELETE FROM meta WHERE key = ?").run(.text(key))
    }
  }

  /// Deletes the keys that mark an incomplete move, as the last step of the move.
  private func removeMarks() throws {
    for process in processes {
      let journal = try open(process)
      try journal.changeDatabase {
        try journal.database.prepare("DELETE FROM meta WHERE key GLOB ?")
          .run(.text(Self.moveMarkerKeyPrefix + "*"))
      }
      try journal.finish()
      journal.releaseLock()
    }
  }
}

/// The reason why instances cannot be moved. When this error is thrown, nothing has been moved.
package enum ShardMoveError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A receiver has not recorded all events that the node has sent.
  case undelivered(node: String, pipe: String, count: UInt64)
  /// Instances are prepared for synchronized events, or events wait for instances.
  case inTransaction(node: String, prepared: Int, waiting: Int)
  /// A move to a different number of shards was interrupted and must be completed first.
  case unfinished(node: String, count: Int)

  package var node: String {
    switch self {
    case .undelivered(let node, _, _), .inTransaction(let node, _, _), .unfinished(let node, _):
      node
    }
  }

  /// The work that the node's former shards must finish before the number of shards can change;
  /// `nil` if the former shards cannot start.
  package var unfinishedWork: String? {
    switch self {
    case .undelivered(_, let pipe, let count):
      "\(count.counted("undelivered event")) of pipe '\(pipe)'"
    case .inTransaction(_, let prepared, let waiting):
      "\(prepared.counted("instance")) prepared for synchronized events and "
        + "\(waiting.counted("event")) waiting for instances"
    case .unfinished: nil
    }
  }

  package var description: String {
    switch self {
    case .undelivered, .inTransaction:
      "the number of shards of node '\(node)' cannot change, because of \(unfinishedWork ?? ""); try "
        + "again when the node's former shards have completed this work"
    case .unfinished(let node, let count):
      "the instances of node '\(node)' were being moved to \(count) shard\(count == 1 ? "" : "s"), "
        + "and the move was interrupted; start the topology with 'shards: \(count)', which "
        + "completes the move, and try again"
    }
  }
}
