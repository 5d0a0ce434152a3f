import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision

/// Reports a run on the console, with one line for each change.
final class RunReporter: Supervisor.Reporter {
  /// How lines are written, and which lines are written.
  struct Style {
    var format = LogFormat.text
    /// Whether the output of the nodes is shown.
    var showsOutput = false
    /// Whether the run is a service, which shows each change of a node's phase, but no states.
    var isService = false
  }

  private let console: Console
  private let topology: String
  private let style: Style
  /// The orchestrator's own log; `nil` if the run has none.
  private let log: LogWriter?
  private let notifier: ServiceNotifier?
  private let isJournal: Bool
  private var changeTracker = NodeChangeTracker()
  private var lastReport: TopologyReport?
  private var incarnations: [String: UInt64] = [:]
  /// Whether the reader of stdout has closed the stream. The run then continues without output.
  private var isOutputClosed = false

  init(
    console: Console, topology: String, _ style: Style, log: LogWriter? = nil,
    notifier: ServiceNotifier? = nil
  ) {
    self.console = console
    self.topology = topology
    self.style = style
    self.log = log
    self.notifier = notifier
    isJournal = style.format == .text && SystemJournal.isConnected()
  }

  func report(_ report: TopologyReport) {
    lastReport = report
    notifier?.take(report)
    // The outcome is written by `finish`, after the final changes of the nodes.
    if case .finished = report { return }
    writeLastReport()
  }

  func report(node: String, _ report: NodeReport) {
    switch report {
    case .starting(let incarnation), .adopted(let incarnation):
      incarnations[node] = UInt64(clamping: incarnation)
    default: break
    }
    guard isShown(report) else { return }
    var record = RunLogRecord(topology: topology, node: node, "\(report)")
    record.level = RunLogRecord.Level(report)
    write(record)
  }

  private func isShown(_ report: NodeReport) -> Bool {
    switch report {
    case .adopted: true
    case .spawned, .running, .stopping, .exited, .stopped, .completed: style.isService
    default: report.isProblem
    }
  }

  func showLine(node: String, _ stream: LogStream, _ text: String) {
    let level = RunLogRecord.Level(ofLine: text)
    guard style.showsOutput || level != .info else { return }
    var record = RunLogRecord(topology: topology, node: node, text)
    record.level = level
    record.stream = stream
    write(record)
  }

  func warning(_ text: String) {
    if style.format == .text, !isJournal {
      _ = log?.write(["warning: \(text)"], from: .note)
      return console.warning(text)
    }
    var record = RunLogRecord(topology: topology, text)
    record.level = .warning
    write(record)
  }

  func refresh(_ directory: TopologyDirectory) {
    for change in changeTracker.changes(to: directory.nodes.rows(now: WallClock.nanoseconds)) {
      var record = RunLogRecord(topology: topology, node: change.node, change.text)
      record.version = change.version
      record.transaction = directory[node: change.node]?.doubts.first.map { "\($0.transaction)" }
      write(record)
    }
  }

  func applyLogRetention(_ retention: LogRetention) { log?.retention = retention }

  /// Writes the outcome of the run.
  func finish(_ directory: TopologyDirectory) {
    if !style.isService { refresh(directory) }
    writeLastReport()
  }

  /// Writes the last lines that the failed nodes have written, and the reason why the run has
  /// failed.
  func fail(_ reason: String, after lastLines: [(node: String, lines: [String])]) {
    for (name, lines) in lastLines {
      for line in lines {
        guard style.format == .json else {
          console.note("\(name) | \(line)")
          continue
        }
        var record = RunLogRecord(topology: topology, node: name, line)
        record.stream = .out
        write(record)
      }
    }
    guard style.format == .json else { return console.error(reason) }
    var record = RunLogRecord(topology: topology, reason)
    record.level = .error
    write(record)
  }

  private func writeLastReport() {
    guard let lastReport else { return }
    var record = RunLogRecord(topology: topology, "\(lastReport)")
    record.level = RunLogRecord.Level(lastReport)
    write(record)
  }

