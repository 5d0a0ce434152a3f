import FoundationEssentials
import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// A node in another language: the process of the topology's only node sleeps, and the test acts as
/// the node on the control socket.
final class ForeignNode {
  static let topology = "foreign"
  static let name = "gate"
  let tool: CommandLineTool
  let run: LaunchedProgram
  /// The number of pings that were answered.
  private(set) var answers = 0
  /// The number of start frames that were received.
  private(set) var starts = 0
  private let control: Socket
  private let endpoint: String
  private var hello: NodeHello?

  /// Starts the topology, and sends the node's hello.
  init() async throws {
    tool = try CommandLineTool()
    try tool.directory.write(
      """
      #!/bin/sh
      [ "$1" = describe ] && exec '\(CommandLineTool.products)/TestNodes' "$@"
      exec sleep 600
      """, to: "foreign", mode: 0o700)
    try tool.directory.write(
      """
      topology: \(Self.topology)
      program: ./foreign
      nodes: { \(Self.name): { machine: Gate, durability: none } }
      timeouts: { start: 60s, heartbeat: 60s }
      """, to: "foreign.yaml")
    run = try tool.start(["run", "--plain", "--lifeline", "foreign.yaml"])
    endpoint = try RuntimeDirectories(topology: Self.topology, roots: tool.directory.roots)
      .endpoint(.control)
    control = try Socket(.dealer, in: Context())
    try control.setRoutingID(WireName.node(Self.name))
    try control.connect(endpoint)
    let pid = try await Self.pid(endpoint)
    hello = NodeHello(
      node: Self.name, pid: try #require(pid, "\(run.outputText)\(run.errorText)"), incarnation: 1,
      description: try await description())
    try sayHello()
  }

  private func sayHello() throws {
    send(.hello, body: Array(try JSONEncoder().encode(hello)))
  }

  /// Reconnects, and sends a hello that contains a phase.
  func reconnect(in phase: NodeHandshake.Phase) throws {
    hello?.phase = phase
    control.disconnect(endpoint)
    try control.connect(endpoint)
    try sayHello()
  }

  /// Ends all processes.
  func end() {
    control.setLinger(milliseconds: 0)
    control.close()
    tool.remove()
  }

  /// Answers the orchestrator's frames until a condition holds. Each ping is answered with
  /// `status`.
  /// - Returns: Whether the condition held in time.
  func exchangeFrames(status: [UInt8], until isSatisfied: () -> Bool) async throws -> Bool {
    let outcome: Bool? = try await poll(every: .milliseconds(5), within: .seconds(20)) {
      while control.receiveFirst({ bytes in
        guard let header = try? FrameHeader(bytes) else { return }
        switch header.kind {
        case .configure: send(.ready)
        case .start: starts += 1
        case .ping:
          send(.status, sequence: header.sequence, body: status)
          answers += 1
        default: break
        }
      }) {}
      return isSatisfied() ? true : nil
    }
    return outcome ?? false
  }

  private func send(_ kind: FrameKind, sequence: UInt64 = 0, body: [UInt8] = []) {
    control.send(FrameHeader(kind, sequence: sequence, incarnationOrSession: 1), body: body)
  }

  private static func pid(_ endpoint: String) async throws -> Int32? {
    let client = try TopologyClient(topology: topology, control: endpoint)
    defer { client.close() }
    return try await poll(every: .milliseconds(10), within: .seconds(20)) {
      try? await client.directory(fresh: false)[node: name]?.pid
    }
  }

  private func description() async throws -> MachineDescription {
    let describe = try tool.start(
      program: CommandLineTool.products + "/TestNodes",
      ["describe", "--machine", "Gate", "--parameters", "{}"])
    let text = try await tool.result(of: describe).output
    return try #require(
      JSONDecoder().decode([MachineDescription].self, from: Data(text.utf8)).first)
  }
}
