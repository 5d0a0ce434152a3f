import Glibc
import PipeMachines
import PipeSystem
import PipeTransport

/// Shows a view on the terminal of this process, or prints it where there is none.
///
/// All of it but ``ViewFeed`` runs on the thread that calls ``run()``.
package final class ViewShell {
  private let loop = PollLoop()
  private let signals: SignalDescriptor
  private let feed: ViewFeed
  private let terminal: TerminalDriver?
  private let plain: PlainOutput
  private var session: ViewSession
  private var ending: ViewEnding?
  private var task: Task<Void, Never>?

  /// How long the node may take to hear that the view disappears.
  private static let leavingTime: Duration = .seconds(1)
  /// The least time between two drawings.
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

  /// Shows the view until it ends. The terminal is then as it was.
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
    case .ended: perform(session.end(.topologyDown(feed.reasonOfEnd)))
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
    do throws(PlainOutput.Problem) {
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
