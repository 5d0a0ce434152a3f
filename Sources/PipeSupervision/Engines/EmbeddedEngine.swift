import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// Runs nodes in the processes of other nodes, which are their carrier nodes. The carrier nodes
/// execute the commands to start and stop embedded nodes.
final class EmbeddedEngine: ProcessEngine {
  /// A node that runs in the process of its carrier node.
  final class Handle: ProcessHandle {
    let engine: any ProcessEngine
    let carrier: NodeProcess

    fileprivate init(_ carrier: NodeProcess, _ engine: EmbeddedEngine) {
      self.carrier = carrier
      self.engine = engine
    }

    var pid: Int32 { carrier.pid }
    var isRemote: Bool { carrier.isRemote }
    func signal(_ signal: Signal, group: Bool) -> Bool { carrier.signal(signal, group: group) }
  }

  private unowned let supervisor: Supervisor
  let processes: NodeProcesses

  init(_ supervisor: Supervisor) {
    self.supervisor = supervisor
    processes = supervisor.processes
  }

  // MARK: Starting embedded nodes

  func launch(_ node: LaunchPlan.Node, updating record: inout ProcessRecord) throws -> Int32 {
    guard let carrierName = node.host else { return 0 }
    if node.hasAgent { try supervisor.recordSession(record, session: nil) }
    guard let carrier = processes[carrierName] else {
      throw StartError(
        description: "carrier node '\(carrierName)' has just ended")
    }
    // The orchestrator closes the record file: the carrier node's process locks this file itself.
    close(try record.write(in: processes.directories))
    embed(record, in: carrier)
    sendStart(node, incarnation: record.incarnation, to: carrierName)
    return carrier.pid
  }

  private func embed(_ record: ProcessRecord, in carrier: NodeProcess) {
    carrier.embed(record.node)
    processes.add(Handle(carrier, self), as: record, capture: carrier.outputCapture)
  }

  private func sendStart(_ node: LaunchPlan.Node, incarnation: UInt64, to carrier: String) {
    let directories = processes.directories
    let request = EmbeddedNodeRequest(
      arguments: supervisor.arguments(of: node, incarnation: incarnation),
      record: node.isRemote ? nil : ProcessRecord.path(of: node.name, in: directories),
      key: node.isRemote ? supervisor.deployedNodes?.secret(of: node.name) : nil)
    supervisor.control.send(FrameHeader(.embed), request, to: carrier)
  }

  /// Sends the start commands of embedded nodes again, after their carrier node has said hello
  /// again. The commands may have been lost together with the former connection. The carrier node
  /// does not start a node twice.
  func resendStarts(to carrier: String) {
    for node in supervisor.plan.nodes where node.host == carrier {
      guard case .starting = supervisor.lifecycle[node.name]?.state,
        let process = processes[node.name], isEmbedded(process, in: carrier)
      else { continue }
      sendStart(node, incarnation: process.incarnation, to: carrier)
    }
  }

  private func isEmbedded(_ process: NodeProcess, in carrier: String) -> Bool {
    process.carrier.map { $0 === processes[carrier] } == true
  }

  func adopt(_ record: ProcessRecord, _ process: AdoptedProcess?) {
    guard let carrier = record.launch.host.flatMap({ processes[$0] }) else { return }
    embed(record, in: carrier)
  }

  // MARK: Ending embedded nodes

  /// Asks the carrier node to stop a node. For SIGKILL, kills the carrier node's process instead.
  /// - Returns: For SIGKILL, an input for the carrier node with the reason of its failure;
  ///   otherwise `nil`.
  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input? {
    guard let carrier = supervisor.plan.host(of: node) else { return nil }
    guard signal == .kill else {
      supervisor.control.send(FrameHeader(.stop), body: Array(node.utf8), to: carrier)
      return nil
    }
    processes[node]?.signal(.kill, group: true)
    return .node(
      carrier, .failureReported(reason: "killed together with embedded coordinator '\(node)'"))
  }

  /// Handles an embedded node that is lost. If its carrier node sends signs of life, reports the
  /// lost node as present, since its process exists and only the node hangs.
  func checkLiveness(_ node: String) {
    guard supervisor.isLost(node), let carrier = processes[node]?.carrier,
      let name = processes.name(of: carrier), supervisor.isReachable(name)
    else { return }
    supervisor.handle(.node(node, .present))
  }

  /// Handles a carrier node's report that it cannot start a node.
  func handleRejection(_ refusal: EmbeddingRejection, from carrier: String) {
    let name = refusal.node
    guard let process = processes[name], isEmbedded(process, in: carrier),
      process.incarnation == refusal.incarnation
    else { return }
    processes.remove(process, of: name)
    supervisor.handle(
      .node(
        name,
        .spawnFailed(
          reason: "carrier node '\(carrier)' does not start the coordinator: \(refusal.reason)")))
  }

  /// Handles the end of an embedded node whose carrier node continues to run.
  /// - Parameters:
  ///   - reason: The reason why the node failed; `nil` if the node stopped gracefully.
  ///   - exitCode: The exit code that the node would have had in its own process.
  func handleEnd(_ node: String, because reason: String?, exitCode: UInt32) {
    guard let process = processes[node], let carrier = process.carrier else { return }
    // Reads the output that the node wrote before it ended.
    if let name = processes.name(of: carrier) { processes.readRemainingOutput(of: carrier, name) }
    processes.remove(process, of: node)
    if let reason { supervisor.handle(.failureReported(reason: reason), of: node) }
    let isDiskFull = exitCode == UInt32(NodeHandshake.diskFullCode)
    processes.reportExit(
      reason == nil ? .exited(code: 0) : isDiskFull ? .diskFull : .exited(code: 1), of: process,
      node)
  }
}
