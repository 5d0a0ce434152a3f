import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// Nodes that live in the processes of others.
extension Supervisor {
  /// Has a process take in another node.
  func lodge(
    _ node: LaunchPlan.Node, as record: ProcessRecord, in host: String
  ) -> NodeLifecycle.Input {
    do {
      try deployed?.admit(node.name, incarnation: record.incarnation)
      if node.hasAgent { try mark(record, session: nil) }
      guard let process = try processes.lodge(record, in: host) else {
        forgetStart(of: node.name)
        return .spawnFailed(reason: "'\(host)', in whose process it is to live, has just ended")
      }
      facts[node.name]?.take(started: record)
      sendLodging(of: node, incarnation: record.incarnation, to: host)
      return .spawned(pid: process.pid)
    } catch {
      forgetStart(of: node.name)
      return .spawnFailed(reason: "\(error)")
    }
  }

  private func sendLodging(of node: LaunchPlan.Node, incarnation: UInt64, to host: String) {
    let lodging = NodeLodging(
      arguments: arguments(of: node, incarnation: incarnation),
      record: node.isElsewhere ? nil : ProcessRecord.path(of: node.name, in: directories),
      key: node.isElsewhere ? deployed?.secret(of: node.name) : nil)
    control.send(FrameHeader(.lodge), lodging, to: host)
  }

  /// A host says hello once more: what it was told may have gone down with the connection before. One that
  /// it has let in, it does not let in twice.
  func sendLodgingsAgain(to host: String) {
    for node in plan.nodes where node.host == host {
      guard case .starting = lifecycle[node.name]?.state, let process = processes[node.name],
        process.host != nil, process.host === processes[host]
      else { continue }
      sendLodging(of: node, incarnation: process.incarnation, to: host)
    }
  }

  /// Ends a lodger: by a word to the process that it lives in, and with it where that does not help.
  func end(
    lodger name: String, of host: String, with signal: Signal
  ) -> TopologyLifecycle.Input? {
    guard signal == .kill else {
      control.send(FrameHeader(.stop), Array(name.utf8), to: host)
      return nil
    }
    processes[name]?.signal(.kill, group: true)
    return .node(host, .complained(reason: "killed with '\(name)', which lives in its process"))
  }

  /// A host says that it does not take a node in.
  func take(_ refusal: NodeTurnedAway, from host: String) {
    let name = refusal.node
    guard let process = processes[name], process.host === processes[host],
      process.incarnation == refusal.incarnation
    else { return }
    processes.forget(lodger: name)
    handle(
      .node(name, .spawnFailed(reason: "'\(host)' does not take it in: \(refusal.reason)")))
  }
}
