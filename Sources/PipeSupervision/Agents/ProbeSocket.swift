import PipeClient
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// The answer of an agent to a health probe.
package struct AgentProbe: Codable, Hashable, Sendable {
  package var node: String
  /// The last note that the orchestrator has sent about the node's state.
  package var note: AgentNodeState?
  /// Whether the agent receives answers from the orchestrator.
  package var hasContact: Bool

  private enum CodingKeys: String, CodingKey {
    case node, note
    case hasContact = "isHeard"
  }
}

/// The socket on which an agent answers health probes on its host: a Unix socket in the runtime
/// directory.
final class ProbeSocket {
  let socket: Socket

  init(of node: String, in context: Context) throws {
    let roots = RuntimeRoots()
    try OwnedDirectory.make(roots.runtime)
    socket = try Socket(.router, in: context)
    try socket.bind(try AgentProbe.endpoint(of: node, roots))
  }

  func answer(_ probe: () -> AgentProbe) {
    while socket.receive({ peer, _ in
      guard let body = try? JSONRecord.encode(probe()) else { return }
      socket.send(FrameHeader(.agent), body: body, to: peer)
    }) {}
  }

  func close() {
    socket.setLinger(milliseconds: 100)
    socket.close()
  }
}

extension AgentProbe {
  private static let socketSuffix = ".agent"

  /// Returns the nodes whose agents have sockets in the runtime directory of this process, sorted.
  package static func nodesWithAgents(in roots: RuntimeRoots = RuntimeRoots()) -> [String] {
    FileSystem.entryNames(of: roots.runtime).filter { $0.hasSuffix(socketSuffix) }
      .map { String($0.dropLast(socketSuffix.count)) }.sorted()
  }

  /// Returns the endpoint for probes of a node's agent.
  static func endpoint(
    of node: String, _ roots: RuntimeRoots = RuntimeRoots()
  ) throws(DirectoryError) -> String {
    let path = roots.runtime + "/" + node + socketSuffix
    guard path.utf8.count <= RuntimeDirectories.pathLimit else { throw .pathTooLong(path) }
    return "ipc://" + path
  }

  /// Probes the agent of a node on this host.
  /// - Returns: The agent's answer; `nil` if the agent did not answer within `limit`.
  package static func ask(_ node: String, within limit: Duration) throws -> AgentProbe? {
    let socket = try Socket(.dealer, in: Context())
    try socket.connect(try endpoint(of: node))
    defer {
      socket.setLinger(milliseconds: 0)
      socket.close()
    }
    socket.send(FrameHeader(.agent), body: [])
    var answer: AgentProbe?
    let loop = PollLoop()
    loop.add(socket) {
      while socket.receive({ _, bytes in
        answer = try? JSONRecord.decode(
          AgentProbe.self, from: Array(bytes[FrameHeader.byteCount...]))
      }) {}
      if answer != nil { loop.stop() }
    }
    loop.schedule(after: limit) { loop.stop() }
    loop.run()
    return answer
  }
}
