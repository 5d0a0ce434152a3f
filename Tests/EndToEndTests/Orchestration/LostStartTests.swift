import PipeRuntime
import TestTraits
import Testing

@Suite("A lost start frame", .timed)
struct LostStartTests {
  @Test("The orchestrator repeats the start frame to a node that reconnects before it runs")
  func saidAgain() async throws {
    let node = try await ForeignNode()
    defer { node.end() }
    let status = Array(JSONValue.object(StatusFrameTests.good).text.utf8)
    #expect(try await node.exchangeFrames(status: status) { node.starts == 1 })
    try node.reconnect(in: .configured)
    #expect(try await node.exchangeFrames(status: status) { node.starts == 2 })
    try node.reconnect(in: .running)
    let answers = node.answers
    #expect(try await node.exchangeFrames(status: status) { node.answers >= answers + 2 })
    #expect(node.starts == 2)
  }
}
