/// A node's diagnostics: one line each on standard error, which the orchestrator keeps as its log.
final class NodeLog: Sendable {
  private let node: String

  init(node: String) { self.node = node }

  func notice(_ text: String) { write(text) }
  func warning(_ text: String) { write("warning: \(text)") }
  func failure(_ text: String) { write("error: \(text)") }

  /// Logs the first malformed frames and then ever fewer: their count is in the status.
  func garbage(_ error: any Error, from peer: String, count: UInt64) {
    guard count <= 3 || count.nonzeroBitCount == 1 else { return }
    warning("passed over \(error), from \(peer) (\(count) so far)")
  }

  private func write(_ line: String) { StandardError.write("piperuntime: \(line)\n") }
}
