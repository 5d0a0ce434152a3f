import CSQLite
import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The journal of a node: a durable log of its steps. Each call of ``record(_:)`` records either
/// all of its changes or none.
package final class Journal {
  /// The topology, the node and the machine that a journal belongs to.
  package struct Identity: Hashable {
    var topology: String
    package var node: String
    var machine: String

    package init(topology: String, node: String, machine: String) {
      self.topology = topology
      self.node = node
      self.machine = machine
    }
  }

  package let path: String
  package let identity: Identity
  /// The random id of the journal. The id identifies the numbering of the events that this node
  /// sends. A reset begins a new numbering.
  package let stream: UInt64
  /// The contents of the journal when it was opened; `nil` if the node has never entered a state.
  package private(set) var contents: JournalContents?
  /// The file that marks the step in progress, and contains the log.
  package let marker: StepMarkerFile
  /// The identity of the open file. The identity remains the same if the file is renamed.
  let fileIdentity: FileIdentity?
  /// Whether this node had no journal before.
  package let isFirstJournal: Bool

  /// The database. It may lack the latest records; ``updatedDatabase()`` first adds them.
  let database: Database
  private let writer: RecordWriter
  private var opening: JournalOpeningCounters
  /// The records that the database lacks. Always empty with the durability `power`.
  private(set) var log: RecordLog
  private var hasReleasedLock = false
  /// The encoded operations of the record that ``record(_:)`` currently assembles.
  private var pendingOperations: [UInt8] = []
  let boot = BootClock.bootID
  package let durability: Durability
  /// The limits of the records and dead letters.
  package let retention: JournalRetention
  private var lastStateRecordID: Int64 = 0
  private lazy var lookupTransaction = (
    begin: Result { try database.prepare("BEGIN") }, end: Result { try database.prepare("COMMIT") }
  )
  private var isLookingUp = false
  /// Whether the node has instances. If so, the version of a record counts the steps of all
  /// instances, and the version of one instance does not identify a record.
  var hasInstances = false
  /// The query for an instance with a key. Lazy, because most nodes have no instances.
  private lazy var instanceQuery = Result {
    try database.prepare("SELECT \(RecordedInstance.instanceColumns) FROM instance WHERE key = ?")
  }
  /// The version of the node's state in the last record.
  private var lastVersion: UInt64 = 0
  /// The last transaction whose step this node has recorded.
  var lastApplied = TransactionID.zero
  /// The schema version of the machine that takes the node's steps.
  package var schema = 1
  /// The number of records made since this object opened the journal.
  package private(set) var recordCount: UInt64 = 0
  private var oldestRecord: Int64 = 0
  private var states: RecordedStates
  private var expiry: RecordExpiry
  /// Whether the file is new and still has no records. Until the first record, SQLite does not
  /// synchronize the file to the disk.
  private var isFirstRecordDue = false

  /// The maximum size of a state that is recorded with an answer. Unit: bytes.
  private static let answerByteLimit = 64 << 10
  /// The capacity up to which a record's buffer is reused for the next record. Unit: bytes.
  private static let bufferLimit = 256 << 10
  /// The size of the write-ahead log at which SQLite copies the log's pages into the database.
  /// Unit: pages of 4096 bytes.
  private static let checkpointPageCount = 4_000

  /// Opens the journal, or creates a new one. The records of an existing journal stay unchanged
  /// until ``begin()``.
  /// - Parameter incarnation: The incarnation of the node, if several hosts share the storage. The
  ///   journal is then locked against all other processes, and an earlier incarnation can no longer
  ///   open the journal.
  package init(
    opening path: String, identity: Identity, durability: Durability,
    keeping retention: JournalRetention = JournalRetention(), heldBy incarnation: UInt64? = nil
  ) throws(JournalError) {
    self.path = path
    self.identity = identity
    self.durability = durability
    self.retention = retention
    states = RecordedStates(keeping: retention)
    expiry = RecordExpiry(after: retention.recordAge)
    marker = try StepMarkerFile(path: path, node: identity.node)
    do {
      let isNew = try !JournalCheck.exists(path, node: identity.node)
      if isNew {
        // Throws if steps were recorded and only the journal is missing. A new journal would
        // silently restart the node in its initial state.
        try marker.checkNothingRecorded(path: path, node: identity.node)
        try Self.make(path, identity, durability, isHeld: incarnation != nil)
      }
      isFirstJournal = isNew && !marker.didExist
      database = try Database(path, .readWrite)
      // Set before the first read, so that SQLite uses no shared memory for the write-ahead log.
      // Hosts cannot share memory, and each host would see only its own records.
      if incarnation != nil { try database.execute("PRAGMA locking_mode = EXCLUSIVE") }
      fileIdentity = FileIdentity(path)
      // A journal that this process has just created requires no check.
      if !isNew { try Self.checkIdentity(database, path, identity) }
      if let incarnation { try Self.recordHolder(database, path, by: incarnation) }
      try database.execute(
        """
        PRAGMA synchronous = \(durability == .power ? "FULL" : isNew ? "OFF" : "NORMAL");
        PRAGMA wal_autocheckpoint = \(Self.checkpointPageCount);
        PRAGMA journal_size_limit = \(Self.checkpointPageCount * 4096);
        PRAGMA cache_size = -1000;
        """)
      isFirstRecordDue = isNew && durability != .power
      database.keepLogOnClose()
      writer = try RecordWriter(database)
      try writer.holdWrites()
      let version = try JournalCheck.version(of: database)
      try JournalSchema.upgradeTables(database, from: version)
      stream = try JournalCheck.streamID(of: database, path, node: identity.node)
      let written = try RecordWriter.lastWrittenNumber(in: database)
      log = RecordLog(marker.logWords, stream: stream, lastWrittenNumber: written)
      opening = try JournalOpeningCounters(database)
      mayLackRecords = opening.isOpen && !opening.isSameBoot
      lacksLog =
        try !isNew
        && marker.check(
          stream, last: log.lastNumber, written: written, opening, durability, path: path,
          node: identity.node)
      if !log.isEmpty { try writer.write(log.records(), through: log.lastNumber) }
      try JournalSchema.upgradeContents(database, from: version)
      contents = try JournalContents.read(database)
      if let prepared = marker.preparedStepRecord.read(), let version = contents?.record.version {
        contents?.participant.add(prepared, at: version)
      }
      lastApplied = contents?.participant.lastApplied ?? .zero
      oldestRecord = try Self.oldestRecord(database)
      if contents != nil { try states.addGroups(of: database) }
      lastStateRecordID = contents?.record.id ?? 0
      lastVersion = contents?.record.version ?? 0
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Opens the journal, or creates a new one, and calls ``begin()``.
  package convenience init(
    _ path: String, identity: Identity, durability: Durability,
    keeping retention: JournalRetention = JournalRetention(), heldBy incarnation: UInt64? = nil
  ) throws(JournalError) {
    try self.init(
      opening: path, identity: identity, durability: durability, keeping: retention,
      heldBy: incarnation)
    try begin()
  }

  /// Commits all changes since the journal was opened, including the records from the log. After
  /// this call, the node records its steps in this journal.
  package func begin() throws(JournalError) {
    do {
      try writer.releaseWrites()
      log.clear()
      // Writes the step marker file before the database. So if the opening count in the step marker
      // file is lower than in the database, the step marker file is an older copy.
      opening.begin(durability)
      try marker.begin(stream, opening: opening.count, record: log.lastNumber)
      try opening.write(to: database)
      // The file that marks a reset is obsolete as soon as the new journal is in use.
      unlink(path + JournalFiles.resetSuffix)
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Makes a change to a journal that no process uses, instead of ``begin()``. The records from the
  /// log are written in the same transaction. The step marker file stays the file of the node's last
  /// process.
  func changeBeforeBegin(_ body: () throws -> Void) throws {
    try body()
    // The last process may have been killed after it had appended a record to the log, and before it
    // had noted the number of the record.
    marker.willWrite(log.lastNumber)
    try writer.releaseWrites()
    // Copies the write-ahead log into the database, and waits until both are on the disk.
    try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    releaseLock()
  }

  /// Whether the step marker file is missing, although its log may have contained records that the
  /// database lacks.
  package let lacksLog: Bool
  /// Whether the system shut down or crashed while a process had records that were not in the
  /// database.
  let mayLackRecords: Bool

  /// Reads the current contents of the journal, including the records that were made since the
  /// journal was opened.
  package func readCurrentContents() throws(JournalError) -> JournalContents? {
    do { return try JournalContents.read(updatedDatabase()) } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Releases the memory of ``contents``, which can be large.
  package func forgetContents() { contents = nil }

  /// Unlocks the journal for the next incarnation of the node, which can run in this process if the
  /// node is embedded. Records that the database lacks remain in the log, where the next
  /// incarnation reads them. Do not record anything after this call.
  package func releaseLock() {
    hasReleasedLock = true
    marker.unlock()
  }

  // MARK: Recording changes

  /// Records the changes that `write` makes, in one record. If `write` throws, none of the changes
  /// is recorded.
  package func record(_ write: () throws -> Void) throws(JournalError) {
    endLookups()
    do {
      pendingOperations.removeAll(keepingCapacity: true)
      if Failpoint.shouldFail(.recordError) {
        throw DatabaseError(resultCode: SQLITE_FULL, message: "database or disk is full")
      }
      try write()
      if !pendingOperations.isEmpty { try appendToLog(pendingOperations) }
      // Releases a buffer that a long queue has enlarged.
      if pendingOperations.capacity > Self.bufferLimit { pendingOperations = [] }
      marker.lastRecord = log.lastNumber
      countRecord()
    } catch {
      states.forgetBase()
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Appends a record to the log. If the log is full, first writes all its records into the
  /// database. If the log is not in use or too small for the record, writes the record into the
  /// database.
  private func appendToLog(_ record: [UInt8]) throws {
    if durability == .process, log.append(record) { return }
    try writeLog()
    if durability == .process, log.append(record) { return }
    marker.willWrite(log.lastNumber + 1)
    try writer.write(record, as: log.lastNumber + 1)
    log.skip()
    try finishFirstWrite()
  }

  /// Whether the log contains records that the database lacks.
  package var hasUnwrittenRecords: Bool { !log.isEmpty }

  /// Writes all records into the database, for readers that do not use this library.
  package func writePendingRecords() throws(JournalError) {
    do { try writeLog() } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Writes all records and the prepared step into the database after the node has stopped
  /// gracefully. So the next process requires no file except the database.
  package func finish() throws(JournalError) {
    guard opening.isOpen else { return try writePendingRecords() }
    let step = marker.preparedStepRecord.read().flatMap { $0.outcome == .unknown ? $0.step : nil }
    if step != nil || lastApplied > .zero {
      try record {
        recordApplied(lastApplied)
        if let step { try recordPrepared(step, schema: step.schema) }
      }
    }
    try writePendingRecords()
    do { try opening.close(in: database) } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  private func writeLog() throws {
    guard !log.isEmpty, !hasReleasedLock, !writer.isHeld else { return }
    endLookups()
    Failpoint.hit(.writeBefore)
    try writer.write(log.records(), through: log.lastNumber)
    Failpoint.hit(.writeAfter)
    log.clear()
    try finishFirstWrite()
  }

  private func finishFirstWrite() throws(DatabaseError) {
    guard isFirstRecordDue, !writer.isHeld else { return }
    isFirstRecordDue = false
    try database.execute("PRAGMA synchronous = NORMAL")
  }

  /// Changes the database immediately, instead of adding an operation to a record.
  func changeDatabase(_ body: () throws -> Void) throws(JournalError) {
    endLookups()
    do {
      try writeLog()
      try writer.transaction(body)
      try finishFirstWrite()
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Writes all records into the database, and returns the database.
  func updatedDatabase() throws -> Database {
    try writeLog()
    return database
  }

  /// Adds an operation to the record in progress.
  func run(_ operation: JournalOperation, _ values: SQLValue...) {
    OperationCoding.append(operation, values, to: &pendingOperations)
  }

  func countRecord() { recordCount += 1 }

  /// Ends the read transaction that all lookups of the current turn share. Call this before each
  /// write to the database.
  package func endLookups() {
    guard isLookingUp else { return }
    isLookingUp = false
    // The end of a read-only transaction cannot fail.
    try? lookupTransaction.end.get().run()
  }

  /// Returns an instance from the database. Returns `nil` if the database has no instance with this
  /// key. Does not read the log.
  ///
  /// The lookups of a turn share a transaction, because each transaction locks the database. Call
  /// ``endLookups()`` at the end of the turn.
  package func instance(_ key: InstanceKey) throws(JournalError) -> RecordedInstance? {
    do {
      if !isLookingUp, !writer.isHeld {
        try lookupTransaction.begin.get().run()
        isLookingUp = true
      }
      var found: RecordedInstance?
      try instanceQuery.get().forEachRow(.text(key.text)) { found = RecordedInstance($0) }
      return found
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Records the node's state after a batch of steps.
  /// - Parameters:
  ///   - version: The node's version after the batch.
  ///   - steps: The number of steps in the batch.
  ///   - cause: The name of the event, timer or effect that caused the last step.
  package func recordState(
    to state: [UInt8], version: UInt64, steps: UInt64, cause: String, time: Int64,
    incarnation: UInt64
  ) throws {
    lastStateRecordID += 1
    lastVersion = version
    let entry = states.entry(for: state, record: lastStateRecordID)
    if let base = entry.baseRecord {
      run(
        .movedFrom, .integer(lastStateRecordID), .integer(version), .integer(incarnation),
        .integer(time),
        .text(cause), .integer(steps), .integer(base), .text(entry.text), .schema(schema))
    } else {
      run(
        .moved, .integer(lastStateRecordID), .integer(version), .integer(incarnation),
        .integer(time),
        .text(cause), .integer(steps), .text(state), .schema(schema))
    }
    let unexpired = try firstUnexpiredRecord(at: time)
    guard
      let first = states.oldestRecordToKeep(
        upTo: lastStateRecordID, oldest: oldestRecord, unexpired: unexpired)
    else { return }
    oldestRecord = first
    run(.deleteRecords, .integer(oldestRecord))
    // A long queue leaves free pages in the file. Each deletion of old records returns some of
    // these pages to the file system.
    run(.incrementalVacuum)
  }

  /// Returns the number of the first record that is not too old; `nil` if no check is due.
  private func firstUnexpiredRecord(at time: Int64) throws -> Int64? {
    guard let oldestTime = expiry.beginCheck(at: time) else { return nil }
    let end = oldestRecord + RecordedStates.deletionLimit
    // Reads only records that will be deleted, and one more.
    let first = try database.select(
      "SELECT id FROM record WHERE id < ? AND time >= ? ORDER BY id LIMIT 1", .integer(end),
      .integer(oldestTime)
    ) { $0.integer(0) }.first
    if let first { return first }
    // Records that are only in the log are recent.
    let last = try JournalCheck.selectNumber(
      "SELECT coalesce(max(id), 0) FROM record", in: database)
    if last >= end { expiry.continueCheck(at: time) }
    return min(end, last + 1)
  }

  package func recordConsumption(of pipe: String, stream: UInt64, applied: UInt64, closed: Bool)
    throws
  {
    run(
      .consumed, .text(pipe), .integer(stream), .integer(applied), .integer(Int64(closed ? 1 : 0)))
  }

  /// Records events that were added to the queue of an outbound pipe. Each event ends with a line
  /// feed.
  /// - Parameters:
  ///   - last: The number of the last of these events.
  ///   - schema: The schema version of the receiver for which the events are encoded.
  package func recordQueuedEvents(
    of pipe: String, last: UInt64, count: Int, events: [UInt8], schema: Int = 1
  ) throws {
    run(
      .queued, .text(pipe), .integer(last), .integer(Int64(count)),
      .text(events[..<(events.count - 1)]), .schema(schema))
  }

  /// Records the progress of an outbound pipe.
  /// - Parameters:
  ///   - queued: The number of the last queued event.
  ///   - acknowledged: The number of the last acknowledged event.
  ///   - trims: Whether to delete the acknowledged events.
  package func recordSendProgress(
    of pipe: String, queued: UInt64, acknowledged: UInt64, trims: Bool
  ) throws {
    run(.sent, .text(pipe), .integer(queued), .integer(acknowledged))
    if trims { run(.trim, .text(pipe), .integer(acknowledged)) }
  }

  package func recordEffectStart(
    _ origin: EffectOrigin, state: [UInt8], progress: BootClock.Instant
  ) throws {
    run(
      .effectStarted, .integer(origin.version), .integer(Int64(origin.feedback)), .text(state),
      .integer(progress.timeOfDay), .text(boot),
      .integer(progress.timeSinceBoot), .schema(schema))
  }

  /// Records that the timers of a state have started.
  /// - Parameters:
  ///   - origin: Identifies the step that entered the state.
  ///   - delay: The time from `entry` to the expiry of the next timer.
  ///   - entry: The time at which the machine entered the state.
  package func recordTimersStart(
    _ origin: EffectOrigin, delay: Duration, since entry: BootClock.Instant
  ) throws {
    let delay = Array(String(delay.clampedNanoseconds).utf8)
    if origin.instance == 0 {
      try recordEffectStart(origin, state: delay, progress: entry)
    } else {
      try recordInstanceEffectStart(origin, state: delay, progress: entry)
    }
  }

  package func recordEffectEnd(_ origin: EffectOrigin) throws {
    run(.effectEnded, .integer(origin.version), .integer(Int64(origin.feedback)))
  }

  package func recordPostponedEvent(_ id: Int64, _ pipe: String, _ sequence: UInt64, event: [UInt8])
    throws
  {
    run(
      .postponed, .integer(id), .text(pipe), .integer(sequence), .text(event), .schema(schema))
  }

  package func removePostponedEvent(_ id: Int64) throws { run(.postponedRemoved, .integer(id)) }

  package func recordDeadLetter(_ deadLetter: DeadLetter) throws {
    run(
      .deadLetter, .integer(deadLetter.id), .text(deadLetter.pipe), .integer(deadLetter.sequence),
      .text(deadLetter.event.bytes), .text(deadLetter.reason), .text(deadLetter.state?.bytes ?? []),
      .integer(deadLetter.version), .integer(deadLetter.time), .schema(deadLetter.schema ?? 1))
  }

  /// Records the total number of refused events that were discarded. An event is discarded if the
  /// journal already has the maximum number of dead letters.
  package func recordLostDeadLetters(_ count: UInt64) throws {
    run(.meta, .text(JournalSnapshot.deadLettersLostKey), .text(String(count)))
  }

  /// Records, as JSON, the progress of composites' rules in the step reports of `node`.
  package func recordComponent(_ node: String, _ json: [UInt8]) throws {
    run(.meta, .text(JournalSnapshot.componentKey + node), .text(json))
  }

  /// Deletes the recorded progress for a node, because no rule reads the node's step reports any
  /// more.
  package func removeComponent(_ node: String) throws {
    run(.metaRemoved, .text(JournalSnapshot.componentKey + node))
  }

  /// Returns, by node, the progress that ``recordComponent(_:_:)`` has recorded.
  package func components() throws(JournalError) -> [String: [UInt8]] {
    let key = JournalSnapshot.componentKey
    do {
      let rows = try updatedDatabase().select(
        "SELECT key, value FROM meta WHERE key GLOB ?", .text(key + "*")
      ) { (String($0.text(0).dropFirst(key.count)), $0.bytes(1)) }
      return Dictionary(rows) { first, _ in first }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Returns the recorded dead letter with an id; `nil` if there is none.
  package func deadLetter(_ id: UInt64) -> DeadLetter? {
    var deadLetter: DeadLetter?
    try? updatedDatabase().prepare(JournalContents.deadLetterByIDQuery).forEachRow(.integer(id)) {
      deadLetter = DeadLetter($0)
    }
    return deadLetter
  }

  package func removeDeadLetter(_ id: UInt64) throws {
    run(.deadLetterRemoved, .integer(id))
    run(.incrementalVacuum)
  }

  /// Records the answer to a request.
  ///
  /// Omits a large state if the last record contains the same state. Always omits a state that
  /// exceeds `answerByteLimit`.
  package func recordAnswer(_ key: RequestKey, version: UInt64, state: [UInt8]) throws {
    let isRecorded =
      !hasInstances && version == lastVersion && state.count >= RecordedStates.minimumByteCount
    let isLeftOut = isRecorded || state.count > Self.answerByteLimit
    run(
      .answered, .integer(key.client), .integer(key.id), .integer(version),
      .text(isLeftOut ? [] : state))
  }

  /// Deletes the answers to a client's requests with numbers below `oldest`, because the client has
  /// received these answers.
  package func recordAcknowledgement(of client: UInt64, before oldest: UInt64) throws {
    run(.requestsAcknowledged, .integer(client), .integer(oldest))
  }

  /// Deletes all answers to a client when the node forgets the client.
  /// - Parameter last: The highest request number of any forgotten client. The node rejects a
  ///   request of an unknown client as a repetition if the request's number is at most `last`.
  package func recordForgottenClient(_ client: UInt64, through last: UInt64) throws {
    run(.clientForgotten, .integer(client))
    try recordForgottenRequests(through: last)
  }
}
