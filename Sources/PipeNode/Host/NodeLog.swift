import PipeSupport
import PipeWire

/// A node's diagnostics: one line each on standard error, which the orchestrator keeps as its log.
package struct NodeLog: Sendable {
  package init() {}

  func note(_ text: String) { StandardError.write("\(NodeLogPrefix.note)\(text)\n") }
  func warning(_ text: String) { StandardError.write("\(NodeLogPrefix.warning)\(text)\n") }
  package func failure(_ text: String) { StandardError.write("\(NodeLogPrefix.error)\(text)\n") }

  /// Logs the first malformed frames and then ever fewer: their count is in the status.
  func garbage(_ error: any Error, from peer: String, count: UInt64) {
    guard count.isWorthLogging else { return }
    warning("passed over \(error), from \(peer) (\(count) so far)")
  }

  /// Logs that a peer is connected to anew, the first times and then ever less often.
  /// - Parameter name: The routing id of this end at the endpoint.
  func silence(of peer: String, at endpoint: String, as name: String, count: UInt64) {
    guard count.isWorthLogging else { return }
    warning(
      "\(peer) says nothing: connecting to it anew. If it runs, another program has "
        + "connected to '\(endpoint)' under this end's name, '\(name)' (\(count) so far)")
  }
}
