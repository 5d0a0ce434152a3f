import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import Synchronization

/// A topology of the soak. It runs in the background, in a directory of its own and with a real
/// orchestrator. Faults may kill the orchestrator and start another one.
final class RunningTopology: Sendable {
  let client: ReattachingClient
  let directory: TestDirectory
  let directories: RuntimeDirectories
  let log: RoundLog
  /// The disk that contains the topology's files; `nil` if they are on a common disk.
  let disk: SmallDisk?
  private let cleanupProcess: LaunchedProgram
  private let site: OrchestratorSite

  private struct State {
    var topology: Topology
    var orchestrator: LaunchedProgram
    /// The output of all earlier orchestrators.
    var output = ""
    var changes = 0
  }

  private let state: Mutex<State>

  /// The longest time without progress while the topology starts or stops.
  private static let limit: Duration = .seconds(60)
  private static let file = "topology.yaml"
  private static let deploymentFile = "deployment.yaml"

  /// Starts a topology, and waits until its orchestrator answers.
  /// - Parameter hasDisk: Whether the topology's files are on a disk of their own.
  init(
    _ topology: Topology, in directory: TestDirectory, hasDisk: Bool,
    at site: OrchestratorSite = OrchestratorSite()
  ) async throws {
    self.directory = directory
    self.site = site
    directories = try RuntimeDirectories(topology: topology.name, roots: directory.roots)
    log = RoundLog(directories, isOnHosts: site.deployment != nil)
    client = try ReattachingClient(directories, patience: site.patience)
    cleanupProcess = try directory.killAfterCrash()
    disk = try hasDisk ? SmallDisk(at: directory.roots.state) : nil
    do {
      try directory.write(topology.yaml, to: Self.file)
      if let deployment = site.deployment {
        try directory.write(deployment, to: Self.deploymentFile)
      }
      state = Mutex(
        State(topology: topology, orchestrator: try Self.launch(in: directory, at: site)))
    } catch {
      disk?.unmount()
      throw error
    }
    do {
      try await awaitOrchestrator()
    } catch {
      orchestrator.signal(.kill)
      _ = try? await orchestrator.waitForExit(within: .seconds(10))
      for process in directory.processes { process.kill() }
      client.close()
      disk?.unmount()
      throw error
    }
  }

  /// Waits until all nodes are running at the same time.
  func waitUntilRunning() async throws {
    let isRunning: Bool? = try await poll(every: .milliseconds(5), within: Self.limit) {
      try await client.directory(fresh: false).isRunning ? true : nil
    }
    guard isRunning != nil else {
      throw SoakFailure("the topology does not run after \(Self.limit.shortText)")
    }
  }

  // MARK: The orchestrator

  private var orchestrator: LaunchedProgram { state.withLock { $0.orchestrator } }

  /// The process id of the latest orchestrator.
  var orchestratorID: Int32 { orchestrator.pid }

  private static func launch(
    in directory: TestDirectory, at site: OrchestratorSite
  ) throws -> LaunchedProgram {
    // This is the command that `up -d` runs.
    let deployment = directory.path + "/" + deploymentFile
    let line =
      site.prefix + [try BinaryLocator.find("orchestrator", variable: "PIPERUNTIME_ORCHESTRATOR")]
      + ["run", "--background", directory.path + "/" + file]
      + (site.deployment == nil ? [] : ["--deployment", deployment])
    return try LaunchedProgram(
      line[0], Array(line.dropFirst()),
      environment: directory.environment(adding: site.environment))
  }

  /// Starts another orchestrator, without waiting for its answer.
  func launchOrchestrator() throws {
    let next = try Self.launch(in: directory, at: site)
    state.withLock { state in
      state.output += state.orchestrator.outputText + state.orchestrator.errorText
      state.orchestrator = next
    }
  }

  /// Waits until the latest orchestrator owns the topology and answers.
  func awaitOrchestrator() async throws {
    let orchestrator = orchestrator
    let isUp: Bool? = try await poll(within: Self.limit, of: directory) {
      if let exit = orchestrator.exit {
        throw SoakFailure(
          "the orchestrator did not start: \(exit)\n"
            + orchestrator.outputText + orchestrator.errorText)
      }
      let found = PipeRuntime.RunningTopology.find(directories)
      return found?.pid == orchestrator.pid ? true : nil
    }
    guard isUp != nil else { throw SoakFailure("the orchestrator does not take the topology") }
    _ = try await client.directory(fresh: false)
  }

  func startOrchestrator() async throws {
    try launchOrchestrator()
    try await awaitOrchestrator()
  }

  /// Kills the orchestrator, and waits until it has ended. Its nodes continue.
  func killOrchestrator() async throws {
    log.watch((try? Survivor.all(in: directories, patience: .seconds(1))) ?? [])
    orchestrator.signal(.kill)
    try await awaitEndOfOrchestrator(.signalled(number: SIGKILL))
  }

  /// Sends a signal to the orchestrator, which suspends or resumes it.
  func signalOrchestrator(_ signal: Signal) { orchestrator.signal(signal) }

