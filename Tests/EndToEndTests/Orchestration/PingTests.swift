import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// A node that receives pings. The test acts as its orchestrator.
@Suite("Pings of the orchestrator", .timed) struct PingTests {
  @Test("A node answers queued pings with one status that has the last ping's number")
  func together() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let control = try Socket(.router, in: Context())
    defer { control.close() }
    func endpoint(_ name: String) -> String { "ipc://\(directory.path)/\(name)" }
    try control.bind(endpoint("control"))
    let arguments = NodeArguments(
      topology: "pings", node: "button", content: .machine("Button", parameters: [:]),
      control: endpoint("control"), inbox: endpoint("in"), feed: endpoint("feed"), incarnation: 1)
    let node = try LaunchedProgram(
      CommandLineTool.products + "/TestNodes", arguments.arguments,
      environment: directory.environment(adding: [:]), directory: directory.path)
    defer { node.signal(.kill) }
    var statuses: [UInt64] = []
    /// Reads frames from the node until one satisfies the condition.
    func read(until isEnough: (FrameHeader) -> Bool) async throws -> Bool {
      let found = try await poll(within: .seconds(10), of: directory) { () -> Bool? in
        var isFound = false
        while !isFound,
          control.receive({ _, bytes in
            guard let header = try? FrameHeader(bytes) else { return }
            if header.kind == .status { statuses.append(header.sequence) }
            isFound = isEnough(header)
          })
        {}
        return isFound ? true : nil
      }
      return found == true
    }
    #expect(try await read { $0.kind == .hello })
    node.signal(.stop)
    let peer = Array(WireName.node("button").utf8)
    let count: UInt64 = 100
    for number in 1...count { control.send(FrameHeader(.ping, sequence: number), to: peer) }
    node.signal(Signal(number: SIGCONT))
    #expect(try await read { $0.kind == .status && $0.sequence == count })
    // The node may have read some pings before the others arrived.
    #expect(statuses.count <= count / 4, "\(statuses)")
  }
}
