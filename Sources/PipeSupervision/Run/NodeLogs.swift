import PipeClient
import PipeSupport
import PipeWire

/// The logs of a topology's nodes, and what is wrong with their files.
package final class NodeLogs {
  private let directories: RuntimeDirectories
  private let warn: (String) -> Void
  private var writers: [String: LogWriter] = [:]
  /// How much is kept of the nodes' logs, and of all others.
  private var retentions: (nodes: [String: LogRetention], standard: LogRetention) = (
    [:], LogRetention()
  )
  private let clock: () -> BootClock.Instant
  private var lastOffset: Int64

  /// The least step back of the clock that is noted. Unit: nanoseconds.
  private static let leastStep: Int64 = 100_000_000

  /// - Parameters:
  ///   - plan: Says how much is kept of each log.
  ///   - clock: The present.
  ///   - warn: Called when a log cannot be written any more, and when it can again.
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

  /// Keeps as much of each log as a plan says, from the next line on.
  func keep(_ plan: LaunchPlan) {
    let nodes = Dictionary(plan.nodes.map { ($0.name, $0.logs) }) { first, _ in first }
    retentions = (nodes, plan.logs)
    for (node, writer) in writers { writer.retention = retention(of: node) }
  }

  private func retention(of node: String) -> LogRetention {
    retentions.nodes[node] ?? retentions.standard
  }

  /// The log of a node; the same for all its processes.
  package func writer(of node: String) -> LogWriter {
    if let writer = writers[node] { return writer }
    let writer = LogWriter(node: node, in: directories, keeping: retention(of: node))
    writers[node] = writer
    return writer
  }

  /// Writes a line of the orchestrator's.
  func note(_ line: String, of node: String) {
    noteClock()
    tell(writer(of: node).write([line], from: .note), of: node)
  }

  /// Notes in every log where the clock of this host was set back since the last look: times alone would not tell
  /// the order of lines before and after. Call it before lines are written.
  package func noteClock() {
    let now = clock()
    let step = lastOffset - now.offset
    lastOffset = now.offset
    guard step >= Self.leastStep else { return }
    let text = LogOrder.clockNote + Duration.nanoseconds(step).shortText
    for node in LogReader.nodes(in: directories.logs) {
      tell(
        writer(of: node).write([text], from: .note, at: Timestamp(nanoseconds: now.time)), of: node)
    }
  }

  func tell(_ notice: LogWriter.Notice?, of node: String) {
    switch notice {
    case .failing(let error):
      warn("the log of node '\(node)' cannot be written, and its lines are lost: \(error)")
    case .recovered(let count):
      warn("the log of node '\(node)' is written again; \(count) lines were lost")
    case nil: break
    }
  }

  /// A topology that has the node no more.
  func forget(_ node: String) { writers[node] = nil }
}

extension LogWriter {
  /// The log of a node in its topology's state directory.
  /// - Parameter retention: How much is kept; `nil` to add lines alone.
  package convenience init(
    node: String, in directories: RuntimeDirectories, keeping retention: LogRetention? = nil
  ) {
    self.init(path: directories.logs + "/" + node + ".log", keeping: retention)
  }
}
