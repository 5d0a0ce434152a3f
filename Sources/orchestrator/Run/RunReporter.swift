import PipeClient
import PipeRuntime
import PipeSupervision

/// Shows a run by a line for each change.
final class RunReporter: Supervisor.Reporter {
  private let console: Console
  private let topology: String
  private let showsOutput: Bool
  private var changes = NodeChanges()
  private var progress: TopologyReport?
  /// Where the reader of stdout has gone, the run goes on without being shown.
  private var isClosed = false

  init(console: Console, topology: String, showsOutput: Bool) {
    self.console = console
    self.topology = topology
    self.showsOutput = showsOutput
  }

  func report(_ report: TopologyReport) {
    progress = report
    // The end comes last, after what has become of the nodes.
    if case .finished = report { return }
    line(heading)
  }

  func report(node: String, _ report: NodeReport) {
    var isShown = report.isProblem
    if case .adopted = report { isShown = true }
    if isShown { line("\(node): \(report)") }
  }

  func line(node: String, _ stream: LogStream, _ text: String) {
    if showsOutput || text.hasPrefix(NodeLogPrefix.warning) || text.hasPrefix(NodeLogPrefix.error) {
      line("\(node) | \(text)")
    }
  }

  func warning(_ text: String) { console.warning(text) }

  func refresh(_ directory: TopologyDirectory) {
    for change in changes.take(directory.nodes.rows(now: WallClock.nanoseconds)) { line(change) }
  }

  /// Writes how it ended.
  func finish(_ directory: TopologyDirectory) {
    refresh(directory)
    line(heading)
  }

  private var heading: String { "\(topology)\(progress.map { ": \($0)" } ?? "")" }

  private func line(_ text: String) {
    guard !isClosed else { return }
    do {
      try console.print(text)
      try console.flush()
    } catch {
      isClosed = true
    }
  }
}

/// What is new about nodes, a line each.
package struct NodeChanges: Sendable {
  private var known: [String: NodeRow] = [:]

  package init() {}

  /// A line for each node whose status or state is new. Of one that runs and has a state, that is all; reasons are
  /// reported as they come up.
  package mutating func take(_ rows: [NodeRow]) -> [String] {
    rows.compactMap { row in
      let before = known.updateValue(row, forKey: row.node)
      guard before?.status != row.status || before?.state != row.state else { return nil }
      let isRunning = row.status == NodeLifecycle.State.running.name
      let words = [isRunning && !row.state.isEmpty ? "" : row.status, row.state.printable]
      let pid = before?.process?.pid == row.process?.pid ? nil : row.process?.pid
      return "\(row.node.printable): \(words.filter { !$0.isEmpty }.joined(separator: " "))"
        + (pid.map { ", pid \($0)" } ?? "")
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
  func keepLog(_ retention: LogRetention) { log.retention = retention }

  private func keep(_ line: String) { _ = log.write([line], from: .note) }
}
