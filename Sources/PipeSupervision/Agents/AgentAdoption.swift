import Glibc
import PipeClient
import PipeMachines
import PipeSystem
import PipeTopology
import PipeWire

/// What becomes of the processes that agents run since before this orchestrator.
package struct AgentAdoption {
  /// Those that are what the plan wants.
  package private(set) var adoptable: [AgentMark] = []
  /// The others, which their agents are told to end, and why.
  private var others: [(node: String, reason: String)] = []

  /// Plans nodes for where those are that are taken over.
  package init(of marks: [AgentMark], by plan: inout LaunchPlan) {
    guard plan.keys != nil else { return }
    // Who lives in another's process comes after that.
    for mark in marks.sorted(by: { $0.record.launch.host == nil && $1.record.launch.host != nil }) {
      if let reason = obstacle(mark, &plan) {
        others.append((mark.record.node, reason))
      } else {
        adoptable.append(mark)
      }
    }
  }

  private func obstacle(_ mark: AgentMark, _ plan: inout LaunchPlan) -> String? {
    let name = mark.record.node
    let launch = mark.record.launch
    guard plan[name]?.hasAgent == true else { return "no agent is to run it any more" }
    if let address = launch.address, launch.host == nil { plan.settle(name, at: address, on: nil) }
    guard let node = plan[name] else { return nil }
    var wanted = plan.launch(of: node)
    // Another image is brought to each pod by its own restart.
    wanted.build = launch.build
    if let difference = launch.difference(from: wanted) { return difference.description }
    if let host = launch.host, !adoptable.contains(where: { $0.record.node == host }) {
      return "'\(host)', in whose process it lives, is not adopted"
    }
    return nil
  }

  /// Tells of those that are not taken over, and forgets them.
  package func tellOthers(in directories: RuntimeDirectories, reporter: any Supervisor.Reporter) {
    for (node, reason) in others {
      AgentMark.remove(node, in: directories)
      let report = NodeReport.replacing(reason: reason)
      _ = LogWriter(node: node, in: directories).write(["\(report)"], from: .note)
      reporter.report(node: node, report)
    }
  }
}

extension LoadedTopology {
  /// The nodes whose processes agents start, where agents do so: all but monitors and those that live in the processes of
  /// others.
  package var agents: [String] {
    topology.nodes.map(\.name) + conflictClasses.filter { $0.host == nil }.map(\.name)
  }
}

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
