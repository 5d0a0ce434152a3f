import Glibc
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// Tries to read the states and events of journals with a program's machines: `PROGRAM
/// try-journals`.
///
/// Writes a line for each value that cannot be read. Reading a value may end the process, because a
/// migration can trap or never return. So a mapped file contains the id of the value that is being
/// read. If the process ends, the caller starts the program again without this value.
package final class JournalTrialServer {
  private let host: NodeHost
  private let output: Int32
  private let request: JournalTrialRequest
  private let skipped: Set<StoredValueID>
  private let progress: TrialProgress
  /// The number of values that were read.
  private var readValueCount = 0

  /// The description of the command `PROGRAM try-journals`.
  package static func description(of program: String) -> CommandDescription {
    CommandDescription(
      "try-journals", of: program,
      "Tries to read the states and events of journals, for 'orchestrator check --journals'",
      positionals: [Positional("REQUEST", .file, .one, "The request as JSON")])
  }

  /// Reads the journals that a request lists, and writes the answers to standard output.
  /// - Parameters:
  ///   - host: The host that contains the program's machines.
  ///   - path: The path of the file that contains the request.
  /// - Returns: The exit code.
  package static func run(_ host: NodeHost, _ path: String) -> Int32 {
    do {
      try JournalTrialServer(host, path).run()
      return 0
    } catch {
      StandardError.write("\(error)\n")
      return 1
    }
  }

  private init(_ host: NodeHost, _ path: String) throws {
    guard let bytes = FileSystem.contents(of: path, limit: 1 << 30) else {
      throw NodeSetupError("cannot read '\(path)'")
    }
    self.host = host
    request = try JSONRecord.decode(JournalTrialRequest.self, from: bytes)
    skipped = Set(request.skipped)
    progress = try TrialProgress(request.progressPath, limit: request.valueTimeLimit)
    // Redirects the machines' output to standard error, so that the caller does not mistake this
    // output for an answer.
    output = dup(STDOUT_FILENO)
    guard output >= 0, dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 else {
      throw SystemError("dup", on: "standard output", code: errno)
    }
  }

  private func run() throws {
    for (index, task) in request.tasks.enumerated() {
      do {
        try attempt(task, index, try host.machine(task.machine))
      } catch JournalError.missing {
        continue
      } catch {
        switch error as? JournalError {
        case .inaccessible, .full, .locked, .failed, .superseded:
          // The journal cannot be read at the moment. The node reports the error when it starts.
          continue
        default: try send(.unusable(task: index, reason: "\(error)"))
        }
      }
    }
    progress.end()
    try send(.done(count: readValueCount))
  }

  private func attempt<Hosted: Machine>(
    _ task: JournalTrialRequest.Task, _ index: Int, _ machine: Hosted.Type
  ) throws {
    if let problem = MigrationPlan(machine).problem { throw NodeSetupError(problem) }
    let reader = try JournalReader(task.journalPath, node: task.node)
    let parameters = try Hosted.Parameters(parameters: Hosted.migrated(parameters: task.parameters))
    let values = TrialValues<Hosted>(Hosted.stateMachine(parameters))
    var failure: (any Error)?
    func read(_ value: StoredValue) {
      guard failure == nil else { return }
      do { try self.read(value, index, values) } catch { failure = error }
    }
    if let pipe = task.pipe {
      try reader.forEachQueuedEvent(
        of: pipe.name, after: try Self.applied(pipe, from: reader), read)
    } else {
      let recorded = try reader.machine
      guard recorded == task.machine else {
        throw JournalError.mismatch(
          path: task.journalPath, node: task.node, attribute: "machine", found: recorded,
          expected: task.machine)
      }
      try reader.forEachStoredValue(read)
    }
    if let failure { throw failure }
  }

  /// Returns the number of the pipe's last event that the receiver has applied; 0 if the receiver's
  /// journal cannot be read.
  private static func applied(
    _ pipe: JournalTrialRequest.QueuedPipe, from sender: JournalReader
  ) throws -> UInt64 {
    guard let path = pipe.receiverJournal else { return 0 }
    do {
      let stream = try sender.stream
      return try JournalReader(path, node: pipe.receiver).lastAcceptedNumber(
        of: pipe.name, stream: stream, caller: "")
    } catch { return 0 }
  }

  private func read<Hosted: Machine>(
    _ value: StoredValue, _ task: Int, _ values: TrialValues<Hosted>
  ) throws {
    let id = StoredValueID(
      task: task, kind: value.kind, number: value.number, pipe: value.pipe, key: value.key,
      feedback: value.feedback)
    guard skipped.isEmpty || !skipped.contains(id) else { return }
    try progress.begin(id)
    do {
      try values.read(value)
      readValueCount += 1
    } catch {
      try send(
        .failed(id, schema: value.schema, field: Self.field(of: error), reason: "\(error)"))
    }
  }

  private static func field(of error: any Error) -> String? {
    if let error = error as? MigrationError { return error.field }
    return (error as? UndecodableValue)?.field
  }

  private func send(_ answer: JournalTrialAnswer) throws {
    let bytes = try JSONRecord.encode(answer) + [UInt8(ascii: "\n")]
    var remaining = bytes[...]
    while !remaining.isEmpty {
      let count = remaining.withUnsafeBytes { Glibc.write(output, $0.baseAddress!, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw SystemError("write", on: "standard output", code: errno) }
      remaining = remaining.dropFirst(count)
    }
  }
}

/// Reads stored values with a machine. Throws an error if a value cannot be read.
private struct TrialValues<Hosted: Machine> {
  private let machine: StateMachine<Hosted.State, Hosted.Event, Hosted.Output>
  private let states = EventCodec<Hosted.State>(isSynthesized: Hosted.State._isSynthesizedCodable)
  private let events = EventCodec<Hosted.Event>(isSynthesized: Hosted.Event._isSynthesizedCodable)

  init(_ machine: StateMachine<Hosted.State, Hosted.Event, Hosted.Output>) {
    self.machine = machine
  }

  func read(_ value: StoredValue) throws {
    switch value.content {
    case .state(let bytes):
      _ = try Hosted.decodeState(bytes, schema: value.schema, by: states)
    case .timerState(let bytes):
      _ = try machine.timers(in: Hosted.decodeState(bytes, schema: value.schema, by: states))
    case .event(let bytes):
      _ = try Hosted.decodeEvent(bytes, schema: value.schema, by: events)
    }
  }
}

/// Stores the id of the value that is being read in a mapped file, which survives the end of the
/// process. Also limits the processor time for reading a value.
private struct TrialProgress {
  private let words: UnsafeMutableRawPointer
  private let limit: Int64

  init(_ path: String, limit: Int64) throws {
    let descriptor = open(path, O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    let mapped = mmap(
      nil, JournalTrialRequest.progressByteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
    guard let mapped, mapped != MAP_FAILED else {
      throw SystemError("mmap", on: path, code: errno)
    }
    words = mapped
    self.limit = limit
  }

  func begin(_ value: StoredValueID) throws {
    let bytes = try JSONRecord.encode(value).prefix(JournalTrialRequest.progressByteCount - 4)
    words.storeBytes(of: UInt32(bytes.count), as: UInt32.self)
    bytes.withUnsafeBytes { (words + 4).copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
    setLimit(limit)
  }

  func end() {
    words.storeBytes(of: 0, as: UInt32.self)
    setLimit(0)
  }

  private func setLimit(_ milliseconds: Int64) {
    var timer = itimerval()
    timer.it_value.tv_sec = Int(milliseconds / 1_000)
    timer.it_value.tv_usec = Int(milliseconds % 1_000) * 1_000
    _ = setitimer(__itimer_which_t(ITIMER_PROF.rawValue), &timer, nil)
  }
}
