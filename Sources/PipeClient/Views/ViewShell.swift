import Glibc
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// Shows a view on the terminal of this process. If there is no terminal, prints the view.
///
/// Everything runs on the thread that calls ``run()``, except ``ViewFeed``.
package final class ViewShell {
  private let loop = PollLoop()
  private let signals: SignalDescriptor
  private let feed: ViewFeed
  private let terminal: TerminalDriver?
  private let plainOutput: PlainOutput
  private var session: ViewSession
  private var ending: ViewEnding?
  private var task: Task<Void, Never>?

  /// How long a view that is about to end waits for the answer to the event of `onDisappear`.
  private static let leavingTime: Duration = .seconds(1)
  /// The minimum time between two drawings.
  private static let drawPause: Duration = .milliseconds(16)

  package init(
    view: any TerminalView.Type, feed: ViewFeed, signals: SignalDescriptor, limit: Int?
  ) {
    self.feed = feed
    self.signals = signals
    terminal = TerminalDriver(on: loop, pause: Self.drawPause)
    plainOutput = PlainOutput(limit: limit)
    session = ViewSession(
      view: view, node: feed.node, size: terminal?.size ?? PlainOutput.size,
      isPrinted: terminal == nil)
  }

  /// Shows the view until it ends, and then restores the terminal.
  package func run() -> ViewEnding {
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    if let terminal {
      terminal.screenContent = { [unowned self] _ in session.lines }
      terminal.onKeys = { [unowned self] keys in
        for key in keys { perform(session.press(key)) }
      }
      terminal.onClosed = { [unowned self] in perform(session.leave(.terminalClosed)) }
    } else if plainOutput.isPipe {
      loop.add(descriptor: STDOUT_FILENO, for: self) { $0.perform($0.session.leave(.quit)) }
    }
    let owner = LoopOwned(self)
    let handle = loop.handle
    let feed = feed
    task = Task {
      await feed.follow { update in
        await withCheckedContinuation { continuation in
          handle.post {
            owner.value.handle(update)
            continuation.resume()
          }
        }
      }
    }
    loop.run()
    task?.cancel()
    terminal?.leave()
    feed.client.close()
    loop.handle.end()
    return ending ?? .quit
  }

  // MARK: Inputs for the session

  private func handle(_ update: ViewFeed.Update) {
    guard ending == nil else { return }
    switch update {
    case .found(let directory):
      if let terminal, !terminal.isStarted { start(terminal, by: terminal.start) }
      perform(session.update(from: directory))
    case .change(let change):
      perform(session.show(change))
      if terminal == nil { printPlain() }
    case .ended: perform(session.end(.topologyDown(feed.endReason)))
    case .failed(let message, let code): perform(session.end(.failed(message, code: code)))
    }
  }

  private func start(
    _ terminal: TerminalDriver, by start: () throws(SystemError) -> Void
  ) {
    do throws(SystemError) {
      try start()
      perform(session.resize(to: terminal.size))
    } catch {
      perform(session.end(.failed("the terminal cannot be used: \(error)", code: 1)))
    }
  }

  private func readSignals() {
    while let signal = signals.next() {
      switch signal {
      case .hangUp: perform(session.leave(terminal == nil ? .quit : .terminalClosed))
      case .resume:
        if let terminal, terminal.isStarted { start(terminal, by: terminal.resume) }
      case .windowSize:
        if let terminal, terminal.isStarted { perform(session.resize(to: terminal.size)) }
      default: perform(session.leave(.quit))
      }
    }
  }

  // MARK: Actions of the session

  private func perform(_ actions: [ViewSession.Action]) {
    for action in actions where ending == nil {
      switch action {
      case .draw: terminal?.draw()
      case .send(let event): send(event)
      case .waitToLeave:
        loop.schedule(after: Self.leavingTime, for: self) { $0.perform($0.session.stopLeaving()) }
      case .suspend:
        if let terminal { start(terminal, by: terminal.suspend) }
      case .end(let ending):
        self.ending = ending
        loop.stop()
      }
    }
  }

  private func send(_ event: JSONValue) {
    let owner = LoopOwned(self)
    let handle = loop.handle
    let feed = feed
    Task {
      let result = await feed.send(event)
      handle.post { owner.value.perform(owner.value.session.handleOutcome(result)) }
    }
  }

  private func printPlain() {
    guard ending == nil else { return }
    do throws(PlainOutput.PrintError) {
      try plainOutput.print(session.body(size: PlainOutput.size))
      if plainOutput.isDone { perform(session.end(.quit)) }
    } catch {
      switch error {
      case .readerGone: perform(session.end(.quit))
      case .failed(let error): perform(session.end(.failed("\(error)", code: 1)))
      }
    }
  }
}

