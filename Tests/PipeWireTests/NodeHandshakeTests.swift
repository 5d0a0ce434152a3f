import PipeWire
import Testing

@Suite("The handshake of a node")
struct NodeHandshakeTests {
  typealias Phase = NodeHandshake.Phase
  typealias Input = NodeHandshake.Input

  /// The inputs that lead to each phase.
  private static let ways: [Phase: [Input]] = [
    .greeting: [],
    .configured: [.configure],
    .running: [.configure, .start],
    .draining: [.configure, .start, .stop],
    .ended: [.stop],
  ]

  /// The table's cells with an effect. The handshake ignores all other inputs.
  private static let cells: [Phase: [Input: (NodeHandshake.Action, Phase)]] = [
    .greeting: [.configure: (.connect, .configured), .stop: (.leave, .ended)],
    .configured: [.start: (.start, .running), .stop: (.leave, .ended)],
    .running: [.configure: (.extend, .running), .stop: (.drain, .draining)],
    .draining: [.drained: (.leave, .ended), .drainTimeout: (.leave, .ended)],
    .ended: [:],
  ]

  @Test(
    "Every input of the handshake has the listed effect in every phase", arguments: Phase.allCases,
    Input.allCases)
  func table(phase: Phase, input: Input) throws {
    var handshake = NodeHandshake()
    for input in try #require(Self.ways[phase]) { _ = handshake.handle(input) }
    #expect(handshake.phase == phase)
    let expected = Self.cells[phase]?[input] ?? (.ignore, phase)
    #expect(handshake.handle(input) == expected.0)
    #expect(handshake.phase == expected.1)
  }
}
