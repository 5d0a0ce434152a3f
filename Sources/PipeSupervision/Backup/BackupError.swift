import PipeJournal
import PipeSystem

/// The reason why a backup cannot be made or restored.
package enum BackupError: Error, Hashable, CustomStringConvertible {
  // Making a backup.
  /// The topology cannot be backed up now.
  case notNow(topology: String, reason: String)
  /// The nodes run on several hosts.
  case severalHosts(topology: String)
  /// The pause of the nodes reached its time limit. `nodes` contains the nodes whose processes did
  /// not stop in time. If `nodes` is empty, all processes stopped, but the journals could not be
  /// read in time.
  case notPaused(nodes: [String], limit: String)
  /// A journal cannot be copied.
  case journal(node: String, JournalError)
  /// The backup cannot be written.
  case unwritable(file: String, reason: String)
  /// The file system of the backup has too little space. `required` and `available` are in bytes;
  /// `nil` if they are unknown.
  case noSpace(file: String, required: Int64?, available: Int64?)
  /// A file exists at the path of the backup, and is not a backup.
  case otherFile(file: String)

  // Restoring a backup.
  case unreadable(file: String, reason: String)
  case notABackup(file: String)
  /// The file was cut off before the end of the backup.
  case incomplete(file: String)
  /// The contents of `entry` differ from the recorded hash.
  case damaged(file: String, entry: String)
  case otherVersion(file: String, found: Int)
  case otherTopology(file: String, found: String, expected: String)
  /// The topology has journals, which a restored backup would replace.
  case journalsExist(topology: String, nodes: [String])
  /// The topology file of the backup would replace another file.
  case topologyFileExists(path: String)

  package var description: String {
    switch self {
    case .notNow(let topology, let reason):
      "topology '\(topology)' cannot be backed up now: \(reason)"
    case .severalHosts(let topology):
      "topology '\(topology)' runs with a deployment file, and only topologies on one host can be "
        + "backed up; stop it with 'orchestrator down -p \(topology)', and copy the journals"
    case .notPaused(let nodes, let limit):
      nodes.isEmpty
        ? "the journals could not be read within \(limit) while the nodes were paused; the nodes "
          + "continue; try again"
        : "\(Self.list(nodes)) could not be paused within \(limit); the nodes continue; check for a "
          + "blocked device or disk, and try again"
    case .journal(let node, let error): "node '\(node)' cannot be backed up: \(error)"
    case .unwritable(let file, let reason):
      "the backup '\(file)' cannot be written: \(reason); the nodes continue"
    case .noSpace(let file, let required?, let available?):
      "the backup '\(file)' needs \(required >> 20) MiB, and its disk has \(available >> 20) MiB "
        + "left; free disk space, or write the backup to another disk"
    case .noSpace(let file, _, _):
      "the backup '\(file)' cannot be written: the disk is full; free disk space, or write the "
        + "backup to another disk; the nodes continue"
    case .otherFile(let file):
      "'\(file)' exists and is not a backup; remove it, or choose another file"
    case .unreadable(let file, let reason): "the backup '\(file)' cannot be read: \(reason)"
    case .notABackup(let file): "'\(file)' is not a backup of 'orchestrator backup'"
    case .incomplete(let file):
      "the backup '\(file)' is incomplete: the file was cut off; nothing was restored; use another "
        + "copy"
    case .damaged(let file, let entry):
      "the backup '\(file)' is damaged: '\(entry)' differs from its recorded hash; nothing was "
        + "restored; use another copy"
    case .otherVersion(let file, let found):
      "the backup '\(file)' has format version \(found), and this program reads version "
        + "\(BackupManifest.currentVersion); use the version of PipeRuntime that made the backup"
    case .otherTopology(let file, let found, let expected):
      "the backup '\(file)' is of topology '\(found)', not of '\(expected)'; nothing was restored"
    case .journalsExist(let topology, let nodes):
      "topology '\(topology)' has journals of \(Self.list(nodes)), which the backup would replace; "
        + "nothing was restored; if they are not required any more, delete them with 'orchestrator "
        + "reset --all -p \(topology)'"
    case .topologyFileExists(let path):
      "'\(path)' exists and differs from the topology file of the backup; nothing was restored; "
        + "choose another directory"
    }
  }

  /// Whether the command line names a wrong file.
  package var isUsageError: Bool {
    switch self {
    case .otherFile, .unreadable, .notABackup, .otherTopology: true
    case .notNow, .severalHosts, .notPaused, .journal, .unwritable, .noSpace, .incomplete, .damaged,
      .otherVersion, .journalsExist, .topologyFileExists:
      false
    }
  }

  /// Returns the error for a backup that cannot be written.
  static func writing(_ error: any Error, to file: String) -> BackupError {
    if let error = error as? BackupError { return error }
    if error.isDiskFull { return .noSpace(file: file, required: nil, available: nil) }
    return .unwritable(file: file, reason: "\(error)")
  }

  private static func list(_ nodes: [String]) -> String {
    let named = nodes.prefix(3).map { "'\($0)'" }.joined(separator: ", ")
    let others = nodes.count - 3
    return (nodes.count == 1 ? "node " : "nodes ") + named
      + (others > 0 ? " and \(others) more" : "")
  }
}
