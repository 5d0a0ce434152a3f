import PipeClient
import PipeMachines
import PipeNode
import PipeTransport
import PipeWire

/// Hosts a monitor that a topology started: supervised like a machine, connected like a client.
final class MonitorContent: NodeContent {
  let description: MachineDescription
  var onEntry: ((_ isCommitted: Bool) -> Void)?
  var onEnd: ((String?) -> Void)?
  private let monitor: any Monitor.Type
  private let watch: [String]?
  private let topology: String
  private let control: String
  private let loop: LoopHandle
  private var task: Task<Void, Never>?

  init(
    _ monitor: any Monitor.Type, watch: [String]?, topology: String, control: String,
    loop: LoopHandle
  ) {
    self.monitor = monitor
    self.watch = watch
    self.topology = topology
    self.control = control
    self.loop = loop
    description = MachineDescription(
      machine: monitor.name, initial: .null, states: [], events: [], alphabet: [], outputs: [],
      outPorts: [], inPorts: [])
  }

  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {}

  func start() {
    let (monitor, watch, topology, control, loop) = (monitor, watch, topology, control, loop)
    let owner = LoopOwned(Weak(self))
    task = Task {
      var problem: String?
      do {
        try await monitor.observe(topology: topology, control: control, watch: watch)
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

  func accept(
    _ body: UnsafeRawBufferPointer, count: UInt32, skipping: Int, first: UInt64, from pipe: InPipe
  ) throws(FrameError) {}

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64,
    reply: @escaping (RequestReply) -> Void
  ) {
    reply(.invalid("a monitor takes no events"))
  }

  func takeTurn() {}
  var hasWork: Bool { false }
  func lastStep() -> FeedEntry? { nil }
  func fill(_ status: inout NodeStatus) {}
  func stop() { task?.cancel() }
}

extension Monitor {
  /// Attaches to a topology and watches it.
  static func observe(topology: String, control: String, watch: [String]?) async throws {
    let client = try TopologyClient(topology: topology, control: control)
    defer { client.close() }
    try await observe(client.states(of: watch))
  }
}
