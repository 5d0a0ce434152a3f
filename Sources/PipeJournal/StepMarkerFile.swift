import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// A small memory-mapped file beside a journal. It contains the step in progress, the number of the
/// last record, the last prepared step, and the records that the database lacks. A lock on the file
/// prevents two incarnations from using the journal at the same time.
///
/// A write to the file costs a few memory stores, and is kept however the process ends. An existing
/// file is not changed before ``begin(_:opening:record:)``. So a start that fails because the
/// journal is invalid leaves the evidence in the file, and the next start reports the same error.
package final class StepMarkerFile {
  /// An event whose step was in progress.
  package struct Step: Hashable {
    /// The name of the pipe from which the event came, or of the client that requested the event.
    package var source: String
    /// The number of the event in the pipe, or of the request.
    package var sequence: UInt64
  }

  /// The size of the first part of the file, before the prepared step and the log. Unit: bytes.
  private static let byteCount = 4096
  private static let logStart = byteCount + PreparedStepRecord.byteCount
  private static let fileByteCount = logStart + RecordLog.byteCount
  private static let magic: UInt64 = 0x7069_7065_7374_6532
  /// The first word of a file that an earlier version of this library has written. Such a file
  /// contains less data about the journal.
  private static let formerMagic: UInt64 = 0x7069_7065_7374_6570
  private let path: String
  private let descriptor: Int32
  private let words: UnsafeMutablePointer<UInt64>
  /// The step that was in progress when the last incarnation ended; `nil` if no step was in
  /// progress.
  package let interruptedStep: Step?
  /// The last prepared step of the node, in its part of the file.
  let preparedStepRecord: PreparedStepRecord
  /// The part of the file for the ``RecordLog``.
  var logWords: UnsafeMutablePointer<UInt64> { words + Self.logStart / 8 }
  /// The effect that ended the last incarnation; `nil` if no effect ended it.
  package let fatalEffect: EffectOrigin?
  /// Whether the last incarnation requested that this incarnation check the size of the state after
  /// each step.
  package let measuresEachStep: Bool
  /// The file's data about the journal, as read when the file was opened. `nil` if the file was
  /// missing or written by an earlier version of this library.
  let formerContents: FormerContents?
  private let formerLastRecord: UInt64
  /// Whether the file existed before it was opened.
  let didExist: Bool

  /// A file's data about its journal, as read when the file was opened.
  struct FormerContents {
    /// The number of the last record.
    var lastRecordNumber: UInt64
    /// The number of the last record that bypassed the log. The process may have ended before it
    /// had written this record into the database.
    var lastWrittenRecord: UInt64
    /// The random id of the journal that the file belonged to.
    var streamID: UInt64
    /// The number of times that the journal had been opened.
    var openingCount: UInt64
    /// The checksum of the last prepared step; 0 if there was no step, ``isPreparing`` if the
    /// process ended while it wrote a step.
    var preparedChecksum: UInt64
    /// Whether the file has been written since the system was last started.
    var isSameBoot: Bool
  }

  // The layout in words: magic, pid, hash of the boot, last record, sequence of the step in
  // progress. Then the length of the name of the step's source (0: no step), stream and opening of
  // the journal, checksum of the prepared step, last record that was written directly into the
  // database, name of the source. The first 4,096 bytes end with four further words: instance of
  // the effect that has ended the process (0: the node has no instances), whether to measure each
  // step, feedback of that effect plus 1 (0: no effect, all bits: the timers of a state), version
  // of that effect.
  private enum Word {
    static let pid = 1, boot = 2, record = 3, sequence = 4, length = 5
    static let stream = 6, opening = 7, prepared = 8, written = 9, name = 10
    static let instance = 508, measures = 509, feedback = 510, version = 511
  }
  /// The maximum length of a source's name. Unit: bytes.
  private static let nameCapacity = (Word.instance - Word.name) * 8
  private static let isPreparing: UInt64 = 2

  /// Opens the file and acquires its lock. Waits up to a second for another process to release the
  /// lock.
  init(path journal: String, node: String) throws(JournalError) {
    let path = journal + ".step"
    didExist = FileSystem.exists(path)
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw .inaccessible(
        path: path, node: "", reason: JournalError.reason(path, code: errno))
    }
    // The pid in the file is meaningful only in the container of the process that wrote it. So only
    // the lock shows whether that process has ended.
    let isLocked = Polling.wait(every: .milliseconds(5), until: .now + .seconds(1)) { () -> Bool? in
      if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
      return errno == EWOULDBLOCK ? nil : false
    }
    guard isLocked == true else {
      let pid = Self.holderPID(descriptor)
      close(descriptor)
      throw .locked(path: journal, pid: pid)
    }
    self.path = path
    self.descriptor = descriptor
    if let size = Self.truncatedSize(descriptor) {
      close(descriptor)
      throw .damaged(
        path: journal, node: node,
        reason: "the '.step' file was truncated: it has \(size) of \(Self.fileByteCount) bytes")
    }
    guard posix_fallocate(descriptor, 0, off_t(Self.fileByteCount)) == 0 else {
      close(descriptor)
      throw .full(path: path)
    }
    let map = mmap(
      nil, Self.fileByteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
    guard let map, map != MAP_FAILED else {
      close(descriptor)
      throw .failed(path: path, reason: SystemError.text(of: errno))
    }
    words = map.assumingMemoryBound(to: UInt64.self)
    preparedStepRecord = PreparedStepRecord(words + Self.byteCount / 8)
    let hasKnownFormat = words[0] == Self.magic
    formerContents =
      hasKnownFormat
      ? FormerContents(
        lastRecordNumber: words[Word.record], lastWrittenRecord: words[Word.written],
        streamID: words[Word.stream],
        openingCount: words[Word.opening],
        preparedChecksum: words[Word.prepared], isSameBoot: words[Word.boot] == Self.bootHash) : nil
    formerLastRecord = hasKnownFormat || words[0] == Self.formerMagic ? words[Word.record] : 0
    interruptedStep = hasKnownFormat ? Self.markedStep(words) : nil
    fatalEffect = hasKnownFormat ? Self.markedEffect(words) : nil
    measuresEachStep = hasKnownFormat && words[Word.measures] == 1
  }

  /// Returns the size of the file if the file was truncated; `nil` if the file has its full size.
  private static func truncatedSize(_ descriptor: Int32) -> Int64? {
    var (status, first) = (stat(), UInt64(0))
    // The first word is written after the file has reached its full size. So a shorter file that
    // begins with this word was truncated later.
    guard fstat(descriptor, &status) == 0, status.st_size < fileByteCount,
      pread(descriptor, &first, 8, 0) == 8, first == magic || first == formerMagic
    else { return nil }
    return Int64(status.st_size)
  }

  /// Assigns the file to the journal with the id `stream`. The journal's database contains all
  /// records up to `record`.
  func begin(_ stream: UInt64, opening: UInt64, record: UInt64) throws {
    try beginBoot()
    words[Word.pid] = UInt64(getpid())
    for word in [Word.length, Word.measures, Word.feedback] { words[word] = 0 }
    words[Word.record] = record
    words[Word.written] = record
    words[Word.opening] = opening
    words[Word.prepared] = preparedStepRecord.checksum
    words[Word.stream] = stream
    words[0] = Self.magic
  }

  deinit {
    munmap(words, Self.fileByteCount)
    close(descriptor)
  }

  /// Releases the lock. This process must not record anything after this call.
  func unlock() { flock(descriptor, LOCK_UN) }

  /// Returns the process id that the holder of the lock has written to the file; `nil` if the file
  /// contains no process id.
  static func holderPID(_ descriptor: Int32) -> Int32? {
    var pid: UInt64 = 0
    guard pread(descriptor, &pid, 8, off_t(8 * Word.pid)) == 8, pid > 0 else { return nil }
    return Int32(exactly: pid)
  }

  /// Returns the prepared step of the node with this journal, even while the node is running.
  static func preparedStep(ofJournal journal: String) -> PreparedStepRecord.Contents? {
    let descriptor = open(journal + ".step", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return withUnsafeTemporaryAllocation(
      of: UInt64.self, capacity: PreparedStepRecord.byteCount / 8
    ) {
      words in
      let count = pread(
        descriptor, words.baseAddress, PreparedStepRecord.byteCount, off_t(Self.byteCount))
      guard count == PreparedStepRecord.byteCount, let start = words.baseAddress else { return nil }
      return PreparedStepRecord(start).read()
    }
  }

  /// Returns a copy of the log of a journal, even while the node is running; empty if there is no
  /// log.
  static func logWords(ofJournal journal: String) -> [UInt64] {
    let descriptor = open(journal + ".step", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    return [UInt64](unsafeUninitializedCapacity: RecordLog.byteCount / 8) { words, count in
      let read = pread(descriptor, words.baseAddress, RecordLog.byteCount, off_t(Self.logStart))
      count = max(0, read) / 8
    }
  }

  /// Prepares the file for its first use since the start of the system. The database must already
  /// contain all records of the log.
  ///
  /// After a crash of the system, parts of the log may be missing on the disk. Old records could
  /// then follow new records and have the numbers of the missing records. Therefore, this function
  /// erases the old log.
  private func beginBoot() throws {
    guard formerContents?.isSameBoot != true else { return }
    if didExist {
      // Writes with `pwrite`, because zeros that are written through the memory map would keep
      // these pages in memory.
      let zeros = [UInt8](repeating: 0, count: 64 << 10)
      for part in 0..<(RecordLog.byteCount / zeros.count) {
        let offset = off_t(Self.logStart + part * zeros.count)
        guard pwrite(descriptor, zeros, zeros.count, offset) == zeros.count else {
          throw SystemError("write", on: path, code: errno)
        }
      }
    }
    words[Word.boot] = Self.bootHash
  }

  private static var bootHash: UInt64 { hash(BootClock.bootID.utf8) }

  /// The number of the last record.
  var lastRecord: UInt64 {
    get { words[Word.record] }
    set { words[Word.record] = newValue }
  }

  /// Notes that the next record will be written directly into the database. If the process is
  /// killed during the write, the record may or may not exist.
  func willWrite(_ record: UInt64) { words[Word.written] = record }

  /// Throws an error if records were written. Called if the journal does not exist.
  func checkNothingRecorded(path: String, node: String) throws(JournalError) {
    guard formerLastRecord > 0 else { return }
    throw .damaged(
      path: path, node: node,
      reason:
        "the file is missing, but record \(formerLastRecord) was written: the file was removed")
  }

  // MARK: Prepared step

  /// Writes a prepared step. Returns `false` if the step is too large.
  /// - Parameters:
  ///   - applied: The last transaction whose step is recorded.
  ///   - schema: The schema version of the machine that has evaluated the step.
  func prepare(_ step: PreparedStep, applied: TransactionID, schema: Int) -> Bool {
    words[Word.prepared] = Self.isPreparing
    defer { words[Word.prepared] = preparedStepRecord.checksum }
    return preparedStepRecord.write(step, applied: applied, schema: schema)
  }

  /// Deletes the prepared step, after the database has recorded it.
  func erasePreparedStep() {
    words[Word.prepared] = 0
    preparedStepRecord.erase()
  }

  /// Replaces the name of the pipe whose event was in progress.
  func renameInterruptedStep(to name: String) {
    guard let step = interruptedStep else { return }
    sourceMarker(name).begin(step.sequence)
  }

  /// Whether the prepared step in the file has the checksum that was stored for it. Also `true` if
  /// no checksum was stored.
  var hasPreparedStep: Bool {
    guard let recordedChecksum = formerContents?.preparedChecksum, recordedChecksum != 0,
      recordedChecksum != Self.isPreparing
    else { return true }
    return preparedStepRecord.checksum == recordedChecksum && preparedStepRecord.read() != nil
  }

  /// Whether the file's path still refers to the file that this process has open.
  var isLinked: Bool {
    FileIdentity(path).map { $0 == FileIdentity(descriptor: descriptor) } == true
  }

  /// Writes the file again if it was removed.
  func recreate() throws {
    if isLinked { return }
    let bytes = UnsafeRawBufferPointer(start: words, count: Self.fileByteCount)
    try FileSystem.replace(path, with: Array(bytes))
  }

  /// Returns the marker for the events of one source.
  package func sourceMarker(_ name: String) -> SourceMarker {
    let bytes = Array(name.utf8.prefix(Self.nameCapacity))
    return SourceMarker(words: words, name: bytes)
  }

  /// A marker of the step in progress, for the events from one source.
  package struct SourceMarker {
    fileprivate let words: UnsafeMutablePointer<UInt64>
    fileprivate let name: [UInt8]

    /// Marks the step of event `sequence` as in progress.
    package func begin(_ sequence: UInt64) {
      name.withUnsafeBytes { bytes in
        UnsafeMutableRawPointer(words + Word.name).copyMemory(
          from: bytes.baseAddress!, byteCount: bytes.count)
      }
      words[Word.sequence] = sequence
      words[Word.length] = UInt64(name.count)
    }

    /// Marks that no step is in progress.
    package func end() { words[Word.length] = 0 }
  }

  private static func markedStep(_ words: UnsafeMutablePointer<UInt64>) -> Step? {
    let length = Int(clamping: words[Word.length])
    guard length > 0, length <= nameCapacity else { return nil }
    let name = UnsafeRawBufferPointer(start: words + Word.name, count: length)
    return Step(
      source: String(decoding: name, as: UTF8.self), sequence: words[Word.sequence])
  }

  /// Requests that the next incarnation check the size of the state after each step.
  package func requestStateMeasurement() { words[Word.measures] = 1 }

  /// The number that is stored in place of a feedback's number if the timers of a state have ended
  /// the process.
  private static let timersMark = UInt64.max

  /// The marker with which a signal handler records the effect that ends the process.
  package var effectMarker: EffectMarker { EffectMarker(words: words) }

  /// A marker for the effect that ends the process. Signal handlers may use this marker, because it
  /// only makes three memory stores.
  package struct EffectMarker {
    fileprivate let words: UnsafeMutablePointer<UInt64>
    fileprivate let timersMark = StepMarkerFile.timersMark

    /// Marks the effect with this origin as the effect that ends the process.
    package func set(_ origin: EffectOrigin) {
      words[Word.version] = origin.version
      words[Word.instance] = UInt64(bitPattern: origin.instance)
      words[Word.feedback] =
        origin.feedback == EffectOrigin.timers ? timersMark : UInt64(origin.feedback) + 1
    }
  }

  private static func markedEffect(_ words: UnsafeMutablePointer<UInt64>) -> EffectOrigin? {
    let mark = words[Word.feedback]
    guard mark == timersMark || mark > 0 && mark <= UInt64(Int32.max) else { return nil }
    return EffectOrigin(
      version: words[Word.version],
      feedback: mark == timersMark ? EffectOrigin.timers : Int(mark) - 1,
      instance: Int64(bitPattern: words[Word.instance]))
  }

  /// Returns the FNV-1a hash, which is the same in each process.
  static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
    bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }
}
