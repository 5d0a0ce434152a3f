import PipeClient
import PipeSystem
import PipeWire

/// Runs the processes of nodes: on this host, on the hosts of a Slurm job, by agents, or within other processes.
///
/// The plan places each node, and its ``LaunchPlan/Node/placement`` selects the engine.
protocol ProcessEngine: AnyObject {
  var processes: NodeProcesses { get }

  /// Whether a process can start now. Where it cannot, ``Supervisor/goOnLaunching()`` starts it later.
  func canStart(_ node: String, incarnation: Int) -> Bool

  /// Starts a process.
  ///
  /// That its program cannot run may be reported later, as `spawnFailed`.
  /// - Parameter record: What is known of the process; the engine adds where, and from what program, it runs.
  /// - Returns: Its id on this host; 0 where it has none here.
  func start(_ node: LaunchPlan.Node, as record: inout ProcessRecord) throws -> Int32

  /// Takes over the process that a former orchestrator has started.
  /// - Parameter process: Its process on this host; `nil` where an agent runs it.
  func adopt(_ record: ProcessRecord, _ process: AdoptedProcess?)

  /// An adopted process has answered: reads its output.
  func answered(_ node: String)

  /// Sends a signal to a process, to its whole group with ``Signal/kill``.
  /// - Returns: What the lifecycle must handle next.
  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input?

  /// Finds out whether a process that is not heard has certainly ended, and reports `present`, or its end.
  func findOut(_ node: String)

  /// Takes the ends of child processes.
  func reap()
}

extension ProcessEngine {
  func canStart(_ node: String, incarnation: Int) -> Bool { true }
  func answered(_ node: String) { processes.watchOutput(of: node) }
  func findOut(_ node: String) {}
  func reap() {}

  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input? {
    processes[node]?.signal(signal, group: signal == .kill)
    return nil
  }
}

/// Where the plan has a node run.
enum NodePlacement: Hashable, Sendable {
  /// As a child of the orchestrator.
  case local
  /// On a host of the Slurm job.
  case slurm(host: String)
  /// By the agent of its pod.
  case agent
  /// In the process of another node, the carrier.
  case embedded(carrier: String)
}

extension LaunchPlan.Node {
  var placement: NodePlacement {
    if let host { return .embedded(carrier: host) }
    if hasAgent { return .agent }
    return hostName.map { .slurm(host: $0) } ?? .local
  }
}

/// The engines of a run.
struct ProcessEngines {
  let local: LocalEngine
  let slurm: SlurmEngine?
  let agents: AgentEngine
  let embedded: EmbeddedEngine

  var all: [any ProcessEngine] { [local, agents, embedded] + (slurm.map { [$0] } ?? []) }

  /// The engine that runs the processes of a node.
  subscript(placement: NodePlacement) -> any ProcessEngine {
    switch placement {
    case .local: local
    case .slurm: slurm ?? local
    case .agent: agents
    case .embedded: embedded
    }
  }
}

/// Why an engine cannot start a process.
struct StartError: Error, CustomStringConvertible {
  let description: String
}
