import PipeClient
import PipeMachines
import PipeSystem
import PipeWire

/// The metrics of a topology.
package enum TopologyMetrics {
  /// Returns the metric families of a snapshot. Some families may have no samples.
  package static func families(of snapshot: TopologySnapshot) -> [MetricFamily] {
    let topology = MetricLabel("topology", snapshot.topology)
    var up = MetricFamily(.gauge, "piperuntime_up", "1 if the topology runs, otherwise 0.")
    guard case .success(let directory) = snapshot.directory else {
      up.add(.flag(false), [topology])
      return [up]
    }
    up.add(.flag(true), [topology])
    var diagnoses = diagnosesFamily
    let health = TopologyHealth(directory, at: snapshot.time)
    for severity in Diagnosis.Severity.allCases {
      let count = health.diagnoses.filter { $0.severity == severity }.count
      diagnoses.add(.count(UInt64(count)), [topology, MetricLabel("severity", severity.rawValue)])
    }
    var nodes = NodeMetrics(topology: topology)
    for node in directory.nodes {
      nodes.add(node, states: node.hosts.flatMap { snapshot.stateNamesByMachine[$0] } ?? [])
    }
    var processes = ProcessMetrics(topology: topology, usage: snapshot.usageByPID)
    processes.add(directory)
    var pipes = PipeMetrics(topology: topology, nodes: directory.nodes)
    for pipe in directory.pipes { pipes.add(pipe) }
    return [up, diagnoses] + nodes.families + processes.families + pipes.families
  }

  private static var diagnosesFamily: MetricFamily {
    MetricFamily(
      .gauge, "piperuntime_diagnoses",
      "Root causes that keep nodes from working, by severity: failure, warning or note.")
  }

  /// All metric families, without samples.
  package static var all: [MetricFamily] {
    let topology = MetricLabel("topology", "")
    return [MetricFamily(.gauge, "piperuntime_up", ""), diagnosesFamily]
      + NodeMetrics(topology: topology).families
      + ProcessMetrics(topology: topology, usage: [:]).families
      + PipeMetrics(topology: topology, nodes: []).families
  }
}

/// The metrics of processor time and memory.
struct ProcessMetrics {
  private let topology: MetricLabel
  private let usage: [Int32: ProcessUsage]
  private var cpu = MetricFamily(
    .counter, "piperuntime_node_cpu_seconds", unit: "seconds",
    "Processor time of the node's process. A shared process is reported for its first node.")
  private var memory = MetricFamily(
    .gauge, "piperuntime_node_resident_memory_bytes", unit: "bytes",
    "Memory of the node's process. A shared process is reported for its first node.")
  private var orchestratorCPU = MetricFamily(
    .counter, "piperuntime_orchestrator_cpu_seconds", unit: "seconds",
    "Processor time of the orchestrator.")
  private var orchestratorMemory = MetricFamily(
    .gauge, "piperuntime_orchestrator_resident_memory_bytes", unit: "bytes",
    "Memory of the orchestrator.")

  init(topology: MetricLabel, usage: [Int32: ProcessUsage]) {
    self.topology = topology
    self.usage = usage
  }

  var families: [MetricFamily] { [cpu, memory, orchestratorCPU, orchestratorMemory] }

  mutating func add(_ directory: TopologyDirectory) {
    // An embedded coordinator runs in the process of its carrier node, and this process is counted
    // for the carrier node. So carrier nodes come first here, whatever the order in the topology
    // file is.
    var countedPIDs: Set<Int32> = []
    for node in directory.nodes.filter({ $0.within == nil }) + directory.nodes {
      guard let pid = node.pid, let used = usage[pid], countedPIDs.insert(pid).inserted else {
        continue
      }
      let labels = [topology, MetricLabel("node", node.name)]
      cpu.add(.number(used.cpu / .seconds(1)), labels)
      memory.add(.count(UInt64(max(0, used.memoryByteCount))), labels)
    }
    if let used = usage[directory.pid] {
      orchestratorCPU.add(.number(used.cpu / .seconds(1)), [topology])
      orchestratorMemory.add(.count(UInt64(max(0, used.memoryByteCount))), [topology])
    }
  }
}

extension TopologyDirectory {
  /// The process ids of the running nodes and the orchestrator.
  package var pids: Set<Int32> { Set(nodes.compactMap(\.pid)).union([pid]) }
}
