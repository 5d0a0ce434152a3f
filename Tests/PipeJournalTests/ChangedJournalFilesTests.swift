import CSQLite
import Glibc
import PipeJournal
import PipeMachines
import PipeNode
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("A journal whose files were truncated, removed or exchanged")
struct ChangedJournalFilesTests {
  private static let suffixes = ["", "-wal", ".step"]
  private static let identity = Journal.Identity(topology: "t", node: "gate", machine: "m")
  private typealias Files = [String: [UInt8]]

  /// The end of the process with the journal.
  enum End: CaseIterable { case stopped, killed, killedBeforeWrite }

  /// The journal's last record.
  enum Last: CaseIterable { case step, prepared, aborted, taken, commit }

  /// The data from which the next process continues.
  private struct Contents: Equatable {
    var version: UInt64
    var state: [UInt8]
    var applied: TransactionID
    var prepared: PreparedStep?
    var consumed: UInt64?
    var coordinator: CoordinatorJournal

    init(_ journal: Journal) throws {
      let contents = try #require(journal.contents)
      (version, state) = (contents.record.version, contents.record.state)
      let participant = ParticipantStateMachine(
        prepared: contents.participant.preparedStep, applied: contents.participant.lastApplied,
        version: version)
      (applied, prepared) = (participant.lastApplied, participant.preparedStep)
      consumed = contents.inPipeProgressByPipe["in"]?.lastApplied
      coordinator = try journal.coordinator()
    }
  }

  /// A journal with records of three processes, and earlier copies of its files.
  private struct Bench {
    private typealias Tests = ChangedJournalFilesTests
    let directory: TemporaryDirectory
    var path: String { directory.path + "/gate.sqlite" }
    private(set) var copies: [(what: String, files: Files)] = []
    private(set) var files: Files = [:]
    let contents: Contents

    init(_ durability: Durability, _ end: End, _ last: Last) throws {
      directory = try TemporaryDirectory()
      let path = directory.path + "/gate.sqlite"
      for process in 1...3 as ClosedRange<UInt64> {
        let journal = try Tests.open(path, durability)
        try Tests.record(journal, 10 * process)
        try journal.writePendingRecords()
        copies.append(("process \(process)", Tests.read(path)))
        try Tests.record(journal, 10 * process + 1)
        try journal.writePendingRecords()
        guard process == 3 else {
          if process == 1 { try journal.finish() }
          continue
        }
        try Tests.write(last, to: journal, after: 31)
        switch end {
        case .stopped: try journal.finish()
        case .killed: try journal.writePendingRecords()
        case .killedBeforeWrite: break
        }
        files = Tests.read(path)
      }
      let whole = directory.path + "/whole.sqlite"
      try Tests.put(files, at: whole)
      contents = try Contents(try Tests.open(whole, durability))
    }
  }

  private static func open(_ path: String, _ durability: Durability) throws -> Journal {
    try Journal(path, identity: identity, durability: durability)
  }

  private static func read(_ path: String) -> Files {
    var files: Files = [:]
    for suffix in suffixes {
      let descriptor = Glibc.open(path + suffix, O_RDONLY)
      guard descriptor >= 0 else { continue }
      defer { close(descriptor) }
      files[suffix] = try? FileSystem.read(descriptor, limit: 1 << 26)
    }
    return files
  }

  private static func put(_ files: Files, at path: String) throws {
    for suffix in suffixes + ["-shm"] {
      unlink(path + suffix)
      if let bytes = files[suffix] { try FileSystem.replace(path + suffix, with: bytes) }
    }
  }

  private static func record(_ journal: Journal, _ version: UInt64) throws {
    try journal.record {
      try journal.recordState(
        to: Array("\(version)".utf8), version: version, steps: 1, cause: "in", time: 1,
        incarnation: 1)
      try journal.recordConsumption(of: "in", stream: 9, applied: version, closed: false)
      try journal.recordCoordinatorStart(epoch: version)
    }
  }

  private static func write(_ last: Last, to journal: Journal, after version: UInt64) throws {
    let move = ParticipantMove(version: version + 1, state: Array("\(version + 1)".utf8))
    let step = PreparedStep(
      transaction: TransactionID(epoch: 4, sequence: 2), event: Array("pair\n\"meet\"".utf8),
      move: move)
    func prepare() throws {
      if !journal.markPrepared(step) { try journal.record { try journal.recordPrepared(step) } }
    }
    switch last {
    case .step: try record(journal, version + 1)
    case .prepared: try prepare()
    case .aborted:
      try prepare()
      try journal.record { try journal.recordAbort(of: step.transaction) }
    case .taken:
      try prepare()
      try journal.record {
        try journal.recordAppliedTransaction(step.transaction)
        try journal.recordState(
          to: move.state, version: move.version, steps: 1, cause: "pair", time: 1, incarnation: 1)
      }
    case .commit:
      // A commit of a coordinator, which has no step of its own.
      let commit = CommitRecord(
        transaction: step.transaction, request: RequestID(caller: "me", number: 7),
        moves: ["left": move, "right": move])
      try journal.record { try journal.recordCommit(commit) }
    }
  }

  // MARK: Changes of files

