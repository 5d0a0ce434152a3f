import Glibc
import PipeRuntime
import PipeSupervision

/// A topology under the real orchestrator, and a client of it.
final class TopologyRun {
  let name: String
  let client: TopologyClient
  let directories: RuntimeDirectories
  private let pids: [String: Int32]
  private var process: ChildProcess

  /// How long starting, and each measurement, may take.
  static let deadline: Duration = .seconds(60)

  /// Starts the topology of a file's text; returns when all its nodes run.
  /// - Parameters:
  ///   - deployment: The text of the deployment file that it runs by; `nil` where all is on one host.
  ///   - hosts: Where the orchestrator runs; `nil` on this machine itself.
  ///   - agents: What starts its nodes; `nil` where the orchestrator does.
  init(
    _ text: String, named name: String, deployment: String? = nil, on hosts: SlurmHosts? = nil,
    by agents: Agents? = nil, in directory: TemporaryDirectory
  ) throws {
    self.name = name
    try Programs.check()
    let orchestrator = OrchestratorCommand(directory: directory, hosts: hosts)
    var arguments = ["run", "--plain", try directory.write(text, to: name + ".yaml")]
    let deployment = deployment ?? agents?.deployment
    if let agents { arguments += ["--keys", agents.keys] }
    if let deployment {
      arguments += ["--deployment", try directory.write(deployment, to: name + "-deployment.yaml")]
    }
    directories = try RuntimeDirectories(topology: name, roots: orchestrator.roots)
    let control = try directories.endpoint(.control)
    process = try orchestrator.spawn(arguments)
    client = try TopologyClient(
      topology: name, control: control,
      keys: deployment == nil ? nil : ClientKeys(in: directories),
      answerTimeout: .milliseconds(500))
    let client = client
    let start = ContinuousClock.now
    while !Blocking.run({ (try? await client.directory())?.isRunning == true }) {
      let status = process.reap()
      if status != nil || start.duration(to: .now) > Self.deadline {
        throw orchestrator.failure(arguments, status)
      }
    }
    let nodes = Blocking.run { (try? await client.directory())?.nodes ?? [] }
    pids = nodes.reduce(into: [:]) { $0[$1.name] = $1.pid }
  }

  /// Its orchestrator is killed.
  func crash() { process.end() }

  deinit {
    client.close()
    process.signal(.terminate)
    process.wait()
  }

  /// What a node's process has used of the processors so far.
  func use(of node: String) -> ProcessorUse { pids[node].map { ProcessorUse(of: $0) } ?? .none }

  /// Has a node start, and waits until it is done.
  /// - Returns: How long it took by its own clock. Unit: seconds.
  func measure(_ node: String) throws -> Double {
    let client = client
    return try Blocking.run {
      try await client.send(node, json: "start")
      return try await Self.awaitDone(node, client: client)
    }
  }

  /// Asks now and then; a subscription would have every step published.
  private static func awaitDone(_ node: String, client: TopologyClient) async throws -> Double {
    let start = ContinuousClock.now
    while start.duration(to: .now) < deadline {
      // No answer in time is none: all are busy.
      let state = (try? await client.directory())?[node: node]?.status?.state
      if case .object(let cases)? = state, case .object(let done)? = cases["done"],
        case .integer(let nanoseconds)? = done["nanoseconds"]
      {
        return Double(nanoseconds) / 1e9
      }
      try await Task.sleep(for: .milliseconds(50))
    }
    let statuses = try await client.directory().nodes.map { node in
      "\n  \(node.name): " + (node.status.map { "\($0)" } ?? node.phase)
    }
    throw HarnessError(
      "node '\(node)' was not done within \(deadline.shortText):\(statuses.joined())")
  }
}

// Nodes that end and come again.
extension TopologyRun {
  /// Waits until the directory is as it should be. Looks often: this is part of what is measured.
  func wait(
    until what: String, isFresh: Bool = false,
    _ accepts: @escaping @Sendable (TopologyDirectory) -> Bool
  ) throws {
    let client = client
    let deadline = ContinuousClock.now + Self.deadline
    try Blocking.run {
      while true {
        let directory = try? await client.directory(fresh: isFresh)
        if let directory, accepts(directory) { return }
        guard ContinuousClock.now < deadline else {
          throw HarnessError("\(what): not within \(Self.deadline.shortText)")
        }
        try await Task.sleep(for: .milliseconds(1))
      }
    }
  }

