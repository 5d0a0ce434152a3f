import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// A small file in memory beside a journal: the lock that keeps two incarnations apart, the step in
/// progress, the number of the last record, the last prepared step, and the records that the
/// journal lacks.
///
/// The file is mapped, so that a write costs a store and outlives the process however that ends. An
/// existing file stays unchanged until ``begin(_:opening:)``: a journal that is refused is refused
/// again by the next start.
package final class StepMarkerFile {
  /// An event whose step was in progress.
  package struct Step: Hashable {
    /// The name of the pipe, or of the client's requests.
    package var source: String
    /// The number of the event in the pipe, or of the request.
    package var sequence: UInt64
  }

  /// The size of the first part of the file. The prepared step follows it, and then the log. Unit:
  /// bytes.
  private static let byteCount = 4096
  private static let logStart = byteCount + PreparedStepRecord.byteCount
  private static let fileByteCount = logStart + RecordLog.byteCount
  private static let magic: UInt64 = 0x7069_7065_7374_6532
  /// The first word of a file of an earlier version of this library, which said less about the
  /// journal.
  private static let formerMagic: UInt64 = 0x7069_7065_7374_6570
  private let path: String
  private let descriptor: Int32
  private let words: UnsafeMutablePointer<UInt64>
  /// The step in progress when the last incarnation ended; `nil` if there was none.
  package let interrupted: Step?
  /// The step that was last prepared, to be taken together with others.
  let prepared: PreparedStepRecord
  /// The part of the file that a ``RecordLog`` uses.
  var log: UnsafeMutablePointer<UInt64> { words + Self.logStart / 8 }
  /// The effect that ended the last incarnation; `nil` if none did.
  package let fatalEffect: EffectOrigin?
  /// Whether the last incarnation requested that this one measure the state of each step.
  package let measuresEachStep: Bool
  /// The journal's data in the file when it was opened; `nil` if there was none, or an earlier
  /// version wrote it.
  let former: FormerContents?
  private let formerLastRecord: UInt64
  /// Whether the file existed before it was opened.
  let existed: Bool

  /// The data of a file about the journal that it belongs to.
  struct FormerContents {
    /// The number of the last record.
    var record: UInt64
    /// The number of the last record that was written into the database directly, or was about to
    /// be.
    var written: UInt64
    /// The random id of the journal.
    var stream: UInt64
    /// The number of times that the journal had been opened.
    var opening: UInt64
    /// The checksum of the last prepared step; 0 if there was none, ``isPreparing`` while a step
    /// was written.
    var prepared: UInt64
    /// Whether the file was last written after the start of the system.
    var isSameBoot: Bool
  }

  // Words: magic, pid, hash of the boot, last record, sequence in progress, length of its source
  // (0: none), the journal's stream and opening, the checksum of the prepared step, the last record
  // that was written into the database directly, then the source's name. At the end of the part:
  // whether each step must be measured, and the effect that has ended the process: its feedback
  // plus 1 (0: none), its version, and the number of its instance (0: the node has one machine).
  private enum Word {
    static let pid = 1, boot = 2, record = 3, sequence = 4, length = 5
    static let stream = 6, opening = 7, prepared = 8, written = 9, name = 10
    static let instance = 508, measures = 509, feedback = 510, version = 511
  }
  /// The capacity for the name of a source. Unit: bytes.
  private static let nameCapacity = (Word.instance - Word.name) * 8
  private static let isPreparing: UInt64 = 2

  /// Takes the lock. Waits a little for a holder that is just ending.
  init(path journal: String, node: String) throws(JournalError) {
    let path = journal + ".step"
    existed = FileSystem.exists(path)
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw .inaccessible(
        path: path, node: "", reason: JournalError.reason(path, code: errno))
    }
    // The holder's pid is valid only in its own container, and nothing else shows that the holder
    // has ended.
    let isLocked = Polling.wait(every: .milliseconds(5), until: .now + .seconds(1)) { () -> Bool? in
      if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
      return errno == EWOULDBLOCK ? nil : false
    }
    guard isLocked == true else {
      let pid = Self.holder(descriptor)
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
    prepared = PreparedStepRecord(words + Self.byteCount / 8)
    let hasKnownFormat = words[0] == Self.magic
    former =
      hasKnownFormat
      ? FormerContents(
        record: words[Word.record], written: words[Word.written], stream: words[Word.stream],
        opening: words[Word.opening],
        prepared: words[Word.prepared], isSameBoot: words[Word.boot] == Self.boot) : nil
    formerLastRecord = hasKnownFormat || words[0] == Self.formerMagic ? words[Word.record] : 0
    interrupted = hasKnownFormat ? Self.step(words) : nil
    fatalEffect = hasKnownFormat ? Self.effect(words) : nil
    measuresEachStep = hasKnownFormat && words[Word.measures] == 1
  }

  /// Returns the size of a file that is shorter than when it was created; `nil` for any other file.
  private static func truncatedSize(_ descriptor: Int32) -> Int64? {
    var (status, first) = (stat(), UInt64(0))
    // The first word is written after the file has its full size.
    guard fstat(descriptor, &status) == 0, status.st_size < fileByteCount,
      pread(descriptor, &first, 8, 0) == 8, first == magic || first == formerMagic
    else { return nil }
    return Int64(status.st_size)
  }

  /// Makes the file belong to this journal, which is complete, from its next record on.
  func begin(_ stream: UInt64, opening: UInt64, record: UInt64) throws {
    try beginBoot()
    words[Word.pid] = UInt64(getpid())
    for word in [Word.length, Word.measures, Word.feedback] { words[word] = 0 }
    words[Word.record] = record
    words[Word.written] = record
    words[Word.opening] = opening
    words[Word.prepared] = prepared.checksum
    words[Word.stream] = stream
    words[0] = Self.magic
  }

  deinit {
    munmap(words, Self.fileByteCount)
    close(descriptor)
  }

  /// Releases the lock: this process records nothing any more.
  func unlock() { flock(descriptor, LOCK_UN) }

  /// Returns the process that holds the lock of an open file, according to the file.
  static func holder(_ descriptor: Int32) -> Int32? {
    var pid: UInt64 = 0
    guard pread(descriptor, &pid, 8, off_t(8 * Word.pid)) == 8, pid > 0 else { return nil }
    return Int32(exactly: pid)
  }

  /// Returns the prepared step in the file of a journal, even while its node runs.
  static func prepared(ofJournal journal: String) -> PreparedStepRecord.Contents? {
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

  /// Returns a copy of the log of a journal, even while its node runs; empty if there is none.
  static func log(ofJournal journal: String) -> [UInt64] {
    let descriptor = open(journal + ".step", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    return [UInt64](unsafeUninitializedCapacity: RecordLog.byteCount / 8) { words, count in
      let read = pread(descriptor, words.baseAddress, RecordLog.byteCount, off_t(Self.logStart))
      count = max(0, read) / 8
    }
  }

  /// Begins the writes of this boot of the system. The database has what was left in the log.
  ///
  /// If the system ended before it had written the whole log, an old record could be read behind
  /// new records, which have the same numbers. So the old log is erased.
  private func beginBoot() throws {
    guard former?.isSameBoot != true else { return }
    if existed {
      // Written through the file: pages that are written through the map are held in memory.
      let zeros = [UInt8](repeating: 0, count: 64 << 10)
      for part in 0..<(RecordLog.byteCount / zeros.count) {
        let offset = off_t(Self.logStart + part * zeros.count)
        guard pwrite(descriptor, zeros, zeros.count, offset) == zeros.count else {
          throw SystemError("write", on: path, code: errno)
        }
      }
    }
    words[Word.boot] = Self.boot
  }

  private static var boot: UInt64 { hash(BootClock.boot.utf8) }

  /// The number of the last record.
  var lastRecord: UInt64 {
    get { words[Word.record] }
    set { words[Word.record] = newValue }
  }

  /// Notes that the next record is written into the database directly. If the process is killed
  /// then, the record may exist or not.
  func willWrite(_ record: UInt64) { words[Word.written] = record }

  /// Throws if records were made but there is no journal.
  func checkNothingRecorded(path: String, node: String) throws(JournalError) {
    guard formerLastRecord > 0 else { return }
    throw .damaged(
      path: path, node: node,
      reason:
        "the file is missing, but record \(formerLastRecord) was written: the file was removed")
  }

  // MARK: The prepared step

  /// Writes a prepared step; returns `false` if it is too large.
  func prepare(_ step: PreparedStep, applied: TransactionID) -> Bool {
    words[Word.prepared] = Self.isPreparing
    defer { words[Word.prepared] = prepared.checksum }
    return prepared.write(step, applied: applied)
  }

  /// Whether the file has the prepared step that was written last.
  var hasPrepared: Bool {
    guard let recordedChecksum = former?.prepared, recordedChecksum != 0,
      recordedChecksum != Self.isPreparing
    else { return true }
    return prepared.checksum == recordedChecksum && prepared.read() != nil
  }

  /// Whether the name of the file still refers to the open file.
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
  package func source(_ name: String) -> SourceMarker {
    let bytes = Array(name.utf8.prefix(Self.nameCapacity))
    return SourceMarker(words: words, name: bytes)
  }

  /// Marks the steps of events from one source.
  package struct SourceMarker {
    fileprivate let words: UnsafeMutablePointer<UInt64>
    fileprivate let name: [UInt8]

    /// Marks the beginning of an event's step.
    package func begin(_ sequence: UInt64) {
      name.withUnsafeBytes { bytes in
        UnsafeMutableRawPointer(words + Word.name).copyMemory(
          from: bytes.baseAddress!, byteCount: bytes.count)
      }
      words[Word.sequence] = sequence
      words[Word.length] = UInt64(name.count)
    }

    /// Marks the end of the step.
    package func end() { words[Word.length] = 0 }
  }

  private static func step(_ words: UnsafeMutablePointer<UInt64>) -> Step? {
    let length = Int(clamping: words[Word.length])
    guard length > 0, length <= nameCapacity else { return nil }
    let name = UnsafeRawBufferPointer(start: words + Word.name, count: length)
    return Step(
      source: String(decoding: name, as: UTF8.self), sequence: words[Word.sequence])
  }

  /// Requests that the next incarnation measure the state of each step.
  package func measureEachStepNext() { words[Word.measures] = 1 }

  /// The marker of the effect that ends the process.
  package var effectMarker: EffectMarker { EffectMarker(words: words) }

  /// Marks an effect, even from a signal handler: a mark is three stores.
  package struct EffectMarker {
    fileprivate let words: UnsafeMutablePointer<UInt64>

    /// Marks the effect that ends the process.
    package func set(_ origin: EffectOrigin) {
      words[Word.version] = origin.version
      words[Word.instance] = UInt64(bitPattern: origin.instance)
      words[Word.feedback] = UInt64(origin.feedback) + 1
    }
  }

  private static func effect(_ words: UnsafeMutablePointer<UInt64>) -> EffectOrigin? {
    guard let feedback = Int(exactly: words[Word.feedback]), feedback > 0 else { return nil }
    return EffectOrigin(
      version: words[Word.version], feedback: feedback - 1,
      instance: Int64(bitPattern: words[Word.instance]))
  }

  /// The FNV-1a hash, which is the same in every process.
  static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
    bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }
}
