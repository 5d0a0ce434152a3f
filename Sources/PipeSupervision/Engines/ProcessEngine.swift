import PipeClient
import PipeSystem
import PipeWire

/// Runs the processes of nodes. There are engines for processes on this host, on the hosts of a
/// Slurm job, under agents, and within the processes of other nodes.
///
/// The launch plan assigns a placement to each node, and ``LaunchPlan/Node/placement`` selects the
/// engine.
protocol ProcessEngine: AnyObject {
  var processes: NodeProcesses { get }

  /// Returns whether a process can start now. If not, ``Supervisor/launchQueuedNodes()`` starts the
  /// process later.
  func canStart(_ node: String, incarnation: Int) -> Bool

  /// Starts a process.
  ///
  /// If the process is created but its program cannot run, the engine may report `spawnFailed`
  /// later.
  /// - Parameter record: The record of the process. The engine adds the Slurm step, or the build of
  ///   the program, to the record.
  /// - Returns: The process id on this host; 0 for a process without an id on this host.
  func launch(_ node: LaunchPlan.Node, updating record: inout ProcessRecord) throws -> Int32

  /// Adopts a process that a former orchestrator has started.
  /// - Parameter process: The process on this host; `nil` if an agent runs it.
  func adopt(_ record: ProcessRecord, _ process: AdoptedProcess?)

  /// Starts to read the output of an adopted process. Called after the process has answered the
  /// greeting.
  func didAnswerGreeting(_ node: String)

  /// Sends a signal to a process. ``Signal/kill`` is sent to its whole process group.
  /// - Returns: An input that the lifecycle must handle next; `nil` if there is none.
  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input?

  /// Checks whether a silent process still exists. Passes `present` to the lifecycle if the process
  /// exists, and `exited` if it has certainly ended.
  func checkLiveness(_ node: String)

  /// Reaps the child processes that have ended.
  func reap()
}

extension ProcessEngine {
  func canStart(_ node: String, incarnation: Int) -> Bool { true }
  func didAnswerGreeting(_ node: String) { processes.watchOutput(of: node) }
  func checkLiveness(_ node: String) {}
  func reap() {}

  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input? {
    processes[node]?.signal(signal, group: signal == .kill)
    return nil
  }
}

/// The placement of a node, according to the launch plan.
enum NodePlacement: Hashable, Sendable {
  /// The node's process is a child of the orchestrator.
  case local
  /// The node runs on a host of the Slurm job.
  case slurm(host: String)
  /// The agent in the node's pod runs the process.
  case agent
  /// The node runs in the process of another node, its carrier node.
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

  /// Returns the engine that runs the processes of a node.
  subscript(placement: NodePlacement) -> any ProcessEngine {
    switch placement {
    case .local: local
    case .slurm: slurm ?? local
    case .agent: agents
    case .embedded: embedded
    }
  }
}

/// The reason why an engine cannot start a process.
struct StartError: Error, CustomStringConvertible {
  let description: String
}
