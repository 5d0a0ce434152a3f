import PipeMachines
import PipeTransport
import PipeWire

/// A monitor that a node can host.
package struct HostedMonitor: Sendable {
  package let name: String
  /// Attaches to a topology at its control socket, and watches the topology until the topology
  /// ends. `keys` are required only if clients on other hosts can connect to the control socket.
  package typealias Observe =
    @Sendable (
      _ topology: String, _ control: String, _ keys: NodeArguments.Keys?, _ watch: [String]?,
      _ parameters: JSONValue
    ) async throws -> Void
  package let observe: Observe

  package init(name: String, observe: @escaping Observe) {
    self.name = name
    self.observe = observe
  }
}

/// A node's content that runs a monitor. The orchestrator supervises the monitor like a machine,
/// but the monitor attaches to the topology like a client.
final class MonitorContent: SelfEndingContent {
  let description: MachineDescription
  var onEnd: ((String?) -> Void)?
  private let monitor: HostedMonitor
  private let watchedNodes: [String]?
  private let parameters: JSONValue
  private let topology: String
  private let control: String
  private let keys: NodeArguments.Keys?
  private let loop: LoopHandle
  private var task: Task<Void, Never>?

  init(
    _ monitor: HostedMonitor, watch: [String]?, parameters: JSONValue, topology: String,
    control: String, keys: NodeArguments.Keys?, loop: LoopHandle
  ) {
    self.monitor = monitor
    watchedNodes = watch
    self.parameters = parameters
    self.topology = topology
    self.control = control
    self.keys = keys
    self.loop = loop
    description = MachineDescription(machine: monitor.name)
  }

  func start() {
    let (monitor, watch, topology, control) = (monitor, watchedNodes, topology, control)
    let (keys, loop, parameters) = (keys, loop, parameters)
    let owner = LoopOwned(Weak(self))
    task = Task {
      var problem: String?
      do {
        try await monitor.observe(topology, control, keys, watch, parameters)
      } catch {
        problem = "monitor '\(monitor.name)' failed: \(error)"
      }
      loop.post { [problem] in owner.value.content?.onEnd?(problem) }
    }
  }

  private final class Weak {
    weak var content: MonitorContent?
    init(_ content: MonitorContent) { self.content = content }
  }

  func fill(_ status: inout NodeStatus) {}
  func stop() { task?.cancel() }
}
