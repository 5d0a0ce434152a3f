import Glibc
import PipeClient
import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire

/// The file that says which node is being moved to a new program. The file is written before the
/// node stops. It is removed when the node is ready on the new program, or returns to the former
/// program.
package struct UpgradeRecord: Codable, Hashable, Sendable {
  var node: String
  /// The path of the journal; `nil` if the node keeps no journal.
  var journal: String?
  /// The launch parameters of the former process.
  var former: ProcessRecord.Launch

  private static func path(in directories: RuntimeDirectories) -> String {
    directories.state + "/upgrade.json"
  }

  static func copy(in directories: RuntimeDirectories) -> JournalCopy {
    JournalCopy(at: directories.state + "/upgrade")
  }

  var journals: [(node: String, path: String)] { journal.map { [(node, $0)] } ?? [] }

  /// Reads the record; returns `nil` if no upgrade is in progress.
  static func read(in directories: RuntimeDirectories) -> UpgradeRecord? {
    guard let bytes = FileSystem.contents(of: path(in: directories)) else { return nil }
    return try? JSONValue(parsing: bytes).decode(UpgradeRecord.self)
  }

  /// Writes the record durably.
  func write(in directories: RuntimeDirectories) throws {
    Self.copy(in: directories).remove()
    try FileSystem.replace(
      Self.path(in: directories), with: try JSONValue(encoding: self).bytes + [0x0A])
  }

  /// Ends the upgrade, and leaves the journal unchanged.
  static func end(in directories: RuntimeDirectories) {
    // Removes the record first: without the record, the copy has no meaning.
    unlink(path(in: directories))
    copy(in: directories).remove()
  }

  /// Restores the journals of an interrupted upgrade. Precondition: no process of the node runs.
  /// - Returns: The node that returns to its former program; `nil` if no upgrade was interrupted.
  @discardableResult
  package static func rollBack(in directories: RuntimeDirectories) throws -> String? {
    guard let record = read(in: directories) else { return nil }
    let copy = copy(in: directories)
    // If there is no complete copy, the new program was never started, and the journals need no
    // restoring.
    if copy.exists { try copy.restore(record.journals) }
    Failpoint.hit(.upgradeRestored)
    end(in: directories)
    return record.node
  }
}
