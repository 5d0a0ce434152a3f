import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator down`.
struct Down: Verb {
  let description = VerbDescription(
    "down", "Stops a topology, or some of its nodes, gracefully",
    discussion:
      "With NODE, stops these nodes and the nodes that depend on them. The stopped nodes stay "
      + "stopped, and all other nodes keep running. Each node stops before the nodes that it "
      + "depends on. A node first receives a stop command; if it does not stop in time, it "
      + "receives SIGTERM, and then SIGKILL. The command returns when all processes have "
      + "ended. It also ends nodes whose orchestrator was killed.",
    options: [
      .topology,
      Option("force", "f", "Kills all nodes immediately"),
      Option(
        "timeout", value: .duration,
        "Maximum time to wait until the topology or the nodes have stopped. Default: 30s"),
      .noDependencies,
    ],
    positionals: [
      Positional("NODE", .node, .any, "The nodes to stop, with their dependents. Default: all")
    ],
    examples: [
      ("orchestrator down", "Stops the only running topology"),
      ("orchestrator down -p elevator --force", "Kills the elevator"),
      ("orchestrator down door", "Stops the door, after all nodes that depend on it"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    if !arguments.positionals.isEmpty { return try await stopNodes(arguments, console) }
    let shutdown = TopologyShutdown(
      isForced: arguments.contains(option: "force"),
      timeout: arguments.duration("timeout") ?? .seconds(30))
    if case .remote(let remote) = try arguments.target {
      let client = try TopologyClient.attach(to: .remote(remote))
      defer { client.close() }
      let outcome = try await shutdown.stop(client)
      return try printOutcome(
        shutdown.isAsRequested(outcome) ? nil : outcome, of: remote.name, console)
    }
    let directories: RuntimeDirectories
    do {
      directories = try RunningTopology.choose(arguments.topology)
    } catch TopologyClientError.orphaned(let name, _, _, _) {
      return try shutdown.endSurvivors(RuntimeDirectories(topology: name), console)
    }
    let outcome: TopologyLifecycle.Outcome?
    switch try await shutdown.stop(directories) {
    case .ended(let reportedOutcome): outcome = reportedOutcome
    case .killed:
      return try shutdown.endSurvivors(
        directories, console, because: "the orchestrator did not respond and was killed")
    }
    if OrphanedTopology.find(directories) != nil {
      // The orchestrator was killed before it had ended its nodes.
      return try shutdown.endSurvivors(directories, console)
    }
    return try printOutcome(
      shutdown.isAsRequested(outcome) ? nil : outcome, of: directories.topology, console)
  }

  /// - Parameter outcome: The outcome of the run; `nil` if the topology has stopped as requested.
  private func printOutcome(
    _ outcome: TopologyLifecycle.Outcome?, of topology: String, _ console: Console
  ) throws -> ExitCode {
    guard let outcome else {
      try console.print("\(topology): down")
      return .success
    }
    try console.print("\(topology): down, not gracefully")
    console.error("\(topology): \(outcome.reason ?? "the topology failed")")
    return .failure
  }

  private func stopNodes(_ arguments: ParsedArguments, _ console: Console) async throws -> ExitCode
  {
    let nodes = arguments.positionals
    guard !arguments.contains(option: "force") else {
      let verb = "orchestrator kill \(nodes.joined(separator: " "))"
      throw CommandError(
        "--force kills a whole topology; to kill only these nodes, use '\(verb)'", code: .usage)
    }
    let timeout = arguments.duration("timeout") ?? .seconds(30)
    let excludesDependents = arguments.contains(option: "no-deps")
    let ended = try await arguments.onTopology { topology in
      guard excludesDependents else {
        let names = try await topology.bringDown(nodes, within: timeout)
        return try await topology.directory().nodes(of: names)
      }
      try await topology.stop(nodes, within: timeout)
      return try await topology.directory().nodes(named: nodes)
    }
    for node in ended { try console.print(node.line) }
    return .success
  }
}

/// Stops a topology, with the options of `down`.
private struct TopologyShutdown {
  /// How the orchestrator has ended.
  enum OrchestratorEnd {
    /// The orchestrator has ended by itself, with this outcome; `nil` if it has not reported an
    /// outcome.
    case ended(TopologyLifecycle.Outcome?)
    /// The orchestrator did not answer, and was killed.
    case killed
  }

  let isForced: Bool
  let timeout: Duration
  private let deadline: ContinuousClock.Instant

  /// The maximum wait until the orchestrator accepts the command.
  private static let patience: Duration = .seconds(5)
  /// With `--force`, the maximum wait until the orchestrator accepts the command.
  ///
  /// After this time, the orchestrator is killed.
  private static let forcedPatience: Duration = .seconds(2)

  init(isForced: Bool, timeout: Duration) {
    self.isForced = isForced
    self.timeout = timeout
    deadline = .now + timeout
  }

  /// Returns whether the topology has stopped as requested. If the outcome is unknown, the answer
  /// is `true`.
  func isAsRequested(_ outcome: TopologyLifecycle.Outcome?) -> Bool {
    guard let outcome else { return true }
    return outcome == .stopped || isForced && outcome == .forced
  }

  /// Asks the orchestrator to end its nodes, and waits until the orchestrator has ended as well.
  func stop(_ directories: RuntimeDirectories) async throws -> OrchestratorEnd {
    let topology = directories.topology
    // The process must be found before the request: after the request, another process may get the
    // same process id.
    let orchestrator = RunningTopology.find(directories)?.process
    let client = try TopologyClient(
      topology: topology, control: directories.endpoint(.control))
    var end = OrchestratorEnd.ended(nil)
    do {
      defer { client.close() }
      end = .ended(
        try await client.end(
          force: isForced,
          patience: min(timeout, isForced ? Self.forcedPatience : Self.patience),
          within: timeout))
    } catch TopologyClientError.orchestratorGone {
      // The orchestrator was about to end anyway, or was killed.
    } catch TopologyClientError.notAnswering where isForced {
      // A hung orchestrator does not end its nodes, so it is killed here. Afterwards, the process
      // records show which of its nodes still run.
      orchestrator?.signal(.kill)
      end = .killed
    }
    guard RunningTopology.awaitEnd(of: directories, orchestrator, until: deadline) else {
      throw TopologyClientError.timedOut(
        "after \(timeout.shortText): topology '\(topology)' is still stopping"
          + (isForced ? "" : "; 'orchestrator down --force' kills its nodes"))
    }
    return end
  }

  /// Asks an orchestrator on another host to end its nodes.
  ///
  /// An orchestrator that hangs is not killed, since this host cannot kill processes of another
  /// host.
  func stop(_ client: TopologyClient) async throws -> TopologyLifecycle.Outcome? {
    try await client.end(
      force: isForced, patience: min(timeout, Self.patience), within: timeout)
  }

  /// Ends the nodes whose orchestrator was killed.
  func endSurvivors(
    _ directories: RuntimeDirectories, _ console: Console,
    because reason: String = "the orchestrator was killed"
  ) throws -> ExitCode {
    // While this process holds the lock, no new orchestrator can start and adopt the nodes.
    let orphan = OrphanedTopology.find(directories)
    let lock = try TopologyLock.acquire(
      directories, file: orphan?.topologyFile, deployment: orphan?.deploymentFile)
    defer { lock.release() }
    let survivors = try Survivor.all(in: directories)
    for survivor in survivors {
      _ = LogWriter(node: survivor.node, in: directories).write(
        ["ended by 'orchestrator down'; \(reason)"], from: .note)
    }
    let remaining = Survivor.endProcesses(
      survivors, isForced: isForced, limit: timeout, in: directories)
    guard remaining.isEmpty else {
      let processes = remaining.map { "\($0.node) (pid \($0.process.pid))" }.joined(separator: ", ")
      throw CommandError("still running after SIGKILL: \(processes)")
    }
    PinnedPrograms.removeAll(in: directories)
    try console.print(
      "\(directories.topology): down; \(reason), \(survivors.count.counted("node")) ended")
    return .success
  }
}
