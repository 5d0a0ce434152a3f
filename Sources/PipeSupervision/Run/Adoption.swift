import PipeClient
import PipeSystem
import PipeWire

/// Decides which processes of a killed orchestrator this orchestrator adopts.
package struct Adoption {
  /// The processes to adopt, by node. These processes match the launch plan.
  package private(set) var adoptable: [String: Survivor] = [:]
  /// The processes that are not adopted and must end, with the reasons.
  private(set) var others: [(survivor: Survivor, reason: String)] = []
  /// The control socket's endpoint and the keys that the killed orchestrator has left; `nil` if no
  /// adopted process accepts connections from other hosts.
  package private(set) var handover: ControlHandover?

  /// - Parameter programs: The pinned programs of the nodes.
  package init(
    _ survivors: [Survivor], plan: LaunchPlan, programs: [String: PinnedProgram] = [:],
    in directories: RuntimeDirectories
  ) {
    var rejectionReasons: [String: String] = [:]
    for survivor in survivors {
      // An embedded coordinator has the program of its carrier node.
      let build =
        survivor.host == nil
        ? programs[survivor.node]?.build
        : programs[survivor.host ?? ""].flatMap { _ in survivor.record?.launch.build }
      rejectionReasons[survivor.node] = Self.rejectionReason(survivor, plan, pinnedBuild: build)
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
    // A process is adopted only if all nodes that run in it can be adopted. Otherwise, the process
    // ends.
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

  private static func rejectionReason(
    _ survivor: Survivor, _ plan: LaunchPlan, pinnedBuild: String?
  ) -> String? {
    guard let node = plan[survivor.node] else { return "the node was removed from the topology" }
    guard node.information.kind != .monitor else {
      // A monitor is not adopted, because it is only a client of its orchestrator, and ends by
      // itself when that orchestrator is gone.
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
    var wanted = plan.launch(of: node)
    // A process keeps the program with which it was started. Only 'apply' and 'restart' replace the
    // program.
    if let pinnedBuild { wanted.build = pinnedBuild }
    return record.launch.difference(from: wanted)?.description
  }

  /// Ends the processes that are not adopted. Call this before other processes replace them.
  package func endRejectedProcesses(
    in directories: RuntimeDirectories, reporter: any Supervisor.Reporter
  ) throws(StuckProcess) {
    for (survivor, reason) in others {
      let report = NodeReport.replacing(reason: reason)
      _ = LogWriter(node: survivor.node, in: directories).write(["\(report)"], from: .note)
      reporter.report(node: survivor.node, report)
    }
    let left = Survivor.endProcesses(others.map(\.survivor), in: directories)
    guard let first = left.first else { return }
    throw StuckProcess(pid: first.process.pid, node: first.node)
  }
}

/// The error that a process does not end after SIGKILL.
package struct StuckProcess: Error, CustomStringConvertible {
  let pid: Int32
  let node: String

  package var description: String {
    "process \(pid) of node '\(node)' did not exit after SIGKILL; check for a blocked device or "
      + "disk"
  }
}

extension Survivor {
  /// Stops processes gracefully. A process stops before the processes that it depends on. Each
  /// process receives its stop signal, and SIGKILL if it does not end in time. Afterwards, removes
  /// the sockets and records of the processes.
  /// - Parameters:
  ///   - isForced: Whether to kill all processes immediately.
  ///   - limit: The maximum time before a process is killed.
  /// - Returns: The processes that have not ended.
  package static func endProcesses(
    _ survivors: [Survivor], isForced: Bool = false, limit: Duration = .seconds(30),
    in directories: RuntimeDirectories
  ) -> [Survivor] {
    InterruptedPause.end(of: survivors.map(\.process), in: directories)
    // An embedded coordinator ends together with its carrier node: the carrier node first stops the
    // coordinator.
    let embeddedSurvivors = survivors.filter { embeddedSurvivor in
      embeddedSurvivor.host != nil
        && survivors.contains { $0.host == nil && $0.process.pid == embeddedSurvivor.process.pid }
    }
    guard embeddedSurvivors.isEmpty else {
      let hosts = survivors.filter { survivor in
        !embeddedSurvivors.contains { $0.node == survivor.node }
      }
      let left = endProcesses(hosts, isForced: isForced, limit: limit, in: directories)
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
    var remainingSurvivors: [Survivor] = []
    for wave in isForced ? [survivors.map(\.node)] : plan.stopWaves {
      let members = survivors.filter { wave.contains($0.node) }
      if !isForced {
        let gracePeriod = members.map(\.gracePeriod).max() ?? .zero
        for member in members { member.process.signal(member.stopSignal) }
        _ = AdoptedProcess.wait(for: members.map(\.process), until: .now + min(gracePeriod, limit))
      }
      // The processes that a node has started must end as well, even if the node stopped
      // gracefully.
      for member in members { member.process.signal(.kill, group: true) }
      _ = AdoptedProcess.wait(for: members.map(\.process), until: .now + .seconds(5))
      HelperProcesses.kill(of: Set(members.compactMap { $0.marker(in: directories) }))
      for member in members {
        if member.process.hasEnded {
          ProcessRecord.remove(member.node, in: directories)
        } else {
          remainingSurvivors.append(member)
        }
      }
    }
    return remainingSurvivors
  }

  /// Returns the value of the environment variable by which the helpers of the process are found
  /// after the process has ended. Returns `nil` if the process still runs, or was started on
  /// another host.
  private func marker(in directories: RuntimeDirectories) -> String? {
    guard let record, record.step == nil, process.hasEnded else { return nil }
    return HelperProcesses.marker(of: node, incarnation: record.incarnation, in: directories)
  }

  private var stopSignal: Signal { record?.stopSignal.map { Signal(number: $0) } ?? .terminate }
  private var gracePeriod: Duration { .milliseconds(record?.stopTimeout ?? 5_000) }
}
