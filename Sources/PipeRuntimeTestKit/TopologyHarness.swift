import Glibc
import PipeRuntime
import Synchronization

/// A topology that runs for one test, with its own processes and its own directory.
///
/// `withTopology` creates the harness, and stops the topology after the test.
public final class TopologyHarness: Sendable {
  /// The options for launching a topology in a test.
  public struct Options: Sendable {
    /// The path of the `orchestrator` command. If `nil`, the harness uses the path in the
    /// environment variable `PIPERUNTIME_ORCHESTRATOR`. If the variable is not set, the harness
    /// searches the directories of the test's build products, and then `PATH`.
    public var orchestrator: String?
    /// The directories in which the harness searches for node programs before it searches `PATH`.
    public var searchPath: [String] = []
    /// Variables that are added to the environment of the orchestrator and the nodes.
    public var environment: [String: String] = [:]
    /// Whether the test's body starts only after all nodes are running. Default: `true`.
    public var waitsUntilRunning = true
    /// The nodes whose states are recorded for `expect` and `seen`; `nil` means all nodes. Exclude
    /// nodes that take tens of thousands of steps, because recording a state takes longer than the
    /// step.
    public var recordedNodes: Set<String>?
    /// The collector that counts the steps of the recorded nodes and the synchronized events of
    /// composites. Default: none.
    public var coverage: TopologyCoverage?
    /// Whether the run is recorded, and compared with the topology after the test, as by
    /// `orchestrator conform`. If the run does not conform, the test fails. Default: `false`.
    public var checksConformance = false
    /// The nodes that may crash, for example because of a trap, an abort or an invalid address. If
    /// another node crashes, the test fails. Default: none.
    public var crashingNodes: Set<String> = []
    /// The maximum time without progress during the start of the topology. Default: 30 s.
    public var startTimeout: Duration = .seconds(30)
    /// The maximum time without progress during the stop of the topology. After this time, the
    /// remaining processes are killed, and the test fails. Default: 30 s.
    public var stopTimeout: Duration = .seconds(30)

    /// Creates the default options.
    public init() {}

    /// Returns the default options, with these nodes in ``crashingNodes``.
    public static func crashing(_ nodes: String...) -> Options {
      var options = Options()
      options.crashingNodes = Set(nodes)
      return options
    }
  }

  /// The topology's name.
  public let topology: String
  /// The client that is attached to the topology.
  public let client: TopologyClient
  /// The control endpoint of the orchestrator, to which the test can attach further
  /// ``TopologyClient``s.
  package let control: String
  package let directory: TestDirectory
  package let orchestrator: LaunchedProgram
  package let options: Options
  let binary: String
  let history = StateHistory()
  package let directories: RuntimeDirectories
  let state = Mutex(State())
  private let cleanupProcess: LaunchedProgram

  struct State {
    /// The nodes that the test has paused.
    var pausedNodes: Set<String> = []
    /// Whether the test has waited for the end of the topology. The test has then received the
    /// orchestrator's exit code, so the harness does not check the exit code again.
    var hasWaitedForEnd = false
    var watchTask: Task<Void, Never>?
    /// The tasks that record the states of instances, by the instances' names.
    var instanceTasks: [String: Task<Void, Never>] = [:]
    /// The last call of the harness that has thrown an error.
    var failedCall: FailedCall?
  }

  struct FailedCall {
    var error: String
    var callSite: AssertionLocation
  }

  /// Starts a topology, attaches a client to it, and waits for the states of its nodes.
  init(
    file: String, name: String, directory: TestDirectory, binary: String, options: Options
  ) async throws {
    topology = name
    self.directory = directory
    self.options = options
    self.binary = binary
    directories = try RuntimeDirectories(topology: name, roots: directory.roots)
    let failpointSwitch = try directory.write("", to: Self.failpointSwitch)
    control = try directories.endpoint(.control)
    let verb =
      options.checksConformance
      ? ["record", "--out", directory.path + "/" + Self.recordedRun] : ["run", "--plain"]
    orchestrator = try LaunchedProgram(
      binary, verb + ["--lifeline", file],
      environment: directory.environment(
        adding: [FailpointCounter.switchVariable: failpointSwitch]
          .merging(options.environment) { _, own in own },
        path: options.searchPath))
    do {
      cleanupProcess = try directory.removeAfterCrash(and: orchestrator.pid)
    } catch {
      orchestrator.signal(.kill)
      _ = try? await orchestrator.waitForExit(within: .seconds(5))
      throw error
    }
    do {
      client = try await Self.attach(
        to: name, at: control, orchestrator: orchestrator, options: options,
        directory: directory)
      if options.recordedNodes != [] {
        let recordCoverage = try options.coverage.map {
          $0.makeRecorder(of: try TopologyReader.read(path: file).topology.composites)
        }
        watch(try await client.states(of: options.recordedNodes?.sorted()), recordCoverage)
      }
      try await awaitStates()
    } catch {
      orchestrator.signal(.kill)
      _ = try? await orchestrator.waitForExit(within: .seconds(5))
      await Self.end(cleanupProcess)
      throw error
    }
  }

