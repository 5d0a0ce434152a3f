import FoundationEssentials
import Glibc
import PipeModelChecker
import PipeDiagrams
import PipeClient
import PipeRuntime
import PipeSupervision

/// Shows a running topology on the terminal of this process, until the user leaves the screen or
/// the topology ends.
///
/// Everything except requests to the topology runs on the thread that calls ``run()``.
final class ScreenShell {
  /// The reason why the screen has ended.
  enum EndReason {
    case dismissed
    case terminalClosed
    /// The orchestrator can no longer be reached. The error says what to do; `nil` if the topology
    /// has ended.
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

  /// The signals that the screen handles. They must be blocked before the process starts its first
  /// thread.
  static let signals: [Signal] = [.interrupt, .terminate, .hangUp, .windowSize, .resume]
  /// The minimum time between two drawings.
  private static let drawInterval: Duration = .milliseconds(50)
  /// The pause between an answer of the orchestrator and the next request.
  private static let directoryInterval: Duration = .milliseconds(250)
  /// The pause between two reads of the logs.
  private static let localLogInterval: Duration = .milliseconds(200)
  private static let remoteLogInterval: Duration = .milliseconds(500)
  /// The number of initial log lines for each node.
  private static let initialLogLineCount = 100

  /// - Parameters:
  ///   - directories: The directories of a topology on this host; `nil` if the topology runs on
  ///     another host.
  ///   - nodes: The nodes that are shown. If the list is empty, all nodes are shown.
  ///   - timeout: The time after which the screen closes; `nil` means no limit.
  ///   - endsTopology: Whether the topology ends when the user leaves the screen.
  /// - Returns: `nil` if standard input or output is not a terminal, or the terminal cannot move
  ///   the cursor.
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

