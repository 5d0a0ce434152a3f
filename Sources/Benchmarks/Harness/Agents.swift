import PipeRuntime
import PipeSupervision

/// What starts the nodes of a topology as the pods of a cluster do: an agent for each, all on this machine.
final class Agents {
  /// The topology's deployment file.
  let deployment: String
  /// The directory of the orchestrator's keys.
  let keys: String
  private var processes: [ChildProcess] = []

  /// Starts the agents; they look for the orchestrator until it is there.
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
          ["agent", node, "--key", keys + "/" + AgentKeys.ownFile(of: node)],
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
