import PipeSupport
import PipeWire

/// A node's diagnostics: single lines on standard error, which the orchestrator keeps as the node's
/// log.
package struct NodeLog: Sendable {
  /// The prefix of each line for an embedded node; empty for a node that has its own process.
  let prefix: String

  package init() { prefix = "" }

  /// Creates the log of an embedded node.
  init(ofEmbeddedNode node: String) { prefix = NodeLogPrefix.ofEmbeddedNode(node) }

  func note(_ text: String) { write(NodeLogPrefix.note, text) }
  func warning(_ text: String) { write(NodeLogPrefix.warning, text) }
  package func failure(_ text: String) { write(NodeLogPrefix.error, text) }

  private func write(_ kind: String, _ text: String) {
    StandardError.write("\(prefix)\(kind)\(text)\n")
  }

  /// Logs a malformed frame, but only occasionally after the first few frames. The node's status
  /// contains the total number of malformed frames.
  func reportInvalidFrame(_ error: any Error, from peer: String, count: UInt64) {
    guard count.isWorthLogging else { return }
    warning("ignored \(error), from \(peer) (\(count) so far)")
  }

  /// Logs that the node reconnects to a silent peer, but only occasionally after the first few
  /// reconnections.
  /// - Parameter name: The routing id under which this node is connected to the endpoint.
  func logSilence(of peer: String, at endpoint: String, as name: String, count: UInt64) {
    guard count.isWorthLogging else { return }
    warning(
      "\(peer) does not respond; reconnecting; \(peer) is stopped or overloaded, or another program "
        + "has connected to '\(endpoint)' with the same routing id, '\(name)' (\(count) so far)")
  }
}
