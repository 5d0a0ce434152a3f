import Glibc
import PipeClient
import PipeMachines
import PipeSystem
import PipeWire

/// A file that tells of a process which an agent runs, for the orchestrator that comes after this one: the process goes
/// on without either.
///
/// It is in the state directory: the runtime directory may go with the orchestrator's host.
package struct AgentMark: Codable, Hashable, Sendable {
  package var record: ProcessRecord
  /// That of its agent; `nil` for a process in which it lives.
  var session: UInt64?
  /// Its public key.
  var key: String
  /// `nil` before it has said hello.
  var endpoints: NodeEndpoints?

  private static let suffix = ".process"

  private static func directory(_ directories: RuntimeDirectories) -> String {
    directories.state + "/agents"
  }

  private static func path(of node: String, in directories: RuntimeDirectories) -> String {
    directory(directories) + "/" + node + suffix
  }

  func write(in directories: RuntimeDirectories) throws {
    try FileSystem.makeDirectories(Self.directory(directories), mode: 0o700)
    try FileSystem.replace(
      Self.path(of: record.node, in: directories),
      with: try JSONValue(encoding: self).bytes + [0x0A])
  }

  static func remove(_ node: String, in directories: RuntimeDirectories) {
    unlink(path(of: node, in: directories))
  }

  package static func all(in directories: RuntimeDirectories) -> [AgentMark] {
    FileSystem.entries(of: directory(directories)).filter { $0.hasSuffix(suffix) }.compactMap {
      FileSystem.contents(of: directory(directories) + "/" + $0).flatMap {
        try? JSONValue(parsing: $0).decode(AgentMark.self)
      }
    }
  }

  // MARK: Generations

  /// Counts the orchestrators of the topology: one that comes later tells nodes lists with higher numbers.
  /// - Returns: How many there were before.
  static func countOrchestrator(in directories: RuntimeDirectories) throws -> UInt64 {
    let path = directory(directories) + "/orchestrators"
    let former = FileSystem.text(of: path).flatMap { UInt64($0.prefix { $0.isNumber }) } ?? 0
    try FileSystem.makeDirectories(directory(directories), mode: 0o700)
    try FileSystem.replace(path, with: Array("\(former + 1)\n".utf8))
    return former
  }
}
