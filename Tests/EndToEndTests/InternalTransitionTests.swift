import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// An oven whose entries into the state `baking` press a button, and a bell at the oven.
private struct Bakery {
  let directory: TestDirectory
  var ledger: String { directory.path + "/ledger" }

  init() throws { directory = try TestDirectory() }

  func topology(key: String? = nil) -> Topology {
    let restart = RestartPolicy(
      maximumRestarts: 1_000, window: .seconds(1),
      backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))
    return Topology(
      name: "bakery", program: "TestNodes",
      nodes: [
        .machine(
          "Oven", name: "oven", parameters: ["ledger": .string(ledger)], restart: restart, key: key),
        .machine("Button", name: "button"), .machine("Button", name: "bell"),
      ],
      pipes: [
        .rule(from: "oven", when: "baking", to: "button", send: "press"),
        .rule(
          from: "bell", when: "pressed", to: "oven", send: ["knock": ["oven": "a"]], name: "knocks"),
      ], timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  /// The idempotency keys with which the effect has run.
  var runs: [Substring] {
    let text = FileSystem.contents(of: ledger).map { String(decoding: $0, as: UTF8.self) } ?? ""
    return text.split(separator: "\n")
  }

  func expectRuns(_ count: Int) async throws {
    let hasRun: Bool? = try await poll(within: .seconds(60)) { runs.count >= count ? true : nil }
    #expect(hasRun == true && runs.count == count, "\(runs)")
  }

  /// Lets the effect end.
  func endEffect() { close(open(ledger + ".done", O_WRONLY | O_CREAT, 0o600)) }
}

@Suite("Internal transitions and ignored events of nodes", .timed)
struct InternalTransitionTests {
  @Test(
    "An internal transition fires no rule and keeps the running effect, even if the node is killed")
  func stay() async throws {
    let bakery = try Bakery()
    defer { bakery.directory.remove() }
    try await withTopology(bakery.topology()) { topology in
      try await topology.send("oven", Oven.Event.bake(oven: "a"))
      try await bakery.expectRuns(1)
      for n in 1...3 {
        let outcome = try await topology.send("oven", Oven.Event.heat(oven: "a", by: 10))
        let state: JSONValue = ["baking": ["degrees": .integer(Int64(10 * n)), "baked": 0]]
        #expect(outcome == .accepted(version: UInt64(n + 1), state: state))
      }
      #expect(bakery.runs.count == 1)
      try await topology.kill("oven")
      let heated = try await topology.send("oven", Oven.Event.heat(oven: "a", by: 1))
      #expect(heated == .accepted(version: 5, state: ["baking": ["degrees": 31, "baked": 0]]))
      try await bakery.expectRuns(2)
      #expect(Set(bakery.runs).count == 1, "\(bakery.runs)")
      bakery.endEffect()
      try await topology.expect("oven", Oven.State.off(baked: 1), within: .seconds(60))
      // The rule has fired for the entry into the state, and not for the internal transitions.
      try await topology.expect("button", Button.State.pressed(times: 1))
      let status = try await topology.status("oven").status
      #expect(status?.outs.first?.events == 1 && status?.version == 6)
    }
  }

  @Test(
    "An ignored event is consumed once, even across a kill, and is neither step nor dead letter")
  func ignore() async throws {
    let bakery = try Bakery()
    defer { bakery.directory.remove() }
    try await withTopology(bakery.topology()) { topology in
      func expectIgnored(_ count: UInt64, received: UInt64) async throws {
        try await topology.expectStatus(of: "oven", "\(count) ignored events") {
          $0.status?.ignored == count && $0.status?.ins.first?.applied == received
        }
      }
      // The bell has sent an event on its entry into the initial state.
      for _ in 1...3 { try await topology.send("bell", Button.Event.press) }
      try await expectIgnored(4, received: 4)
      let outcome = try await topology.send("oven", Oven.Event.knock(oven: "a"))
      #expect(outcome == .accepted(version: 0, state: ["off": ["baked": 0]]))
      try await expectIgnored(5, received: 4)
      try await topology.kill("oven")
      try await topology.send("bell", Button.Event.press)
      // Events that were ignored before are not sent again.
      try await expectIgnored(1, received: 5)
      let status = try await topology.status("oven").status
      #expect(status?.version == 0 && status?.refused == 0 && status?.deadLetters == 0)
      #expect(status?.events == 1)

      let tool = CommandLineTool(beside: topology)
      let why = try await tool.run("why", "oven", #"{"knock":{"oven":"a"}}"#, code: 0)
      #expect(why.output.contains("ignored"), "\(why)")
      let described = try await tool.run("describe", "oven", code: 0)
      #expect(described.output.contains("in off: knock"), "\(described)")
      #expect(described.output.contains("ignored events"), "\(described)")
      // In the other state, there is no transition for the event.
      try await topology.send("oven", Oven.Event.bake(oven: "a"))
      let refused = try await topology.send("oven", Oven.Event.knock(oven: "a"))
      #expect(
        refused == .refused(.noTransition, state: ["baking": ["degrees": 0, "baked": 0]]))
    }
  }

