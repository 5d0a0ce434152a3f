import NumberMachines
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("'apply' of changed pipes and composites", .timed)
struct ApplyWiringTests {
  @Test("Under load, every event arrives once when a node is added between sender and receiver")
  func rewiredUnderLoad() async throws {
    let direct = """
      topology: flow
      program: TestNodes
      nodes:
        source: { machine: NumberSource, parameters: { id: source, pause: 0, burst: 1000 } }
        sink: { machine: NumberSink }
      pipes:
        - { from: source.out, to: sink.in, durability: none, capacity: 16 }
      """
    let relayed = direct.replacing(
      "  - { from: source.out, to: sink.in, durability: none, capacity: 16 }",
      with: """
          - { from: source.out, to: relay.in, durability: none, capacity: 16 }
          - { from: relay.out, to: sink.in, durability: none, capacity: 16 }
        """
    ).replacing(
      "  sink:", with: "  relay: { machine: NumberRelay, parameters: { id: relay } }\n  sink:")
    try await DetachedTopology.with(direct, name: "flow") { flow in
      let client = try flow.client()
      defer { client.close() }
      let isApplied = Locked(false)
      // Numbers flow until the change is complete, and some more after it.
      let feeder = Task {
        var until = 0
        var isLast = false
        repeat {
          isLast = isApplied.withLock { $0 }
          until += 1_500
          let next = NumberEvent.go(until: until)
          let isTaken: Bool? = try await poll(every: .milliseconds(2), within: .seconds(120)) {
            do {
              try await client.send("source", next)
              return true
            } catch TopologyClientError.busy {
              // The pipe was full at that moment.
              return nil
            }
          }
          #expect(isTaken == true)
          let half = until - 750
          _ = try await client.wait(for: "sink", within: .seconds(120)) {
            Self.tallies($0)?.total ?? 0 >= half
          }
        } while !isLast
        return until
      }
      _ = try await client.wait(for: "sink", within: .seconds(60)) {
        Self.tallies($0)?.total ?? 0 > 600
      }
      try flow.write(relayed)
      let result = try await flow.apply()
      #expect(
        result.output == """
          flow: 1 node added, 2 restarted
          ~ source  \(TopologyChange.Fate.restarts(.launch(.pipes)))
          + relay   starts
          ~ sink    \(TopologyChange.Fate.restarts(.launch(.pipes)))

          """)
      isApplied.withLock { $0 = true }
      let until = try await feeder.value
      let end = try await client.wait(for: "sink", within: .seconds(120)) {
        Self.tallies($0)?.total == until
      }
      let routes = try #require(Self.tallies(end.state)?.routes)
      let first = try #require(routes["source"])
      let second = try #require(routes["source>relay"])
      #expect(first.count == first.last && first.skipped == 0 && first.late == 0, "\(routes)")
      // The second route continues with the number after the first route's last.
      #expect(second.skipped == first.last && second.late == 0, "\(routes)")
      #expect(second.last == until && first.count + second.count == until, "\(routes)")
      for node in try await flow.directory().nodes { #expect(node.status?.gaps == 0, "\(node)") }
    }
  }

  private static func tallies(_ state: JSONValue) -> Tallies? {
    try? state["counting"]?["tallies"]?.decode(Tallies.self)
  }

  @Test("A participant that 'apply' adds to a composite is required for the composite's events")
  func composite() async throws {
    let pair = """
      topology: ward
      program: TestNodes
      nodes:
        left: { machine: Gate }
        right: { machine: Gate }
        third: { machine: Gate }
      composites:
        lock: { components: [left, right], synchronize: { open: } }
      """
    try await DetachedTopology.with(pair) { ward in
      let before = try await ward.pids()
      try await ward.run("send", "lock", "open", "--await", "60s")
      for node in ["left", "right"] { try await ward.run("send", node, "shut") }
      try ward.write(pair.replacing("[left, right]", with: "[left, right, third]"))
      let result = try await ward.apply()
      #expect(
        result.output == """
          ward: 2 nodes restarted, 2 unchanged
          ~ third  \(TopologyChange.Fate.restarts(.launch(.composites)))
          ~ lock   \(TopologyChange.Fate.restarts(.launch(.composites)))

          """)
      try await ward.run("send", "lock", "open", "--await", "60s")
      let after = try await ward.await("all three are open") { directory in
        ["left", "right", "third"].allSatisfy {
          directory[node: $0]?.status?.state == ["open": ["passed": 0]]
        }
      }
      for node in ["left", "right"] { #expect(after[node: node]?.pid == before[node]) }
    }
  }
}
