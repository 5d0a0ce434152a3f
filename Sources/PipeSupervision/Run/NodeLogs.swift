import PipeClient
import PipeSupport
import PipeWire

/// The logs of a topology's nodes. Reports errors of their files.
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

  /// The smallest backward step of the clock that is logged. Unit: nanoseconds.
  private static let leastStep: Int64 = 100_000_000

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
    lastOffset = clock().offset
    if let plan { keep(plan) }
  }

  /// Applies the retention of a plan to all logs, from the next line on.
  func keep(_ plan: LaunchPlan) {
    let nodes = Dictionary(plan.nodes.map { ($0.name, $0.logs) }) { first, _ in first }
    retentions = (nodes, plan.logs)
    for (node, writer) in writers { writer.retention = retention(of: node) }
  }

  private func retention(of node: String) -> LogRetention {
    retentions.nodes[node] ?? retentions.standard
  }

  /// Returns the log of a node, which all its processes share.
  package func writer(of node: String) -> LogWriter {
    if let writer = writers[node] { return writer }
    let writer = LogWriter(node: node, in: directories, keeping: retention(of: node))
    writers[node] = writer
    return writer
  }

  /// Writes a line of the orchestrator to the log of a node.
  func note(_ line: String, of node: String) {
    noteClock()
    reportNotice(writer(of: node).write([line], from: .note), of: node)
  }

  /// Adds a note to every log if the clock of this host was set back since the last call: times alone
  /// would not show the order of the lines before and after. Must be called before lines are written.
  package func noteClock() {
    let now = clock()
    let step = lastOffset - now.offset
    lastOffset = now.offset
    guard step >= Self.leastStep else { return }
    let text = LogOrder.clockNote + Duration.nanoseconds(step).shortText
    for node in LogReader.nodes(in: directories.logs) {
      reportNotice(
        writer(of: node).write([text], from: .note, at: Timestamp(nanoseconds: now.time)), of: node)
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
  /// - Parameter retention: The retention of the log; `nil` to only append lines.
  package convenience init(
    node: String, in directories: RuntimeDirectories, keeping retention: LogRetention? = nil
  ) {
    self.init(path: directories.logs + "/" + node + ".log", keeping: retention)
  }
}