  /// Returns the lengths of a file to test: around its ends, and around the ends of its parts.
  private static func lengths(of suffix: String, _ count: Int) -> [Int] {
    let edges: [Int]
    switch suffix {
    case ".step": edges = [0, 8, 24, 32, 64, 72, 1064, 4096, 4104, 4168, 8192, 8216, 26_624, count]
    case "-wal":
      let frames = Array(stride(from: 32, through: count, by: 4096 + 24))
      edges = [0] + frames.prefix(2) + frames.suffix(4)
    default: edges = [0, 100, 4096, 8192, count - 4096, count]
    }
    let around = edges.flatMap { [$0 - 1, $0, $0 + 1] }.filter { (0..<count).contains($0) }
    return Set(around).sorted()
  }

  private func changes(
    of files: Files, _ copies: [(what: String, files: Files)], _ other: Files
  ) -> [(what: String, files: Files)] {
    var changes: [(what: String, files: Files)] = []
    for suffix in Self.suffixes {
      guard let bytes = files[suffix] else { continue }
      func change(_ what: String, _ bytes: [UInt8]?) {
        var changed = files
        changed[suffix] = bytes
        changes.append(("'\(suffix)' \(what)", changed))
      }
      change("removed", nil)
      for length in Self.lengths(of: suffix, bytes.count) {
        change("truncated to \(length) bytes", Array(bytes[..<length]))
      }
      for copy in copies { change("exchanged for that of \(copy.what)", copy.files[suffix]) }
      change("exchanged for another node's", other[suffix])
    }
    if let step = files[".step"] {
      // Parts of the file: the step mark, the prepared step, and the log.
      for (what, part) in [
        ("mark", 0..<4096), ("prepared", 4096..<8192), ("log", 8192..<step.count),
      ] {
        var changed = files
        changed[".step"]?.replaceSubrange(part, with: [UInt8](repeating: 0, count: part.count))
        changes.append(("zeros for the \(what)", changed))
      }
    }
    for copy in copies {
      var database = files
      (database[""], database["-wal"]) = (copy.files[""], copy.files["-wal"])
      changes.append(("database and '-wal' of \(copy.what)", database))
    }
    return changes
  }

  @Test(
    "A changed journal is read without loss, or refused each time with its path and a remedy",
    arguments: [
      (Durability.process, End.stopped), (Durability.process, End.killed),
      (Durability.process, End.killedBeforeWrite),
      (Durability.power, End.stopped), (Durability.power, End.killed),
    ])
  func change(durability: Durability, end: End) throws {
    let other = try Bench(durability, end, .step)
    var refused: [Last: Int] = [:]
    for last in Last.allCases {
      let bench = try Bench(durability, end, last)
      let path = bench.directory.path + "/changed.sqlite"
      for (what, files) in changes(of: bench.files, bench.copies, other.files) {
        try Self.put(files, at: path)
        let comment: Comment = "\(last): \(what)"
        do {
          let journal = try Self.open(path, durability)
          #expect(try Contents(journal) == bench.contents, comment)
        } catch let error as JournalError {
          refused[last, default: 0] += 1
          #expect("\(error)".contains("'\(path)'"), comment)
          #expect("\(error)".contains("'orchestrator reset gate'"), comment)
          #expect(!error.isTransient, "\(comment): \(error)")
          #expect(throws: JournalError.self, comment) { try Self.open(path, durability) }
        }
      }
      // Copies of all files together restore the journal.
      try Self.put(bench.files, at: path)
      #expect(try Contents(try Self.open(path, durability)) == bench.contents, "\(last)")
      #expect(refused[last, default: 0] > 20)
    }
  }

  @Test("A '.step' file removed after an orderly stop is created again")
  func removedAfterStop() throws {
    for last in Last.allCases {
      let bench = try Bench(.process, .stopped, last)
      let path = bench.directory.path + "/changed.sqlite"
      var files = bench.files
      files[".step"] = nil
      try Self.put(files, at: path)
      #expect(try Contents(try Self.open(path, .process)) == bench.contents, "\(last)")
      #expect(try Contents(try Self.open(path, .process)) == bench.contents, "\(last), again")
    }
  }

  @Test("A journal without its '.step' file is refused after a kill if the file had records")
  func removedAfterKill() throws {
    let bench = try Bench(.process, .killed, .commit)
    let path = bench.directory.path + "/changed.sqlite"
    var files = bench.files
    files[".step"] = nil
    try Self.put(files, at: path)
    let error = try #require(throws: JournalError.self) { try Self.open(path, .process) }
    #expect(
      error.description.contains(
        "the '.step' file was removed, and the node had not stopped gracefully"))
  }

  @Test("A journal that lost its last record is refused, even if the record had no step")
  func numbers() throws {
    let bench = try Bench(.process, .killed, .commit)
    let path = bench.directory.path + "/changed.sqlite"
    var files = bench.files
    (files[""], files["-wal"]) = (bench.copies[2].files[""], bench.copies[2].files["-wal"])
    let log = 8192..<(files[".step"]?.count ?? 8192)
    files[".step"]?.replaceSubrange(log, with: [UInt8](repeating: 0, count: log.count))
    try Self.put(files, at: path)
    let error = try #require(throws: JournalError.self) { try Self.open(path, .process) }
    #expect(
      error.description.contains("the journal ends at record 5, but record 7 was written"),
      "\(error)")
  }
}
