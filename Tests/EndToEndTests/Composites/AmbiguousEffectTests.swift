import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Effects that produce an event of several composites", .timed)
struct AmbiguousEffectTests {
  /// A philosopher in two composites that both synchronize 'take', the event of its effect.
  private static let table = """
    topology: two-seats
    program: nodes
    nodes:
      guest: { machine: Philosopher, parameters: { thought: 1 }, restart: { max: 1, backoff: { initial: 1ms, max: 1ms } } }
      fork1: { machine: Fork }
      fork2: { machine: Fork }
    composites:
      seat1: { components: [guest, fork1], synchronize: [take, release] }
      seat2: { components: [guest, fork2], synchronize: [take, release] }
    """

  @Test(
    "If several composites synchronize an effect's event, 'check' warns and names the composites")
  func check() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let file = try tool.directory.write(Self.table, to: "table.yaml")
    let result = try await tool.run("check", file, code: 0)
    for event in ["take", "release"] {
      #expect(
        result.error.contains(
          "warning: node 'guest' accepts '\(event)' through composite 'seat1' or 'seat2': an effect "
            + "that sends '\(event)' ends the node"), "\(result)")
    }
    #expect(result.error.split(separator: "\n").count == 2, "\(result)")
    let example = try tool.start(["check", "topologies/philosophers.yaml"], in: nil)
    #expect(try await tool.result(of: example).error == "")
  }

  @Test(
    "If several composites synchronize an effect's event, the effect's node fails with the reason")
  func run() async throws {
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    try await withTopology(yaml: Self.table, options: options) { topology in
      let guest = try await topology.expectStatus(of: "guest", "to fail") { $0.phase == "failed" }
      let reason = guest.reason ?? ""
      #expect(
        reason.contains(
          "an effect emitted 'take', but the composite is ambiguous: composites 'seat1' and 'seat2' synchronize"
        ), "\(reason)")
      #expect(
        reason.contains("send the event to the intended composite through a pipe"), "\(reason)")
      // Other clients request the event by the composite's name, as usual.
      let isGuest: Bool? = try await poll(within: .seconds(20), of: topology.directory) {
        // The coordinator may not have connected to the other participants yet.
        let why = try await topology.client.why("seat2", json: "take")
        return why.events[0].blockingAnswers.map(\.participant) == ["guest"] ? true : nil
      }
      #expect(isGuest == true)
    }
  }
}
