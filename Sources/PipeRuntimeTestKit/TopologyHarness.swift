import Glibc
import PipeRuntime
import Synchronization

/// A topology that runs for one test, with its own processes and its own directory.
///
/// `withTopology` creates a harness, and stops the topology when the test has ended.
public final class TopologyHarness: Sendable {
  /// The options for launching a topology in a test.
  public struct Options: Sendable {
    /// The path of the `orchestrator`. `nil` selects the `orchestrator` that
    /// `PIPERUNTIME_ORCHESTRATOR` names, or the `orchestrator` beside the test's build products, or
    /// the `orchestrator` in `PATH`.
    public var orchestrator: String?
    /// The directories in which node programs are searched, before `PATH`.
    public var searchPath: [String] = []
    /// Variables to add to the environment of the orchestrator and the nodes.
    public var environment: [String: String] = [:]
    /// Whether the test's body starts only when every node runs. Default: `true`.
    public var waitsUntilRunning = true
    /// The nodes whose states are all recorded, for `expect` and `seen`; `nil` for all nodes. For
    /// tens of thousands of states, recording takes longer than the nodes need to produce the
    /// states.
    public var recordedNodes: Set<String>?
    /// The collector for the steps of the recorded nodes and the composites' synchronized events.
    /// Default: none.
    public var coverage: TopologyCoverage?
    /// The nodes whose processes may crash through a trap, an abort or a bad address. A crash of
    /// any other node fails the test. Default: none.
    public var crashingNodes: Set<String> = []
    /// The longest time without progress during the start. Default: 30 s.
    public var startTimeout: Duration = .seconds(30)
    /// The longest time without progress during the stop. After that time, the remaining processes
    /// are killed and the test fails. Default: 30 s.
    public var stopTimeout: Duration = .seconds(30)

    /// Creates the default options.
    public init() {}

    /// Returns the default options for a test in which these nodes crash.
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
  /// The orchestrator's endpoint, for further ``TopologyClient``s of the test.
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
    var paused: Set<String> = []
    /// Whether the test has waited for the end of the topology, whatever the exit code was.
    var hasSeenEnd = false
    var watchTask: Task<Void, Never>?
    /// The tasks that record the states of instances, by the instances' names.
    var instanceTasks: [String: Task<Void, Never>] = [:]
    /// The last call of the test that has thrown an error.
    var failedCall: FailedCall?
  }

  struct FailedCall {
    var error: String
    var callSite: AssertionLocation
  }

  /// Starts a topology, and attaches to it.
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
    orchestrator = try LaunchedProgram(
      binary, ["run", "--plain", "--lifeline", file],
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

  /// The name of a file in the test's directory. Failpoints act only while this file exists. The
  /// file is removed before the topology stops, because a failpoint that has not acted before is
  /// not part of the test.
  private static let failpointSwitch = "failpoints"

  /// The timeout of the client's requests. A test without progress ends long before.
  package static let clientTimeout: Duration = .seconds(600)

  // MARK: The start

  private static func attach(
    to name: String, at control: String, orchestrator: LaunchedProgram, options: Options,
    directory: TestDirectory
  ) async throws -> TopologyClient {
    func failure(_ problem: String, _ stall: Stall? = nil) -> TopologyExpectationFailure {
      TopologyExpectationFailure(
        expectation: "topology '\(name)' \(problem)", seen: [],
        report: (stall.map { "\($0)\n" } ?? "") + report(of: orchestrator))
    }
    func checkNotEnded() throws {
      if let exit = orchestrator.exit { throw failure("did not start: \(exit)") }
    }
    // The client retries a failed connection only after a delay. So the harness waits for the
    // socket first.
    let path = String(control.dropFirst("ipc://".count))
    let socket: WaitResult<Bool> = try await ask(within: options.startTimeout, of: directory) {
      try checkNotEnded()
      return FileSystem.exists(path) ? true : nil
    }
    if let stall = socket.stall {
      throw failure("did not start within \(options.startTimeout.shortText)", stall)
    }
    let client = try TopologyClient(
      topology: name, control: control, answerTimeout: clientTimeout)
    let start: WaitResult<Bool> = try await ask(
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

  /// Begins to record the states of an instance, unless that has begun before.
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

  /// Waits until the feeds have delivered the current state of each node, so that no later state is
  /// missed.
  private func awaitStates() async throws {
    var nodesWithoutState: [String] = []
    let states: WaitResult<Bool> = try await ask(within: options.startTimeout, of: directory) {
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

  // MARK: The end

  /// Stops the topology gracefully and removes its directory.
  /// - Returns: The problems that occurred.
  func stop() async -> [String] {
    var problems: [String] = []
    let endedBefore = orchestrator.exit
    if let endedBefore, !state.withLock({ $0.hasSeenEnd }), !endedBefore.isSuccess {
      problems.append("the topology ended before the test: \(endedBefore)")
    }
    unlink(directory.path + "/" + Self.failpointSwitch)
    if endedBefore == nil {
      for node in state.withLock({ $0.paused }) { try? await resume(node) }
      orchestrator.signal(.resume)
      let hasFailedNodes = await hasFailedNodes()
      orchestrator.signal(.terminate)
      let exit = try? await Self.unlessCancelled { [self] in
        try await orchestrator.waitForExit(within: options.stopTimeout)
      }
      if exit == nil {
        problems.append("the topology did not stop within \(options.stopTimeout.shortText)")
        orchestrator.signal(.kill)
        _ = try? await orchestrator.waitForExit(within: .seconds(10))
      } else if exit?.isSuccess == false, let exit,
        // If a node has failed, the orchestrator exits with code 1 even after a graceful stop.
        !hasFailedNodes || exit != .exited(code: 1)
          || orchestrator.errorText.contains("did not stop gracefully")
      {
        problems.append("the topology did not stop in order: \(exit)")
      }
    }
    client.close()
    state.withLock { state in
      state.watchTask?.cancel()
      for task in state.instanceTasks.values { task.cancel() }
    }
    problems += directory.crashes(except: options.crashingNodes)
    problems += await removeLeftovers()
    return problems
  }

  private func hasFailedNodes() async -> Bool {
    let directory = try? await Self.unlessCancelled { [client] in
      try await client.directory(fresh: false)
    }
    return directory?.nodes.contains { $0.phase == "failed" } ?? false
  }

  private static func end(_ cleanupProcess: LaunchedProgram) async {
    cleanupProcess.closeInput()
    _ = try? await unlessCancelled { try await cleanupProcess.waitForExit(within: .seconds(10)) }
  }

  /// Runs an operation regardless of cancellation: a cancelled test must still stop its topology.
  private static func unlessCancelled<Value: Sendable>(
    _ operation: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    try await Task { try await operation() }.value
  }

  private func removeLeftovers() async -> [String] {
    var remaining: [LeftoverProcess] = []
    // Processes with a death signal end shortly after their parent.
    _ = try? await Self.unlessCancelled { [directory] in
      try await ask(every: .milliseconds(10), within: .seconds(2), of: directory) {
        directory.processIDs.isEmpty ? true : nil
      }
    }
    remaining = directory.processes
    var problems = remaining.map { "left behind: \($0)" }
    for process in remaining { process.kill() }
    // A process that SIGKILL ends does not clean up. Only the next start of a topology with that
    // name would.
    if orchestrator.exit != .signalled(number: Signal.kill.number) {
      problems += directory.sockets.map { "left behind: \($0)" }
    }
    directory.remove()
    await Self.end(cleanupProcess)
    return problems
  }
}
