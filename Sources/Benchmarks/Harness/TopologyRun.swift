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
