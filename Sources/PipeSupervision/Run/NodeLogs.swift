import PipeClient
import PipeLogs

/// The logs of a topology's nodes, and what is wrong with their files.
final class NodeLogs {
  private let directories: RuntimeDirectories
  private let warn: (String) -> Void
  private var writers: [String: LogWriter] = [:]

  /// - Parameter warn: Called when a log cannot be written any more, and when it can again.
  init(in directories: RuntimeDirectories, warn: @escaping (String) -> Void) {
    self.directories = directories
    self.warn = warn
  }

  /// The log of a node; the same for all its processes.
  func writer(of node: String) -> LogWriter {
    if let writer = writers[node] { return writer }
    let writer = LogWriter(node: node, in: directories)
    writers[node] = writer
    return writer
  }

  /// Writes a line of the orchestrator's.
  func note(_ line: String, of node: String) {
    tell(writer(of: node).write([line], from: .note), of: node)
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
