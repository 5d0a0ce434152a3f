import Kettles
import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Nodes whose machines are written in each style", .timed, .enabled(if: RecordedNodes.arePossible))
struct StyleNodeTests {
  private static func kettles(boilTime: Int) -> String {
    """
    topology: kettles
    program: nodes
    nodes:
      language: { machine: KettleMachine, parameters: { boilTime: \(boilTime) } }
      reducer: { machine: KettleReducer, parameters: { boilTime: \(boilTime) } }
      model: { machine: KettleModel, parameters: { boilTime: \(boilTime) } }
      feature: { machine: KettleNode, parameters: { boilTime: \(boilTime) } }
      loader: { machine: KettleLoader, parameters: { boilTime: \(boilTime) } }
    """
  }

  private static let names = ["language", "reducer", "model", "feature"]

  @Test("A node that is killed and restarted keeps its state and completes its pending effects")
  func restored() async throws {
    try await withTopology(yaml: Self.kettles(boilTime: 400)) { topology in
      for name in Self.names {
        try await topology.send(name, KettleEvent.switchOn)
        try await topology.expect(name, KettleState.heating)
      }
      try await topology.send("loader", KettleLoader.Event.onAppear)
      for name in Self.names + ["loader"] { try await topology.kill(name) }
      for name in Self.names {
        try await topology.expect(name, KettleState.hot, within: .seconds(20))
      }
      try await topology.expect(
        "loader", KettleLoader.State.loaded(.init(celsius: 100)), within: .seconds(20))
      for name in Self.names + ["loader"] { try await topology.kill(name) }
      for name in Self.names {
        let outcome = try await topology.send(name, KettleEvent.switchOff)
        // The water boiled once, before or after its process ended.
        #expect(
          outcome == .accepted(version: 3, state: "off"), "\(name)")
      }
    }
  }

  @Test(
    "A change that a model makes by itself is one step, however late the node notices the change")
  func noticedOnce() async throws {
    let text = "topology: t\nprogram: TestNodes\nnodes: { fruit: { machine: Ripener } }\n"
    try await withTopology(yaml: text) { topology in
      var last: UInt64?
      for _ in 1...20 {
        try await topology.send("fruit", Ripener.Event.plant)
        let ripe = try await topology.expect("fruit", Ripener.State.ripe)
        // The fruit was green, then turning, then ripe. In the first round it was green already,
        // which is no change if it ripens at once.
        if let last { #expect(ripe.version == last + 3) } else { #expect(2...3 ~= ripe.version) }
        last = ripe.version
      }
    }
  }

  @Test("A refused event changes no state, and leaving a state cancels its effects")
  func cancelled() async throws {
    try await withTopology(yaml: Self.kettles(boilTime: 60_000)) { topology in
      for name in Self.names {
        try await topology.send(name, KettleEvent.switchOn)
        try await topology.send(name, KettleEvent.switchOff)
        try await topology.expect(name, KettleState.off)
        try await topology.expectStatus(of: name, "nothing to be under way") {
          $0.status?.effects == 0
        }
      }
    }
  }

  @Test(
    "A child feature in a separate node is part of its parent's state from the start")
  func reflected() async throws {
    try await withTopology("topologies/counter.yaml") { topology in
      func expect(_ child: CounterFeature.State, increments: Int) async throws {
        try await topology.expect(
          "tally", TallyFeature.State(counter: child, increments: increments),
          within: .seconds(20))
      }
      try await expect(.init(), increments: 0)
      for _ in 1...2 { try await topology.send("counter", CounterFeature.Action.increment) }
      try await expect(.init(count: 2), increments: 2)
      // The parent is dead while the child continues.
      try await topology.pause("tally")
      try await topology.send("counter", CounterFeature.Action.increment)
      try await topology.kill("tally")
      try await expect(.init(count: 3), increments: 3)
    }
  }

  @Test("A child feature in a separate node notifies its parent of each action once")
  func counter() async throws {
    try await withTopology("topologies/counter.yaml") { topology in
      for round in 1...20 {
        try await topology.send("counter", CounterFeature.Action.increment)
        if round.isMultiple(of: 5) { try await topology.kill(round == 10 ? "tally" : "counter") }
      }
      try await topology.send("counter", CounterFeature.Action.decrement)
      try await topology.expect("counter", CounterFeature.State(count: 19), within: .seconds(20))
      try await topology.expect(
        "tally", TallyFeature.State(counter: .init(count: 19), increments: 20, decrements: 1),
        within: .seconds(20))
    }
  }

  @Test("An actor model keeps its state when its node is restarted")
  func model() async throws {
    try await withTopology("topologies/example.yaml") { topology in
      try await topology.send("example", ExampleModel.Event.eventA)
      try await topology.expect("example", ExampleState.state3(message: "start, done"))
      try await topology.kill("example")
      try await topology.send("example", ExampleModel.Event.eventB(param: 7))
      try await topology.expect("example", ExampleState.state1(message: "7"))
    }
  }

  @Test("A model with an unstable first state is reported as an error in the topology file")
  func unstable() async throws {
    let text = """
      topology: wobblers
      program: TestNodes
      nodes:
        good: { machine: Wobbler }
        bad: { machine: Wobbler, parameters: { wobbles: true } }
        shown: { machine: Wobbler, constant: wobbling }
      """
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(text, to: "t.yaml")
    for verb in ["check", "run"] {
      let result = try await tool.run(verb, "t.yaml", code: 2)
      #expect(result.error.contains("t.yaml:5:"), "\(result)")
      #expect(
        result.error.contains(
          "state 'wobbling' is not stable; start the model in a state"), "\(result)")
      #expect(result.error.split(separator: "\n").count == 1, "\(result)")
    }
  }
}
