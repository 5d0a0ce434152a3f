import NumberMachines
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Postponed events", .timed)
struct PostponeTests {
  @Test(
    "Postponed events are accepted in order after an effect has changed the state",
    arguments: ["NumberWorker", "NumberGate"])
  func effect(machine: String) async throws {
    let topology = Topology(
      name: "postponed", program: "TestNodes",
      nodes: [
        .machine("NumberSource", name: "source", parameters: ["id": "s", "pause": 0]),
        .machine(machine, name: "busy", parameters: ["id": "b"]),
        .machine("NumberSink", name: "sink"),
      ],
      pipes: [
        .ports(from: "source.out", to: "busy.in", onRefused: .postpone),
        .ports(from: "busy.out", to: "sink.in"),
      ],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
    let expected = (1...200).reduce(Tallies()) { $0.adding($1, of: "s>b") }
    try await withTopology(topology) { topology in
      try await topology.send("source", NumberEvent.go(until: 200))
      try await topology.expect("sink", NumberSink.State.counting(tallies: expected))
      let busy = try await topology.status("busy").status
      #expect(busy?.deadLetters == 0)
      #expect(busy?.ins.first?.waiting == 0)
    }
  }
}