  /// The name of a file in the test's directory. Failpoints have an effect only while this file
  /// exists. The harness removes the file before it stops the topology, since failpoints must not
  /// affect the stop, which is not a part of the test.
  private static let failpointSwitch = "failpoints"

  /// The name of the directory of the recorded run, in the test's directory.
  static let recordedRun = "run"

  /// The timeout of the client's requests. If there is no progress, a test ends long before this
  /// time.
  package static let clientTimeout: Duration = .seconds(600)

  // MARK: Start of the topology

  private static func attach(
    to name: String, at control: String, orchestrator: LaunchedProgram, options: Options,
    directory: TestDirectory
  ) async throws -> TopologyClient {
    func failure(_ problem: String, _ stall: Stall? = nil) -> TopologyExpectationFailure {
      TopologyExpectationFailure(
        expectation: "topology '\(name)' \(problem)", recordedStates: [],
        report: (stall.map { "\($0)\n" } ?? "") + report(of: orchestrator))
    }
    func checkNotEnded() throws {
      if let exit = orchestrator.exit { throw failure("did not start: \(exit)") }
    }
    // A client that cannot connect waits before it tries again. To avoid this delay, the harness
    // waits until the socket exists.
    let path = String(control.dropFirst("ipc://".count))
    let socket: WaitResult<Bool> = try await pollUntilStalled(
      within: options.startTimeout, of: directory
    ) {
      try checkNotEnded()
      return FileSystem.exists(path) ? true : nil
    }
    if let stall = socket.stall {
      throw failure("did not start within \(options.startTimeout.shortText)", stall)
    }
    let client = try TopologyClient(
      topology: name, control: control, answerTimeout: clientTimeout)
    let start: WaitResult<Bool> = try await pollUntilStalled(
      every: .milliseconds(5), within: options.startTimeout, of: directory
    ) {
      try checkNotEnded()
      guard let directory = try? await client.directory(fresh: false) else { return nil }
      return directory.isRunning || !options.waitsUntilRunning ? true : nil
    }
    if let stall = start.stall {
      client.close()
      throw failure("is not running after \(options.startTimeout.shortText)", stall)
    }
    return client
  }

  private func watch(_ stream: StateStream, _ recordCoverage: (@Sendable (StateChange) -> Void)?) {
    let task = Task { [history] in
      for await change in stream {
        recordCoverage?(change)
        history.append(change)
      }
      history.end()
    }
    state.withLock { $0.watchTask = task }
  }

  /// Begins to record the states of an instance, unless they are already being recorded.
  func watchInstance(_ name: String) async throws {
    guard state.withLock({ $0.instanceTasks[name] == nil }) else { return }
    let stream = try await client.states(of: [name])
    let task = Task { [history] in
      for await change in stream { history.append(change) }
    }
    state.withLock { state in
      if state.instanceTasks[name] == nil {
        state.instanceTasks[name] = task
      } else {
        task.cancel()
      }
    }
  }

  /// Waits until the feeds have delivered the current states of all nodes. Afterwards, no state is
  /// missed.
  private func awaitStates() async throws {
    var nodesWithoutState: [String] = []
    let states: WaitResult<Bool> = try await pollUntilStalled(
      within: options.startTimeout, of: directory
    ) {
      guard orchestrator.exit == nil else { return true }
      nodesWithoutState = try await client.directory(fresh: false).nodes
        .filter { $0.isRunning && $0.kind != .monitor }.map(\.name)
        .filter { options.recordedNodes?.contains($0) ?? true }
        .filter { history.states(of: $0).isEmpty }
      return nodesWithoutState.isEmpty ? true : nil
    }
    guard let stall = states.stall else { return }
    throw await failure(
      "timed out: no state of \(nodesWithoutState.joined(separator: ", ")) was seen within "
        + "\(options.startTimeout.shortText) of the start", after: stall)
  }

