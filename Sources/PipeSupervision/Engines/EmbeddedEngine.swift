import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// Runs nodes in the processes of other nodes, the carriers, which start and stop them.
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
        description: "'\(carrierName)', in whose process it is to live, has just ended")
    }
    // The carrier locks it.
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
    let lodging = NodeLodging(
      arguments: supervisor.arguments(of: node, incarnation: incarnation),
      record: node.isRemote ? nil : ProcessRecord.path(of: node.name, in: directories),
      key: node.isRemote ? supervisor.deployed?.secret(of: node.name) : nil)
    supervisor.control.send(FrameHeader(.lodge), lodging, to: carrier)
  }

  /// Sends a carrier, which has said hello once more, what it may have lost with its connection. It starts no node twice.
  func sendAgain(to carrier: String) {
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

  /// Has the carrier stop a node, and kills the carrier where that does not help.
  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input? {
    guard let carrier = supervisor.plan.host(of: node) else { return nil }
    guard signal == .kill else {
      supervisor.control.send(FrameHeader(.stop), body: Array(node.utf8), to: carrier)
      return nil
    }
    processes[node]?.signal(.kill, group: true)
    return .node(carrier, .complained(reason: "killed with '\(node)', which lives in its process"))
  }

  /// A carrier that is heard shows that the process is there, and that the node hangs by itself.
  func findOut(_ node: String) {
    guard supervisor.isLost(node), let carrier = processes[node]?.carrier,
      let name = processes.name(of: carrier), supervisor.isHeard(name)
    else { return }
    supervisor.handle(.node(node, .present))
  }

  /// A carrier reports that it does not start a node.
  func take(_ refusal: NodeTurnedAway, from carrier: String) {
    let name = refusal.node
    guard let process = processes[name], isEmbedded(process, in: carrier),
      process.incarnation == refusal.incarnation
    else { return }
    processes.remove(process, of: name)
    supervisor.handle(
      .node(name, .spawnFailed(reason: "'\(carrier)' does not take it in: \(refusal.reason)")))
  }

  /// A node has ended, and its carrier goes on.
  /// - Parameters:
  ///   - reason: Why, where that was out of order.
  ///   - count: The exit code that it would have had.
  func ended(_ node: String, because reason: String?, count: UInt32) {
    guard let process = processes[node], let carrier = process.carrier else { return }
    // What it wrote before that.
    if let name = processes.name(of: carrier) { processes.readRest(of: carrier, name) }
    processes.remove(process, of: node)
    if let reason { supervisor.handle(.complained(reason: reason), of: node) }
    let isDiskFull = count == UInt32(NodeHandshake.diskFullCode)
    processes.report(
      reason == nil ? .exited(code: 0) : isDiskFull ? .diskFull : .exited(code: 1), of: process,
      node)
  }
}