  /// Shows the topology until it ends or the user leaves the screen. Then restores the terminal.
  func run() -> EndReason {
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    terminal.screenContent = { [unowned self] _ in screen.frame() }
    terminal.onKeys = { [unowned self] keys in for key in keys { handle(.key(key)) } }
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

  /// Closes the screen, because the topology has ended. Any thread can call this.
  func close() {
    let owner = LoopOwned(self)
    loop.handle.post { owner.value.end(.topologyGone(nil)) }
  }

  private func end(_ endReason: EndReason) {
    if self.endReason == nil { self.endReason = endReason }
    loop.stop()
  }

  // MARK: Inputs of the screen

  private func handle(_ input: Screen.Input) {
    guard endReason == nil else { return }
    for action in screen.take(input, at: WallClock.nanoseconds) where endReason == nil {
      perform(action)
    }
  }

  private func readSignals() {
    while let signal = signals.next() {
      switch signal {
      case .windowSize: handle(.resize(terminal.size))
      case .resume: start(by: terminal.resume)
      case .hangUp: end(.terminalClosed)
      default: end(.dismissed)
      }
    }
  }

  private func start(by start: () throws(SystemError) -> Void) {
    do throws(SystemError) {
      try start()
      handle(.resize(terminal.size))
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
      // After a failed request, the next request reads the same lines again.
      if case .success((let logs, let entries)) = result {
        shell.logs = logs
        shell.addLogs(entries)
      }
      shell.loop.schedule(after: shell.logInterval, for: shell) { $0.readLogs() }
    }
  }

  private func addLogs(_ new: [LogEntry]) {
    if !new.isEmpty { handle(.logs(new)) }
  }

  /// - Parameter isFresh: Whether the orchestrator asks the nodes for their statuses before it
  ///   answers. Otherwise, the statuses may be up to one second old.
  private func ask(after pause: Duration, isFresh: Bool) {
    directoryTask = runTask { [client] in
      try await Task.sleep(for: pause)
      return try await client.directory(fresh: isFresh)
    } then: { shell, result in
      shell.handle(result)
    }
  }

  private func handle(_ result: Result<TopologyDirectory, any Error>) {
    switch result {
    case .success(let directory):
      do { _ = try directory.nodes(named: nodes) } catch { return end(.failed(error)) }
      handle(.directory(directory))
      // If this process was in the background, it could not use the terminal. Now the process may
      // be in the foreground.
      if !terminal.isStarted { start(by: terminal.start) }
      watch(directory)
    case .failure(TopologyClientError.notAnswering) where screen.data.directory != nil:
      handle(.noAnswer(reason: "the orchestrator does not answer"))
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
      shell.handle(.change(change))
    }
  }

  // MARK: Actions of the screen

  private func perform(_ action: Screen.Action) {
    switch action {
    case .draw: terminal.draw()
    case .ask(let request): ask(request)
    case .follow(let node): follow(node)
    case .copy(let text):
      // OSC 52 asks the terminal to copy the text to its clipboard. Terminals can disable this.
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
      if case .step(let step) = message { shell.handle(.step(step)) }
    }
  }

  private func ask(_ request: Screen.Request) {
    let handler = ScreenRequestHandler(client: client)
    let directory = screen.data.directory
    runTask {
      await handler.answer(request, directory)
    } then: { shell, result in
      if case .success(let answer) = result { shell.handle(.answer(answer)) }
    }
  }

  // MARK: Tasks outside the loop

  /// Runs an operation outside the loop, and handles the result on the loop, unless the task was
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

  /// Handles the elements of a stream on the loop. Each element is handled before the next element
  /// is requested, so the stream itself buffers its elements.
  private func stream<Values: AsyncSequence & Sendable>(
    _ open: @escaping @Sendable () async throws -> Values,
    then take: @escaping @Sendable (ScreenShell, Values.Element) -> Void
  ) -> Task<Void, Never> where Values.Element: Sendable, Values.Failure == Never {
    let owner = LoopOwned(self)
    let handle = loop.handle
    return Task {
      // If the stream cannot be opened, the screen still shows the orchestrator's answers.
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

/// Answers the requests of the screen by asking the topology.
struct ScreenRequestHandler: Sendable {
  let client: TopologyClient

  /// The maximum wait for the outcome of an event.
  private static let eventTimeout: Duration = .seconds(5)
  /// The maximum wait until a node is started, stopped or restarted.
  private static let nodeActionTimeout: Duration = .seconds(30)

  func answer(_ request: Screen.Request, _ directory: TopologyDirectory?) async -> Screen.Response {
    switch request {
    case .enabled(let name):
      return .enabled(of: name, await query { try await client.enabledEvents(of: name) })
    case .chart(let name):
      return .chart(
        of: name,
        await query {
          try await load(directory, "the state chart") { try $0.chart(of: name) }
        })
    case .alphabet(let name):
      return .alphabet(of: name, await query { try await client.alphabet(of: name) })
    case .why(let name):
      return .why(
        name,
        await query {
          let report = EnabledReport(enabledEvents: try await client.enabledEvents(of: name))
          let style = Style(isColored: false, usesLocalTime: true)
          return report.lines(style) + [""] + report.detailLines(style)
        })
    case .deadLetters(let names):
      var found: [String: ScreenData.QueryResult<[DeadLetter]>] = [:]
      for name in names { found[name] = await query { try await client.deadLetters(of: name) } }
      return .deadLetters(found)
    case .deadLetter(let action, let id, let name): return await handle(action, id, of: name)
    case .wiring:
      return .wiring(
        await query {
          try await load(directory, "the graph") { Wiring($0) }
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

  private func handle(
    _ action: ScreenCommand.DeadLetterAction, _ id: UInt64, of name: String
  ) async -> Screen.Response {
    do {
      switch action {
      case .drop:
        try await client.drop(deadLetter: id, of: name, timeout: Self.eventTimeout)
        return .done("\(name): dead letter \(id) deleted")
      case .resend:
        switch try await client.resend(deadLetter: id, of: name, timeout: Self.eventTimeout) {
        case .accepted, .done: return .done("\(name): dead letter \(id) accepted")
        case .refused(let refusal, _):
          return .failed("\(name): dead letter \(id) refused again: \(refusal.code)")
        }
      }
    } catch {
      return .failed("\(error)")
    }
  }

  /// The thread that loads topology files. It is blocked while programs describe their machines or
  /// compute single steps.
  private static let loadingThread = LoopThread { _ in }

  /// Loads the file of the topology, and computes a value from it.
  private func load<Value: Sendable>(
    _ directory: TopologyDirectory?, _ purpose: String,
    _ compute: @escaping @Sendable (LoadedTopology) throws -> Value
  ) async throws -> Value {
    guard let directory else { throw CommandError("the topology is not loaded yet") }
    guard client.remote == nil else {
      throw CommandError("\(purpose) is available only on the host of the orchestrator")
    }
    return try await withCheckedThrowingContinuation { continuation in
      Self.loadingThread.handle.post {
        continuation.resume(
          with: Result { try compute(try LoadedTopology.load(fileOf: directory)) })
      }
    }
  }
}
