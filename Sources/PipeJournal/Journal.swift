import CSQLite
import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The durable step log of one node. Everything that is written between `begin` and `commit` is
/// recorded as a whole or not at all.
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
  /// Identifies the numbering of the events that this node sends. A reset begins another numbering.
  package let stream: UInt64
  /// The contents when the journal was opened; `nil` if the node has never entered a state.
  package private(set) var contents: JournalContents?
  /// The file that marks the step in progress.
  package let marker: StepMarkerFile
  /// The identity of the open file, independent of its name.
  let fileIdentity: FileIdentity?
  /// Whether there was no trace of an earlier journal.
  package let isFirst: Bool

  /// The database, which may lack the last records; see ``upToDate()``.
  let database: Database
  private let writer: RecordWriter
  private var opening: JournalOpening
  /// The records that the database lacks; none if records must survive a power failure.
  private(set) var log: RecordLog
  private var hasLeft = false
  /// The record in progress.
  private var pending: [UInt8] = []
  let boot = BootClock.boot
  package let durability: Durability
  private var lastRecord: Int64 = 0
  private lazy var lookupTransaction = (
    begin: Result { try database.prepare("BEGIN") }, end: Result { try database.prepare("COMMIT") }
  )
  private var isLookingUp = false
  /// Whether versions count the steps of instances, so that a version does not identify a record.
  var hasInstances = false
  /// Finds an instance by its key. Most nodes have no instances.
  private lazy var instanceQuery = Result {
    try database.prepare("SELECT \(RecordedInstance.columns) FROM instance WHERE key = ?")
  }
  /// The version of the last record.
  private var lastVersion: UInt64 = 0
  /// The last transaction whose step was recorded.
  var lastApplied = TransactionID.zero
  /// The number of records made since the journal was opened.
  package private(set) var recordCount: UInt64 = 0
  private var oldestRecord: Int64 = 0
  private var states = RecordedStates()
  /// Whether the write-ahead log of a new file is still empty. Until then, nothing must be
  /// synchronized to the disk.
  private var isFirstRecordDue = false

  /// The maximum size of a state that is recorded with an answer. Unit: bytes.
  private static let answerByteLimit = 64 << 10
  /// The maximum capacity of the buffer that is kept for the next record. Unit: bytes.
  private static let bufferLimit = 256 << 10
  /// The number of pages in the write-ahead log before they are copied into the file. A page has
  /// 4096 bytes.
  private static let checkpointPageCount = 4_000

  /// Opens the journal, or creates one. Existing files stay unchanged until ``begin()``.
  /// - Parameter incarnation: The start of the node, if several hosts share the storage. The
  ///   journal is then locked against reads and writes of all other processes, and refused to an
  ///   earlier start.
  package init(
    opening path: String, identity: Identity, durability: Durability,
    heldBy incarnation: UInt64? = nil
  ) throws(JournalError) {
    self.path = path
    self.identity = identity
    self.durability = durability
    marker = try StepMarkerFile(path: path, node: identity.node)
    do {
      let isNew = try !JournalCheck.exists(path, node: identity.node)
      if isNew {
        // There was a journal: a new one would be a silent fresh start.
        try marker.checkNothingRecorded(path: path, node: identity.node)
        try Self.make(path, identity, durability, isHeld: incarnation != nil)
      }
      isFirst = isNew && !marker.existed
      database = try Database(path, .readWrite)
      // Set before the first read: SQLite then uses no shared memory, which hosts cannot share.
      // Otherwise each of two hosts would see only its own records.
      if incarnation != nil { try database.execute("PRAGMA locking_mode = EXCLUSIVE") }
      fileIdentity = FileIdentity(path)
      // A journal that was just created needs no check.
      if !isNew { try Self.check(database, path, identity) }
      if let incarnation { try Self.hold(database, path, by: incarnation) }
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
      try writer.hold()
      let version = try JournalCheck.version(of: database)
      try JournalSchema.upgradeTables(database, from: version)
      stream = try JournalCheck.stream(of: database, path, node: identity.node)
      let written = try RecordWriter.written(to: database)
      log = RecordLog(marker.log, stream: stream, written: written)
      opening = try JournalOpening(database)
      mayLackRecords = opening.isOpen && !opening.isSameBoot
      lacksLog =
        try !isNew
        && marker.check(
          stream, last: log.last, written: written, opening, durability, path: path,
          node: identity.node)
      if !log.isEmpty { try writer.write(log.records(), through: log.last) }
      try JournalSchema.upgradeContents(database, from: version)
      contents = try JournalContents.read(database)
      if let prepared = marker.prepared.read(), let version = contents?.record.version {
        contents?.participant.add(prepared, at: version)
      }
      lastApplied = contents?.participant.applied ?? .zero
      oldestRecord = try Self.oldestRecord(database)
      if contents != nil { states = try RecordedStates(database) }
      lastRecord = contents?.record.id ?? 0
      lastVersion = contents?.record.version ?? 0
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Opens the journal, or creates one, and begins at once.
  package convenience init(
    _ path: String, identity: Identity, durability: Durability, heldBy incarnation: UInt64? = nil
  ) throws(JournalError) {
    try self.init(
      opening: path, identity: identity, durability: durability, heldBy: incarnation)
    try begin()
  }

  /// Lets the node continue with the journal's contents. The records from the log, and changes
  /// since the opening, become permanent.
  package func begin() throws(JournalError) {
    do {
      try writer.release()
      log.clear()
      // The mark first: a mark with a lower count than the database is then known to be an older
      // copy.
      opening.begin(durability)
      try marker.begin(stream, opening: opening.count, record: log.last)
      try opening.write(to: database)
      // The note of a reset is not needed once the journal exists.
      unlink(path + JournalFiles.resetSuffix)
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Whether the file of its log is missing, which may have held records that the database lacks.
  package let lacksLog: Bool
  /// Whether the system ended while a process had records outside the database.
  let mayLackRecords: Bool

  /// Reads the present contents, for callers that need more than was kept.
  package func readCurrentContents() throws(JournalError) -> JournalContents? {
    do { return try JournalContents.read(updatedDatabase()) } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Releases the contents that were read, which can be large.
  package func forgetContents() { contents = nil }

  /// Leaves the journal to the node's next process, or to its next shell in this process. The
  /// successor finds the records that the database lacks in the log. Nothing may be recorded after
  /// this call.
  package func leave() {
    hasLeft = true
    marker.unlock()
  }

  // MARK: Records

  /// Records changes that belong together. If `write` throws, none of them is recorded.
  package func record(_ write: () throws -> Void) throws(JournalError) {
    endLookups()
    do {
      pending.removeAll(keepingCapacity: true)
      if Failpoint.shouldFail(.recordError) {
        throw DatabaseError(code: SQLITE_FULL, message: "database or disk is full")
      }
      try write()
      if !pending.isEmpty { try keep(pending) }
      // The buffer of a long queue need not be kept for the next record.
      if pending.capacity > Self.bufferLimit { pending = [] }
      marker.lastRecord = log.last
      countRecord()
    } catch {
      states.forgetBase()
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Appends a record to the log, or writes it into the database at once, after the records before
  /// it.
  private func keep(_ record: [UInt8]) throws {
    if durability == .process, log.append(record) { return }
    try writeLog()
    if durability == .process, log.append(record) { return }
    marker.willWrite(log.last + 1)
    try writer.write(record, as: log.last + 1)
    log.skip()
    try finishFirstWrite()
  }

  /// Whether the database lacks records.
  package var hasUnwrittenRecords: Bool { !log.isEmpty }

  /// Writes the records that the database lacks into it, for readers that do not use this library.
  package func writePendingRecords() throws(JournalError) {
    do { try writeLog() } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Completes the database after the node has stopped gracefully: it then has everything that the
  /// next process needs.
  package func finish() throws(JournalError) {
    guard opening.isOpen else { return try writePendingRecords() }
    let step = marker.prepared.read().flatMap { $0.end == .unknown ? $0.step : nil }
    if step != nil || lastApplied > .zero {
      try record {
        recordApplied(lastApplied)
        if let step { try prepared(step) }
      }
    }
    try writePendingRecords()
    do { try opening.close(in: database) } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  private func writeLog() throws {
    guard !log.isEmpty, !hasLeft, !writer.isHeld else { return }
    endLookups()
    Failpoint.hit(.writeBefore)
    try writer.write(log.records(), through: log.last)
    Failpoint.hit(.writeAfter)
    log.clear()
    try finishFirstWrite()
  }

  private func finishFirstWrite() throws(DatabaseError) {
    guard isFirstRecordDue, !writer.isHeld else { return }
    isFirstRecordDue = false
    try database.execute("PRAGMA synchronous = NORMAL")
  }

  /// Changes the database at once, outside of any record.
  func change(_ body: () throws -> Void) throws(JournalError) {
    endLookups()
    do {
      try writeLog()
      try writer.transaction(body)
      try finishFirstWrite()
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Returns the database with all records.
  func updatedDatabase() throws -> Database {
    try writeLog()
    return database
  }

  /// Adds an operation to the record in progress.
  func run(_ operation: JournalOperation, _ values: SQLValue...) {
    OperationCoding.append(operation, values, to: &pending)
  }

  func countRecord() { recordCount += 1 }

  /// Ends the transaction of the lookups in a turn. Nothing may be written before that.
  package func endLookups() {
    guard isLookingUp else { return }
    isLookingUp = false
    // A transaction that only reads cannot fail to end.
    try? lookupTransaction.end.get().run()
  }

  /// Returns an instance that the database has; `nil` if it has none with this key. Records that
  /// the database lacks are not considered.
  ///
  /// The lookups of a turn share a transaction, since each transaction locks the database. Call
  /// ``endLookups()`` at the end of the turn.
  package func instance(_ key: InstanceKey) throws(JournalError) -> RecordedInstance? {
    do {
      if !isLookingUp, !writer.isHeld {
        try lookupTransaction.begin.get().run()
        isLookingUp = true
      }
      var found: RecordedInstance?
      try instanceQuery.get().rows(.text(key.text)) { found = RecordedInstance($0) }
      return found
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Records the state after a burst of steps.
  package func moved(
    to state: [UInt8], version: UInt64, steps: UInt64, cause: String, time: Int64,
    incarnation: UInt64
  ) throws {
    lastRecord += 1
    lastVersion = version
    let entry = states.entry(for: state, record: lastRecord)
    if let base = entry.base {
      run(
        .movedFrom, .integer(lastRecord), .integer(version), .integer(incarnation), .integer(time),
        .text(cause), .integer(steps), .integer(base), .text(entry.text))
    } else {
      run(
        .moved, .integer(lastRecord), .integer(version), .integer(incarnation), .integer(time),
        .text(cause), .integer(steps), .text(state))
    }
    guard let first = states.firstKept(of: lastRecord, oldest: oldestRecord) else { return }
    oldestRecord = first
    run(.deleteRecords, .integer(oldestRecord))
    // Pages that a long queue has left behind are returned to the system, a part at a time.
    run(.incrementalVacuum)
  }

  package func consumed(_ pipe: String, stream: UInt64, applied: UInt64, closed: Bool) throws {
    run(
      .consumed, .text(pipe), .integer(stream), .integer(applied), .integer(Int64(closed ? 1 : 0)))
  }

  /// Records events of an out-pipe, each followed by a line feed.
  package func queued(_ pipe: String, last: UInt64, count: Int, events: [UInt8]) throws {
    run(
      .queued, .text(pipe), .integer(last), .integer(Int64(count)),
      .text(events[..<(events.count - 1)]))
  }

  /// Records the progress of an out-pipe. With `trims`, deletes the acknowledged events.
  package func sent(_ pipe: String, queued: UInt64, acknowledged: UInt64, trims: Bool) throws {
    run(.sent, .text(pipe), .integer(queued), .integer(acknowledged))
    if trims { run(.trim, .text(pipe), .integer(acknowledged)) }
  }

  package func effectStarted(
    _ origin: EffectOrigin, state: [UInt8], progress: BootClock.Instant
  ) throws {
    run(
      .effectStarted, .integer(origin.version), .integer(Int64(origin.feedback)), .text(state),
      .integer(progress.time), .text(boot),
      .integer(progress.clock))
  }

  package func effectEnded(_ origin: EffectOrigin) throws {
    run(.effectEnded, .integer(origin.version), .integer(Int64(origin.feedback)))
  }

  package func postponed(_ id: Int64, _ pipe: String, _ sequence: UInt64, event: [UInt8]) throws {
    run(.postponed, .integer(id), .text(pipe), .integer(sequence), .text(event))
  }

  package func postponedRemoved(_ id: Int64) throws { run(.postponedRemoved, .integer(id)) }

  package func deadLetterAdded(_ deadLetter: DeadLetter) throws {
    run(
      .deadLetter, .integer(deadLetter.id), .text(deadLetter.pipe), .integer(deadLetter.sequence),
      .text(deadLetter.event.bytes), .text(deadLetter.reason), .text(deadLetter.state?.bytes ?? []),
      .integer(deadLetter.version), .integer(deadLetter.time))
  }

  /// Records the number of refused events that were lost, since there were too many dead letters.
  package func deadLettersLost(_ count: UInt64) throws {
    run(.meta, .text(JournalSnapshot.deadLettersLostKey), .text(String(count)))
  }

  /// Records the progress, as JSON, of a node whose steps feed the rules of composites.
  package func component(_ node: String, _ json: [UInt8]) throws {
    run(.meta, .text(JournalSnapshot.componentKey + node), .text(json))
  }

  /// Deletes the progress of a node that reports no more steps to the rules.
  package func componentRemoved(_ node: String) throws {
    run(.metaRemoved, .text(JournalSnapshot.componentKey + node))
  }

  /// Returns the recorded progress of all such nodes, by their names.
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

  /// Returns a recorded dead letter.
  package func deadLetter(_ id: UInt64) -> DeadLetter? {
    var deadLetter: DeadLetter?
    try? updatedDatabase().prepare(JournalContents.deadLetterByID).rows(.integer(id)) {
      deadLetter = DeadLetter($0)
    }
    return deadLetter
  }

  package func deadLetterRemoved(_ id: UInt64) throws { run(.deadLetterRemoved, .integer(id)) }

  /// Records the answer to a request.
  ///
  /// A large state that is in the last record is not recorded again, and a very large state of an
  /// earlier step is left out.
  package func answered(_ key: RequestKey, version: UInt64, state: [UInt8]) throws {
    let isRecorded =
      !hasInstances && version == lastVersion && state.count >= RecordedStates.minimumByteCount
    let isLeftOut = isRecorded || state.count > Self.answerByteLimit
    run(
      .answered, .integer(key.client), .integer(key.id), .integer(version),
      .text(isLeftOut ? [] : state))
  }

  /// Deletes the answers to all requests of a client before this one, which are no longer needed.
  package func requestsAcknowledged(of client: UInt64, before oldest: UInt64) throws {
    run(.requestsAcknowledged, .integer(client), .integer(oldest))
  }

  /// Deletes all records of a client.
  /// - Parameter last: The highest forgotten number. Up to it, no request of a client that is not
  ///   in the journal is new.
  package func clientForgotten(_ client: UInt64, through last: UInt64) throws {
    run(.clientForgotten, .integer(client))
    try requestsForgotten(through: last)
  }
}
