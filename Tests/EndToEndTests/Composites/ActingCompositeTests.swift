import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Pipes from composites", .timed, .enabled(if: RecordedNodes.arePossible))
struct ActingCompositeTests {
  /// Returns a composite of two parties that sends the number of their meetings to a sink.
  private static func pair(environment: [String: String] = [:]) -> Topology {
    var topology = Parties.pair(environment: environment)
    topology.composites[0].projection = "PairState"
    topology.nodes.append(.machine("Sink", name: "sink", restart: Parties.quick))
    topology.pipes = [
      .rule(
        from: "pair", when: "met", to: "sink", send: ["number": ["n": "$count"]], name: "meetings")
    ]
    return topology
  }

  /// Returns a pair with a pipe that makes a third party take a step for each entry into the
  /// source's states.
  private static func counted(
    _ source: PipeSpecification.Source, of pair: Topology = Parties.pair()
  ) -> Topology {
    var topology = pair
    topology.nodes.append(.machine("Party", name: "counter", restart: Parties.quick))
    topology.pipes = [
      PipeSpecification(sender: "pair", source: source, receiver: "counter", name: "meetings")
    ]
    return topology
  }

  @Test(
    "The first synchronized event sends one event, even if a node's first report arrives late",
    arguments: 0..<3)
  func lateFirstReport(run: Int) async throws {
    let yaml = """
      topology: ward
      program: TestNodes
      nodes:
        sink: { machine: Sink }
        left: { machine: Party }
        right: { machine: Party }
        third: { machine: Party }
      composites:
        pair: { components: [left, right], synchronize: [meet] }
      pipes:
        - { from: sink, when: counting, to: pair, send: meet }
        - { from: pair, when: { left: willing, right: willing }, to: third, send: step }
      timeouts: { start: 60s, heartbeat: 60s, stop: 60s }
      """
    try await CommandLineTool.launching { tool in
      var tool = tool
      // The coordinator asks `right` for the event before it receives the first report of `right`,
      // and receives the reports of the event separately.
      tool.environment["PIPERUNTIME_FAILPOINTS"] =
        "right:open.after=delay:600ms@1/1,right:step.recorded=delay:400ms@1/1"
      let topology = try DetachedTopology(tool: tool, name: "ward", yaml: yaml)
      try await topology.up()
      // The initial state of the composite and the first event.
      try await topology.await("the coordinator has processed all reports", within: .seconds(60)) {
        let reports = $0[node: "pair"]?.status?.ins.filter { $0.name.hasPrefix("steps of ") } ?? []
        return reports.count == 2 && reports.allSatisfy { $0.events == 2 && $0.waiting == 0 }
      }
      let directory = try await topology.await("all events have arrived", within: .seconds(60)) {
        guard let sent = $0[node: "pair"]?.status?.outs.first?.events else { return false }
        return sent >= 2 && $0[node: "third"]?.status?.version == sent
      }
      #expect(directory[node: "pair"]?.status?.outs.map(\.events) == [2])
    }
  }

  @Test(
    "Each entry into a composite's state sends one event, whichever process is killed",
    arguments: [
      ("pair:step.before", [5, 6]), ("pair:step.after", [5, 6]), ("pair:record.after", [5, 6]),
      ("pair:send.before", [2, 3]), ("pair:send.after", [2, 3]), ("pair:commit.recorded", [3, 4]),
      ("left:step.recorded", [3, 4]), ("left:send.before", [3, 4]), ("left:record.after", [3, 4]),
      ("right:yes.after", [3, 4]), ("right:acknowledge.after", [1]), ("sink:step.after", [3, 4]),
      ("sink:record.after", [3, 4]), ("sink:ack.after", [1]),
    ])
  func once(place: String, hits: [Int]) async throws {
    let rules = hits.enumerated().map { "\(place)=crash@\($1)/\($0 + 1)" }.joined(separator: ",")
    let environment = [FailpointCounter.rulesVariable: rules]
    try await withTopology(Self.pair(environment: environment)) { topology in
      let count = try await topology.repeat(atLeast: 20, untilFailpoint: place) {
        let reply = try await topology.meet(mode: .await(.seconds(300)))
        #expect(reply.isCommitted)
      }
      try await topology.expect(
        "sink", Sink.State.counting(last: count, count: count, wrong: 0))
      let status = try await topology.expectStatus(of: "pair", "its pipes") {
        $0.isRunning && $0.status?.outs.first?.applied == UInt64(count)
      }
      #expect(status.status?.gaps == 0)
    }
  }

