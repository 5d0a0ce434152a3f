import PipeSupport
import PipeWire

/// A node's diagnostics: one line each on standard error, which the orchestrator keeps as its log.
package struct NodeLog: Sendable {
  /// What each line begins with, where the process writes for several.
  let prefix: String

  package init() { prefix = "" }

  /// That of another node in the process.
  init(ofLodger node: String) { prefix = NodeLogPrefix.ofLodger(node) }

  func note(_ text: String) { write(NodeLogPrefix.note, text) }
  func warning(_ text: String) { write(NodeLogPrefix.warning, text) }
  package func failure(_ text: String) { write(NodeLogPrefix.error, text) }

  private func write(_ kind: String, _ text: String) {
    StandardError.write("\(prefix)\(kind)\(text)\n")
  }

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
