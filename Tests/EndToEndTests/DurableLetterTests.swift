import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Refused events at a node with a journal", .timed)
struct DurableLetterTests {
  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  @Test("Postponed events are kept, in order, across a restart of their node")
  func postponed() async throws {
    let topology = Topology(
      name: "gate", program: "TestNodes",
      nodes: [
        .machine("Button", name: "button", restart: Self.quick),
        .machine("Gate", name: "gate", restart: Self.quick),
      ],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "gate", send: "pass", name: "visitors",
          capacity: 8, onRefused: .postpone)
      ])
    try await withTopology(topology) { topology in
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      try await topology.expectStatus(of: "gate", "four that wait") {
        $0.status?.ins.first?.waiting == 4
      }
      // All events are acknowledged, so the sender has no event to send again.
      try await topology.expectStatus(of: "button", "all acknowledged") {
        $0.status?.outs.first?.applied == 4
      }
      try await topology.kill("gate")
      try await topology.expectStatus(of: "gate", "four that wait again") {
        $0.isRunning && $0.incarnation == 2 && $0.status?.ins.first?.waiting == 4
      }
      try await topology.send("gate", Gate.Event.open)
      try await topology.expect("gate", Gate.State.open(passed: 4))
      #expect(try await topology.status("gate").status?.deadLetters == 0)
      // The postponed events have been accepted, so the next process has no event to try again.
      try await topology.kill("gate")
      let gate = try await topology.expectStatus(of: "gate", "a third start") {
        $0.isRunning && $0.incarnation == 3 && $0.status?.state != nil
      }
      #expect(gate.status?.state == ["open": ["passed": 4]])
      #expect(gate.status?.ins.first?.waiting == 0)
    }
  }

  @Test("A postponed event is tried again after an effect's event has changed the state")
  func postponedUntilAnEffect() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let topology = Topology(
      name: "clerk", program: "TestNodes",
      nodes: [
        .machine("Button", name: "button"),
        .machine(
          "Clerk", name: "clerk",
          parameters: ["ledger": .string(directory.path + "/ledger"), "time": 20]),
      ],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "clerk", send: "pay", name: "orders",
          capacity: 2, onRefused: .postpone)
      ])
    try await withTopology(topology) { topology in
      for _ in 1...5 {
        // The sender refuses events until its pipe has capacity.
        let pressed = try await poll(within: .seconds(20), of: topology.directory) {
          try? await topology.send("button", Button.Event.press)
        }
        #expect(pressed != nil)
      }
      try await topology.expect("clerk", Clerk.State.idle(paid: 6))
    }
  }

  @Test("Dead letters are kept across a restart of their node")
  func deadLetters() async throws {
    let topology = Topology(
      name: "gate", program: "TestNodes",
      nodes: [
        .machine("Button", name: "button"), .machine("Gate", name: "gate", restart: Self.quick),
      ],
      pipes: [.rule(from: "button", when: "pressed", to: "gate", send: "pass", name: "visitors")])
    try await withTopology(topology) { topology in
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      try await topology.kill("gate")
      let gate = try await topology.expectStatus(of: "gate", "the letter again") {
        $0.isRunning && $0.incarnation == 2 && $0.status?.deadLetters == 1
      }
      let deadLetter = try #require(gate.status?.recentDeadLetters.first)
      #expect(deadLetter.pipe == "visitors")
      #expect(deadLetter.id == 1)
      #expect(deadLetter.state == ["shut": ["passed": 0]])
    }
  }

  @Test(
    "An event that kills its node three times becomes a dead letter, and the node continues",
    arguments: [Fragile.Event.trap, .exit(code: 3), .hang])
  func poison(event: Fragile.Event) async throws {
    let topology = Topology(
      name: "ward", program: "TestNodes",
      nodes: [
        .machine("Button", name: "button"),
        .machine("Fragile", name: "patient", restart: Self.quick),
      ],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "patient",
          send: try JSONValue(encoding: event), name: "dose")
      ],
      timeouts: Timeouts(heartbeat: .seconds(2)))
    var options = TopologyHarness.Options.crashing("patient")
    options.waitsUntilRunning = false
    try await withTopology(topology, options: options) { topology in
      let patient = try await topology.expectStatus(
        of: "patient", "a letter", within: .seconds(30)
      ) {
        $0.isRunning && $0.status?.deadLetters == 1
      }
      #expect(patient.incarnation == 4)
      let deadLetter = try #require(patient.status?.recentDeadLetters.first)
      #expect(deadLetter.pipe == "dose")
      #expect(deadLetter.sequence == 1)
      #expect(deadLetter.reason.contains(" 3 times"))
      let touched = try await topology.send("patient", Fragile.Event.touch)
      #expect(touched == .accepted(version: 1, state: ["well": ["steps": 1]]))
    }
  }

  @Test(
    "A request that kills its node three times becomes a dead letter, and its client gets an error")
  func poisonRequest() async throws {
    let topology = Topology(
      name: "one", program: "TestNodes",
      nodes: [.machine("Fragile", name: "node", restart: Self.quick)])
    try await withTopology(topology, options: .crashing("node")) { topology in
      let sending = Task { [client = topology.client] in
        try await client.send("node", Fragile.Event.trap, timeout: .seconds(300))
      }
      // A node that does not count the deaths would crash again and again.
      let node = try await topology.expectStatus(of: "node", "a letter, or one death too many") {
        $0.status?.deadLetters == 1 || $0.incarnation > 6
      }
      try #require(node.incarnation == 4)
      guard case .refused(.thrown(let text), let state) = try await sending.value else {
        Issue.record("the event must be refused")
        return
      }
      #expect(
        text
          == "the event's step ended the node's process 3 times in a row; the event is now a dead letter"
      )
      #expect(state == ["well": ["steps": 0]])
      #expect(node.status?.recentDeadLetters.first?.pipe == "request")
    }
  }
}
