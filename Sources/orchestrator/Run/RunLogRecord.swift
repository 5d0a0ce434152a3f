import Glibc
import PipeRuntime
import PipeSupervision

/// The format of the lines that a run writes.
package enum LogFormat: String, Hashable, Sendable, CaseIterable {
  case text, json
}

/// A line that a run writes: a change in the topology or in a node, or the output of a node.
package struct RunLogRecord: Hashable, Sendable {
  package enum Level: String, Hashable, Sendable {
    case info, warning, error

    /// The priority in the system's log; see syslog(3).
    fileprivate var priority: Int32 {
      switch self {
      case .info: LOG_INFO
      case .warning: LOG_WARNING
      case .error: LOG_ERR
      }
    }
  }

  package var time = Timestamp.now
  package var level = Level.info
  package var topology: String
  /// The node; `nil` if the line is about the topology.
  package var node: String?
  package var incarnation: UInt64?
  /// The stream to which the node has written the line; `nil` for a line of the orchestrator.
  package var stream: LogStream?
  package var message: String
  /// The version of the node's state, if the line reports a state.
  package var version: UInt64?
  /// The transaction that is in doubt at the node, if the line reports a state.
  package var transaction: String?

  package init(topology: String, node: String? = nil, _ message: String) {
    self.topology = topology
    self.node = node
    self.message = message
  }

  /// The line as text, without its time and level.
  package var text: String {
    if stream != nil { return "\(node ?? topology) | \(message)" }
    return "\(node ?? topology): \(message)"
  }

  /// The line as text for the journal of systemd, which reads the priority from the beginning of
  /// the line; see sd-daemon(3).
  package var journalText: String { "<\(level.priority)>\(text)" }

  /// The line as JSON. Unknown values are omitted.
  package var json: JSONValue {
    var record: [String: JSONValue] = [
      "time": .string(time.description), "level": .string(level.rawValue),
      "topology": .string(topology), "message": .string(message),
    ]
    record["node"] = node.map { .string($0) }
    record["incarnation"] = incarnation.map { .integer(Int64(clamping: $0)) }
    record["stream"] = stream.map { .string($0.rawValue) }
    record["version"] = version.map { .integer(Int64(clamping: $0)) }
    record["transaction"] = transaction.map { .string($0) }
    return .object(record)
  }
}

extension RunLogRecord.Level {
  package init(_ report: NodeReport) {
    if case .failed = report { self = .error } else { self = report.isProblem ? .warning : .info }
  }

  package init(_ report: TopologyReport) {
    switch report {
    case .finished(let outcome) where outcome.exitCode != 0: self = .error
    case .running(let started) where !started.isComplete: self = .warning
    default: self = .info
    }
  }

  /// Derives the level of a node's output line from the line's prefix.
  package init(ofLine text: String) {
    self =
      text.hasPrefix(NodeLogPrefix.error)
      ? .error : text.hasPrefix(NodeLogPrefix.warning) ? .warning : .info
  }
}

/// Whether standard output is connected to the journal of systemd.
package enum SystemJournal {
  /// - Parameter environment: The variables of this process. `JOURNAL_STREAM` contains the device
  ///   and inode of the journal's stream.
  package static func isConnected(
    to descriptor: Int32 = STDOUT_FILENO, environment: [String: String] = ProcessEnvironment.current
  ) -> Bool {
    var status = stat()
    guard let stream = environment["JOURNAL_STREAM"], fstat(descriptor, &status) == 0 else {
      return false
    }
    return stream == "\(status.st_dev):\(status.st_ino)"
  }
}
