import PipeLogs
import PipeRuntime
import PipeSupervision

/// Shows a run to whoever started it: a live view on a terminal, otherwise a line for each change.
final class RunReporter: Supervisor.Reporter {
  private let console: Console
  private let topology: String
  private let isLive: Bool
  private let showsOutput: Bool
  private var view: LiveView
  private var startedAt = ContinuousClock.now
  private var progress: TopologyReport?
  /// Where the reader of stdout has gone, the run goes on without being shown.
  private var isClosed = false
  /// Signals that the process was continued after it had been suspended.
  private let resumption: SignalDescriptor?

  /// - Parameter resumption: SIGCONT, which is blocked; with it the live view is shown.
  init(console: Console, topology: String, live resumption: SignalDescriptor?, showsOutput: Bool) {
    self.console = console
    self.topology = topology
    self.resumption = resumption
    isLive = resumption != nil
    self.showsOutput = showsOutput
    view = LiveView(style: console.style)
  }

  func report(_ report: TopologyReport) {
    progress = report
    // The end is told last, behind what has become of the nodes.
    if !isLive, !hasFinished { line(heading) }
  }

  func report(node: String, _ report: NodeReport) {
    var isTold = report.isProblem
    if case .adopted = report { isTold = true }
    if isTold { line("\(node): \(report)") }
  }

  func line(node: String, _ stream: LogStream, _ text: String) {
    if showsOutput || text.hasPrefix(NodeLogPrefix.warning) || text.hasPrefix(NodeLogPrefix.error) {
      line("\(node) | \(text)")
    }
  }

  func warning(_ text: String) {
    clear()
    console.warning(text)
  }

  func refresh(_ directory: TopologyDirectory) {
    let rows = directory.nodes.rows(now: WallClock.nanoseconds)
    if isLive {
      guard isDrawable, !console.isBehind else { return }
      let size = console.size
      let uptime = (ContinuousClock.now - startedAt).shortText
      show(
        view.frame(
          title: "\(heading)  up \(uptime)", rows: rows, footer: footer, columns: size.columns,
          rows: size.rows))
    } else {
      for line in view.changes(rows) { show(line + "\n") }
    }
  }

  /// Leaves the last view on the screen, and tells how it ended.
  func finish(_ directory: TopologyDirectory) {
    // The last frame is not left out for one that is being written.
    if isLive { console.drain(patience: .milliseconds(500)) }
    refresh(directory)
    show(heading + "\n")
  }

  private var heading: String { "\(topology)\(progress.map { ": \($0)" } ?? "")" }

  private var hasFinished: Bool { if case .finished = progress { true } else { false } }

  /// What ^C does now.
  private var footer: String {
    switch progress {
    case .stopping: "stopping in order; ^C kills"
    case .finished: ""
    case .starting, .changing, .allReady, .running, nil: "^C stops in order, a second ^C kills"
    }
  }

  private func line(_ text: String) {
    clear()
    show(text + "\n")
  }

  private func clear() { if isLive, isDrawable { show(view.clear()) } }

  /// Whether the terminal is this process's to draw on. What a shell has written since the last frame stays.
  private var isDrawable: Bool {
    let isForeground = console.isInForeground
    if resumption?.next() != nil || !isForeground { view.leaveFrame() }
    return isForeground
  }

  private func show(_ text: String) {
    guard !isClosed else { return }
    do {
      try console.write(text)
      try console.flush()
    } catch {
      isClosed = true
    }
  }
}

/// Tells the process that waits for a start in the background how it goes, by a line each on
/// standard output.
final class BackgroundReporter: Supervisor.Reporter {
  /// What a line says.
  enum Message: Codable, Sendable {
    case launched(topology: String)
    /// Nobody is on the way up any more. `adopted`: how many of the nodes a former orchestrator had
    /// started.
    case running(TopologyReport.Started, adopted: Int)
    case ended(exitCode: Int32, reason: String?)
    case problem(String)
    /// A node waits for what may come by itself, or, where it is `nil`, no longer.
    case waiting(node: String, obstacle: String?)
  }

  private let console: Console
  private let topology: String
  private let log: LogWriter
  private var adopted = 0
  private var waiting: Set<String> = []

  init(console: Console, topology: String, log: LogWriter) {
    self.console = console
    self.topology = topology
    self.log = log
  }

  func tell(_ message: Message) {
    guard let text = try? JSONValue(encoding: message).text else { return }
    // Nobody may be waiting any more.
    try? console.print(text)
    try? console.flush()
  }

  func report(_ report: TopologyReport) {
    keep("\(topology): \(report)")
    switch report {
    case .starting: tell(.launched(topology: topology))
    case .running(let started): tell(.running(started, adopted: adopted))
    case .finished(let outcome):
      tell(.ended(exitCode: outcome.exitCode, reason: outcome.reason))
    case .changing, .allReady, .stopping: break
    }
  }

  func report(node: String, _ report: NodeReport) {
    if case .adopted = report { adopted += 1 }
    if report.isProblem { tell(.problem("\(node): \(report)")) }
    if case .waiting(let obstacle) = report, obstacle.reason == .underway {
      waiting.insert(node)
      tell(.waiting(node: node, obstacle: "\(obstacle)"))
    } else if waiting.remove(node) != nil {
      tell(.waiting(node: node, obstacle: nil))
    }
  }

  func line(node: String, _ stream: LogStream, _ text: String) {}
  func warning(_ text: String) { keep("warning: \(text)") }
  func refresh(_ directory: TopologyDirectory) {}

  private func keep(_ line: String) { _ = log.write([line], from: .note) }
}
