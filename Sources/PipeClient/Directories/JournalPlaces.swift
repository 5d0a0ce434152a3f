import Glibc
import PipeMachines
import PipeSystem

/// Where the journals are of a topology's nodes: in its state directory, or for nodes that may move to another host
/// where all hosts see them.
package struct JournalPlaces: Hashable, Sendable {
  /// The journals that are elsewhere than in the state directory, by the nodes.
  private let elsewhere: [String: String]
  private let directories: RuntimeDirectories

  /// Reads what the last run has written down; nothing, where all were in the state directory.
  package init(in directories: RuntimeDirectories) {
    self.directories = directories
    let text = FileSystem.contents(of: Self.file(in: directories)) ?? []
    elsewhere = (try? JSONValue(parsing: text).decode([String: String].self)) ?? [:]
  }

  /// The path of a node's journal.
  package subscript(node: String) -> String { elsewhere[node] ?? directories.journal(of: node) }

  /// The nodes whose journals are elsewhere.
  package var nodesElsewhere: [String] { elsewhere.keys.sorted() }

  /// Writes down where the journals of a run are, for those who read them after it.
  /// - Parameter paths: The journals of its nodes.
  package static func write(_ paths: [String: String], in directories: RuntimeDirectories) throws {
    let elsewhere = paths.filter { $0.value != directories.journal(of: $0.key) }
    let file = file(in: directories)
    guard !elsewhere.isEmpty else {
      unlink(file)
      return
    }
    try FileSystem.replace(file, with: try JSONValue(encoding: elsewhere).bytes + [0x0A])
  }

  private static func file(in directories: RuntimeDirectories) -> String {
    directories.state + "/journals.json"
  }
}
