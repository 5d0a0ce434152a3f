import PipeMachines
import PipeWire

/// The last file of a backup, which lists the other files. An archive without a manifest was cut
/// off.
package struct BackupManifest: Codable, Hashable, Sendable {
  /// A file of the backup.
  package struct File: Codable, Hashable, Sendable {
    /// The path in the archive.
    package var path: String
    /// The node, if the file belongs to a journal.
    package var node: String?
    package var byteCount: Int64
    /// The hash of the contents, in hexadecimal. The hash detects damage, but gives no protection
    /// against an attacker.
    package var hash: String
  }

  package static let currentVersion = 1
  /// The path of the manifest in the archive.
  static let path = "manifest.json"
  static let journalDirectory = "journals/"

  /// The version of the format.
  package var version = Self.currentVersion
  package var topology: String
  /// The time at which the contents of the backup were captured.
  package var time: String
  /// The path of the topology file in the archive; `nil` if the file could not be read.
  package var topologyFile: String?
  /// The highest incarnation of each node. A node without a journal numbers its events from the
  /// start in each incarnation, so no incarnation may occur twice.
  package var incarnations: [String: Int]
  /// The nodes that keep no journal, and start in their initial states.
  package var nodesWithoutJournals: [String]
  package var files: [File] = []

  /// The nodes whose journals are in the backup.
  package var nodes: [String] {
    files.filter { $0.path.hasSuffix(".sqlite") }.compactMap(\.node)
  }

  init(
    topology: String, time: String, incarnations: [String: Int], nodesWithoutJournals: [String]
  ) {
    self.topology = topology
    self.time = time
    self.incarnations = incarnations
    self.nodesWithoutJournals = nodesWithoutJournals
  }
}
