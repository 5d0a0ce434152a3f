import FoundationEssentials
import Glibc
import PipeModelChecker
import PipeDiagrams
import PipeClient
import PipeRuntime
import PipeSupervision

/// Shows a running topology on the terminal of this process, until the person leaves or the
/// topology ends.
///
/// Everything except requests to the topology runs on the thread that calls ``run()``.
final class ScreenShell {
  /// The reason why the screen has ended.
  enum EndReason {
    case dismissed
    case terminalClosed
    /// The topology does not answer any more. The error, which says what to do, is missing if the
    /// topology went down.
    case topologyGone(TopologyClientError?)
    case failed(any Error)
  }

  private let loop = PollLoop()
  private let client: TopologyClient
  private let signals: SignalDescriptor
  private let terminal: TerminalDriver
  private var screen: Screen
  private var logs: TopologyLogs
  private let logInterval: Duration
  private var endReason: EndReason?
  private var directoryTask: Task<Void, Never>?
  private var statesTask: Task<Void, Never>?
  private var stepsTask: Task<Void, Never>?
  private var watchedNodes: Set<String> = []
  private let nodes: [String]

  /// The signals that the screen handles. They must be blocked before any thread starts.
  static let signals: [Signal] = [.interrupt, .terminate, .hangUp, .windowSize, .resume]
  /// The shortest time between two drawings.
  private static let drawInterval: Duration = .milliseconds(50)
  /// The pause between an answer of the orchestrator and the next request.
  private static let directoryInterval: Duration = .milliseconds(250)
  /// The pause between two reads of the logs.
  private static let localLogInterval: Duration = .milliseconds(200)
  private static let remoteLogInterval: Duration = .milliseconds(500)
  /// The number of initial log lines for each node.
  private static let initialLogLineCount = 100

  /// - Parameters:
  ///   - directories: The directories of a topology on this host; `nil` for a topology on another host.
  ///   - nodes: The nodes to show; all nodes if the list is empty.
  ///   - timeout: The time after which the screen closes; `nil`: no limit.
  ///   - endsTopology: Whether the topology ends with the screen.
  /// - Returns: `nil` if standard input or output is not a terminal that supports cursor movements.
  init?(
    client: TopologyClient, directories: RuntimeDirectories?, signals: SignalDescriptor,
    nodes: [String] = [], timeout: Duration? = nil, endsTopology: Bool = false
  ) {
    guard let terminal = TerminalDriver(on: loop, pause: Self.drawInterval) else { return nil }
    self.client = client
    self.signals = signals
    self.terminal = terminal
    self.nodes = nodes
    logs =
      directories.map { TopologyLogs(directory: $0.logs, follows: true) } ?? TopologyLogs(client)
    logInterval = directories == nil ? Self.remoteLogInterval : Self.localLogInterval
    screen = Screen(
      size: terminal.size, nodes: nodes, endsTopology: endsTopology,
      startedAt: directories.flatMap { RunningTopology.find($0)?.startedAt }.map {
        $0.milliseconds * 1_000_000
      })
    if let timeout { loop.schedule(after: timeout, for: self) { $0.end(.dismissed) } }
  }

  /// Shows the topology until it ends or the person leaves. Restores the terminal before returning.
  func run() -> EndReason {
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    terminal.content = { [unowned self] _ in screen.frame() }
    terminal.onKeys = { [unowned self] keys in for key in keys { take(.key(key)) } }
    terminal.onClosed = { [unowned self] in end(.terminalClosed) }
    do {
      try terminal.start()
    } catch {
      return .failed(error)
    }
    ask(after: .zero, isFresh: true)
    readLogs()
    loop.run()
    for task in [directoryTask, statesTask, stepsTask] { task?.cancel() }
    terminal.leave()
    loop.handle.end()
    return endReason ?? .dismissed
  }

  /// Closes the screen from another thread after the topology has ended.
  func close() {
    let owner = LoopOwned(self)
    loop.handle.post { owner.value.end(.topologyGone(nil)) }
  }

  private func end(_ endReason: EndReason) {
    if self.endReason == nil { self.endReason = endReason }
    loop.stop()
  }

  // MARK: Inputs

