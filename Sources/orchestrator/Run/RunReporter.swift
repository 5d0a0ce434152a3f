import PipeClient
import PipeRuntime
import PipeSupervision

/// Shows a run with one line per change.
final class RunReporter: Supervisor.Reporter {
  private let console: Console
  private let topology: String
  private let showsOutput: Bool
  private var changeTracker = NodeChangeTracker()
  private var lastReport: TopologyReport?
  /// Whether the reader of stdout has gone. The run then goes on without output.
  private var isOutputClosed = false

  init(console: Console, topology: String, showsOutput: Bool) {
    self.console = console
    self.topology = topology
    self.showsOutput = showsOutput
  }

  func report(_ report: TopologyReport) {
    lastReport = report
    // The end is shown last, after the final changes of the nodes.
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
    for change in changeTracker.take(directory.nodes.rows(now: WallClock.nanoseconds)) {
      line(change)
    }
  }

  /// Writes the outcome of the run.
  func finish(_ directory: TopologyDirectory) {
    refresh(directory)
    line(heading)
  }

  private var heading: String { "\(topology)\(lastReport.map { ": \($0)" } ?? "")" }

  private func line(_ text: String) {
    guard !isOutputClosed else { return }
    do {
      try console.print(text)
      try console.flush()
    } catch {
      isOutputClosed = true
    }
  }
}

/// The changes of nodes, one line each.
package struct NodeChangeTracker: Sendable {
  private var lastRows: [String: NodeRow] = [:]

  package init() {}

  /// Returns a line for each node whose status or state has changed. The line of a running node
  /// with a state shows only that state. Failure reasons are reported separately, when they occur.
  package mutating func take(_ rows: [NodeRow]) -> [String] {
    rows.compactMap { row in
      let before = lastRows.updateValue(row, forKey: row.node)
      guard before?.status != row.status || before?.state != row.state else { return nil }
      let isRunning = row.status == NodeLifecycle.State.running.name
      let words = [isRunning && !row.state.isEmpty ? "" : row.status, row.state.printable]
      let pid = before?.process?.pid == row.process?.pid ? nil : row.process?.pid
      return "\(row.node.printable): \(words.filter { !$0.isEmpty }.joined(separator: " "))"
        + (pid.map { ", pid \($0)" } ?? "")
    }
  }
}

/// Reports the progress of a background start to the waiting process, with one line per message on
/// standard output.
final class BackgroundReporter: Supervisor.Reporter {
  /// The content of a line.
  enum Message: Codable, Sendable {
    case launched(topology: String)
    /// No node is starting any more. `adopted`: the number of nodes that an earlier orchestrator
    /// had started.
    case running(TopologyReport.StartCounts, adopted: Int)
    case ended(exitCode: Int32, reason: String?)
    case problem(String)
    /// A node waits for a condition that may come true by itself. With `nil`, it no longer waits.
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

  func send(_ message: Message) {
    guard let text = try? JSONValue(encoding: message).text else { return }
    // The waiting process may have gone already.
    try? console.print(text)
    try? console.flush()
  }

  func report(_ report: TopologyReport) {
    writeLog("\(topology): \(report)")
    switch report {
    case .starting: send(.launched(topology: topology))
    case .running(let started): send(.running(started, adopted: adopted))
    case .finished(let outcome):
      send(.ended(exitCode: outcome.exitCode, reason: outcome.reason))
    case .changing, .allReady, .stopping: break
    }
  }

  func report(node: String, _ report: NodeReport) {
    if case .adopted = report { adopted += 1 }
    if report.isProblem { send(.problem("\(node): \(report)")) }
    if case .waiting(let obstacle) = report, obstacle.reason == .underway {
      waiting.insert(node)
      send(.waiting(node: node, obstacle: "\(obstacle)"))
    } else if waiting.remove(node) != nil {
      send(.waiting(node: node, obstacle: nil))
    }
  }

  func line(node: String, _ stream: LogStream, _ text: String) {}
  func warning(_ text: String) { writeLog("warning: \(text)") }
  func refresh(_ directory: TopologyDirectory) {}
  func applyLogRetention(_ retention: LogRetention) { log.retention = retention }

  private func writeLog(_ line: String) { _ = log.write([line], from: .note) }
}
