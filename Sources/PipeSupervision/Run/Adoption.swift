import PipeClient
import PipeSystem
import PipeWire

/// Decides which processes of a killed orchestrator the next one adopts.
package struct Adoption {
  /// By node: the processes that match the plan.
  package private(set) var adoptable: [String: Survivor] = [:]
  /// The other processes, which are ended, and the reasons.
  private(set) var others: [(survivor: Survivor, reason: String)] = []
  /// The former control socket and keys, if any of the adopted processes are bound for other hosts.
  package private(set) var handover: ControlHandover?

  package init(
    _ survivors: [Survivor], plan: LaunchPlan, in directories: RuntimeDirectories
  ) {
    var rejectionReasons: [String: String] = [:]
    for survivor in survivors {
      rejectionReasons[survivor.node] = Self.rejectionReason(survivor, plan)
    }
    let deployed = survivors.filter { $0.isDeployed && rejectionReasons[$0.node] == nil }
    if !deployed.isEmpty {
      do {
        let handover = try ControlHandover(in: directories, at: plan.address)
        for survivor in deployed {
          do {
            try handover.add(
              survivor.node, incarnation: survivor.record?.incarnation ?? 0, in: directories)
          } catch {
            rejectionReasons[survivor.node] = "\(error)"
          }
        }
        self.handover = handover
      } catch {
        for survivor in deployed { rejectionReasons[survivor.node] = "\(error)" }
      }
    }
    // Nodes in one process are adopted together or ended together.
    let embeddedSurvivors = survivors.filter { $0.host != nil }
    for embeddedSurvivor in embeddedSurvivors {
      guard let host = embeddedSurvivor.host, let reason = rejectionReasons[embeddedSurvivor.node],
        rejectionReasons[host] == nil
      else { continue }
      rejectionReasons[host] =
        "embedded coordinator '\(embeddedSurvivor.node)' is not adopted: \(reason)"
    }
    for embeddedSurvivor in embeddedSurvivors where rejectionReasons[embeddedSurvivor.node] == nil {
      guard let host = embeddedSurvivor.host else { continue }
      let isCarrierPresent = survivors.contains {
        $0.node == host && $0.process.pid == embeddedSurvivor.process.pid
      }
      if isCarrierPresent, rejectionReasons[host] == nil { continue }
      rejectionReasons[embeddedSurvivor.node] = "carrier node '\(host)' is not adopted"
    }
    for survivor in survivors {
      if let reason = rejectionReasons[survivor.node] {
        others.append((survivor, reason))
      } else {
        adoptable[survivor.node] = survivor
      }
    }
  }

  private static func rejectionReason(_ survivor: Survivor, _ plan: LaunchPlan) -> String? {
    guard let node = plan[survivor.node] else { return "the node was removed from the topology" }
    guard node.information.kind != .monitor else {
      // A monitor connects like any client, and ends because its orchestrator is gone.
      return "monitors end with their orchestrator"
    }
    guard let record = survivor.record else {
      return "the process was started by another version of the orchestrator"
    }
    guard record.isDetached else { return "the process was started in the foreground" }
    guard survivor.isDeployed == (plan.deployment != nil) else {
      return survivor.isDeployed
        ? "the process was started with a deployment file"
        : "the process was started without a deployment file"
    }
    if let step = record.step, let job = plan.job, step.job != job.id {
      return "the process runs in Slurm job \(step.job), and the topology now runs in job \(job.id)"
    }
    guard record.step == nil || record.step?.host == node.hostName else {
      return "the process runs on host '\(record.step?.host ?? "?")', and the node is no longer "
        + "assigned to this host"
    }
    guard survivor.host != nil || (record.step == nil) == (node.hostName == nil) else {
      return "the node is now assigned to another host"
    }
    return record.launch.difference(from: plan.launch(of: node))?.description
  }

  /// Ends the processes that are not adopted, before other processes replace them.
  package func endRejectedProcesses(
    in directories: RuntimeDirectories, reporter: any Supervisor.Reporter
  ) throws(StuckProcess) {
    for (survivor, reason) in others {
      let report = NodeReport.replacing(reason: reason)
      _ = LogWriter(node: survivor.node, in: directories).write(["\(report)"], from: .note)
      reporter.report(node: survivor.node, report)
    }
    let left = Survivor.end(others.map(\.survivor), in: directories)
    guard let first = left.first else { return }
    throw StuckProcess(pid: first.process.pid, node: first.node)
  }
}

/// A process that does not end.
package struct StuckProcess: Error, CustomStringConvertible {
  let pid: Int32
  let node: String

  package var description: String {
    "process \(pid) of node '\(node)' did not exit after SIGKILL; check for a blocked device or "
      + "disk"
  }
}

extension Survivor {
  /// Ends processes in order, starting with the processes that depend on others. Each is terminated,
  /// and killed if it does not end in time. Removes their sockets and records.
  /// - Parameters:
  ///   - isForced: Whether to kill all processes at once.
  ///   - limit: The maximum time before a process is killed.
  /// - Returns: The processes that did not end.
  package static func end(
    _ survivors: [Survivor], isForced: Bool = false, limit: Duration = .seconds(30),
    in directories: RuntimeDirectories
  ) -> [Survivor] {
    // An embedded coordinator ends with its carrier node, which keeps the order.
    let embeddedSurvivors = survivors.filter { embeddedSurvivor in
      embeddedSurvivor.host != nil
        && survivors.contains { $0.host == nil && $0.process.pid == embeddedSurvivor.process.pid }
    }
    guard embeddedSurvivors.isEmpty else {
      let hosts = survivors.filter { one in !embeddedSurvivors.contains { $0.node == one.node } }
      let left = end(hosts, isForced: isForced, limit: limit, in: directories)
      for embeddedSurvivor in embeddedSurvivors where embeddedSurvivor.process.hasEnded {
        ProcessRecord.remove(embeddedSurvivor.node, in: directories)
      }
      return left
    }
    let plan = StartPlan(
      nodes: survivors.map(\.node),
      dependencies: Dictionary(
        survivors.map { ($0.node, $0.record?.dependencies ?? []) }
      ) { first, _ in first })
    var left: [Survivor] = []
    for wave in isForced ? [survivors.map(\.node)] : plan.stopWaves {
      let members = survivors.filter { wave.contains($0.node) }
      if !isForced {
        let gracePeriod = members.map(\.gracePeriod).max() ?? .zero
        for member in members { member.process.signal(member.stopSignal) }
        _ = AdoptedProcess.wait(for: members.map(\.process), until: .now + min(gracePeriod, limit))
      }
      // Processes that a node has started end with it, even if the node ended in order.
      for member in members { member.process.signal(.kill, group: true) }
      _ = AdoptedProcess.wait(for: members.map(\.process), until: .now + .seconds(5))
      HelperProcesses.kill(of: Set(members.compactMap { $0.marker(in: directories) }))
      for member in members {
        if member.process.hasEnded {
          ProcessRecord.remove(member.node, in: directories)
        } else {
          left.append(member)
        }
      }
    }
    return left
  }

  /// The marker by which the helpers of the process are found once it has ended.
  private func marker(in directories: RuntimeDirectories) -> String? {
    guard let record, record.step == nil, process.hasEnded else { return nil }
    return HelperProcesses.marker(of: node, incarnation: record.incarnation, in: directories)
  }

  private var stopSignal: Signal { record?.stopSignal.map { Signal(number: $0) } ?? .terminate }
  private var gracePeriod: Duration { .milliseconds(record?.stopTimeout ?? 5_000) }
}
