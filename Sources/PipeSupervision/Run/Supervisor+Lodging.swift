import Glibc
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

/// The nodes that live in the processes of others.
extension NodeProcesses {
  /// Takes a node as one that is about to live in the process of another; its record is to be locked there.
  /// - Returns: The process, or `nil` where the other one has none.
  func lodge(_ record: ProcessRecord, in host: String) throws -> NodeProcess? {
    guard let process = processes[host] else { return nil }
    close(try record.write(in: directories))
    return take(lodger: record, in: process)
  }

  /// Takes over a node that lives in the process of another one, which was taken over, too.
  func adopt(lodger record: ProcessRecord, in host: String) {
    guard let process = processes[host] else { return }
    take(lodger: record, in: process)
  }

  @discardableResult
  func take(lodger record: ProcessRecord, in host: NodeProcess) -> NodeProcess {
    host.take(lodger: record.node)
    let process = NodeProcess(lodgingIn: host, incarnation: record.incarnation)
    processes[record.node] = process
    return process
  }

  /// A lodger has left the process that it lived in.
  /// - Parameters:
  ///   - reason: Why, where that was out of order.
  ///   - count: Of its last word: what its exit code would be.
  func lodgerLeft(_ node: String, because reason: String?, count: UInt32) {
    guard let process = processes[node], let host = process.host else { return }
    // What it wrote before that.
    if let entry = processes.first(where: { $0.value === host }) { readRest(of: host, entry.key) }
    remove(process, of: node)
    if let reason { observer?.handle(.complained(reason: reason), of: node) }
    let isDiskFull = count == UInt32(NodeHandshake.diskFullCode)
    tell(
      reason == nil ? .exited(code: 0) : isDiskFull ? .diskFull : .exited(code: 1), of: process,
      node)
  }

  /// A lodger was not let in.
  func forget(lodger node: String) {
    if let process = processes[node] { remove(process, of: node) }
  }

  /// The process has ended in which others lived.
  func endLodgers(of host: NodeProcess, _ name: String, _ exit: ProcessExit) {
    for node in host.lodgers.sorted() {
      guard let process = processes[node], process.host === host else { continue }
      remove(process, of: node)
      let lines = process.capture.recentLines(ofLodger: node)
      observer?.takeLastLines(lines, of: node)
      observer?.handle(
        .complained(reason: "'\(name)', in whose process it lives, ended: \(exit)"), of: node)
      observer?.handle(.exited(exit), of: node)
    }
  }
}