  private func write(_ record: RunLogRecord) {
    var record = record
    record.incarnation = record.node.flatMap { incarnations[$0] }
    // Only lines about the topology go to this log. Each node has its own log for its lines.
    if record.node == nil { _ = log?.write([record.text], from: .note) }
    guard !isOutputClosed else { return }
    do {
      switch style.format {
      case .json: try console.print(record.json)
      case .text: try console.print(isJournal ? record.journalText : record.text)
      }
      try console.flush()
    } catch {
      isOutputClosed = true
    }
  }
}

/// A change of a node's status or state.
package struct NodeChange: Hashable, Sendable {
  package var node: String
  /// The change in words, such as `open, pid 7`.
  package var text: String
  /// The version of the node's state; `nil` if the node has no state.
  package var version: UInt64?

  /// The change as a line of text.
  package var line: String { "\(node): \(text)" }
}

/// The last reported status and state of each node, from which lines for changes are derived.
package struct NodeChangeTracker: Sendable {
  private var lastRows: [String: NodeRow] = [:]

  package init() {}

  /// Returns each node whose status or state has changed. If a running node has a state, the change
  /// shows only the state. Reasons of failures are not included, since they are reported when the
  /// failures occur.
  package mutating func changes(to rows: [NodeRow]) -> [NodeChange] {
    rows.compactMap { row in
      let before = lastRows.updateValue(row, forKey: row.node)
      guard before?.phase != row.phase || before?.state != row.state else { return nil }
      let isRunning = row.phase == NodeLifecycle.State.running.name
      let words = [isRunning && !row.state.isEmpty ? "" : row.phase, row.state.printable]
      let pid = before?.process?.pid == row.process?.pid ? nil : row.process?.pid
      let text =
        words.filter { !$0.isEmpty }.joined(separator: " ") + (pid.map { ", pid \($0)" } ?? "")
      return NodeChange(node: row.node.printable, text: text, version: row.version)
    }
  }
}

/// Reports the progress of a background run to the process that has started the run.
///
/// Each message is a line on standard output.
final class BackgroundReporter: Supervisor.Reporter {
  /// The content of a line, as JSON.
  enum Message: Codable, Sendable {
    case launched(topology: String)
    /// No node is starting any more. `adopted` is the number of nodes whose processes a former
    /// orchestrator had started.
    case running(TopologyReport.StartCounts, adopted: Int)
    case ended(exitCode: Int32, reason: String?)
    case problem(String)
    /// A node waits for a condition that can still be met without a request. If `obstacle` is
    /// `nil`, the node no longer waits.
    case waiting(node: String, obstacle: String?)
  }

  private let console: Console
  private let topology: String
  private let log: LogWriter
  private var adoptedCount = 0
  private var waitingNodes: Set<String> = []

  init(console: Console, topology: String, log: LogWriter) {
    self.console = console
    self.topology = topology
    self.log = log
  }

  func send(_ message: Message) {
    guard let text = try? JSONValue(encoding: message).text else { return }
    // Ignores errors, since the process that waits may already have ended.
    try? console.print(text)
    try? console.flush()
  }

  func report(_ report: TopologyReport) {
    writeLog("\(topology): \(report)")
    switch report {
    case .starting: send(.launched(topology: topology))
    case .running(let started): send(.running(started, adopted: adoptedCount))
    case .finished(let outcome):
      send(.ended(exitCode: outcome.exitCode, reason: outcome.reason))
    case .changing, .moved, .allReady, .stopping: break
    }
  }

  func report(node: String, _ report: NodeReport) {
    if case .adopted = report { adoptedCount += 1 }
    if report.isProblem { send(.problem("\(node): \(report)")) }
    if case .waiting(let obstacle) = report, obstacle.reason == .underway {
      waitingNodes.insert(node)
      send(.waiting(node: node, obstacle: "\(obstacle)"))
    } else if waitingNodes.remove(node) != nil {
      send(.waiting(node: node, obstacle: nil))
    }
  }

  func showLine(node: String, _ stream: LogStream, _ text: String) {}
  func warning(_ text: String) {
    writeLog("warning: \(text)")
    send(.problem("warning: \(text)"))
  }
  func refresh(_ directory: TopologyDirectory) {}
  func applyLogRetention(_ retention: LogRetention) { log.retention = retention }

  private func writeLog(_ line: String) { _ = log.write([line], from: .note) }
}
