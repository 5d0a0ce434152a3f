import PipeClient
import PipeLogs
import PipeTopology

/// What becomes of the processes that agents run since before this orchestrator.
package struct AgentAdoption {
  /// Those that are what the plan wants.
  package private(set) var adoptable: [AgentMark] = []
  /// The others, which their agents are told to end, and why.
  private var others: [(node: String, reason: String)] = []

  /// Plans nodes for where those are that are taken over.
  package init(of marks: [AgentMark], by plan: inout LaunchPlan) {
    guard plan.keys != nil else { return }
    // Who lives in another's process comes after that.
    for mark in marks.sorted(by: { $0.record.launch.host == nil && $1.record.launch.host != nil }) {
      if let reason = obstacle(mark, &plan) {
        others.append((mark.record.node, reason))
      } else {
        adoptable.append(mark)
      }
    }
  }

  private func obstacle(_ mark: AgentMark, _ plan: inout LaunchPlan) -> String? {
    let name = mark.record.node
    let launch = mark.record.launch
    guard plan[name]?.hasAgent == true else { return "no agent is to run it any more" }
    if let address = launch.address, launch.host == nil { plan.settle(name, at: address, on: nil) }
    guard let node = plan[name] else { return nil }
    var wanted = plan.launch(of: node)
    // Another image is brought to each pod by its own restart.
    wanted.build = launch.build
    if let difference = launch.difference(from: wanted) { return difference.description }
    if let host = launch.host, !adoptable.contains(where: { $0.record.node == host }) {
      return "'\(host)', in whose process it lives, is not adopted"
    }
    return nil
  }

  /// Tells of those that are not taken over, and forgets them.
  package func tellOthers(in directories: RuntimeDirectories, reporter: any Supervisor.Reporter) {
    for (node, reason) in others {
      AgentMark.remove(node, in: directories)
      let report = NodeReport.replacing(reason: reason)
      _ = LogWriter(node: node, in: directories).write(["\(report)"], from: .note)
      reporter.report(node: node, report)
    }
  }
}

extension LoadedTopology {
  /// The nodes whose processes agents start, where agents do so: all but monitors and those that live in the processes of
  /// others.
  package var agents: [String] {
    topology.nodes.map(\.name) + conflictClasses.filter { $0.host == nil }.map(\.name)
  }
}
