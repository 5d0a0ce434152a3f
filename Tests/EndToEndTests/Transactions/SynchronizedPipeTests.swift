import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Pipes into composites", .timed, .enabled(if: RecordedNodes.arePossible))
struct SynchronizedPipeTests {
  /// Returns a topology with a button that sends a synchronized event to two parties at its start
  /// and whenever it is pressed.
  private static func button(
    _ onRefused: PipeSpecification.OnRefused = .record, environment: [String: String] = [:]
  ) -> Topology {
    var topology = Parties.pair(environment: environment)
    topology.nodes.append(.machine("Button", name: "button", restart: Parties.quick))
    topology.pipes = [
      .rule(
        from: "button", when: "pressed", to: "pair", send: "meet", name: "bell",
        onRefused: onRefused)
    ]
    return topology
  }

  @Test(
    "A composite processes each event of a pipe once, whichever process is killed",
    arguments: [
      ("pair:commit.recorded", [3, 4]), ("pair:record.after", [3, 4]), ("left:yes.after", [3, 4]),
      ("pair:ack.after", [1]),
    ])
  func once(place: String, hits: [Int]) async throws {
    let rules = hits.enumerated().map { "\(place)=crash@\($1)/\($0 + 1)" }.joined(separator: ",")
    let environment = [FailpointCounter.rulesVariable: rules]
    try await withTopology(Self.button(environment: environment)) { topology in
      let count = try await topology.repeat(atLeast: 20, untilFailpoint: place) {
        try await topology.send("button", Button.Event.press)
      }
      // The button sends one event when it starts.
      try await topology.expectMet(count + 1)
      let status = try await topology.expectStatus(of: "pair", "its pipe") {
        $0.isRunning && $0.status != nil
      }
      #expect(status.status?.deadLetters == 0)
      #expect(status.status?.gaps == 0)
    }
  }

  @Test("A refused event becomes a dead letter of the composite, and can be resent")
  func refused() async throws {
    try await withTopology(Self.button()) { topology in
      try await topology.expectMet(1)
      try await topology.send("right", Party.Event.disagree)
      try await topology.send("button", Button.Event.press)
      let status = try await topology.expectStatus(of: "pair", "a letter") {
        $0.status?.deadLetters == 1
      }
      let deadLetter = try #require(status.status?.recentDeadLetters.first)
      #expect(deadLetter.pipe == "bell")
      #expect(deadLetter.reason.contains("'right'"))
      // The dead letter is kept for the composite's next process, too.
      try await topology.kill("pair")
      try await topology.expectStatus(of: "pair", "its letter") {
        $0.isRunning && $0.incarnation == 2 && $0.status?.deadLetters == 1
      }
      try await topology.send("right", Party.Event.agree)
      _ = try await topology.client.resend(deadLetter: deadLetter.id, of: "pair")
      try await topology.expectMet(2)
      try await topology.expectStatus(of: "pair", "no letter") { $0.status?.deadLetters == 0 }
    }
  }

  @Test(
    "A synchronized event in a pipe to a single node becomes a dead letter that cannot be resent",
    arguments: [PipeSpecification.OnRefused.record, .postpone])
  func direct(onRefused: PipeSpecification.OnRefused) async throws {
    var pair = Parties.pair()
    pair.nodes.append(.machine("Ringer", name: "ringer", restart: Parties.quick))
    pair.pipes = [
      .ports(from: "ringer.out", to: "left", name: "bell", onRefused: onRefused)
    ]
    try await withTopology(pair) { topology in
      try await topology.send("ringer", Ringer.Event.ring)
      try await topology.send("ringer", Ringer.Event.nudge)
      try await topology.expect("left", Party.State.willing(met: 0, steps: 1))
      let problem = "\(RoutingError.requiresComposite("meet", composite: "pair"))"
      let status = try await topology.expectStatus(of: "left", "a letter") {
        $0.status?.deadLetters == 1
      }
      let deadLetter = try #require(status.status?.recentDeadLetters.first)
      #expect(deadLetter.pipe == "bell")
      #expect(deadLetter.sequence == 1)
      #expect(deadLetter.reason == problem)
      await #expect(throws: TopologyClientError.invalidEvent("left", problem)) {
        try await topology.client.resend(deadLetter: deadLetter.id, of: "left")
      }
      #expect(try await topology.meet().isCommitted)
      try await topology.kill("left")
      try await topology.expectStatus(of: "left", "its letter") {
        $0.isRunning && $0.status?.deadLetters == 1
      }
      _ = try await topology.client.drop(deadLetter: deadLetter.id, of: "left")
      #expect(
        try await topology.party("left") == .willing(met: 1, steps: 1))
    }
  }

  @Test(
    "A synchronized event in a pipe with 'postpone' waits until it is enabled, even across a crash")
  func postponed() async throws {
    try await withTopology(Self.button(.postpone)) { topology in
      try await topology.expectMet(1)
      try await topology.send("right", Party.Event.disagree)
      for _ in 0..<3 { try await topology.send("button", Button.Event.press) }
      try await topology.kill("pair")
      try await topology.expectStatus(of: "pair", "what waits") {
        $0.isRunning && $0.status?.ins.first?.waiting == 3
      }
      try await topology.send("right", Party.Event.agree)
      try await topology.expectMet(4)
    }
  }
}
