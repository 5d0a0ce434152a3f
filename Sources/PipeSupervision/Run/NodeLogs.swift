import PipeClient
import PipeSupport
import PipeWire

/// The logs of a topology's nodes. Reports an error when a log file cannot be written.
package final class NodeLogs {
  private let directories: RuntimeDirectories
  private let warn: (String) -> Void
  private var writers: [String: LogWriter] = [:]
  /// The retention of the nodes' logs, and of all other logs.
  private var retentions: (nodes: [String: LogRetention], standard: LogRetention) = (
    [:], LogRetention()
  )
  private let clock: () -> BootClock.Instant
  private var lastOffset: Int64

  /// A note about the clock is written only if the clock was set back by at least this amount.
  /// Unit: nanoseconds.
  private static let minimumClockStep: Int64 = 100_000_000

  /// - Parameters:
  ///   - plan: The plan with the retention of each log.
  ///   - clock: Returns the current time.
  ///   - warn: Called when a log cannot be written any more, and when it can be written again.
  package init(
    in directories: RuntimeDirectories, keeping plan: LaunchPlan? = nil,
    clock: @escaping () -> BootClock.Instant = { BootClock.now },
    warn: @escaping (String) -> Void
  ) {
    self.directories = directories
    self.clock = clock
    self.warn = warn
    lastOffset = clock().bootTime
    if let plan { applyRetention(plan) }
  }

  /// Applies the retention in a launch plan to all logs. The retention takes effect with the next
  /// line of each log.
  func applyRetention(_ plan: LaunchPlan) {
    let nodes = Dictionary(plan.nodes.map { ($0.name, $0.logRetention) }) { first, _ in first }
    retentions = (nodes, plan.logs)
    for (node, writer) in writers { writer.retention = retention(of: node) }
  }

  private func retention(of node: String) -> LogRetention {
    retentions.nodes[node] ?? retentions.standard
  }

  /// Returns the log of a node. All processes of the node write to this log.
  package func writer(of node: String) -> LogWriter {
    if let writer = writers[node] { return writer }
    let writer = LogWriter(node: node, in: directories, keeping: retention(of: node))
    writers[node] = writer
    return writer
  }

  /// Writes a note of the orchestrator to the log of a node.
  func writeNote(_ line: String, of node: String) {
    noteClock()
    reportNotice(writer(of: node).write([line], from: .note), of: node)
  }

  /// Adds a note to every log if the clock of this host was set back since the last call. Without
  /// the note, readers could not sort the lines by time. Call this before you write lines.
  package func noteClock() {
    let now = clock()
    let step = lastOffset - now.bootTime
    lastOffset = now.bootTime
    guard step >= Self.minimumClockStep else { return }
    let text = LogOrder.clockNote + Duration.nanoseconds(step).shortText
    for node in LogReader.nodesWithLogs(in: directories.logs) {
      reportNotice(
        writer(of: node).write([text], from: .note, at: Timestamp(nanoseconds: now.timeOfDay)),
        of: node)
    }
  }

  func reportNotice(_ notice: LogWriter.Notice?, of node: String) {
    switch notice {
    case .failing(let error):
      warn("cannot write the log of node '\(node)': \(error); log lines are lost")
    case .recovered(let count):
      warn("the log of node '\(node)' is writable again; \(count) lines were lost")
    case nil: break
    }
  }

  /// Closes the log of a node that was removed from the topology.
  func forget(_ node: String) { writers[node] = nil }
}

extension LogWriter {
  /// Creates the writer for the log of a node in the state directory of its topology.
  /// - Parameter retention: The retention of the log; if `nil`, the writer only appends lines.
  package convenience init(
    node: String, in directories: RuntimeDirectories, keeping retention: LogRetention? = nil
  ) {
    self.init(path: directories.logs + "/" + node + ".log", keeping: retention)
  }
}
