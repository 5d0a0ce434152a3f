import PipeClient
import PipeSystem

/// Processes on other hosts, whose ends the `srun` here, the host itself or a lease tells.
extension NodeProcesses {
  /// What reads the output of an adopted process on another host has ended, as a rule with that. Its srun may linger for
  /// seconds more.
  func attachmentEnded(_ process: NodeProcess, of node: String, _ exit: ProcessExit) {
    observer?.takeFrames()
    guard processes[node] === process, case .adopted = process.origin else {
      return detach(process, of: node)
    }
    unattach(process, of: node, because: "what reads its output has ended (\(exit))")
  }

  /// Nothing more is to be read of what an adopted process on another host writes.
  func detach(_ process: NodeProcess, of node: String) {
    guard var child = process.attachment else { return }
    process.attachment = nil
    readRest(of: process, node)
    for registration in process.registrations.values { loop.remove(registration) }
    process.registrations = [:]
    process.pipes = []
    child.signal(.kill, group: true)
    child.wait()
    child.closePipes()
  }

  /// The node whose own process this is.
  func name(of process: NodeProcess) -> String? { processes.first { $0.value === process }?.key }

  func unattach(_ process: NodeProcess, of node: String, because reason: String) {
    let pid = process.pid
    detach(process, of: node)
    for registration in process.registrations.values { loop.remove(registration) }
    process.registrations = [:]
    unwatch(process)
    if case .own(let child) = process.origin { child.closePipes() }
    process.origin = .unattached(pid: pid)
    if process.srun.hasLostHost { process.elsewhere?.lost() }
    observer?.handle(.unattached(reason: reason), of: node)
  }

  /// It is certain that a process on another host has ended, whatever has started it there says.
  func hasEnded(elsewhere node: String) {
    guard let process = processes[node], process.elsewhere != nil || process.agent != nil else {
      return
    }
    bury(process, as: .unseen(isCertain: true), of: node)
  }

  /// A process on another host has ended by its lease.
  func leaseRanOut(_ node: String) {
    guard let process = processes[node], process.elsewhere != nil else { return }
    bury(process, as: .leaseRanOut, of: node)
  }

  /// A process on another host that is not to be started again has said that it ends in order. Where nothing on this
  /// host is left of what started it, nobody else will tell.
  func leaves(elsewhere node: String) {
    guard let process = processes[node], process.isUnattached else { return }
    loop.schedule(after: Self.lastWordsDelay, for: self) {
      if $0.processes[node] === process {
        $0.bury(process, as: .untold(saidGoodbye: true), of: node)
      }
    }
  }

  /// Gives up a process on another host that nobody reaches.
  func abandon(_ node: String) {
    guard let process = processes[node], process.isElsewhere else { return }
    bury(process, as: .unseen(isCertain: false), of: node)
  }

  func bury(_ process: NodeProcess, as exit: ProcessExit, of node: String) {
    remove(process, of: node)
    if case .own(var child) = process.origin {
      child.signal(.kill, group: true)
      child.wait()
      child.closePipes()
    }
    tell(exit, of: process, node)
    endLodgers(of: process, node, exit)
  }
}
