import Glibc
import PipeClient
import PipeMachines
import PipeSystem
import PipeTopology
import PipeWire

/// Decides which processes the orchestrator adopts. A former orchestrator has started these
/// processes, and agents run them.
package struct AgentAdoption {
  /// The processes that match the plan.
  package private(set) var adoptable: [AgentProcessRecord] = []
  /// The processes that do not match the plan, with the reasons. Their agents must end them.
  private var rejectedAgentProcesses: [(node: String, reason: String)] = []

  /// Decides which of the recorded processes are adopted, and writes the addresses of these
  /// processes into the plan.
  package init(of agentProcesses: [AgentProcessRecord], by plan: inout LaunchPlan) {
    guard plan.keys != nil else { return }
    // Carrier nodes come first, and then their embedded coordinators.
    for agentProcess in agentProcesses.sorted(by: {
      $0.record.launch.host == nil && $1.record.launch.host != nil
    }) {
      if let reason = rejectionReason(agentProcess, &plan) {
        rejectedAgentProcesses.append((agentProcess.record.node, reason))
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
    // When the image changes, Kubernetes restarts the pod, and the process with the pod. So another
    // build is no reason to replace the process here.
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
    for (node, reason) in rejectedAgentProcesses {
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

/// A file that describes a process that an agent runs. The process continues while there is no
/// orchestrator, and the next orchestrator reads the file.
///
/// The file is in the state directory, because the runtime directory may be lost with the
/// orchestrator's host.
package struct AgentProcessRecord: Codable, Hashable, Sendable {
  package var record: ProcessRecord
  /// The session of the process's agent; `nil` for an embedded coordinator.
  var session: UInt64?
  /// The public key of the process.
  var key: String
  /// The endpoints of the process; `nil` until the process says hello.
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
    FileSystem.entryNames(of: directory(directories)).filter { $0.hasSuffix(suffix) }.compactMap {
      FileSystem.contents(of: directory(directories) + "/" + $0).flatMap {
        try? JSONValue(parsing: $0).decode(AgentProcessRecord.self)
      }
    }
  }

  // MARK: The number of earlier orchestrators

  /// Adds this orchestrator to the stored count of orchestrators that have run the topology. With
  /// this count, each orchestrator gives its peer lists higher numbers than all earlier
  /// orchestrators.
  /// - Returns: The number of orchestrators that ran before this orchestrator.
  static func countOrchestrator(in directories: RuntimeDirectories) throws -> UInt64 {
    let path = directory(directories) + "/orchestrators"
    let former = FileSystem.text(of: path).flatMap { UInt64($0.prefix { $0.isNumber }) } ?? 0
    try FileSystem.makeDirectories(directory(directories), mode: 0o700)
    try FileSystem.replace(path, with: Array("\(former + 1)\n".utf8))
    return former
  }
}
