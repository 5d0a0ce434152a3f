import PipeClient
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Periodic checks: whether nodes are alive, and whether clients can still find the topology.
extension Supervisor {
  private var pingInterval: Duration {
    let shortest = plan.nodes.map(\.supervision.timeouts.heartbeat).min() ?? .seconds(5)
    return min(.seconds(1), shortest / 5)
  }

  func scheduleHeartbeat() {
    pingDue = .now + pingInterval
    loop.schedule(after: pingInterval, for: self) {
      $0.creditOwnDelay()
      // The next heartbeat is due one interval after this line, and not after the work below,
      // during which this process may be suspended.
      $0.scheduleHeartbeat()
      $0.pingAll(sequence: 0)
      $0.creditQueueTime()
      $0.checkLivenessOfAll()
      $0.engines.slurm?.endLeases()
      $0.engines.slurm?.queryLostHosts()
      $0.keepInPlace()
    }
  }

  /// Postpones the deadlines of nodes by the time in which this process was suspended. During that
  /// time, the orchestrator neither asked for signs of life nor read any. Call this before you
  /// decide that a node is silent.
  func creditOwnDelay() {
    let delay = ContinuousClock.now - pingDue
    guard delay > Self.usualDelay else { return }
    pingDue += delay
    for name in Array(processes.nodes) { handle(.node(name, .waitedForProcessor(delay))) }
  }

  /// The maximum delay of a timer in normal operation.
  private static let usualDelay: Duration = .milliseconds(10)

  /// Postpones the deadlines of processes by the time that they have waited for a processor.
  func creditQueueTime() {
    creditLaunchQueueTime()
    for name in Array(processes.nodes) {
      let isAwaited = lifecycle[name]?.isAwaited(at: .now) == true
      guard let time = processes[name]?.takeProcessorWaitTime(isAwaited: isAwaited), time > .zero
      else {
        continue
      }
      handle(.node(name, .waitedForProcessor(time)))
    }
  }

  private func checkLivenessOfAll() {
    for name in Array(processes.nodes) { processes[name]?.handle.engine.checkLiveness(name) }
  }

  func pingAll(sequence: UInt64) {
    let interval = UInt32(clamping: pingInterval.wholeMilliseconds)
    let ping = FrameHeader(.ping, count: max(1, interval), sequence: sequence)
    for name in processes.nodes { control.send(ping, to: name) }
  }

  /// Restores removed files of the run, or ends the run if clients can no longer find the topology.
  /// If the run continued, its nodes would be running at the same time as the nodes of the next
  /// run.
  private func keepInPlace() {
    guard !isStopping else { return }
    switch lock.keepInPlace() {
    case .inPlace:
      restoreFiles()
      reportMissingSockets()
    case .beingChecked: break
    case .restored:
      reporter.warning(
        "'\(directories.lockFile)' was removed by another program and has been restored")
      restoreFiles()
    case .gone: requestStop(removalOutcome)
    }
  }

  /// Restores the files by which other processes find the processes of the topology, if another
  /// program has removed them.
  private func restoreFiles() {
    let ofRun = [
      directories.controlKeyFile, directories.controlEndpointFile, directories.clientKeyFile,
    ]
    let ofNodes = processes.nodes.flatMap { node in
      ProcessRecord.fileSuffixes.map { directories.runtime + "/" + node + $0 }
    }
    let wanted = Set(deployedNodes == nil ? ofNodes : ofRun + ofNodes)
    let restored = files.keepInPlace { wanted.contains(directories.runtime + "/" + $0) }
    guard !restored.isEmpty else { return }
    reporter.warning(
      "files in '\(directories.runtime)' were removed by another program and have been restored: "
        + restored.joined(separator: ", "))
  }

  private var removalOutcome: TopologyLifecycle.Outcome {
    TopologyLifecycle.Outcome(
      exitCode: 1,
      reason:
        "the directory '\(directories.runtime)' was removed while the topology was running, so "
        + "that clients could no longer reach its nodes; start the topology again",
      isInterrupted: true)
  }

  /// Returns the outcome to report for the run. If the run has failed and the runtime directory was
  /// removed, the reported reason is the removal.
  func reportedOutcome(for outcome: TopologyLifecycle.Outcome) -> TopologyLifecycle.Outcome {
    outcome.exitCode != 0 && !isStopping && lock.keepInPlace() == .gone ? removalOutcome : outcome
  }

  /// Warns once about each node that clients cannot reach because its sockets were removed.
  private func reportMissingSockets() {
    // Nodes that accept connections from other hosts have no socket files.
    guard deployedNodes == nil else { return }
    for node in plan.nodes where lifecycle[node.name]?.state == .running {
      guard node.information.hasLostSockets, facts[node.name]?.recordLostSockets() == true else {
        continue
      }
      reporter.warning(
        "the sockets of node '\(node.name)' were removed, so that new clients cannot connect to "
          + "the node; run 'orchestrator restart \(node.name)' to create the sockets again")
    }
  }

  /// Updates the reporter and asks the nodes for their statuses, repeatedly at this interval.
  package func sample(every interval: Duration) {
    loop.schedule(after: interval, for: self) {
      $0.reporter.refresh($0.directory())
      $0.pingAll(sequence: 0)
      $0.sample(every: interval)
    }
  }
}

extension NodeInformation {
  fileprivate var hasLostSockets: Bool {
    [inbox, feed].contains { !FileSystem.exists(String($0.dropFirst("ipc://".count))) }
  }
}