  private func take(_ input: Screen.Input) {
    guard endReason == nil else { return }
    for action in screen.take(input, at: WallClock.nanoseconds) where endReason == nil {
      perform(action)
    }
  }

  private func readSignals() {
    while let signal = signals.next() {
      switch signal {
      case .windowSize: take(.resize(terminal.size))
      case .resume: start(by: terminal.resume)
      case .hangUp: end(.terminalClosed)
      default: end(.dismissed)
      }
    }
  }

  private func start(by start: () throws(SystemError) -> Void) {
    do throws(SystemError) {
      try start()
      take(.resize(terminal.size))
    } catch {
      end(.failed(error))
    }
  }

  private func readLogs() {
    runTask { [logs] in
      var logs = logs
      let entries = try await logs.next(lines: Self.initialLogLineCount).entries
      return (logs, entries)
    } then: { shell, result in
      // If the request failed, the same lines are requested again.
      if case .success((let logs, let entries)) = result {
        shell.logs = logs
        shell.addLogs(entries)
      }
      shell.loop.schedule(after: shell.logInterval, for: shell) { $0.readLogs() }
    }
  }

  private func addLogs(_ new: [LogEntry]) {
    if !new.isEmpty { take(.logs(new)) }
  }

  /// - Parameter isFresh: Whether the orchestrator polls the nodes before it answers. Otherwise its answer
  ///   may be up to one second old.
  private func ask(after pause: Duration, isFresh: Bool) {
    directoryTask = runTask { [client] in
      try await Task.sleep(for: pause)
      return try await client.directory(fresh: isFresh)
    } then: { shell, result in
      shell.take(result)
    }
  }

  private func take(_ result: Result<TopologyDirectory, any Error>) {
    switch result {
    case .success(let directory):
      do { _ = try directory.nodes(named: nodes) } catch { return end(.failed(error)) }
      take(.directory(directory))
      // The process may have been in the background until now.
      if !terminal.isStarted { start(by: terminal.start) }
      watch(directory)
    case .failure(TopologyClientError.notAnswering) where screen.data.directory != nil:
      take(.noAnswer(reason: "the orchestrator does not answer"))
    case .failure(TopologyClientError.orchestratorGone):
      return end(.topologyGone(client.orchestratorLossError))
    case .failure(let error): return end(.failed(error))
    }
    ask(after: Self.directoryInterval, isFresh: false)
  }

  /// Follows the states of all current nodes.
  private func watch(_ directory: TopologyDirectory) {
    let names = directory.nodes.filter { $0.kind != .monitor }.map(\.name)
    guard Set(names) != watchedNodes else { return }
    watchedNodes = Set(names)
    statesTask?.cancel()
    statesTask = stream { [client] in
      try await client.states(of: names, .latest, reportingInDoubt: true)
    } then: { shell, change in
      shell.take(.change(change))
    }
  }

  // MARK: Actions

  private func perform(_ action: Screen.Action) {
    switch action {
    case .draw: terminal.draw()
    case .ask(let request): ask(request)
    case .follow(let node): follow(node)
    case .copy(let text):
      // OSC 52: the terminal puts the text on its clipboard, if it is configured to.
      let base64 = Data(text.utf8.prefix(100_000)).base64EncodedString()
      terminal.send("\u{1B}]52;c;\(base64)\u{07}")
    case .suspend: start(by: terminal.suspend)
    case .leave: end(.dismissed)
    }
  }

  private func follow(_ node: String?) {
    stepsTask?.cancel()
    stepsTask = nil
    guard let node else { return }
    stepsTask = stream { [client] in
      try await client.steps(of: [node])
    } then: { shell, message in
      if case .step(let step) = message { shell.take(.step(step)) }
    }
  }

  private func ask(_ request: Screen.Request) {
    let handler = ScreenRequestHandler(client: client)
    let directory = screen.data.directory
    runTask {
      await handler.answer(request, directory)
    } then: { shell, result in
      if case .success(let answer) = result { shell.take(.answer(answer)) }
    }
  }

  // MARK: Tasks

