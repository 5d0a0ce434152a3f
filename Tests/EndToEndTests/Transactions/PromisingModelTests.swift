import Compositions
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Models that vote on synchronized events", .timed, .enabled(if: RecordedNodes.arePossible))
struct PromisingModelTests {
  private typealias Event = Dancer.Event
  private typealias State = Dancer.State

  /// Returns a topology with two dancers. One of them is slow to evaluate.
  private static func floor(_ rules: String = "") -> Topology {
    Topology(
      name: "floor", program: "TestNodes",
      environment: rules.isEmpty ? [:] : [FailpointCounter.rulesVariable: rules],
      nodes: ["left", "right"].map {
        .machine(
          "Dancer", name: $0, parameters: ["isLeft": .bool($0 == "left")], restart: Parties.quick)
      },
      composites: [
        CompositeSpecification(
          name: "pair", components: ["left", "right"], synchronize: ["dance", "freeze", "ponder"])
      ],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))
  }

  private static func dance(
    _ topology: TopologyHarness, left: Dancer.Manner = .gladly, right: Dancer.Manner = .gladly,
    mode: SynchronizedMode = .try
  ) async throws -> SynchronizedReply {
    try await topology.client.synchronize(
      "pair", Event.dance(left: left, right: right), mode: mode)
  }

  /// Requests an event whose transition does not return in the left dancer, which is reported as
  /// overdue.
  private static func freeze(_ topology: TopologyHarness) async throws {
    let reply = try await topology.client.synchronize("pair", Event.freeze, mode: .try)
    guard case .refused(let withheld) = reply else { throw UnexpectedResult("\(reply)") }
    // On a busy machine the other dancer may be overdue as well.
    #expect(!withheld.isEmpty && withheld.allSatisfy { $0.reason == .timedOut })
  }

  /// Returns the number that a dancer has counted: the number in its state, and the number that it
  /// keeps outside of its state.
  private static func count(_ topology: TopologyHarness, _ node: String) async throws -> Int? {
    guard case .accepted(_, let state) = try await topology.send(node, Event.look),
      case .sitting(let danced, _) = try EventCodec<State>().decode(state.bytes)
    else { return nil }
    return danced
  }

  private static func evaluations(_ topology: TopologyHarness, _ node: String) -> [String] {
    topology.logs(node).filter { $0.contains("dance ") && $0.contains(", number ") }
  }

  private static func expectCounts(_ topology: TopologyHarness, _ count: Int) async throws {
    for node in ["left", "right"] {
      #expect(try await Self.count(topology, node) == count, "\(node)")
    }
  }

  @Test("Each model evaluates a synchronized event once and enters the resulting state")
  func committed() async throws {
    try await withTopology(Self.floor()) { topology in
      for round in 1...3 {
        #expect(try await Self.dance(topology).isCommitted)
        for node in ["left", "right"] {
          let state: State = try await topology.expect(node) { (state: State) in
            if case .sitting(round, _) = state { true } else { false }
          }
          guard case .sitting(_, let number) = state else { continue }
          try await topology.expectLog(node, contains: "dance \(round), number \(number)")
          #expect(Self.evaluations(topology, node).count == round)
        }
      }
      try await Self.expectCounts(topology, 3)
      // No intermediate state was visible.
      #expect(!topology.recordedStates(of: "left").contains { $0.state == "dancing" })
    }
  }

  @Test(
    "A model that throws refuses the event with the error, and the other model keeps its state",
    arguments: [Dancer.Manner.gladly, .hidden])
  func thrown(other: Dancer.Manner) async throws {
    try await withTopology(Self.floor()) { topology in
      let reply = try await Self.dance(topology, left: other, right: .refusing)
      guard case .refused(let withheld) = reply else { throw UnexpectedResult("\(reply)") }
      #expect(withheld.map(\.participant) == ["right"])
      #expect(withheld.map(\.reason) == [.thrown("not today")])
      try await Self.expectCounts(topology, 0)
      // Both models take the next event together.
      #expect(try await Self.dance(topology).isCommitted)
      try await Self.expectCounts(topology, 1)
    }
  }

  @Test(
    "A model that never answers refuses the event after a timeout, and no participant stays locked")
  func overdue() async throws {
    try await withTopology(Self.floor()) { topology in
      try await Self.freeze(topology)
      try await topology.expectLog("left", contains: "did not return within 1 s")
      try await Self.expectCounts(topology, 0)
      #expect(try await Self.dance(topology).isCommitted)
      try await Self.expectCounts(topology, 1)
    }
  }

  @Test("A node runs a limited number of transitions that never return, and then logs a warning")
  func unreturned() async throws {
    try await withTopology(Self.floor()) { topology in
      for _ in 0..<6 {
        try await Self.freeze(topology)
      }
      try await topology.expectLog(
        "left", contains: "4 asynchronous transitions of synchronized events were cancelled")
      #expect(topology.logs("left").filter { $0.contains("freezes") }.count == 4)
      try await Self.expectCounts(topology, 0)
    }
  }

  @Test(
    "A tentative transition is cancelled when its coordinator is killed, and the node is unlocked")
  func forsaken() async throws {
    try await withTopology(Self.floor()) { topology in
      async let reply = topology.client.synchronize("pair", Event.ponder)
      for node in ["left", "right"] { try await topology.expectLog(node, contains: "ponders") }
      try await topology.kill("pair")
      for node in ["left", "right"] {
        try await topology.expectLog(node, contains: "ponders no more")
      }
      // The client repeats the request to the composite's next process. The dancers no longer
      // ponder, or are not free yet.
      let received = try await reply
      switch received {
      case .refused, .busy, .unavailable: break
      default: Issue.record("received \(received)")
      }
      try await Self.expectCounts(topology, 0)
      #expect(try await Self.dance(topology, mode: .await(.seconds(60))).isCommitted)
    }
  }

  @Test(
    "A model that traps is unavailable and keeps its state, and the other participant is unlocked")
  func trapped() async throws {
    try await withTopology(Self.floor(), options: .crashing("right")) { topology in
      #expect(try await Self.dance(topology, right: .trapping) == .unavailable("right"))
      #expect(try await Self.count(topology, "left") == 0)
      try await topology.expectStatus(of: "right", "its second process") {
        $0.isRunning && $0.incarnation == 2
      }
      let last = try await Self.dance(topology, mode: .await(.seconds(60)))
      #expect(last.isCommitted)
      try await Self.expectCounts(topology, 1)
    }
  }

  @Test(
    "A transaction is aborted if a vote does not reach the coordinator",
    arguments: ["crash", "cut"])
  func unheard(fault: String) async throws {
    try await withTopology(Self.floor("left:evaluate.after=\(fault)@1/1")) { topology in
      #expect(try await Self.dance(topology) == .unavailable("left"))
      let last = try await Self.dance(topology, mode: .await(.seconds(60)))
      #expect(last.isCommitted)
      try await Self.expectCounts(topology, 1)
    }
  }

  @Test(
    "A model that is killed after its yes vote enters the state that it voted for",
    arguments: ["commit.received", "step.recorded"])
  func doubt(point: String) async throws {
    try await withTopology(Self.floor("left:\(point)=crash@1/1")) { topology in
      #expect(try await Self.dance(topology).isCommitted)
      try await topology.expectLog("left", contains: "failpoint \(point): crash")
      let state: State = try await topology.expect("left", within: .seconds(20)) {
        (state: State) in
        if case .sitting(1, _) = state { true } else { false }
      }
      guard case .sitting(_, let number) = state else { return }
      try await topology.expectLog("left", contains: "dance 1, number \(number)")
      #expect(Self.evaluations(topology, "left").count == 1)
      // The model continues from that state.
      try await Self.expectCounts(topology, 1)
      #expect(try await Self.dance(topology, mode: .await(.seconds(120))).isCommitted)
      try await Self.expectCounts(topology, 2)
    }
  }

  @Test("A model that is killed after its yes vote keeps its state if the transaction is aborted")
  func aborted() async throws {
    let rules = "left:yes.after=crash@1/1,right:prepare.before=delay:100ms@1/1"
    try await withTopology(Self.floor(rules)) { topology in
      let reply = try await Self.dance(topology, right: .refusing)
      #expect(!reply.isCommitted)
      try await topology.expectLog("left", contains: "failpoint yes.after: crash")
      try await topology.expectStatus(of: "left", "its second process", within: .seconds(20)) {
        $0.isRunning && $0.incarnation == 2 && $0.status?.doubt == nil
      }
      try await Self.expectCounts(topology, 0)
    }
  }

  @Test("'why' runs no transition, and says that only a run shows whether a model accepts an event")
  func explained() async throws {
    try await withTopology(Self.floor()) { topology in
      let tool = CommandLineTool(beside: topology)
      let why = try await tool.run(
        "why", "pair", #"{"dance":{"left":"gladly","right":"gladly"}}"#, code: 5)
      #expect(why.output.contains("known only when"), "\(why)")
      #expect(Self.evaluations(topology, "left").isEmpty)
    }
  }

  @Test("A model, a feature and an asynchronous machine take a synchronized event atomically")
  func styles() async throws {
    var party = Self.floor()
    for (name, machine) in [("feature", "WallflowerNode"), ("machine", "Chaperone")] {
      party.nodes.append(.machine(machine, name: name, restart: Parties.quick))
      party.composites[0].components.append(name)
    }
    try await withTopology(party) { topology in
      for round in 1...3 {
        #expect(try await Self.dance(topology).isCommitted)
        try await topology.expect("feature", Dances(danced: round))
        try await topology.expect("machine", Chaperone.State.watching(danced: round))
        let reply = try await Self.dance(topology, left: .refusing)
        guard case .refused(let withheld) = reply else { throw UnexpectedResult("\(reply)") }
        #expect(withheld.map(\.participant) == ["left"])
      }
      try await Self.expectCounts(topology, 3)
      for node in ["feature", "machine"] {
        try await topology.expectStatus(of: node, "3 dances") { $0.status?.version == 3 }
      }
    }
  }

  // MARK: The two actors of the example

  private static let example = "topologies/composite.yaml"

  /// Makes both models active, and returns their states.
  private static func activate(_ topology: TopologyHarness, _ round: Int) async throws {
    let first = try await topology.send("modelA", ModelA.Event.eventA(message: "\(round)"))
    let second = try await topology.send("modelB", ModelB.Event.eventB(value: round))
    for outcome in [first, second] {
      // A model that is already active refuses with a reason.
      if case .refused(let refusal, _) = outcome { #expect(refusal == .thrown("notReset")) }
    }
  }

  @Test("'eventX' resets either both actors, which run in separate processes, or neither")
  func actors() async throws {
    try await withTopology(Self.example) { topology in
      try await topology.send("modelA", ModelA.Event.eventA(message: "hello"))
      // Each evaluation is limited to a second, which may be too short on a busy machine.
      let nothing: Bool? = try await poll(within: .seconds(20)) {
        let half = try await topology.client.synchronize("models", ModelA.Event.eventX)
        switch half {
        case .refused(let withheld):
          return withheld.map(\.reason).contains(.thrown("nothingToReset")) ? true : nil
        case .unavailable, .busy: return nil
        default: throw UnexpectedResult("\(half)")
        }
      }
      #expect(nothing == true)
      try await topology.expect("modelA", ModelA.State.active(message: "hello"))
      try await topology.send("modelB", ModelB.Event.eventB(value: 3))
      try await topology.expect("models", ModelsState.stateAB(message: "hello", value: 3))
      let whole = try await topology.client.synchronize(
        "models", ModelA.Event.eventX, mode: .await(.seconds(60)))
      #expect(whole.isCommitted)
      try await topology.expect("models", ModelsState.inactive)
      try await topology.expect("modelA", ModelA.State.inactive)
      try await topology.expect("modelB", ModelB.State.inactive)
    }
  }

  @Test("Two actors and their composite agree after each of many kills")
  func killedActors() async throws {
    let read = try TopologyReader.read(path: Self.example)
    var example = read.topology
    for index in example.nodes.indices { example.nodes[index].restart = Parties.quick }
    try await withTopology(example) { topology in
      for round in 1...12 {
        try await Self.activate(topology, round)
        let name = ["modelA", "models", "modelB"][round % 3]
        async let reply = topology.client.synchronize("models", ModelA.Event.eventX)
        try await topology.kill(name)
        let isCommitted = try await reply.isCommitted
        try await topology.expectStatus(of: name, "to run again", within: .seconds(20)) {
          $0.isRunning
        }
        try await topology.expectStatus(of: "modelA", "the same", within: .seconds(20)) {
          $0.status?.doubt == nil && ($0.status?.state == "inactive") == isCommitted
        }
        try await topology.expectStatus(of: "modelB", "the same", within: .seconds(20)) {
          $0.status?.doubt == nil && ($0.status?.state == "inactive") == isCommitted
        }
      }
      try await Self.activate(topology, 13)
      let last = try await topology.client.synchronize(
        "models", ModelA.Event.eventX, mode: .await(.seconds(60)))
      #expect(last.isCommitted)
    }
  }
}