/// Prints each screen as lines of plain text, for a standard output that is not a terminal.
package final class PlainOutput {
  enum PrintError: Error { case readerGone, failed(SystemError) }

  /// The size for which screens are computed.
  package static let size = TerminalSize(columns: 80, rows: 24)

  private let maximumScreenCount: Int
  private var printedCount = 0

  /// - Parameter limit: The maximum number of printed screens.
  init(limit: Int?) { self.maximumScreenCount = limit ?? .max }

  var isDone: Bool { printedCount >= maximumScreenCount }

  /// Whether standard output is a pipe. The reader of a pipe may close the pipe before the next
  /// write.
  var isPipe: Bool {
    var status = stat()
    return fstat(STDOUT_FILENO, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
  }

  /// Prints a screen. An empty line separates the screen from the previous screen.
  func print(_ lines: [StyledLine]) throws(PrintError) {
    let text = lines.map { "\($0)\n" }.joined()
    var rest = Array(((printedCount > 0 ? "\n" : "") + text).utf8)[...]
    printedCount += 1
    while true {
      let (written, problem) = FileSystem.write(Array(rest), to: STDOUT_FILENO)
      rest = rest.dropFirst(written)
      switch problem {
      case nil: return
      case EAGAIN:
        var item = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
        poll(&item, 1, -1)
      case EPIPE: throw .readerGone
      case let problem?: throw .failed(SystemError("write", on: "stdout", code: problem))
      }
    }
  }
}

/// Follows one node of a running topology for a view, and sends events to the node.
package struct ViewFeed: Sendable {
  enum Update: Sendable {
    case found(TopologyDirectory)
    case change(StateChange)
    case ended
    case failed(message: String, code: Int32)
  }

  let client: TopologyClient
  let node: String
  private let states: WatchedStates
  /// The interval at which the view asks the orchestrator whether the node is running.
  private static let pollInterval: Duration = .milliseconds(250)

  package init(client: TopologyClient, node: String, _ states: WatchedStates) {
    self.client = client
    self.node = node
    self.states = states
  }

  /// Reports updates until the topology ends, or the task is cancelled. Waits for each call of
  /// `report` to return before the next call. So changes that arrive too fast are counted, and not
  /// queued.
  func follow(_ report: @escaping @Sendable (Update) async -> Void) async {
    do {
      let directory = try await client.directory(fresh: false)
      let information = try client.node(node, in: directory)
      guard information.kind != .monitor else {
        return await report(
          .failed(message: "node '\(node)' is a monitor and has no states", code: 2))
      }
      await report(.found(directory))
      // A composite's answer contains no state. The next key must be handled in the state after the
      // event, so the composite's states must arrive without delay.
      let states = try await client.states(
        of: [node], information.kind == .composite ? .every : self.states)
      await withTaskGroup { group in
        group.addTask {
          for await change in states { await report(.change(change)) }
          await report(.ended)
        }
        group.addTask { await poll(report) }
        await group.next()
        group.cancelAll()
      }
    } catch {
      let code = (error as? TopologyClientError)?.exitCode ?? 1
      await report(.failed(message: "\(error)", code: code))
    }
  }

  private func poll(_ report: @Sendable (Update) async -> Void) async {
    while !Task.isCancelled {
      do {
        try await Task.sleep(for: Self.pollInterval)
        await report(.found(try await client.directory(fresh: false)))
      } catch is CancellationError {
        return
      } catch {
        // If the orchestrator has ended, the stream of states ends as well. This report is for an
        // orchestrator that hangs.
        return await report(.ended)
      }
    }
  }

  func send(_ event: JSONValue) async -> ViewSession.EventOutcome {
    do {
      let delivery = try await client.deliver(event, to: node)
      // If a component of a composite accepts the event on its own, the answer contains the state
      // of that component.
      if delivery.recipient == node,
        case .node(.accepted(let version, let state)) = delivery.outcome
      {
        return .accepted(version: version, state: state)
      }
      if delivery.isAccepted { return .committed }
      return delivery.refusal.map { .refused($0) } ?? .failed(delivery.wording)
    } catch {
      return .failed("\(error)")
    }
  }

  /// The reason why the states have ended, with what to do next.
  var endReason: String {
    client.orchestratorLossError?.description ?? "topology '\(client.topology)' has gone down"
  }
}
