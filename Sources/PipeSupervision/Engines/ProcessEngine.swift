import PipeClient
import PipeSystem
import PipeWire

/// Runs the processes of nodes: on this host, on the hosts of a Slurm job, by agents, or in other
/// processes.
///
/// The plan places each node, and ``LaunchPlan/Node/placement`` selects the engine.
protocol ProcessEngine: AnyObject {
  var processes: NodeProcesses { get }

  /// Whether a process can start now. If not, ``Supervisor/goOnLaunching()`` starts it later.
  func canStart(_ node: String, incarnation: Int) -> Bool

  /// Starts a process.
  ///
  /// A program that cannot run may be reported later, as `spawnFailed`.
  /// - Parameter record: The record of the process; the engine adds the host and the program file.
  /// - Returns: The process id on this host; 0 if there is none on this host.
  func start(_ node: LaunchPlan.Node, as record: inout ProcessRecord) throws -> Int32

  /// Adopts a process that a former orchestrator has started.
  /// - Parameter process: The process on this host; `nil` if an agent runs it.
  func adopt(_ record: ProcessRecord, _ process: AdoptedProcess?)

  /// Starts to read the output of an adopted process, which has answered the greeting.
  func answered(_ node: String)

  /// Sends a signal to a process; ``Signal/kill`` goes to its whole process group.
  /// - Returns: An input that the lifecycle must handle next.
  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input?

  /// Finds out whether a silent process has certainly ended, and reports `present` or its end.
  func checkLiveness(_ node: String)

  /// Reaps the child processes that have ended.
  func reap()
}

extension ProcessEngine {
  func canStart(_ node: String, incarnation: Int) -> Bool { true }
  func answered(_ node: String) { processes.watchOutput(of: node) }
  func checkLiveness(_ node: String) {}
  func reap() {}

  func signal(_ signal: Signal, to node: String) -> TopologyLifecycle.Input? {
    processes[node]?.signal(signal, group: signal == .kill)
    return nil
  }
}

/// The placement of a node in the plan.
enum NodePlacement: Hashable, Sendable {
  /// The node is a child of the orchestrator.
  case local
  /// The node runs on a host of the Slurm job.
  case slurm(host: String)
  /// The agent of the node's pod runs it.
  case agent
  /// The node runs in the process of another node, the carrier node.
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
