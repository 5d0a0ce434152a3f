import Glibc
import PipeClient
import PipeWire

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
