/// What a client asks of an orchestrator: the body of `command`.
package enum ControlCommand: Codable, Hashable, Sendable {
  /// The directory; with what the nodes tell now where `fresh`.
  case directory(fresh: Bool)
  case describe(node: String)
  /// The composites, by the processes that coordinate them.
  case composites
  case start(nodes: [String])
  case stop(nodes: [String])
  case restart(nodes: [String])
  case kill(node: String, signal: Int32)
  /// Stop in order.
  case down
  /// Kill everything.
  case forceDown
  /// How the run has ended, once it has.
  case outcome
}
