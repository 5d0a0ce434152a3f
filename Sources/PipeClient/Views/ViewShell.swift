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
  private let terminal: Terminal?
  private let plain: PlainOutput
  private var session: ViewSession
  private var painter: ScreenPainter
  private var parser = KeyParser()
  private var ending: ViewEnding?
  private var task: Task<Void, Never>?
  private var keyTimer: TimerQueue.ID?
  private var drawTimer: TimerQueue.ID?
  private var input: PollLoop.Registration?
  private var lastDrawn = ContinuousClock.now - .seconds(1)

  /// How long ESC waits for the rest of a sequence.
  private static let keyPause: Duration = .milliseconds(50)
  /// How long the node may take to hear that the view disappears.
  private static let leavingTime: Duration = .seconds(1)
  /// The least time between two drawings.
  private static let drawPause: Duration = .milliseconds(16)

  package init(
    view: any TerminalView.Type, feed: ViewFeed, signals: SignalDescriptor, limit: Int?
  ) {
    self.feed = feed
    self.signals = signals
    terminal = Terminal()
    plain = PlainOutput(limit: limit)
    session = ViewSession(
      view: view, node: feed.node, size: terminal?.size ?? PlainOutput.size,
      isPrinted: terminal == nil)
    painter = ScreenPainter(isColored: terminal?.isColored ?? false)
  }

  /// Shows the view until it ends. The terminal is then as it was.
  package func run() -> ViewEnding {
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    if let terminal {
      input = loop.add(descriptor: STDIN_FILENO, for: self) { $0.readKeys(terminal) }
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
      if let terminal, !terminal.isEntered { start(terminal) }
      perform(session.look(at: directory))
    case .change(let change):
      perform(session.show(change))
      if terminal == nil { printPlain() }
    case .ended: perform(session.end(.topologyDown(feed.reasonOfEnd)))
    case .failed(let message, let code): perform(session.end(.failed(message, code: code)))
    }
  }

  private func start(_ terminal: Terminal) {
    do throws(SystemError) {
      try terminal.enter()
      painter.forget()
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
        if let terminal, terminal.isEntered {
          // The shell may have changed its mode.
          terminal.leave()
          start(terminal)
        }
      case .windowSize:
        if let terminal, terminal.isEntered { perform(session.resize(to: terminal.size)) }
      default: perform(session.leave(.quit))
      }
    }
  }

  private func readKeys(_ terminal: Terminal) {
    switch terminal.read() {
    case .nothing: return
    case .closed:
      if let input { loop.remove(input) }
      input = nil
      perform(session.leave(.terminalClosed))
    case .bytes(let bytes): press(parser.take(bytes))
    }
    if let keyTimer { loop.cancel(keyTimer) }
    keyTimer = nil
    guard parser.isWaiting else { return }
    keyTimer = loop.schedule(after: Self.keyPause, for: self) { $0.press($0.parser.takePause()) }
  }

  private func press(_ keys: [Key]) {
    for key in keys { perform(session.press(key)) }
  }

  // MARK: Actions

  private func perform(_ actions: [ViewSession.Action]) {
    for action in actions where ending == nil {
      switch action {
      case .draw: draw()
      case .send(let event): send(event)
      case .waitToLeave:
        loop.schedule(after: Self.leavingTime, for: self) { $0.perform($0.session.stopLeaving()) }
      case .suspend: suspend()
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

  private func suspend() {
    guard let terminal else { return }
    terminal.suspend()
    start(terminal)
  }

  /// Draws now, or as soon as it may again: a node can be faster than a terminal.
  private func draw() {
    guard let terminal, terminal.isEntered, drawTimer == nil else { return }
    let wait = Self.drawPause - (.now - lastDrawn)
    if wait <= .zero, terminal.isFlushed { return paint(terminal) }
    drawTimer = loop.schedule(after: max(wait, .milliseconds(1)), for: self) { shell in
      shell.drawTimer = nil
      terminal.flush()
      // What it has not taken yet must be whole; then it gets the newest.
      if terminal.isFlushed { shell.paint(terminal) } else { shell.draw() }
    }
  }

  private func paint(_ terminal: Terminal) {
    guard terminal.isEntered else { return }
    lastDrawn = .now
    terminal.write(painter.paint(session.lines, size: terminal.size))
    if !terminal.isFlushed { draw() }
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