  @Test(
    "Nodes with instances record internal transitions, and create no instance for an ignored event")
  func instances() async throws {
    let bakery = try Bakery()
    defer { bakery.directory.remove() }
    try await withTopology(bakery.topology(key: "oven")) { topology in
      try await topology.expectStatus(of: "oven", "an ignored event") {
        $0.status?.ignored == 1 && $0.status?.ins.first?.applied == 1
      }
      #expect(try await topology.status("oven").status?.state == JSONValue.object([:]))
      try await topology.send("oven", Oven.Event.bake(oven: "a"))
      try await bakery.expectRuns(1)
      let outcome = try await topology.send("oven", Oven.Event.heat(oven: "a", by: 7))
      #expect(outcome == .accepted(version: 2, state: ["baking": ["degrees": 7, "baked": 0]]))
      try await topology.kill("oven")
      try await topology.expect("oven[a]", Oven.State.baking(degrees: 7, baked: 0))
      try await bakery.expectRuns(2)
      #expect(Set(bakery.runs).count == 1, "\(bakery.runs)")
      bakery.endEffect()
      try await topology.expect("oven[a]", Oven.State.off(baked: 1), within: .seconds(60))
      let ignored = try await topology.send("oven", Oven.Event.knock(oven: "a"))
      #expect(ignored == .accepted(version: 3, state: ["off": ["baked": 1]]))
      try await topology.expect("button", Button.State.pressed(times: 1))
      let status = try await topology.status("oven").status
      #expect(status?.outs.first?.events == 1 && status?.version == 3)
      #expect(status?.deadLetters == 0 && status?.state == ["off": 1])
    }
  }

  @Test(
    "A synchronized event that enters no state increases the version and fires no composite rule",
    .enabled(if: RecordedNodes.arePossible),
    arguments: [
      nil, "left:commit.received", "right:commit.received", "left:step.recorded", "pair:step.after",
    ])
  func synchronized(place: String?) async throws {
    func party(_ name: String, _ steps: JSONValue) -> NodeSpecification {
      .machine(
        "Automaton", name: name, parameters: ["steps": steps], restart: Parties.quick,
        durability: .process)
    }
    let rules = place.map { [FailpointCounter.rulesVariable: "\($0)=crash@3/1"] }
    let topology = Topology(
      name: "parties", program: "TestNodes", environment: rules ?? [:],
      nodes: [
        party("left", ["0 sync stay.1", "1 sync stay.0", "0 x 2"]),
        party("right", ["0 sync ignore"]), .machine("Button", name: "button"),
      ],
      pipes: [
        PipeSpecification(
          sender: "pair", source: .states(["left": "at", "right": "at"], send: "press"),
          receiver: "button", name: "entries")
      ],
      composites: [
        CompositeSpecification(
          name: "pair", components: ["left", "right"], synchronize: ["sync"])
      ], timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))
    try await withTopology(topology) { topology in
      for _ in 1...6 {
        let reply = try await topology.client.synchronize(
          "pair", Automaton.Event.sync, mode: .await(.seconds(300)))
        #expect(reply.isCommitted)
      }
      for name in ["left", "right"] {
        try await topology.expectStatus(of: name, "six steps", within: .seconds(60)) {
          $0.status?.version == 6
        }
        if place?.hasPrefix(name) == true {
          #expect(try await topology.status(name).incarnation > 1)
        }
      }
      // An entry of one node fires the rule, as did the entries into the initial states.
      try await topology.send("left", Automaton.Event.x)
      try await topology.expect(
        "button", Button.State.pressed(times: 2), within: .seconds(60))
      #expect(try await topology.status("pair").status?.outs.first?.events == 2)
    }
  }
}
