import PipeRuntime
import PipeSupervision

/// Measures nodes that agents start, as in Kubernetes pods: the time until the nodes are running,
/// until a killed node runs again, and until a new orchestrator has adopted the nodes. The
/// cluster's own work is not included.
struct AgentsSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let count = setting.pick(50, quick: 6)
    let names = (0..<count).map { "n\($0)" }
    let directory = try TemporaryDirectory()
    let direct = try start(names, named: "near", by: nil, in: directory)
    let agents = try Agents(of: names, in: "apart", directory: directory)
    // Discard the first start. After it, all agents are connected.
    let first = try start(names, named: "apart", by: agents, in: directory)
    try withExtendedLifetime(first) {
      try OrchestratorCommand(directory: directory).run(["down", "-p", "apart"])
    }
    var viaAgents = try start(names, named: "apart", by: agents, in: directory)
    report.add(
      Figure(
        name: "\(count) nodes run, their agents being there; without agents",
        value: .seconds(viaAgents.elapsed), baseline: .seconds(direct.elapsed)))
    var times = (viaAgents: Samples(), direct: Samples())
    for round in 0..<setting.pick(25, quick: 5) {
      times.viaAgents.add(try viaAgents.run.killAndAwait([names[round % count]]))
      times.direct.add(try direct.run.killAndAwait([names[round % count]]))
    }
    report.add(
      Figure(
        name: "killed, and running again; without agents", value: .seconds(times.viaAgents.median),
        baseline: .seconds(times.direct.median)))
    var takeovers = Samples()
    for _ in 0..<setting.pick(5, quick: 1) {
      viaAgents.run.killOrchestrator()
      viaAgents = try start(names, named: "apart", by: agents, in: directory)
      takeovers.add(viaAgents.elapsed)
    }
    report.add(
      Figure(
        name: "orchestrator killed: the next one has all \(count)",
        value: .seconds(takeovers.median), target: .atMost(.seconds(5))))
    try measureIdleCost(agents, &report)
    report.note("all are on this machine; nodes record nothing, and are started again after 20 ms")
  }

  /// Measures the processor time of an agent that does nothing.
  private func measureIdleCost(_ agents: Agents, _ report: inout Report) throws {
    var memory = Samples()
    for pid in agents.pids { memory.add(Double(ProcessMemory(of: pid).proportional)) }
    report.add(
      Figure(
        name: "an agent's share where pages are shared (PSS)", value: .bytes(Int(memory.median))))
    func processorTime() -> Double {
      agents.pids.map { ProcessorUse(of: $0).total.time }.reduce(0, +)
    }
    let seconds = setting.pick(10, quick: 2)
    let before = processorTime()
    Blocking.run { try? await Task.sleep(for: .seconds(seconds)) }
    let cpuPerSecond = (processorTime() - before) / Double(seconds * agents.pids.count)
    report.add(
      Figure(name: "its processor time in a second without an event", value: .seconds(cpuPerSecond))
    )
  }

  private func start(
    _ names: [String], named name: String, by agents: Agents?, in directory: TemporaryDirectory
  ) throws -> (run: TopologyRun, elapsed: Double) {
    let nodes = names.map {
      "\n  \($0): { machine: Relay, durability: none, "
        + "restart: { max: 1000, backoff: { initial: 20ms, max: 20ms } } }"
    }
    let text = "topology: \(name)\nprogram: \(Programs.nodes)\nnodes:\(nodes.joined())\n"
    let start = Clock.nanoseconds
    let run = try TopologyRun(text, named: name, by: agents, in: directory)
    return (run, Double(Clock.nanoseconds - start) / 1e9)
  }
}

/// The agents that start a topology's nodes, one agent for each node. All agents run on this host,
/// but act like the pods of a cluster.
final class Agents {
  /// The text of the topology's deployment file.
  let deployment: String
  /// The directory with the orchestrator's keys.
  let keys: String
  private var processes: [ChildProcess] = []

  /// Starts the agents. Each agent retries until it can connect to the orchestrator.
  init(of nodes: [String], in topology: String, directory: TemporaryDirectory) throws {
    try Programs.check()
    let port = try Self.freePort()
    deployment = "engine: kubernetes\nimage: none\nport: \(port)\n"
    keys = directory.uniquePath("keys")
    try AgentKeys.make(
      of: nodes, for: topology, at: "tcp://127.0.0.1:\(port)", in: keys)
    let command = OrchestratorCommand(directory: directory)
    for node in nodes {
      processes.append(
        try command.spawn(
          ["agent", node, "--key", keys + "/" + AgentKeys.keyPairFile(of: node)],
          writingTo: directory.path + "/agents.out"))
    }
  }

  deinit { for index in processes.indices { processes[index].end() } }

  var pids: [Int32] { processes.map(\.pid) }

  private static func freePort() throws -> Int {
    let socket = try Socket(.router, in: Context())
    defer { socket.close() }
    try socket.bind("tcp://127.0.0.1:*")
    guard let port = socket.lastEndpoint?.split(separator: ":").last.flatMap({ Int($0) }) else {
      throw HarnessError("the system gives no port")
    }
    return port
  }
}
