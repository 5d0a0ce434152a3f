import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// Runs nodes in the processes of other nodes, the carrier nodes, which start and stop them.
final class EmbeddedEngine: ProcessEngine {
  /// A node within the process of its carrier.
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

  // MARK: The start

  func start(_ node: LaunchPlan.Node, as record: inout ProcessRecord) throws -> Int32 {
    guard let carrierName = node.host else { return 0 }
    if node.hasAgent { try supervisor.mark(record, session: nil) }
    guard let carrier = processes[carrierName] else {
      throw StartError(
        description: "carrier node '\(carrierName)' has just ended")
    }
    // The carrier locks the record file.
    close(try record.write(in: processes.directories))
    embed(record, in: carrier)
    send(node, incarnation: record.incarnation, to: carrierName)
    return carrier.pid
  }

  private func embed(_ record: ProcessRecord, in carrier: NodeProcess) {
    carrier.embed(record.node)
    processes.add(Handle(carrier, self), as: record, capture: carrier.capture)
  }

  private func send(_ node: LaunchPlan.Node, incarnation: UInt64, to carrier: String) {
    let directories = processes.directories
    let request = EmbeddedNodeRequest(
      arguments: supervisor.arguments(of: node, incarnation: incarnation),
      record: node.isRemote ? nil : ProcessRecord.path(of: node.name, in: directories),
      key: node.isRemote ? supervisor.deployed?.secret(of: node.name) : nil)
    supervisor.control.send(FrameHeader(.embed), request, to: carrier)
  }

  /// Repeats the start of embedded nodes after a carrier has said hello again, because the frames may
  /// have been lost with its connection. The carrier starts no node twice.
  func resendStarts(to carrier: String) {
    for node in supervisor.plan.nodes where node.host == carrier {
      guard case .starting = supervisor.lifecycle[node.name]?.state,
        let process = processes[node.name], isEmbedded(process, in: carrier)
      else { continue }
      send(node, incarnation: process.incarnation, to: carrier)
    }
  }

  private func isEmbedded(_ process: NodeProcess, in carrier: String) -> Bool {
    process.carrier.map { $0 === processes[carrier] } == true
  }

  func adopt(_ record: ProcessRecord, _ process: AdoptedProcess?) {
    guard let carrier = record.launch.host.flatMap({ processes[$0] }) else { return }
    embed(record, in: carrier)
  }

  // MARK: The end

  /// Requests the carrier to stop a node; SIGKILL kills the carrier itself.
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

  /// Reports a lost node as present if its carrier sends signs of life: the process exists, and only
  /// the node hangs.
  func checkLiveness(_ node: String) {
    guard supervisor.isLost(node), let carrier = processes[node]?.carrier,
      let name = processes.name(of: carrier), supervisor.isReachable(name)
    else { return }
    supervisor.handle(.node(node, .present))
  }

  /// Handles a carrier's report that it does not start a node.
  func take(_ refusal: EmbeddingRejection, from carrier: String) {
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

  /// Handles the end of a node whose carrier continues.
  /// - Parameters:
  ///   - reason: The reason if the node did not end in order.
  ///   - count: The exit code that a process of its own would have had.
  func ended(_ node: String, because reason: String?, count: UInt32) {
    guard let process = processes[node], let carrier = process.carrier else { return }
    // The output that the node wrote before its end.
    if let name = processes.name(of: carrier) { processes.readRemainingOutput(of: carrier, name) }
    processes.remove(process, of: node)
    if let reason { supervisor.handle(.failureReported(reason: reason), of: node) }
    let isDiskFull = count == UInt32(NodeHandshake.diskFullCode)
    processes.report(
      reason == nil ? .exited(code: 0) : isDiskFull ? .diskFull : .exited(code: 1), of: process,
      node)
  }
}
