/// The orchestrator's report about a complete backup.
package struct BackupReport: Codable, Hashable, Sendable {
  package var topology: String
  /// The nodes whose journals are in the backup.
  package var nodes: [String]
  /// The nodes that keep no journal.
  package var nodesWithoutJournals: [String]
  /// The size of the backup. Unit: bytes.
  package var byteCount: Int64
  /// How long the nodes were paused.
  package var pauseNanoseconds: Int64

  package init(
    topology: String, nodes: [String], nodesWithoutJournals: [String], byteCount: Int64,
    pauseNanoseconds: Int64
  ) {
    self.topology = topology
    self.nodes = nodes
    self.nodesWithoutJournals = nodesWithoutJournals
    self.byteCount = byteCount
    self.pauseNanoseconds = pauseNanoseconds
  }
}
