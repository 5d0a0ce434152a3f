import Glibc
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// Shows a view on the terminal of this process, or prints it if there is no terminal.
///
/// Everything except ``ViewFeed`` runs on the thread that calls ``run()``.
package final class ViewShell {
  private let loop = PollLoop()
  private let signals: SignalDescriptor
  private let feed: ViewFeed
  private let terminal: TerminalDriver?
  private let plain: PlainOutput
  private var session: ViewSession
  private var ending: ViewEnding?
  private var task: Task<Void, Never>?

  /// The maximum time for the notification of the node that the view disappears.
  private static let leavingTime: Duration = .seconds(1)
  /// The minimum time between two drawings.
  private static let drawPause: Duration = .milliseconds(16)

  package init(
    view: any TerminalView.Type, feed: ViewFeed, signals: SignalDescriptor, limit: Int?
  ) {
    self.feed = feed
    self.signals = signals
    terminal = TerminalDriver(on: loop, pause: Self.drawPause)
    plain = PlainOutput(limit: limit)
    session = ViewSession(
      view: view, node: feed.node, size: terminal?.size ?? PlainOutput.size,
      isPrinted: terminal == nil)
  }

  /// Shows the view until it ends, and then restores the terminal.
  package func run() -> ViewEnding {
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    if let terminal {
      terminal.content = { [unowned self] _ in session.lines }
      terminal.onKeys = { [unowned self] keys in
        for key in keys { perform(session.press(key)) }
      }
      terminal.onClosed = { [unowned self] in perform(session.leave(.terminalClosed)) }
    } else if plain.isPipe {
      loop.add(descriptor: STDOUT_FILENO, for: self) { $0.perform($0.session.leave(.quit)) }
    }
    let owner = LoopOwned(self)
    let handle = loop.handle
    let feed = feed
    task = Task {
      await feed.follow { update in
        await withCheckedContinuation { continuation in
          handle.post {
            owner.value.take(update)
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

  // MARK: Inputs

  private func take(_ update: ViewFeed.Update) {
    guard ending == nil else { return }
    switch update {
    case .found(let directory):
      if let terminal, !terminal.isStarted { start(terminal, by: terminal.start) }
      perform(session.look(at: directory))
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

  // MARK: Actions

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
      handle.post { owner.value.perform(owner.value.session.sent(result)) }
    }
  }

  private func printPlain() {
    guard ending == nil else { return }
    do throws(PlainOutput.PrintError) {
      try plain.print(session.body(size: PlainOutput.size))
      if plain.isDone { perform(session.end(.quit)) }
    } catch {
      switch error {
      case .readerGone: perform(session.end(.quit))
      case .failed(let error): perform(session.end(.failed("\(error)", code: 1)))
      }
    }
  }
}

/// Standard output that is not a terminal: each screen is printed as lines of plain text.
package final class PlainOutput {
  enum PrintError: Error { case readerGone, failed(SystemError) }

  /// The size that screens are made for.
  package static let size = TerminalSize(columns: 80, rows: 24)

  private let limit: Int
  private var count = 0

  /// - Parameter limit: The number of screens after which printing ends.
  init(limit: Int?) { self.limit = limit ?? .max }

  var isDone: Bool { count >= limit }

  /// Whether standard output is a pipe, whose reader can go away before the next write.
  var isPipe: Bool {
    var status = stat()
    return fstat(STDOUT_FILENO, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
  }

  /// Prints a screen, with an empty line before all but the first.
  func print(_ lines: [StyledLine]) throws(PrintError) {
    let text = lines.map { "\($0)\n" }.joined()
    var rest = Array(((count > 0 ? "\n" : "") + text).utf8)[...]
    count += 1
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

/// Follows one node of a running topology for a view, and sends it events, in tasks of its own.
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
  /// The interval of requests to the orchestrator whether the node runs.
  private static let pause: Duration = .milliseconds(250)

  package init(client: TopologyClient, node: String, _ states: WatchedStates) {
    self.client = client
    self.node = node
    self.states = states
  }

  /// Reports updates until the topology goes down, or the task is cancelled. Each call must return
  /// before the next is made, so that changes that come too fast are counted, not queued.
  func follow(_ report: @escaping @Sendable (Update) async -> Void) async {
    do {
      let directory = try await client.directory(fresh: false)
      let information = try client.node(node, in: directory)
      guard information.kind != .monitor else {
        return await report(
          .failed(message: "node '\(node)' is a monitor and has no states", code: 2))
      }
      await report(.found(directory))
      // A composite's answer has no state. The next key refers to the reported state, which must
      // come at once.
      let states = try await client.states(
        of: [node], information.kind == .composite ? .every : self.states)
      await withTaskGroup { group in
        group.addTask {
          for await change in states { await report(.change(change)) }
          await report(.ended)
        }
        group.addTask { await look(report) }
        await group.next()
        group.cancelAll()
      }
    } catch {
      let code = (error as? TopologyClientError)?.exitCode ?? 1
      await report(.failed(message: "\(error)", code: code))
    }
  }

  private func look(_ report: @Sendable (Update) async -> Void) async {
    while !Task.isCancelled {
      do {
        try await Task.sleep(for: Self.pause)
        await report(.found(try await client.directory(fresh: false)))
      } catch is CancellationError {
        return
      } catch {
        // If the orchestrator is gone, the states end, too. This line handles an orchestrator that hangs.
        return await report(.ended)
      }
    }
  }

  func send(_ event: JSONValue) async -> ViewSession.EventOutcome {
    do {
      let delivery = try await client.deliver(event, to: node)
      // If a node of a composite takes the event on its own, the answer has the state of that node.
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

  /// Why the states have ended, with what to do about it.
  var endReason: String {
    client.orchestratorLossError?.description ?? "topology '\(client.topology)' has gone down"
  }
}