  @Test("A composite's rule fires for steps that components took while the coordinator was down")
  func ownSteps() async throws {
    let topology = Self.counted(.states(["left": "unwilling"], send: "step"))
    try await withTopology(topology) { topology in
      for round in 1...10 {
        if round.isMultiple(of: 4) {
          // The node takes a step while the coordinator is suspended. It reports the step to the
          // coordinator's next process, and answers only then.
          try await topology.pause("pair")
          async let answer = topology.send("left", Party.Event.disagree)
          try await topology.expectStatus(of: "left", "a step that is not reported") {
            $0.status?.outs.first.map { $0.applied < $0.events } == true
          }
          try await topology.kill("pair")
          _ = try await answer
        } else {
          try await topology.send("left", Party.Event.disagree)
        }
        if round == 5 { try await topology.kill("left") }
        if round == 7 { try await topology.kill("counter") }
        try await topology.send("left", Party.Event.agree)
      }
      try await topology.expect("counter", Party.State.willing(met: 0, steps: 10))
      try await topology.expectStatus(of: "left", "all meetings") {
        $0.status?.outs.first.map { $0.applied == $0.events } == true
      }
      let sent = try await topology.expectStatus(of: "pair", "all sent") {
        $0.status?.outs.first.map { $0.applied == $0.events } == true
      }
      #expect(sent.status?.outs.first?.events == 10)
    }
  }

  /// Returns a pair whose right node becomes unwilling only after the left node has. So the
  /// combination of a willing left node and an unwilling right node never exists.
  private static func followed(
    _ pair: Topology = Parties.pair(), environment: [String: String] = [:]
  ) -> Topology {
    var file = counted(
      .states(["left": "willing", "right": "unwilling"], send: "step"), of: pair)
    file.pipes.append(.rule(from: "left", when: "unwilling", to: "right", send: "disagree"))
    file.environment = environment
    return file
  }

  private static func takeTurns(_ count: Int, in topology: TopologyHarness) async throws {
    for _ in 0..<count {
      try await topology.send("left", Party.Event.disagree)
      try await topology.expect("right", Party.State.unwilling(met: 0, steps: 0))
      try await topology.send("right", Party.Event.agree)
      try await topology.send("left", Party.Event.agree)
    }
  }

  /// Expects that the coordinator has applied N reports of each node, and that the rule has not
  /// fired.
  private static func expectNothingSent(
    after reports: UInt64, in topology: TopologyHarness
  ) async throws {
    let status = try await topology.expectStatus(of: "pair", "all reports") {
      $0.status?.ins.count == 2
        && $0.status?.ins.allSatisfy { $0.waiting == 0 && $0.applied >= reports } == true
    }
    #expect(status.status?.outs.first { $0.name == "meetings" }?.events == 0)
  }

  @Test(
    "A composite's rule never fires for a combination of states that did not occur",
    arguments: [
      (Parties.pair(), []), (Parties.pair(), [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]),
      (Parties.pair(within: "left"), [2, 4, 2, 3, 2, 4, 3]),
      (Parties.pair(durability: .volatile), []),
    ] as [(Topology, [Int])])
  func existing(pair: Topology, crashes: [Int]) async throws {
    let places = crashes.enumerated().map { "left:send.after=crash@\($1)/\($0 + 1)" }
    let environment = [FailpointCounter.rulesVariable: places.joined(separator: ",")]
    try await withTopology(Self.followed(pair, environment: environment)) { topology in
      try await Self.takeTurns(30, in: topology)
      try await Self.expectNothingSent(after: 60, in: topology)
    }
  }

  @Test("A restarted coordinator applies its recorded reports in their original order")
  func backlog() async throws {
    var file = Self.followed()
    file.nodes.append(.machine("Party", name: "slow", restart: Parties.quick))
    var pipe = PipeSpecification(
      sender: "pair", source: .states(["left": "unwilling"], send: "step"), receiver: "slow",
      name: "full")
    pipe.capacity = 1
    file.pipes.append(pipe)
    try await withTopology(file) { topology in
      try await topology.pause("slow")
      try await Self.takeTurns(10, in: topology)
      try await topology.expectStatus(of: "pair", "reports that wait") {
        $0.status?.ins.contains { $0.waiting > 10 } == true
      }
      try await topology.kill("pair")
      try await topology.resume("slow")
      try await Self.expectNothingSent(after: 20, in: topology)
      // Each turn has four steps. After three of these steps, the left node is unwilling, and the
      // pipe sends an event.
      try await topology.expect("slow", Party.State.willing(met: 0, steps: 30))
    }
  }

  @Test(
    "A node logs which coordinator delays its replies, and replies when the coordinator resumes"
  )
  func heldBack() async throws {
    try await withTopology(Self.followed()) { topology in
      try await topology.pause("pair")
      async let answer = topology.send("left", Party.Event.disagree)
      try await topology.expectLog(
        "left",
        contains:
          ": coordinator 'pair' has not recorded the report of a step; check that the coordinator is running"
      )
      try await topology.expectStatus(of: "left", "the pipe that blocks it") {
        $0.status?.blocked == ["steps of left to pair"]
      }
      try await topology.resume("pair")
      _ = try await answer
      try await topology.expectStatus(of: "left", "nothing that blocks it") {
        $0.status?.blocked == []
      }
    }
  }