  /// The topology as its orchestrator knows it.
  func directory() throws -> TopologyDirectory {
    let client = client
    return try Blocking.run { try await client.directory(fresh: false) }
  }

  /// Kills nodes at once with SIGKILL, and waits until each runs again.
  /// - Returns: The time from the first signal. Unit: seconds.
  func killAndAwait(_ names: [String]) throws -> Double {
    let before = try directory()
    let starts = names.reduce(into: [String: UInt64]()) {
      $0[$1] = before[node: $1]?.incarnation ?? 0
    }
    let pids = names.compactMap { before[node: $0]?.pid }
    guard pids.count == names.count else { throw HarnessError("a node does not run") }
    let start = Clock.nanoseconds
    for pid in pids { kill(pid, SIGKILL) }
    try wait(until: "killed nodes run again") { directory in
      starts.allSatisfy { name, incarnation in
        directory[node: name].map { $0.isRunning && $0.incarnation > incarnation } ?? false
      }
    }
    return Double(Clock.nanoseconds - start) / 1e9
  }

  /// What a node's process holds resident. Unit: bytes.
  func residentByteCount(of node: String) -> Int {
    ((try? directory())?[node: node]?.pid).map { ProcessMemory(of: $0).resident } ?? 0
  }

  /// What the files of a node's journal take together. Unit: bytes.
  func journalByteCount(of node: String) -> Int {
    let journal = directories.journal(of: node)
    return ["", "-wal", "-shm", ".step"].reduce(0) { sum, suffix in
      var status = stat()
      return stat(journal + suffix, &status) == 0 ? sum + Int(status.st_size) : sum
    }
  }
}

/// The `orchestrator` command, confined to a directory of its own.
struct OrchestratorCommand: Sendable {
  let directory: TemporaryDirectory
  /// Where it runs; `nil` on this machine itself.
  var hosts: SlurmHosts?

  /// Where its topologies have their sockets.
  var roots: RuntimeRoots { RuntimeRoots(environment: environment) }

  private var environment: [String: String] {
    ProcessEnvironment.current.merging(["PIPERUNTIME_ROOT": directory.path]) { $1 }
      .merging(hosts?.environment ?? [:]) { $1 }
  }

  private var output: String { directory.path + "/orchestrator.out" }

  /// Starts it; the child gets SIGKILL when this thread ends.
  /// - Parameter path: What it writes to; `nil` is a file for all that have none of their own.
  func spawn(_ arguments: [String], writingTo path: String? = nil) throws -> ChildProcess {
    try spawn(Programs.orchestrator, arguments, writingTo: path)
  }

  /// Starts another program in the same way.
  func spawn(
    _ program: String, _ arguments: [String], writingTo path: String? = nil
  ) throws -> ChildProcess {
    let output = path ?? output
    let descriptor = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: output, code: errno) }
    defer { close(descriptor) }
    let line = (hosts?.prefix ?? []) + [program] + arguments
    return try ChildProcess.spawn(
      ChildCommand(
        path: line[0], arguments: Array(line.dropFirst()), environment: environment,
        output: .descriptor(descriptor)))
  }

  /// Runs it to its end. Throws where it fails.
  func run(_ arguments: [String]) throws {
    var process = try spawn(arguments)
    let status = process.wait()
    guard status == .exited(code: 0) else { throw failure(arguments, status) }
  }

  /// What went wrong, with what it wrote.
  func failure(_ arguments: [String], _ status: ProcessExit?) -> HarnessError {
    let end = status.map { "\($0)" } ?? "goes on without effect"
    let text = HostMachine.text(of: output).split(separator: "\n").suffix(20)
    return HarnessError(
      "'orchestrator \(arguments.joined(separator: " "))': \(end)\n"
        + text.joined(separator: "\n"))
  }
}
