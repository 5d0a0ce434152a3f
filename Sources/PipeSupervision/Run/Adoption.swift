import PipeClient
import PipeLogs
import PipeWire

/// What becomes of the processes that an orchestrator left that was killed.
package struct Adoption {
  /// By node: those that are what the plan wants.
  package private(set) var adoptable: [String: Survivor] = [:]
  /// The others, and why they are ended.
  private(set) var others: [(survivor: Survivor, reason: String)] = []

  package init(_ survivors: [Survivor], plan: LaunchPlan) {
    var obstacles: [String: String] = [:]
    for survivor in survivors { obstacles[survivor.node] = Self.obstacle(survivor, plan) }
    // Those that live in one process are taken over together, or end together.
    let lodgers = survivors.filter { $0.host != nil }
    for lodger in lodgers {
      guard let host = lodger.host, let reason = obstacles[lodger.node], obstacles[host] == nil
      else { continue }
      obstacles[host] = "'\(lodger.node)' lives in its process, and is not adopted: \(reason)"
    }
    for lodger in lodgers where obstacles[lodger.node] == nil {
      guard let host = lodger.host else { continue }
      let isHoused = survivors.contains {
        $0.node == host && $0.process.pid == lodger.process.pid
      }
      if isHoused, obstacles[host] == nil { continue }
      obstacles[lodger.node] = "'\(host)', in whose process it lives, is not adopted"
    }
    for survivor in survivors {
      if let reason = obstacles[survivor.node] {
        others.append((survivor, reason))
      } else {
        adoptable[survivor.node] = survivor
      }
    }
  }

  private static func obstacle(_ survivor: Survivor, _ plan: LaunchPlan) -> String? {
    guard let node = plan[survivor.node] else { return "the topology has it no more" }
    guard node.information.kind != .monitor else {
      // It attaches like any client, and is about to end since its orchestrator is gone.
      return "a monitor does not go on without an orchestrator"
    }
    guard let record = survivor.record else {
      return "another version of the orchestrator started it"
    }
    guard record.isDetached else { return "it was started in the foreground" }
    guard plan.deployment == nil, !record.launch.isDeployed else {
      return "processes that run by a deployment file are not taken over yet"
    }
    return record.launch.difference(from: plan.launch(of: node))?.description
  }

  /// Ends those that are not adopted, before others take their places.
  package func endOthers(
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

extension ProcessRecord.Launch {
  /// Whether it is bound for other hosts.
  fileprivate var isDeployed: Bool {
    guard let option = arguments.firstIndex(of: "--inbox") else { return false }
    return arguments.dropFirst(option + 1).first?.hasPrefix("tcp://") == true
  }
}

/// A process that does not end.
package struct StuckProcess: Error, CustomStringConvertible {
  let pid: Int32
  let node: String

  package var description: String {
    "process \(pid) of node '\(node)' does not end even on SIGKILL; is a device or disk stuck?"
  }
}
