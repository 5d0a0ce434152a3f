import Glibc
import NumberMachines
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Features added to a running topology", .timed)
struct AddedComponentTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      gate: { machine: Gate }
      button: { machine: Button }
      other: { machine: Button }
    pipes:
      - { from: gate, when: open, to: button, send: press }
    """
  private static let added =
    ward.replacing("pipes:", with: "  feature: { machine: Button }\npipes:")
    + "\n  - { from: gate, when: open, to: feature, send: press }\n"

  @Test("A feature is added with a new file, and no existing node gets a new process")
  func oneFile() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let client = try ward.client()
      defer { client.close() }
      try await client.send("gate", Gate.Event.open)
      try await client.send("gate", Gate.Event.pass)
      let before = try await ward.pids()
      try ward.tool.directory.write(Self.added, to: "added.yaml")
      let plan = try await ward.run("apply", "-p", "ward", "added.yaml").output
      #expect(
        plan == """
          ward: 1 node added, 1 updated, 2 unchanged
          = gate     pipes that lead from it differ, updated without a restart
          + feature  starts

          """)
      let file = try #require(FileSystem.text(of: ward.tool.directory.path + "/ward.yaml"))
      #expect(file == Self.ward)
      let after = try await ward.pids()
      #expect(before.allSatisfy { after[$0.key] == $0.value }, "\(before), \(after)")
      // The first two entries into the state were sent only to the existing receiver. Each later
      // entry is sent to both receivers.
      try await client.send("gate", Gate.Event.pass)
      try await Self.expectPressed(button: 3, feature: 1, in: ward)
    }
  }

  @Test(
    "A pipe added to a running node is kept across kills, and can be removed and added again"
  )
  func addedPipe() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      try ward.write(Self.added)
      try await ward.run("apply", "-p", "ward", "ward.yaml")
      try await Self.send(.open, in: ward)
      try await Self.expectPressed(button: 1, feature: 1, in: ward)
      // The next orchestrator knows that the process has the pipe.
      let before = try await ward.pids()
      try await ward.killOrchestrator()
      try await ward.up()
      #expect(try await ward.pids() == before)
      try await Self.send(.pass, in: ward)
      try await Self.expectPressed(button: 2, feature: 2, in: ward)
      // The node's next process has the pipe, too.
      #expect(kill(try #require(before["gate"]), SIGKILL) == 0)
      try await ward.await("another process of the sender") {
        $0[node: "gate"].map { $0.pid != before["gate"] && $0.status?.state != nil } == true
      }
      try await Self.send(.pass, in: ward)
      try await Self.expectPressed(button: 3, feature: 3, in: ward)
      // Without the pipe the sender is restarted. When the pipe is added again, it continues with
      // the next number.
      try ward.write(Self.ward.replacing("pipes:", with: "  feature: { machine: Button }\npipes:"))
      try await ward.run("apply", "-p", "ward", "ward.yaml")
      try await Self.send(.pass, in: ward)
      let withoutPipe = try await ward.pids()
      try ward.write(Self.added)
      let plan = try await ward.run("apply", "-p", "ward", "ward.yaml").output
      #expect(plan.contains("= gate"), "\(plan)")
      try await Self.send(.pass, in: ward)
      try await Self.expectPressed(button: 5, feature: 4, in: ward)
      // A sender that counted from 1 again would fail, and continue correctly after its restart.
      #expect(try await ward.pids()["gate"] == withoutPipe["gate"])
      for node in try await ward.directory().nodes { #expect(node.status?.gaps == 0, "\(node)") }
    }
  }

  @Test("A port sends its next event into an added pipe")
  func addedToPort() async throws {
    let flow = """
      topology: flow
      program: TestNodes
      nodes:
        source: { machine: NumberSource, parameters: { id: source, pause: 0, burst: 1000 } }
        sink: { machine: NumberSink }
        second: { machine: NumberSink }
      pipes:
        - { from: source.out, to: sink.in, capacity: 16 }

      """
    try await DetachedTopology.with(flow, name: "flow") { topology in
      let client = try topology.client()
      defer { client.close() }
      func expect(_ node: String, count: Int, last: Int) async throws {
        _ = try await client.wait(for: node, within: .seconds(60)) { state in
          let tallies = try? state["counting"]?["tallies"]?.decode(Tallies.self)
          guard let route = tallies?.routes["source"] else { return false }
          return route.count == count && route.last == last && route.late == 0
        }
      }
      try await client.send("source", NumberEvent.go(until: 100))
      try await expect("sink", count: 100, last: 100)
      let before = try await topology.pids()
      try topology.write(flow + "  - { from: source.out, to: second.in, capacity: 16 }\n")
      try await topology.run("apply", "flow.yaml")
      let after = try await topology.pids()
      #expect(after["source"] == before["source"] && after["sink"] == before["sink"])
      try await client.send("source", NumberEvent.go(until: 1_000))
      try await expect("sink", count: 1_000, last: 1_000)
      try await expect("second", count: 900, last: 1_000)
    }
  }

  @Test("A new orchestrator restarts a node if one of the node's pipes is missing in the file")
  func withoutAddedPipe() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      try ward.write(Self.added)
      try await ward.run("apply", "-p", "ward", "ward.yaml")
      let before = try await ward.pids()
      try await ward.killOrchestrator()
      try ward.write(Self.ward)
      try await ward.up()
      let after = try await ward.pids()
      #expect(after["gate"] != before["gate"] && after["other"] == before["other"])
    }
  }

  private static func send(_ event: Gate.Event, in ward: DetachedTopology) async throws {
    let client = try ward.client()
    defer { client.close() }
    try await client.send("gate", event)
  }

  private static func expectPressed(
    button: Int, feature: Int, in ward: DetachedTopology
  ) async throws {
    try await ward.await("both receivers have taken what was sent to them") {
      $0[node: "button"]?.status?.state == ["pressed": ["times": .integer(Int64(button))]]
        && $0[node: "feature"]?.status?.state == ["pressed": ["times": .integer(Int64(feature))]]
    }
  }
}
