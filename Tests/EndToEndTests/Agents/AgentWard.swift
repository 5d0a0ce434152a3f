import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import Synchronization
import Testing

/// A topology whose nodes are started by agents. The orchestrator and the agents are processes of
/// the test; in Kubernetes they would run in pods.
final class AgentTopology {
  let topology: DetachedTopology
  private let nodes: [String]
  private let port: Int
  private(set) var orchestrator: LaunchedProgram
  private(set) var agents: [String: LaunchedProgram] = [:]
  /// The locations of the programs that run on separate networks.
  private let locations: [String: ProcessLocation]

  /// The network on which a program runs.
  struct ProcessLocation {
    /// The command that runs a program on this network.
    var prefix: [String]
    var address: String
  }

  var tool: CommandLineTool { topology.tool }
  private static let keys = "keys"

  /// Runs a topology with these nodes as processes, and ends the topology after the body.
  static func with(
    _ yaml: String, nodes: [String], _ body: (AgentTopology) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      try await with(yaml, nodes: nodes, tool: tool, body)
    }
  }

  /// Runs a topology with the given placements, and ends it after the body.
  /// - Parameter locations: The networks of the nodes' agents, by node, and the network of the
  ///   orchestrator, under 'orchestrator'. The default is this network.
  static func with(
    _ yaml: String, nodes: [String], locations: [String: ProcessLocation] = [:],
    tool: CommandLineTool,
    _ body: (AgentTopology) async throws -> Void
  ) async throws {
    let ward = try AgentTopology(yaml, nodes: nodes, locations: locations, tool: tool)
    for node in nodes { try ward.startAgent(of: node) }
    try await ward.topology.await("all run", \.isRunning)
    try await body(ward)
    try await ward.topology.run("down")
    #expect(try await ward.orchestrator.waitForExit(within: .seconds(20)) == .exited(code: 0))
    for node in nodes {
      ward.agents[node]?.signal(.terminate)
      let end = try await ward.agents[node]?.waitForExit(within: .seconds(20))
      #expect(end == .exited(code: 0), "\(node): \(ward.agents[node]?.errorText ?? "")")
    }
    #expect(tool.directory.processes.isEmpty)
  }

  init(
    _ yaml: String, nodes: [String], locations: [String: ProcessLocation] = [:],
    tool: CommandLineTool
  ) throws {
    self.nodes = nodes
    self.locations = locations
    port = try Self.freePort()
    var topology = try DetachedTopology(tool: tool, name: "ward", yaml: yaml)
    try topology.deploy(by: Self.deployment(port: port))
    self.topology = topology
    let host = locations["orchestrator"]?.address ?? "localhost"
    try AgentKeys.make(
      of: nodes, for: "ward", at: "tcp://\(host):\(port)", in: tool.directory.path + "/" + Self.keys
    )
    orchestrator = try Self.startOrchestrator(tool, locations["orchestrator"])
  }

  static func deployment(port: Int) -> String { "engine: kubernetes\nimage: none\nport: \(port)\n" }

  /// The next port to try: outside the system's ephemeral range, and never used twice in this
  /// process.
  private static let nextPort = Mutex(20_000 + Int(getpid()) % 1_000 * 10)

  private static func freePort() throws -> Int {
    while true {
      let port = nextPort.withLock { port in
        port += 1
        return port
      }
      let socket = try Socket(.router, in: Context())
      defer { socket.close() }
      if (try? socket.bind("tcp://127.0.0.1:\(port)")) != nil { return port }
      try #require(port < 32_000, "no port is free")
    }
  }

  private static func startOrchestrator(
    _ tool: CommandLineTool, _ location: ProcessLocation?
  ) throws -> LaunchedProgram {
    var tool = tool
    tool.prefix = location?.prefix ?? []
    return try tool.start([
      "run", "ward.yaml", "--deployment", "ward-deployment.yaml", "--keys", keys, "--plain",
    ])
  }

  func startOrchestrator() throws {
    orchestrator = try Self.startOrchestrator(tool, locations["orchestrator"])
  }

  /// Starts an agent for a node and registers it in place of the former agent.
  /// - Returns: The former agent.
  @discardableResult
  func startAgent(of node: String) throws -> LaunchedProgram? {
    agents.updateValue(try agent(of: node), forKey: node)
  }

  private func agent(of node: String) throws -> LaunchedProgram {
    var tool = tool
    tool.prefix = locations[node]?.prefix ?? []
    return try tool.start([
      "agent", node, "--key", "\(Self.keys)/\(AgentKeys.keyPairFile(of: node))", "--host",
      "host-of-\(node)",
      "--address", locations[node]?.address ?? "127.0.0.1",
    ])
  }
}
