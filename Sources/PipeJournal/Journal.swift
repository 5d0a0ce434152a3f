import CSQLite
import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The durable step log of one node: what it writes between `begin` and `commit` is there as a whole
/// or not at all.
package final class Journal {
  /// Whose journal it is.
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
  /// Names the numbering of the events that this node sends: another one after a reset.
  package let stream: UInt64
  /// What it held when it was opened; `nil` where the node has never entered a state.
  package private(set) var contents: JournalContents?
  /// The file with the step under way.
  package let mark: StepMark
  /// Which file it is, whatever becomes of its name.
  let identityOfFile: FileIdentity?
  /// Whether nothing was there that tells of an earlier one.
  package let isFirst: Bool

  /// What is in it may lack the last records; see ``upToDate()``.
  let database: Database
  private let writer: RecordWriter
  private var opening: JournalOpening
  /// The records that the database lacks; none where they are to survive a loss of power.
  private var log: RecordLog
  private var hasLeft = false
  /// The record that is being made.
  private var pending: [UInt8] = []
  private let boot = BootClock.boot
  package let durability: Durability
  private var lastRecord: Int64 = 0
  /// The last transaction whose step was recorded.
  var lastApplied = TransactionID.zero
  /// How many were made since it was opened.
  package private(set) var recordCount: UInt64 = 0
  private var oldestRecord: Int64 = 0
  /// Whether nothing is in a new file's log, which needs not be on the disk before what follows it.
  private var isFirstRecordDue = false

  /// Records that are kept for people to read. Unit: records.
  private static let keptRecords = 1_000
  /// What their states may take together. Unit: bytes.
  private static let keptBytes = 4 << 20
  /// What the next record may be made in at most, when there is none. Unit: bytes.
  private static let keptRoom = 256 << 10
  /// Pages of the write-ahead log before they are copied into the file, 4096 bytes each.
  private static let logPages = 4_000

  /// Opens the journal, or makes one. Where the files were there, they stay unchanged until ``begin()``.
  /// - Parameter incarnation: On storage that several hosts share, the start of the node: the journal is held so that no
  ///   other process reads or writes it, and refused to one of an earlier start.
  package init(
    opening path: String, identity: Identity, durability: Durability,
    heldBy incarnation: UInt64? = nil
  ) throws(JournalError) {
    self.path = path
    self.identity = identity
    self.durability = durability
    mark = try StepMark(path: path, node: identity.node)
    do {
      let isNew = try !JournalCheck.exists(path, node: identity.node)
      if isNew {
        // There was one: a new one would be a silent fresh start.
        try mark.checkNothingRecorded(path: path, node: identity.node)
        try Self.make(path, identity, durability, isHeld: incarnation != nil)
      }
      isFirst = isNew && !mark.existed
      database = try Database(path, .readWrite)
      // Before the first read: without memory that processes share, which hosts cannot. Each of two would see its own
      // records only.
      if incarnation != nil { try database.execute("PRAGMA locking_mode = EXCLUSIVE") }
      identityOfFile = FileIdentity(path)
      // What was just made needs not be read through.
      if !isNew { try Self.check(database, path, identity) }
      if let incarnation { try Self.hold(database, path, by: incarnation) }
      try database.execute(
        """
        PRAGMA synchronous = \(durability == .power ? "FULL" : isNew ? "OFF" : "NORMAL");
        PRAGMA wal_autocheckpoint = \(Self.logPages);
        PRAGMA journal_size_limit = \(Self.logPages * 4096);
        PRAGMA cache_size = -1000;
        """)
      isFirstRecordDue = isNew && durability != .power
      database.keepLogOnClose()
      writer = try RecordWriter(database)
      try writer.hold()
      if try JournalCheck.version(of: database) != JournalSchema.version {
        try database.execute("PRAGMA user_version = \(JournalSchema.version)")
      }
      stream = try JournalCheck.stream(of: database, path, node: identity.node)
      let written = try RecordWriter.written(to: database)
      log = RecordLog(mark.log, stream: stream, written: written)
      opening = try JournalOpening(database)
      mayLackRecords = opening.isOpen && !opening.isSameBoot
      lacksLog =
        try !isNew
        && mark.check(
          stream, last: log.last, written: written, opening, durability, path: path,
          node: identity.node)
      if !log.isEmpty { try writer.write(log.records(), through: log.last) }
      contents = try JournalContents.read(database)
      if let prepared = mark.prepared.read(), let version = contents?.record.version {
        contents?.participant.add(prepared, at: version)
      }
      lastApplied = contents?.participant.applied ?? .zero
      oldestRecord = try Self.oldestRecord(database)
      lastRecord = contents?.record.id ?? 0
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Opens the journal, or makes one, and begins at once.
  package convenience init(
    _ path: String, identity: Identity, durability: Durability, heldBy incarnation: UInt64? = nil
  ) throws(JournalError) {
    try self.init(
      opening: path, identity: identity, durability: durability, heldBy: incarnation)
    try begin()
  }

  /// The node goes on with what the journal has: what its log had, and what was noted since it was opened, stays.
  package func begin() throws(JournalError) {
    do {
      try writer.release()
      log.clear()
      // The mark first: a copy of it that was made before is then known to be one.
      opening.begin(durability)
      try mark.begin(stream, opening: opening.count, record: log.last)
      try opening.write(to: database)
      // Of no use to a journal that is there.
      unlink(path + JournalFiles.resetSuffix)
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Whether the file of its log is gone, which may have had records that the database lacks.
  package let lacksLog: Bool
  /// Whether the system ended while a process had records outside of the database.
  let mayLackRecords: Bool

  /// What it has by now, for who needs more of it than was kept.
  package func readAgain() throws(JournalError) -> JournalContents? {
    do { return try JournalContents.read(upToDate()) } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Forgets what was read, which can be large.
  package func forgetContents() { contents = nil }

  /// Leaves the journal to the node's next process, or next shell in this one, which finds in the log what
  /// the database lacks; nothing may be recorded after that.
  package func leave() {
    hasLeft = true
    mark.unlock()
  }

  // MARK: Records

  /// Writes what belongs together; nothing of it stays where it throws.
  package func record(_ write: () throws -> Void) throws(JournalError) {
    do {
      pending.removeAll(keepingCapacity: true)
      if Failpoint.shouldFail(.recordError) {
        throw DatabaseError(code: SQLITE_FULL, message: "database or disk is full")
      }
      try write()
      if !pending.isEmpty { try keep(pending) }
      // What a long queue has taken needs not be held for the next record.
      if pending.capacity > Self.keptRoom { pending = [] }
      mark.lastRecord = log.last
      countRecord()
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Appends a record to the log, or writes it at once, after those before it.
  private func keep(_ record: [UInt8]) throws {
    if durability == .process, log.append(record) { return }
    try writeLog()
    if durability == .process, log.append(record) { return }
    mark.willWrite(log.last + 1)
    try writer.write(record, as: log.last + 1)
    log.skip()
    try firstWasWritten()
  }

  /// Whether there are records that the database lacks.
  package var hasUnwritten: Bool { !log.isEmpty }

  /// Writes the records that the database lacks into it, for those who read it otherwise than by this library.
  package func writeOut() throws(JournalError) {
    do { try writeLog() } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// The node has stopped in order: the database has all that its next process needs.
  package func finish() throws(JournalError) {
    guard opening.isOpen else { return try writeOut() }
    let step = mark.prepared.read().flatMap { $0.end == .unknown ? $0.step : nil }
    if step != nil || lastApplied > .zero {
      try record {
        recordApplied(lastApplied)
        if let step { try prepared(step) }
      }
    }
    try writeOut()
    do { try opening.close(in: database) } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  private func writeLog() throws {
    guard !log.isEmpty, !hasLeft, !writer.isHeld else { return }
    Failpoint.hit(.writeBefore)
    try writer.write(log.records(), through: log.last)
    Failpoint.hit(.writeAfter)
    log.clear()
    try firstWasWritten()
  }

  private func firstWasWritten() throws(DatabaseError) {
    guard isFirstRecordDue, !writer.isHeld else { return }
    isFirstRecordDue = false
    try database.execute("PRAGMA synchronous = NORMAL")
  }

  /// Changes the database at once, apart from any record.
  func change(_ work: () throws -> Void) throws(JournalError) {
    do {
      try writeLog()
      try writer.transaction(work)
      try firstWasWritten()
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// The database with all records.
  func upToDate() throws -> Database {
    try writeLog()
    return database
  }

  /// Adds to the record that is being made.
  func run(_ operation: JournalOperation, _ values: SQLValue...) {
    OperationCoding.append(operation, values, to: &pending)
  }

  func countRecord() { recordCount += 1 }

  /// The state after a burst of steps.
  package func moved(
    to state: [UInt8], version: UInt64, steps: UInt64, cause: String, time: Int64,
    incarnation: UInt64
  ) throws {
    lastRecord += 1
    run(
      .moved, .integer(lastRecord), .integer(version), .integer(incarnation), .integer(time),
      .text(cause), .integer(steps), .text(state))
    let kept = max(8, min(Self.keptRecords, Self.keptBytes / max(1, state.count)))
    // A quarter more than is kept, so that it is done seldom.
    guard lastRecord - oldestRecord > Int64(kept + kept / 4) else { return }
    oldestRecord = lastRecord - Int64(kept) + 1
    run(.forgetRecords, .integer(oldestRecord))
    // What a long queue has left behind goes back to the system, a part at a time.
    run(.giveBackPages)
  }

  package func consumed(_ pipe: String, stream: UInt64, applied: UInt64, closed: Bool) throws {
    run(
      .consumed, .text(pipe), .integer(stream), .integer(applied), .integer(Int64(closed ? 1 : 0)))
  }

  /// Events of an out-pipe, each ended by a line feed.
  package func queued(_ pipe: String, last: UInt64, count: Int, events: [UInt8]) throws {
    run(
      .queued, .text(pipe), .integer(last), .integer(Int64(count)),
      .text(events[..<(events.count - 1)]))
  }

  /// How far an out-pipe has got; what is acknowledged is deleted.
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

  package func unpostponed(_ id: Int64) throws { run(.unpostponed, .integer(id)) }

  package func deadLetterAdded(_ letter: DeadLetter) throws {
    run(
      .letter, .integer(letter.id), .text(letter.pipe), .integer(letter.sequence),
      .text(letter.event.bytes), .text(letter.reason), .text(letter.state?.bytes ?? []),
      .integer(letter.version), .integer(letter.time))
  }

  /// How many refused events have become no dead letters, since there were too many.
  package func deadLettersLost(_ count: UInt64) throws {
    run(.meta, .text(JournalSnapshot.lostLettersKey), .text(String(count)))
  }

  /// How far a node has got by whose steps the rules of composites go, as JSON.
  package func component(_ node: String, _ json: [UInt8]) throws {
    run(.meta, .text(JournalSnapshot.componentKey + node), .text(json))
  }

  /// A node's steps are told to the rules no more.
  package func componentRemoved(_ node: String) throws {
    run(.unmeta, .text(JournalSnapshot.componentKey + node))
  }

  /// The same of all such nodes, by their names.
  package func components() throws(JournalError) -> [String: [UInt8]] {
    let key = JournalSnapshot.componentKey
    do {
      let rows = try upToDate().select(
        "SELECT key, value FROM meta WHERE key GLOB ?", .text(key + "*")
      ) { (String($0.text(0).dropFirst(key.count)), $0.bytes(1)) }
      return Dictionary(rows) { first, _ in first }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// A dead letter that is recorded.
  package func deadLetter(_ id: UInt64) -> DeadLetter? {
    var letter: DeadLetter?
    try? upToDate().prepare(JournalContents.letterByID).rows(.integer(id)) {
      letter = DeadLetter($0)
    }
    return letter
  }

  package func deadLetterRemoved(_ id: UInt64) throws { run(.unletter, .integer(id)) }

  package func answered(_ key: RequestKey, version: UInt64, state: [UInt8]) throws {
    run(
      .answered, .integer(key.client), .integer(key.id), .integer(version), .text(state))
  }

  /// The answers to all requests of a client before this one are of no use any more.
  package func requestsAcknowledged(of client: UInt64, before oldest: UInt64) throws {
    run(.requestsAcknowledged, .integer(client), .integer(oldest))
  }

  /// Nothing of a client is kept any more.
  /// - Parameter last: No request of a client that is not in the journal is new up to this number.
  package func clientForgotten(_ client: UInt64, through last: UInt64) throws {
    run(.clientForgotten, .integer(client))
    try requestsForgotten(through: last)
  }
}
