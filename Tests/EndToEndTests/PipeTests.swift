import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Pipes between processes", .timed)
struct PipeTests {
  /// Returns a topology with a source of numbers, and a sink that checks the numbers.
  private static func numbers(
    capacity: Int = 1024, work: Int = 0, name: String = "numbers",
    durability: Durability? = nil
  ) -> Topology {
    let quick = RestartPolicy(
      backoff: Backoff(initial: .milliseconds(10), max: .milliseconds(100)))
    return Topology(
      name: name, program: "TestNodes",
      nodes: [
        .machine("Source", name: "source", restart: quick, durability: durability),
        .machine(
          "Sink", name: "sink", parameters: ["work": .integer(Int64(work))], restart: quick,
          durability: durability),
      ],
      pipes: [.ports(from: "source.out", to: "sink.in", name: "numbers", capacity: capacity)],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))
  }

  /// Returns a topology with a button and a pipe from the button to a gate.
  private static func gate(
    capacity: Int = 1024, _ onRefused: PipeSpecification.OnRefused = .record,
    restart: RestartPolicy = RestartPolicy()
  ) -> Topology {
    Topology(
      name: "gate", program: "TestNodes",
      nodes: [
        .machine("Button", name: "button"), .machine("Gate", name: "gate", restart: restart),
      ],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "gate", send: "pass", name: "visitors",
          capacity: capacity, onRefused: onRefused)
      ], timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  /// Launches the topology without recording its thousands of states, which would take longer than
  /// the nodes do.
  private static func unrecorded(
    _ topology: Topology, _ body: (TopologyHarness) async throws -> Void
  ) async throws {
    var options = TopologyHarness.Options()
    options.recordedNodes = []
    try await withTopology(topology, options: options, body)
  }

  /// Waits until the node reports a state that satisfies the predicate.
  private static func expect<State: MachineState>(
    _ topology: TopologyHarness, _ node: String, _ description: String,
    where predicate: (State) -> Bool
  ) async throws {
    try await topology.expectStatus(of: node, description) { information in
      guard let reportedState = information.status?.state,
        let state = try? EventCodec<State>().decode(reportedState.bytes)
      else { return false }
      return predicate(state)
    }
  }

  private static func expect(
    _ topology: TopologyHarness, _ node: String, _ state: some MachineState & Equatable
  ) async throws {
    try await expect(topology, node, "\(state)") { $0 == state }
  }

  @Test(
    "Thousands of events arrive completely and in order, whatever the pipe's capacity",
    arguments: [(1, 1_000), (7, 1_000), (1024, 2_000), (65_536, 2_000)])
  func order(capacity: Int, count: Int) async throws {
    try await Self.unrecorded(Self.numbers(capacity: capacity)) { topology in
      try await topology.send("source", Source.Event.go(count: count))
      try await Self.expect(
        topology, "sink", Sink.State.counting(last: count, count: count, wrong: 0))
      let sink = try await topology.status("sink").status
      #expect(sink?.ins.first?.applied == UInt64(count))
      #expect(sink?.gaps == 0)
    }
  }

  @Test("A node can have more pipes than the default number of sockets allows")
  func manyPipes() async throws {
    // Each pipe uses three sockets: its own, and two that monitor its connection.
    let count = Int(Context.SocketLimit.few.rawValue) / 3 + 1
    let pipes = (1...count).map { number in
      PipeSpecification.rule(
        from: "button", when: "pressed", to: "gate", send: "pass", name: "visitors\(number)")
    }
    var topology = Self.gate()
    topology.pipes = pipes
    try await withTopology(topology) { topology in
      try await topology.send("gate", "open")
      try await topology.send("button", Button.Event.press)
      try await topology.expectStatus(of: "gate", "all that came") {
        $0.status?.events == UInt64(2 * count + 1)
      }
    }
  }

  @Test("A suspended receiver stops its sender, and gets all events after the receiver is resumed")
  func backPressure() async throws {
    try await Self.unrecorded(Self.numbers(capacity: 64)) { topology in
      try await topology.pause("sink")
      try await topology.send("source", Source.Event.go(count: 5_000))
      let source = try await topology.expectStatus(of: "source", "a full pipe") {
        $0.status?.blocked == ["numbers"]
      }
      let queued = try #require(source.status?.outs.first?.events)
      #expect(queued >= 64 && queued < 5_000)
      try await topology.resume("sink")
      try await Self.expect(
        topology, "sink", Sink.State.counting(last: 5_000, count: 5_000, wrong: 0))
      try await Self.expect(topology, "source", Source.State.idle(sent: 5_000))
    }
  }

  @Test(
    "A request to a node with a full pipe gets the reply 'busy', and all accepted events arrive")
  func busy() async throws {
    try await withTopology(Self.gate(capacity: 8)) { topology in
      try await topology.send("gate", "open")
      try await topology.pause("gate")
      var taken = 0
      var answer: TopologyClientError?
      while answer == nil, taken < 1_000 {
        do {
          try await topology.send("button", Button.Event.press)
          taken += 1
        } catch let error as TopologyClientError {
          answer = error
        }
      }
      guard case .busy("button", let reason)? = answer else {
        Issue.record("answered \(answer.map { "\($0)" } ?? "nothing") after \(taken) events")
        return
      }
      #expect(reason.contains("visitors"))
      // The entry into the button's first state has sent one of the eight events.
      #expect(taken >= 7 && taken <= 16)
      try await topology.resume("gate")
      try await topology.expect("gate", Gate.State.open(passed: taken))
      // The credit for the events may still be in flight.
      let pressed = try await poll(within: .seconds(20), of: topology.directory) {
        try? await topology.send("button", Button.Event.press)
      }
      #expect(pressed != nil)
      try await topology.expect("gate", Gate.State.open(passed: taken + 1))
    }
  }

  @Test("'on_refused: record' counts a refused event, keeps it as a dead letter, and continues")
  func record() async throws {
    try await withTopology(Self.gate()) { topology in
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      let gate = try await topology.expectStatus(of: "gate", "letters") {
        $0.status?.deadLetters == 4
      }
      let deadLetter = try #require(gate.status?.recentDeadLetters.last)
      #expect(deadLetter.pipe == "visitors")
      #expect(deadLetter.sequence == 4)
      #expect(deadLetter.event == "pass")
      #expect(deadLetter.reason == "refused: noTransition")
      #expect(gate.status?.refused == 4)
      try await topology.expectLog("gate", contains: "pipe 'visitors': event 1 \"pass\": refused")
      try await topology.send("gate", Gate.Event.open)
      try await topology.send("button", Button.Event.press)
      try await topology.expect("gate", Gate.State.open(passed: 1))
    }
  }

  @Test("'on_refused: postpone' keeps refused events and applies them when the state allows")
  func postpone() async throws {
    try await withTopology(Self.gate(.postpone)) { topology in
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      try await topology.expectStatus(of: "gate", "four that wait") {
        $0.status?.ins.first?.waiting == 4
      }
      try await topology.send("gate", Gate.Event.open)
      try await topology.expect(
        "gate", exactly: (0...4).map { .state(Gate.State.open(passed: $0)) })
      let gate = try await topology.status("gate").status
      #expect(gate?.deadLetters == 0)
      #expect(gate?.ins.first?.waiting == 0)
    }
  }

  @Test("'on_refused: fail' ends the node and names the event")
  func fail() async throws {
    try await withTopology(Self.gate(.fail, restart: RestartPolicy(.never))) { topology in
      let gate = try await topology.expectStatus(of: "gate", "its failure") {
        $0.phase == "failed"
      }
      #expect(gate.reason?.hasSuffix("the pipe has 'on_refused: fail'") == true)
      try await topology.expectLog(
        "gate", contains: "event 1 \"pass\": refused: noTransition, in state")
      #expect(try await topology.status("button").isRunning)
    }
  }

  @Test(
    "A receiver that is killed under load is restarted, and the lost events are reported as a gap")
  func receiverKilled() async throws {
    try await Self.unrecorded(Self.numbers(capacity: 256, work: 1_000, durability: .volatile)) {
      topology in
      try await topology.client.startNumbers()
      try await Self.expect(topology, "sink", "some events") { (state: Sink.State) in
        guard case .counting(_, let count, _) = state else { return false }
        return count > 100
      }
      try await topology.kill("sink")
      try await Self.expect(topology, "sink", "events after the restart") { (state: Sink.State) in
        guard case .counting(let last, let count, _) = state else { return false }
        return last > count && count > 100
      }
      let sent = try await topology.client.endNumbers()
      try await Self.expect(topology, "sink", "the last event") { (state: Sink.State) in
        guard case .counting(let last, _, let wrong) = state else { return false }
        // Only the first number after the restart does not follow its predecessor.
        return last == sent && wrong == 1
      }
      let sink = try await topology.status("sink")
      #expect(sink.incarnation == 2)
      #expect(sink.status?.gaps == 1)
      try await topology.expectLog("sink", contains: "pipe 'numbers': gap: up to")
      try await topology.expectLog("source", contains: "are lost")
      let lost = try #require(try await topology.status("source").status?.outs.first?.lost)
      #expect(lost > 0)
      let tool = CommandLineTool(beside: topology)
      let text = try await tool.run("describe", "source")
      #expect(text.output.contains(", capacity 256, \(lost) lost\n"), "\(text)")
      let json = try await tool.run("describe", "source", "-o", "json")
      #expect(try tool.out(ofDescribed: json.output)?["lost"] == .integer(Int64(lost)), "\(json)")
    }
  }

  @Test("A sender that is killed under load is restarted, and its receiver reports a gap")
  func senderKilled() async throws {
    try await Self.unrecorded(Self.numbers(capacity: 256, work: 100, durability: .volatile)) {
      topology in
      try await topology.send("source", Source.Event.go(count: 1_000_000))
      try await Self.expect(topology, "sink", "some events") { (state: Sink.State) in
        guard case .counting(_, let count, _) = state else { return false }
        return count > 500
      }
      try await topology.kill("source")
      try await Self.expect(topology, "source", Source.State.idle(sent: 0))
      try await topology.send("source", Source.Event.go(count: 5))
      try await Self.expect(topology, "sink", "the numbers of the new sender") {
        (state: Sink.State) in
        guard case .counting(let last, _, let wrong) = state else { return false }
        return last == 5 && wrong == 1
      }
      let sink = try await topology.status("sink")
      #expect(sink.incarnation == 1)
      #expect(sink.status?.gaps == 1)
      try await topology.expectLog("sink", contains: "pipe 'numbers': gap: the sender died")
    }
  }

  @Test("A receiver that restarts gracefully under load loses no events")
  func receiverRestarted() async throws {
    // Few enough events that no state is skipped when the test is slower than the nodes.
    var options = TopologyHarness.Options()
    options.recordedNodes = ["sink"]
    try await withTopology(
      Self.numbers(capacity: 256, work: 50, durability: .volatile), options: options
    ) { topology in
      let count = 6_000
      try await topology.send("source", Source.Event.go(count: count - 1))
      try await topology.expect("sink", "some events") { (state: Sink.State) in
        guard case .counting(_, let count, _) = state else { return false }
        return count > 500
      }
      try await topology.restart("sink")
      // At least one event comes after the restart.
      try await Self.expect(topology, "source", Source.State.idle(sent: count - 1))
      try await topology.send("source", Source.Event.go(count: 1))
      let end = try await topology.expect("sink", "the last event", within: .seconds(30)) {
        (state: Sink.State) in
        guard case .counting(let last, _, _) = state else { return false }
        return last == count
      }
      guard case .counting(_, let after, let wrong) = end else { return }
      let before = topology.recordedStates(of: "sink").last { $0.incarnation == 1 }
      let last = before?.state["counting"]?["last"]?.integer
      #expect(last.map { Int($0) + after } == count)
      #expect(wrong == 1)
      let sink = try await topology.status("sink")
      #expect(sink.incarnation == 2)
      #expect(sink.status?.gaps == 0)
      #expect(!topology.logs("source").contains { $0.contains("lost") })
    }
  }

  @Test("A sender that restarts gracefully first delivers its events")
  func senderRestarted() async throws {
    // A sender waits one second for events in flight, which must suffice on a busy machine.
    try await withTopology(Self.numbers(capacity: 1_024, work: 20, durability: .volatile)) {
      topology in
      try await topology.send("source", Source.Event.go(count: 300))
      try await topology.expect("source", Source.State.idle(sent: 300))
      try await topology.restart("source")
      try await topology.expect(
        "sink", Sink.State.counting(last: 300, count: 300, wrong: 0))
      try await topology.send("source", Source.Event.go(count: 1))
      try await topology.expect("sink", Sink.State.counting(last: 1, count: 301, wrong: 1))
      #expect(try await topology.status("sink").status?.gaps == 0)
    }
  }

  @Test("An event of a port without a pipe is counted, and logged once")
  func unconnected() async throws {
    var topology = Self.numbers()
    topology.pipes = []
    topology.nodes = [.machine("Source", name: "source")]
    try await withTopology(topology) { topology in
      try await topology.send("source", Source.Event.go(count: 10))
      try await topology.expect("source", Source.State.idle(sent: 10))
      #expect(try await topology.status("source").status?.unconnected == 10)
      try await topology.expectLog("source", contains: "port 'out' is not connected to a pipe")
    }
  }
}