  /// Runs an operation outside the loop, and handles its result on the loop unless the task was
  /// cancelled.
  @discardableResult
  private func runTask<Value: Sendable>(
    _ operation: @escaping @Sendable () async throws -> Value,
    then take: @escaping @Sendable (ScreenShell, Result<Value, any Error>) -> Void
  ) -> Task<Void, Never> {
    let owner = LoopOwned(self)
    let handle = loop.handle
    return Task {
      let result: Result<Value, any Error>
      do { result = .success(try await operation()) } catch { result = .failure(error) }
      if Task.isCancelled { return }
      handle.post { if owner.value.endReason == nil { take(owner.value, result) } }
    }
  }

  /// Handles the elements of a stream on the loop, one at a time, so that the stream's own bound
  /// holds.
  private func stream<Values: AsyncSequence & Sendable>(
    _ open: @escaping @Sendable () async throws -> Values,
    then take: @escaping @Sendable (ScreenShell, Values.Element) -> Void
  ) -> Task<Void, Never> where Values.Element: Sendable, Values.Failure == Never {
    let owner = LoopOwned(self)
    let handle = loop.handle
    return Task {
      // If the stream cannot be opened, the orchestrator's answers still arrive.
      guard let values = try? await open() else { return }
      for await value in values {
        if Task.isCancelled { return }
        await withCheckedContinuation { continuation in
          handle.post {
            if owner.value.endReason == nil { take(owner.value, value) }
            continuation.resume()
          }
        }
      }
    }
  }
}

/// Answers the screen's requests by asking the topology.
struct ScreenRequestHandler: Sendable {
  let client: TopologyClient

  /// The longest time for a node to report the outcome of an event.
  private static let eventTimeout: Duration = .seconds(5)
  /// The longest time for a node to be started, stopped or restarted.
  private static let nodeActionTimeout: Duration = .seconds(30)

  func answer(_ request: Screen.Request, _ directory: TopologyDirectory?) async -> Screen.Response {
    switch request {
    case .enabled(let name):
      return .enabled(of: name, await query { try await client.enabledEvents(of: name) })
    case .chart(let name):
      return .chart(
        of: name,
        await query {
          guard let directory else { throw CommandError("the topology is not loaded yet") }
          guard client.remote == nil else {
            throw CommandError("the state chart is available only on the host of the orchestrator")
          }
          return try await chart(of: name, directory)
        })
    case .alphabet(let name):
      return .alphabet(of: name, await query { try await client.alphabet(of: name) })
    case .why(let name):
      return .why(
        name,
        await query {
          let report = EnabledReport(found: try await client.enabledEvents(of: name))
          let style = Style(isColored: false, usesLocalTime: true)
          return report.lines(style) + [""] + report.details(style)
        })
    case .send(let event, let name):
      do {
        let delivery = try await client.deliver(event, to: name, timeout: Self.eventTimeout)
        return delivery.isAccepted ? .done(delivery.wording) : .failed(delivery.wording)
      } catch {
        return .failed("\(error)")
      }
    case .steer(let nodeAction, let name):
      do {
        switch nodeAction {
        case .restart: try await client.restart([name], within: Self.nodeActionTimeout)
        case .kill: try await client.kill(name)
        case .stop: try await client.stop([name], within: Self.nodeActionTimeout)
        case .start: try await client.start([name], within: Self.nodeActionTimeout)
        }
        return .done("\(name): \(Self.pastTense[nodeAction] ?? "")")
      } catch {
        return .failed("\(error)")
      }
    }
  }

  private static let pastTense: [ScreenCommand.NodeAction: String] = [
    .restart: "restarted", .kill: "killed", .stop: "stopped", .start: "started",
  ]

  private func query<Value>(
    _ operation: () async throws -> Value
  ) async -> ScreenData.QueryResult<Value> {
    do { return .found(try await operation()) } catch { return .failed("\(error)") }
  }

  /// The thread that makes state charts. It blocks while the node's program answers step by step.
  private static let chartThread = LoopThread { _ in }

  /// Makes the state chart of a node.
  private func chart(of node: String, _ directory: TopologyDirectory) async throws -> StateChart {
    try await withCheckedThrowingContinuation { continuation in
      Self.chartThread.handle.post {
        continuation.resume(
          with: Result { try LoadedTopology.load(fileOf: directory).chart(of: node) })
      }
    }
  }
}