  // MARK: Stop of the topology

  /// Stops the topology gracefully, and removes the test's directory.
  /// - Returns: A description of each problem: an early end, an ungraceful stop, a crash, or
  ///   leftover processes or files.
  func stop() async -> [String] {
    var problems: [String] = []
    let endedBefore = orchestrator.exit
    if let endedBefore, !state.withLock({ $0.hasWaitedForEnd }), !endedBefore.isSuccess {
      problems.append("the topology ended before the test: \(endedBefore)")
    }
    unlink(directory.path + "/" + Self.failpointSwitch)
    if endedBefore == nil {
      for node in state.withLock({ $0.pausedNodes }) { try? await resume(node) }
      orchestrator.signal(.resume)
      let hasFailedNodes = await hasFailedNodes()
      orchestrator.signal(.terminate)
      let exit = try? await Self.ignoringCancellation { [self] in
        try await orchestrator.waitForExit(within: options.stopTimeout)
      }
      if exit == nil {
        problems.append("the topology did not stop within \(options.stopTimeout.shortText)")
        orchestrator.signal(.kill)
        _ = try? await orchestrator.waitForExit(within: .seconds(10))
      } else if exit?.isSuccess == false, let exit,
        // If a node has failed, the orchestrator's exit code is 1 even after a graceful stop.
        !hasFailedNodes || exit != .exited(code: 1)
          || orchestrator.errorText.contains("did not stop gracefully")
      {
        problems.append("the topology did not stop gracefully: \(exit)")
      }
    }
    client.close()
    state.withLock { state in
      state.watchTask?.cancel()
      for task in state.instanceTasks.values { task.cancel() }
    }
    problems += directory.crashes(except: options.crashingNodes)
    if options.checksConformance { problems += await conformanceProblems() }
    problems += await removeLeftovers()
    return problems
  }

  /// Compares the recorded run with the topology.
  private func conformanceProblems() async -> [String] {
    let exit = try? await Self.ignoringCancellation { [self] in
      let program = try LaunchedProgram(
        binary, ["conform", directory.path + "/" + Self.recordedRun],
        environment: directory.environment(adding: options.environment, path: options.searchPath))
      let exit = try await program.waitForExit(within: options.stopTimeout)
      return (exit, program.errorText + program.outputText)
    }
    FileSystem.removeTree(directory.path + "/" + Self.recordedRun)
    guard let exit else { return ["the recorded run could not be compared with the topology"] }
    return exit.0?.isSuccess == true ? [] : [exit.1]
  }

  private func hasFailedNodes() async -> Bool {
    let directory = try? await Self.ignoringCancellation { [client] in
      try await client.directory(fresh: false)
    }
    return directory?.nodes.contains { $0.phase == "failed" } ?? false
  }

  private static func end(_ cleanupProcess: LaunchedProgram) async {
    cleanupProcess.closeInput()
    _ = try? await ignoringCancellation {
      try await cleanupProcess.waitForExit(within: .seconds(10))
    }
  }

  /// Runs an operation to its end, even if this task is cancelled. A cancelled test must also stop
  /// its topology.
  private static func ignoringCancellation<Value: Sendable>(
    _ operation: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    try await Task { try await operation() }.value
  }

  private func removeLeftovers() async -> [String] {
    var remaining: [LeftoverProcess] = []
    // Processes with a death signal end shortly after their parent.
    _ = try? await Self.ignoringCancellation { [directory] in
      try await pollUntilStalled(every: .milliseconds(10), within: .seconds(2), of: directory) {
        directory.processIDs.isEmpty ? true : nil
      }
    }
    remaining = directory.processes
    var problems = remaining.map { "left behind: \($0)" }
    for process in remaining { process.kill() }
    // After SIGKILL, the orchestrator's files remain. Only the next start of a topology with this
    // name would remove them.
    if orchestrator.exit != .signalled(number: Signal.kill.number) {
      problems += directory.leftoverPaths.map { "left behind: \($0)" }
    }
    directory.remove()
    await Self.end(cleanupProcess)
    return problems
  }
}