  /// Waits until the orchestrator has ended.
  /// - Parameter reason: A text that the orchestrator's output must contain.
  func awaitEndOfOrchestrator(_ expected: ProcessExit, saying reason: String = "") async throws {
    let orchestrator = orchestrator
    guard let exit = try await orchestrator.waitForExit(within: Self.limit) else {
      throw SoakFailure("the orchestrator does not end: it was to end with \(expected)")
    }
    let output = orchestrator.outputText + orchestrator.errorText
    guard exit == expected, reason.isEmpty || output.contains(reason) else {
      throw SoakFailure(
        "the orchestrator ended with \(exit), and was to end with \(expected) "
          + "and '\(reason)'; it wrote:\n\(output)")
    }
  }

  /// Changes a node in the topology file, so that the next orchestrator replaces the node's
  /// process.
  /// - Returns: The name of the changed node. It is another node if no node with a machine has the
  ///   given name.
  func change(_ name: String) throws -> String {
    let (topology, changed) = state.withLock { state in
      let index = state.topology.nodes.firstIndex { $0.name == name } ?? 0
      state.changes += 1
      state.topology.nodes[index].environment["SOAK_CHANGES"] = "\(state.changes)"
      return (state.topology, state.topology.nodes[index].name)
    }
    try directory.write(topology.yaml, to: Self.file)
    return changed
  }

  /// The path of the topology file.
  var path: String { directory.path + "/" + Self.file }

  /// Changes the number of shards of a keyed node in the topology file.
  /// - Returns: The node and its new number; `nil` if the topology has no keyed node.
  func changeShards(_ randomNumber: Int) throws -> (node: String, shards: Int)? {
    let result: (topology: Topology, node: String, shards: Int)? = state.withLock { state in
      let keyed = state.topology.nodes.indices.filter { state.topology.nodes[$0].key != nil }
      guard !keyed.isEmpty else { return nil }
      let index = keyed[randomNumber % keyed.count]
      let former = state.topology.nodes[index].shards
      let step = 1 + randomNumber / keyed.count % (InstancesPlan.maximumShards - 1)
      let shards = 1 + (former - 1 + step) % InstancesPlan.maximumShards
      state.topology.nodes[index].shards = shards
      return (state.topology, state.topology.nodes[index].name, shards)
    }
    guard let result else { return nil }
    try directory.write(result.topology.yaml, to: Self.file)
    return (result.node, result.shards)
  }

  // MARK: Stopping the topology

  private static let killedDuringStop =
    "\(NodeReport.ungracefulStop(reason: "\(ProcessExit.signalled(number: SIGKILL))"))"

  /// Stops the topology gracefully.
  /// - Parameter toleratesKills: Whether another program may have killed a process during the stop.
  /// - Returns: A description of each problem.
  func stop(toleratesKills: Bool = false) async -> [String] {
    var problems: [String] = []
    let orchestrator = orchestrator
    if let exit = orchestrator.exit {
      problems.append("the orchestrator ended before the round: \(exit)")
    } else {
      orchestrator.signal(.terminate)
      switch try? await orchestrator.waitForExit(within: Self.limit) {
      case .some(let exit) where exit.isSuccess: break
      case .some(let exit):
        let reason = orchestrator.outputText.split(separator: "\n").last ?? "no reason given"
        if toleratesKills, reason.contains(Self.killedDuringStop) { break }
        problems.append("the topology did not stop gracefully: \(exit), \(reason)")
      case nil:
        problems.append("the topology did not stop within \(Self.limit.shortText)")
        orchestrator.signal(.kill)
        _ = try? await orchestrator.waitForExit(within: .seconds(10))
      }
    }
    client.close()
    // A process with a death signal ends shortly after its parent.
    _ = try? await poll(every: .milliseconds(10), within: .seconds(2)) {
      directory.processes.isEmpty ? true : nil
    }
    log.read()
    problems += log.violations
    let remaining = directory.processes
    problems +=
      remaining.map { "left behind: \($0)" } + directory.leftoverPaths.map { "left behind: \($0)" }
    for process in remaining { process.kill() }
    return problems
  }

  /// Removes the directory, or keeps it for the investigation of a failure.
  func finish(keeping keepsFiles: Bool) async {
    if keepsFiles {
      let output = state.withLock {
        $0.output + $0.orchestrator.outputText + $0.orchestrator.errorText
      }
      _ = try? directory.write(output, to: "orchestrator.out")
      await disk?.unmountKeepingFiles()
      cleanupProcess.signal(.kill)
    } else {
      disk?.unmount()
      directory.remove()
      cleanupProcess.closeInput()
    }
    _ = try? await cleanupProcess.waitForExit(within: .seconds(10))
  }
}

/// The host on which a soak's orchestrator runs, and the deployment. Default: this host, without a
/// deployment.
struct OrchestratorSite: Sendable {
  /// The command prefix that runs a program on the host.
  var prefix: [String] = []
  /// Variables to add to the orchestrator's environment.
  var environment: [String: String] = [:]
  /// The text of the deployment file; `nil` for no deployment.
  var deployment: String?
  /// The maximum time without an orchestrator, and for one request.
  var patience: Duration = .seconds(60)
}