  @Test(
    "If a composite's projection throws, the composite sends nothing, logs the reason and continues"
  )
  func throwing() async throws {
    var file = Self.counted(.state("met", send: "step"))
    file.composites[0].projection = "PairState"
    try await withTopology(file) { topology in
      #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted)
      try await topology.expect("counter", Party.State.willing(met: 0, steps: 1))
      for _ in 1...PairState.unspeakableSteps {
        try await topology.send("left", Party.Event.step)
      }
      try await topology.expectLog(
        "pair",
        contains:
          "composite 'pair': the state cannot be computed from the states of its nodes, so its "
          + "pipes send nothing")
      try await topology.expect("counter", Party.State.willing(met: 0, steps: 1))
      try await topology.send("left", Party.Event.step)
      try await topology.expect("counter", Party.State.willing(met: 0, steps: 2))
    }
  }

  @Test("A composite logs and skips a state that is too large to report, and no node is delayed")
  func oversized() async throws {
    var file = Self.counted(.states(["right": "willing"], send: "step"))
    file.nodes[0] = .machine("Hoarder", name: "left", restart: Parties.quick)
    try await withTopology(file) { topology in
      try await topology.expect("counter", Party.State.willing(met: 0, steps: 1))
      try await topology.send("left", Hoarder.Event.grow(byteCount: (1 << 20) - 60))
      #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted)
      try await topology.expectLog(
        "left", contains: "pipe 'steps of left to pair': a step is reported without its state")
      try await topology.expectLog(
        "pair", contains: "node 'left' cannot report its state")
      try await topology.send("left", Hoarder.Event.grow(byteCount: 1))
      try await topology.expect("counter", Party.State.willing(met: 0, steps: 2))
    }
  }

  @Test("If a participant reports no step, the coordinator's log names the participant")
  func waiting() async throws {
    var file = Self.counted(.states(["right": "willing"], send: "step"))
    file.environment = [FailpointCounter.rulesVariable: "right:commit.received=crash@1/1"]
    file.nodes[1].restart = RestartPolicy(.never)
    try await withTopology(file) { topology in
      #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted)
      try await topology.expectLog("pair", contains: "reported by 'left' at least ")
      try await topology.expectLog("pair", contains: " by 'right'; ")
    }
  }

  @Test("A rule of a composite can send an event back to the composite")
  func closing() async throws {
    let text = """
      topology: lift
      program: nodes
      nodes:
        door: { machine: LiftDoor }
        motor: { machine: LiftMotor, parameters: { floorTime: 1 } }
      composites:
        lift:
          components: [door, motor]
          synchronize: [open, go, emergencyStop, reset]
          projection: LiftState
      pipes:
        - { from: lift, when: boarding, to: lift, send: close }
      """
    try await withTopology(yaml: text) { topology in
      for _ in 1...3 {
        #expect(
          try await topology.client.synchronize(
            "lift", json: "open", mode: .await(.seconds(300))
          ).isCommitted)
        try await topology.expect("door", inOrder: ["open", "closed"])
      }
    }
  }

  @Test("An event of a single component can be sent to the composite, and the component replies")
  func own() async throws {
    try await withTopology("topologies/lift.yaml") { topology in
      let tool = CommandLineTool(beside: topology)
      #expect(
        try await topology.client.synchronize(
          "lift", json: "open", mode: .await(.seconds(300))
        ).isCommitted)
      let outcome = try await topology.send("lift", ["enter": ["persons": 3]])
      #expect(outcome == .accepted(version: 2, state: ["open": ["persons": 3]]))
      let refused = try await tool.run("send", "lift", #"{"enter":{"persons":9}}"#, code: 1)
      #expect(
        refused.error.contains(#"node 'door' refused {"enter":{"persons":9}}"#), "\(refused)")
      let moved = try await tool.run("send", "lift", "close", code: 0)
      #expect(moved.output == "door: closed  (version 3)\n")
      try await topology.kill("door")
      let again = try await tool.run("send", "lift", "close", code: 1)
      #expect(again.error.contains("node 'door' refused close in closed"), "\(again)")
      let waits = try await tool.run("send", "lift", "close", "--await", "1s", code: 2)
      #expect(waits.error.contains("composite 'lift' "), "\(waits)")
      // Both nodes accept the event, and only together.
      await #expect(throws: TopologyClientError.self) {
        try await topology.send("lift", "emergencyStop")
      }
      let unknown = try await tool.run("send", "lift", "cloze", code: 2)
      #expect(unknown.error.contains("'cloze'"), "\(unknown)")
    }
  }
}
