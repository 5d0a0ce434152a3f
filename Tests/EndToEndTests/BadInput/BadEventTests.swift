import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Events that a node cannot accept", .timed)
struct BadEventTests {
  private static let button = """
    topology: button
    program: TestNodes
    nodes: { a: { machine: Button }, b: { machine: Blob }, c: { machine: Blob } }
    pipes: [{ from: b.out, to: c.in, name: blobs }]
    """

  @Test("An event that cannot be decoded changes no state, and the error lists the node's events")
  func badEvents() async throws {
    try await withTopology(yaml: Self.button) { topology in
      for (event, part) in [
        ("presss", "press"), (["press": ["times": "x"]], nil), (["a": 1, "b": 2], nil),
        (["number": ["n": 1]], "press"), (.integer(7), nil), (.null, nil),
      ] as [(JSONValue, String?)] {
        do {
          let outcome = try await topology.send("a", event)
          if case .accepted = outcome, event["press"] != nil { continue }
          Issue.record("\(event.text) was taken: \(outcome)")
        } catch TopologyClientError.invalidEvent("a", let reason) {
          if let part { #expect(reason.contains(part)) }
        }
      }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("send", "a", "presss", code: 2)
      #expect(result.error.contains("press"))
    }
  }

  @Test(
    "An event to a stopped node is refused and is not queued for the next start")
  func nodeDown() async throws {
    try await withTopology(yaml: Self.button) { topology in
      try await topology.stop("a")
      do {
        try await topology.send("a", Button.Event.press)
        Issue.record("it was taken")
      } catch TopologyClientError.nodeDown("a", let reason) {
        #expect(reason == "stopped")
      }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("send", "a", "press", code: 1)
      #expect(result.reports(TopologyClientError.nodeDown("a", "stopped")), "\(result)")
      try await topology.start("a")
      #expect(try await topology.status("a").status?.state == ["pressed": ["times": 0]])
      await #expect(throws: TopologyClientError.unknownNode("z", known: ["a", "b", "c"])) {
        try await topology.send("z", "press")
      }
    }
  }

  @Test("An event over the size limit is refused, whether a client or a pipe sends it")
  func tooLarge() async throws {
    try await withTopology(yaml: Self.button) { topology in
      let limit = WireLimits.maximumEventByteCount
      do {
        try await topology.send("c", Blob.Event.take(text: String(repeating: "x", count: limit)))
        Issue.record("it was taken")
      } catch TopologyClientError.invalidEvent("c", let reason) {
        #expect(reason.contains("\(limit)"))
      }
      // An event just below the limit is accepted, from a client and on a pipe.
      let fits = limit - 100
      try await topology.send("c", Blob.Event.take(text: String(repeating: "x", count: fits)))
      try await topology.expect("c", Blob.State.holding(byteCount: fits))
      try await topology.send("b", Blob.Event.grow(byteCount: fits - 1))
      try await topology.expect("c", Blob.State.holding(byteCount: fits - 1))
      try await topology.send("b", Blob.Event.shout(byteCount: 2 * limit))
      try await topology.expectLog(
        "b", contains: "pipe 'blobs': an event was not sent: the event has")
      try await topology.send("b", Blob.Event.grow(byteCount: 3))
      try await topology.expect("c", Blob.State.holding(byteCount: 3))
      for node in ["b", "c"] { #expect(try await topology.status(node).incarnation == 1) }
    }
  }
}
