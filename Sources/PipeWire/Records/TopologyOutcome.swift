/// How a run ends: the exit code of DESIGN.md §6, and the reason where there is one to tell.
package struct TopologyOutcome: Hashable, Sendable, Codable {
  package var exitCode: Int32
  package var reason: String?

  package init(exitCode: Int32, reason: String? = nil) {
    self.exitCode = exitCode
    self.reason = reason
  }

  /// Stopped as asked.
  package static let stopped = TopologyOutcome(exitCode: 0)
  /// Killed at the second ^C.
  package static let forced = TopologyOutcome(exitCode: 130, reason: "forced to stop")
}
