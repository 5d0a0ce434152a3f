import Glibc
import PipeMachines
import PipeSystem

/// Reads the state charts of nodes from the output of the program `orchestrator`. Only
/// `orchestrator` can create a chart: it makes the node's program compute single steps.
actor StateChartReader {
  private struct Key: Hashable {
    var node: String
    var incarnation: UInt64
  }

  /// The options of `orchestrator describe` that name the topology.
  private let options: [String]
  /// The charts that were read, or are being read. All pages share them.
  private var charts: [Key: Task<JSONValue, any Error>] = [:]
  /// The last task. Charts are read one after another, because each search uses a processor.
  private var last: Task<JSONValue, any Error>?

  /// The maximum number of charts in memory.
  private static let limit = 200
  private static let timeout: Duration = .seconds(30)
  /// The maximum size of a chart. Unit: bytes.
  private static let byteLimit = 1 << 20

  static let remoteError = InspectionRequestError(
    "the state chart is unknown, because the topology runs on another host; run 'orchestrator "
      + "graph' on that host")

  init(topology: String) { options = ["-p", topology] }

  /// Creates a reader of the charts of a topology that does not have to be running.
  init(file: String) { options = ["--file", file] }

  /// Returns the chart as the command `describe --graph` writes it.
  /// - Parameter incarnation: The number of the node's process. A new process may run another
  ///   program.
  func chart(of node: String, incarnation: UInt64) async throws -> JSONValue {
    let key = Key(node: node, incarnation: incarnation)
    if let task = charts[key] { return try await task.value }
    charts = charts.filter { $0.key.node != node }
    if charts.count >= Self.limit { charts.removeAll() }
    let former = last
    let task = Task { [options] in
      _ = await former?.result
      return try await Self.read(node, options)
    }
    (charts[key], last) = (task, task)
    do {
      return try await task.value
    } catch {
      // The next request tries again.
      charts[key] = nil
      throw error
    }
  }

  private static func read(_ node: String, _ options: [String]) async throws -> JSONValue {
    let output = try await ProgramOutput.read(
      ProgramOutput.orchestrator, ["describe", "--graph", "-o", "json"] + options + ["--", node],
      within: timeout, limit: byteLimit)
    guard let value = try? JSONValue(parsing: output), case .array(let reports) = value,
      let chart = reports.first?["graph"]
    else { throw InspectionRequestError("node '\(node)' has no state chart") }
    return chart
  }
}

/// Runs a program, and reads its output without blocking a thread.
enum ProgramOutput {
  /// The path of the orchestrator, which is beside this program.
  static var orchestrator: String {
    let executable = OwnProcess.executablePath ?? FileSystem.absolutePath(CommandLine.arguments[0])
    return FileSystem.parentDirectory(of: executable) + "/orchestrator"
  }

  /// Runs a program, and calls `take` with each line of its output, without the line feed. The
  /// program shares the standard error of this process.
  /// - Returns: The exit code of the program, or 1 if a signal has ended the program.
  static func readLines(
    _ path: String, _ arguments: [String], _ take: (ArraySlice<UInt8>) throws -> Void
  ) throws -> Int32 {
    var output = try Channel()
    let pid = try spawn(path, arguments, output, nil)
    var status: Int32 = 0
    output.closeWriteEnd()
    do {
      try output.readLines(take)
    } catch {
      kill(pid, SIGKILL)
      waitpid(pid, &status, 0)
      throw error
    }
    waitpid(pid, &status, 0)
    return status & 0x7f == 0 ? (status >> 8) & 0xff : 1
  }

  private static let pause: Duration = .milliseconds(20)

  /// - Throws: ``InspectionRequestError`` with the program's first line of error output.
  static func read(
    _ path: String, _ arguments: [String], within timeout: Duration, limit: Int
  ) async throws -> [UInt8] {
    let output = try Channel()
    let errors = try Channel()
    let pid = try spawn(path, arguments, output, errors.writeEnd)
    var hasEnded = false
    defer {
      if !hasEnded {
        kill(pid, SIGKILL)
        waitpid(pid, nil, 0)
      }
    }
    let deadline = ContinuousClock.now + timeout
    var (bytes, errorBytes): ([UInt8], [UInt8]) = ([], [])
    var status: Int32 = 0
    while true {
      // Checks for the end before it reads the output: after the end, the output is complete.
      let ended = waitpid(pid, &status, WNOHANG) == pid
      output.read(into: &bytes)
      errors.read(into: &errorBytes)
      if ended {
        hasEnded = true
        break
      }
      guard bytes.count <= limit, ContinuousClock.now < deadline, !Task.isCancelled else {
        throw InspectionRequestError(
          "timed out: '\(path) \(arguments.joined(separator: " "))' gave no answer within \(timeout)"
        )
      }
      try? await Task.sleep(for: pause)
    }
    guard status == 0 else {
      let line = String(decoding: errorBytes.prefix(2_000), as: UTF8.self)
        .split(separator: "\n").first
      throw InspectionRequestError(line.map { String($0) } ?? "'\(path)' failed")
    }
    return bytes
  }

  private static func spawn(
    _ path: String, _ arguments: [String], _ output: borrowing Channel, _ errors: Int32?
  ) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, output.writeEnd, 1)
    if let errors { posix_spawn_file_actions_adddup2(&actions, errors, 2) }
    // The program must not inherit the signal mask, because the inspector blocks signals.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var pid: pid_t = 0
    let code = posix_spawn(&pid, path, &actions, &attributes, &words, environ)
    guard code == 0 else {
      throw InspectionRequestError(
        "cannot start '\(path)': \(SystemError.text(of: code)); 'make build' builds it")
    }
    return pid
  }

  /// A pipe to this process.
  private struct Channel: ~Copyable {
    private let readEnd: Int32
    private(set) var writeEnd: Int32

    init() throws {
      var ends: [Int32] = [0, 0]
      guard pipe(&ends) == 0 else {
        throw InspectionRequestError("cannot create a pipe: \(SystemError.text(of: errno))")
      }
      (readEnd, writeEnd) = (ends[0], ends[1])
      // The program expects a blocking output, so only this end does not block.
      _ = fcntl(readEnd, F_SETFL, O_NONBLOCK)
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    }

    deinit {
      close(readEnd)
      if writeEnd >= 0 { close(writeEnd) }
    }

    mutating func closeWriteEnd() {
      close(writeEnd)
      writeEnd = -1
    }

    /// Reads until the program closes the pipe. Calls `take` with each complete line.
    func readLines(_ take: (ArraySlice<UInt8>) throws -> Void) throws {
      _ = fcntl(readEnd, F_SETFL, 0)
      var buffer = [UInt8](repeating: 0, count: 1 << 18)
      var rest: [UInt8] = []
      while true {
        let count = Glibc.read(readEnd, &buffer, buffer.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return }
        var start = 0
        for index in 0..<count where buffer[index] == UInt8(ascii: "\n") {
          if rest.isEmpty {
            try take(buffer[start..<index])
          } else {
            rest += buffer[start..<index]
            try take(rest[...])
            rest.removeAll(keepingCapacity: true)
          }
          start = index + 1
        }
        rest += buffer[start..<count]
      }
    }

    func read(into bytes: inout [UInt8]) {
      var buffer = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = Glibc.read(readEnd, &buffer, buffer.count)
        guard count > 0 else { return }
        bytes += buffer[..<count]
      }
    }
  }
}
