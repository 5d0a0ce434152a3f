import Glibc
import PipeClient
import PipeMachines
import PipeSystem
import PipeTopology
import PipeWire

/// Decides which processes that agents run for a former orchestrator are adopted.
package struct AgentAdoption {
  /// The processes that match the plan.
  package private(set) var adoptable: [AgentProcessRecord] = []
  /// The other processes, which their agents must end, and the reasons.
  private var others: [(node: String, reason: String)] = []

  /// Decides about the recorded processes, and updates the plan with the addresses of the adopted ones.
  package init(of agentProcesses: [AgentProcessRecord], by plan: inout LaunchPlan) {
    guard plan.keys != nil else { return }
    // Embedded coordinators come after their carrier nodes.
    for agentProcess in agentProcesses.sorted(by: {
      $0.record.launch.host == nil && $1.record.launch.host != nil
    }) {
      if let reason = rejectionReason(agentProcess, &plan) {
        others.append((agentProcess.record.node, reason))
      } else {
        adoptable.append(agentProcess)
      }
    }
  }

  private func rejectionReason(_ agentProcess: AgentProcessRecord, _ plan: inout LaunchPlan)
    -> String?
  {
    let name = agentProcess.record.node
    let launch = agentProcess.record.launch
    guard plan[name]?.hasAgent == true else { return "the node is no longer started by an agent" }
    if let address = launch.address, launch.host == nil {
      plan.assignHost(name, at: address, on: nil)
    }
    guard let node = plan[name] else { return nil }
    var wanted = plan.launch(of: node)
    // A new image restarts the pod by itself, so a different build is no reason to replace the process.
    wanted.build = launch.build
    if let difference = launch.difference(from: wanted) { return difference.description }
    if let host = launch.host, !adoptable.contains(where: { $0.record.node == host }) {
      return "carrier node '\(host)' is not adopted"
    }
    return nil
  }

  /// Reports the processes that are not adopted, and removes their records.
  package func reportRejectedProcesses(
    in directories: RuntimeDirectories, reporter: any Supervisor.Reporter
  ) {
    for (node, reason) in others {
      AgentProcessRecord.remove(node, in: directories)
      let report = NodeReport.replacing(reason: reason)
      _ = LogWriter(node: node, in: directories).write(["\(report)"], from: .note)
      reporter.report(node: node, report)
    }
  }
}

extension LoadedTopology {
  /// The nodes whose processes are started by agents, if the topology has agents: all nodes except
  /// monitors and embedded coordinators.
  package var agents: [String] {
    topology.nodes.map(\.name) + conflictClasses.filter { $0.host == nil }.map(\.name)
  }
}

/// A file with the record of a process that an agent runs, for the next orchestrator. The process
/// continues without an orchestrator.
///
/// The file is in the state directory, because the runtime directory may be lost with the
/// orchestrator's host.
package struct AgentProcessRecord: Codable, Hashable, Sendable {
  package var record: ProcessRecord
  /// The session of the process's agent; `nil` for an embedded coordinator.
  var session: UInt64?
  /// The public key of the process.
  var key: String
  /// The endpoints of the process; `nil` before its hello.
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

  package static func all(in directories: RuntimeDirectories) -> [AgentProcessRecord] {
    FileSystem.entries(of: directory(directories)).filter { $0.hasSuffix(suffix) }.compactMap {
      FileSystem.contents(of: directory(directories) + "/" + $0).flatMap {
        try? JSONValue(parsing: $0).decode(AgentProcessRecord.self)
      }
    }
  }

  // MARK: Generations

  /// Counts the orchestrators of the topology, so that the peer lists of a later orchestrator have
  /// higher numbers.
  /// - Returns: The number of orchestrators before this one.
  static func countOrchestrator(in directories: RuntimeDirectories) throws -> UInt64 {
    let path = directory(directories) + "/orchestrators"
    let former = FileSystem.text(of: path).flatMap { UInt64($0.prefix { $0.isNumber }) } ?? 0
    try FileSystem.makeDirectories(directory(directories), mode: 0o700)
    try FileSystem.replace(path, with: Array("\(former + 1)\n".utf8))
    return former
  }
}
