import Glibc
import PipeRuntime
import PipeSupervision

/// A running topology with a real orchestrator, and a client that is attached to it.
final class TopologyRun {
  let name: String
  /// The path of the topology file.
  let file: String
  let client: TopologyClient
  let directories: RuntimeDirectories
  private let pids: [String: Int32]
  private var process: ChildProcess

  /// The maximum time for the start of the topology, and for each measurement.
  static let deadline: Duration = .seconds(60)

  /// Starts a topology from the text of its file, and waits until all nodes are running.
  /// - Parameters:
  ///   - deployment: The text of the deployment file; `nil` if all nodes run on one host.
  ///   - hosts: The Slurm hosts on which the orchestrator runs; `nil` for this host.
  ///   - agents: The agents that start the nodes; `nil` if the orchestrator starts them.
  ///   - run: The directory in which the run is recorded; `nil` if it is not recorded.
  init(
    _ text: String, named name: String, deployment: String? = nil, on hosts: SlurmHosts? = nil,
    by agents: Agents? = nil, recordedIn run: String? = nil, in directory: TemporaryDirectory
  ) throws {
    self.name = name
    try Programs.check()
    let orchestrator = OrchestratorCommand(directory: directory, hosts: hosts)
    let file = try directory.write(text, to: name + ".yaml")
    self.file = file
    var arguments = run.map { ["record", file, "--out", $0] } ?? ["run", "--plain", file]
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

  /// Kills the orchestrator.
  func killOrchestrator() { process.end() }

  deinit {
    client.close()
    process.signal(.terminate)
    process.wait()
  }

  /// Returns the processor use of a node's process since the start of the process.
  func use(of node: String) -> ProcessorUse { pids[node].map { ProcessorUse(of: $0) } ?? .none }

  /// Starts the measurement in a node, and waits until the measurement is complete.
  /// - Returns: The duration, according to the node's own clock. Unit: seconds.
  func measure(_ node: String) throws -> Double {
    let client = client
    return try Blocking.run {
      try await client.send(node, json: "start")
      return try await Self.awaitDone(node, client: client)
    }
  }

  /// Polls the node until its measurement is complete. A subscription would make the node publish
  /// every step.
  private static func awaitDone(_ node: String, client: TopologyClient) async throws -> Double {
    let start = ContinuousClock.now
    while start.duration(to: .now) < deadline {
      // Ignore a missing answer, because all processes are busy.
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

// Killing nodes and waiting for their restart.
extension TopologyRun {
  /// Waits until a closure accepts the directory. Polls frequently, because the wait is a part of
  /// the measurement.
  func wait(
    until condition: String, isFresh: Bool = false,
    _ accepts: @escaping @Sendable (TopologyDirectory) -> Bool
  ) throws {
    let client = client
    let deadline = ContinuousClock.now + Self.deadline
    try Blocking.run {
      while true {
        let directory = try? await client.directory(fresh: isFresh)
        if let directory, accepts(directory) { return }
        guard ContinuousClock.now < deadline else {
          throw HarnessError("\(condition): not within \(Self.deadline.shortText)")
        }
        try await Task.sleep(for: .milliseconds(1))
      }
    }
  }

  /// Returns the directory of the topology.
  func directory() throws -> TopologyDirectory {
    let client = client
    return try Blocking.run { try await client.directory(fresh: false) }
  }

  /// Kills nodes at the same time with SIGKILL, and waits until all of them are running again.
  /// - Returns: The time since the first signal. Unit: seconds.
  func killAndAwait(_ names: [String]) throws -> Double {
    let before = try directory()
    let incarnations = names.reduce(into: [String: UInt64]()) {
      $0[$1] = before[node: $1]?.incarnation ?? 0
    }
    let pids = names.compactMap { before[node: $0]?.pid }
    guard pids.count == names.count else { throw HarnessError("a node does not run") }
    let start = Clock.nanoseconds
    for pid in pids { kill(pid, SIGKILL) }
    try wait(until: "killed nodes run again") { directory in
      incarnations.allSatisfy { name, incarnation in
        directory[node: name].map { $0.isRunning && $0.incarnation > incarnation } ?? false
      }
    }
    return Double(Clock.nanoseconds - start) / 1e9
  }

  /// Returns the resident memory of a node's process. Unit: bytes.
  func residentByteCount(of node: String) -> Int {
    ((try? directory())?[node: node]?.pid).map { ProcessMemory(of: $0).resident } ?? 0
  }

  /// Returns the total size of the files of a node's journal. Unit: bytes.
  func journalByteCount(of node: String) -> Int {
    let journal = directories.journal(of: node)
    return ["", "-wal", "-shm", ".step"].reduce(0) { sum, suffix in
      var status = stat()
      return stat(journal + suffix, &status) == 0 ? sum + Int(status.st_size) : sum
    }
  }
}

/// The `orchestrator` command, which uses only files in a directory of its own.
struct OrchestratorCommand: Sendable {
  let directory: TemporaryDirectory
  /// The Slurm hosts on which the orchestrator runs; `nil` for this host.
  var hosts: SlurmHosts?

  /// The runtime directories of topologies that this command starts.
  var roots: RuntimeRoots { RuntimeRoots(environment: environment) }

  private var environment: [String: String] {
    ProcessEnvironment.current.merging(["PIPERUNTIME_ROOT": directory.path]) { $1 }
      .merging(hosts?.environment ?? [:]) { $1 }
  }

  private var output: String { directory.path + "/orchestrator.out" }

  /// Starts the orchestrator. The system kills the child with SIGKILL when this thread ends.
  /// - Parameter path: The file for the orchestrator's output; `nil` for a file that all calls
  ///   share.
  func spawn(_ arguments: [String], writingTo path: String? = nil) throws -> ChildProcess {
    try spawn(Programs.orchestrator, arguments, writingTo: path)
  }

  /// Starts another program in the same way as the orchestrator.
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

  /// Runs the orchestrator until it ends. Throws an error if it fails.
  func run(_ arguments: [String]) throws {
    var process = try spawn(arguments)
    let status = process.wait()
    guard status == .exited(code: 0) else { throw failure(arguments, status) }
  }

  /// Returns an error that contains the output of the program.
  func failure(_ arguments: [String], _ status: ProcessExit?) -> HarnessError {
    let end = status.map { "\($0)" } ?? "goes on without effect"
    let text = HostMachine.text(of: output).split(separator: "\n").suffix(20)
    return HarnessError(
      "'orchestrator \(arguments.joined(separator: " "))': \(end)\n"
        + text.joined(separator: "\n"))
  }
}
