import Compositions
import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

extension TopologyHarness {
  /// Waits until all participants of an event accept it. A coordinator connects to its participants
  /// after they have started, and a caller gets its reply before the participants get the commit.
  func expectEnabled(
    _ event: JSONValue, of name: String, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let isEnabled: Bool? = try await poll(within: .seconds(20), of: directory) {
      let verdict = try await client.why(name, json: event).verdict
      return verdict == .enabled || verdict == .undetermined ? true : nil
    }
    #expect(isEnabled == true, sourceLocation: sourceLocation)
  }
}

@Suite("Enabled events of a running topology", .timed)
struct WhyTests {
  /// Returns the verdict on each event. Traps if an event occurs twice.
  private static func verdicts(
    _ found: EnabledEvents
  ) -> [String: EventEnabledness.Verdict] {
    Dictionary(uniqueKeysWithValues: found.events.map { ($0.event.name, $0.verdict) })
  }

  @Test("A composite reports its synchronized events, and the events that belong to one component")
  func composite() async throws {
    try await withTopology(ExampleTopology.slowLift()) { topology in
      let client = topology.client
      try await topology.expectEnabled("open", of: "lift")
      let standing = try await client.enabledEvents(of: "lift")
      #expect(standing.kind == .composite)
      #expect(standing.state == ["waiting": ["floor": 0]])
      #expect(
        Self.verdicts(standing) == [
          "emergencyStop": .enabled, "go": .dependsOnValue, "open": .enabled, "reset": .blocked,
          "enter": .blocked, "close": .blocked, "floorReached": .blocked,
        ])
      let go = LiftMotor.Event.go(floor: 3)
      #expect(try await client.synchronize("lift", go).isCommitted)
      try await topology.expect("motor", LiftMotor.State.moving(from: 0, to: 3))
      try await topology.expectStatus(of: "door", "its step") { $0.status?.version == 1 }
      let moving = try await client.enabledEvents(of: "lift")
      #expect(
        Self.verdicts(moving) == [
          "emergencyStop": .enabled, "go": .blocked, "open": .blocked, "reset": .blocked,
          "enter": .blocked, "close": .blocked, "floorReached": .enabled,
        ])
      let open = try #require(moving.events.first { $0.event.name == "open" })
      #expect(open.composite == "lift")
      #expect(open.participants == ["door", "motor"])
      #expect(
        open.blockingAnswers == [
          .init(
            participant: "motor", state: ["moving": ["from": 0, "to": 3]], version: 1,
            blocker: .refused(.noTransition))
        ])
    }
  }

  @Test("Each participant evaluates a guard with the values of the event")
  func values() async throws {
    try await withTopology(ExampleTopology.slowLift()) { topology in
      let client = topology.client
      try await topology.expectEnabled("open", of: "lift")
      let any = try await client.why("lift", json: "go")
      #expect(any.events.map(\.verdict) == [.dependsOnValue])
      #expect(any.events[0].answers.map(\.verdict) == [.enabled, .dependsOnValue])
      let there = try await client.why("lift", LiftMotor.Event.go(floor: 3))
      #expect(there.verdict == .enabled)
      // A question to a node about a synchronized event goes to its composite.
      let here = try await client.why("door", json: ["go": ["floor": 0]])
      #expect(here.verdict == .blocked)
      #expect(here.events[0].blockingAnswers.map(\.participant) == ["motor"])
      #expect(here.events[0].blockingAnswers.map(\.blocker) == [.refused(.guard)])
      #expect(try await client.synchronize("lift", LiftMotor.Event.open).isCommitted)
      try await topology.expect("door", LiftDoor.State.open(persons: 0))
      let full = try await client.why("door", LiftDoor.Event.enter(persons: 9))
      #expect(full.events[0].composite == nil)
      #expect(full.events[0].blockingAnswers.map(\.blocker) == [.refused(.guard)])
      #expect(
        try await client.why("lift", LiftDoor.Event.enter(persons: 8)).verdict == .enabled)
    }
  }

  @Test("A node reports a verdict for each composite that synchronizes the same event")
  func overlapping() async throws {
    let table = try ExampleTopology.read(
      "philosophers.yaml", parameters: ["Philosopher": ["thought": 600_000, "meal": 600_000]])
    try await withTopology(table) { topology in
      let client = topology.client
      for seat in ["seat1", "seat2", "seat4"] { try await topology.expectEnabled("take", of: seat) }
      #expect(try await client.synchronize("seat1", json: "take").isCommitted)
      try await topology.expect("fork2", Fork.State.held)
      try await topology.expect("fork1", Fork.State.held)
      try await topology.expect("philosopher1", Philosopher.State.eating)
      let fork = try await client.why("fork2", json: "take")
      #expect(fork.events.map(\.composite) == ["seat1", "seat2"])
      #expect(
        fork.events.map { $0.blockingAnswers.map(\.participant) } == [
          ["fork1", "fork2", "philosopher1"], ["fork2"],
        ])
      let release = try await client.why("fork2", json: "release")
      #expect(release.events.map(\.verdict) == [.enabled, .blocked])
      #expect(release.verdict == .enabled)
      #expect(try await client.why("seat4", json: "take").verdict == .enabled)
      #expect(try await client.enabledEvents(of: "seat2").events.count == 2)
    }
  }

  @Test("A participant that is down, silent or not started blocks its events")
  func absent() async throws {
    try await withTopology(Parties.pair()) { topology in
      let client = topology.client
      func obstacles(_ name: String) async throws -> [String: EventBlocker] {
        let found = try await client.why(name, json: "meet", timeout: .seconds(3))
        let withheld = found.events.flatMap(\.blockingAnswers)
        return Dictionary(withheld.map { ($0.participant, $0.blocker!) }) { first, _ in first }
      }
      try await topology.expectEnabled("meet", of: "pair")
      try await topology.pause("right")
      #expect(try await obstacles("pair") == ["right": .silent(.seconds(3))])
      #expect(try await obstacles("left") == ["right": .silent(.seconds(3))])
      try await topology.resume("right")
      try await topology.stop("right")
      let stopped = try await obstacles("pair")
      guard case .down(let reason) = stopped["right"] else {
        throw UnexpectedResult("the right one is down, not \(stopped)")
      }
      #expect(reason.hasPrefix("stopped"))
      try await topology.stop("pair")
      #expect(try await Set(obstacles("pair").keys) == ["pair", "right"])
      // A node's own events do not depend on the coordinator.
      #expect(try await client.why("left", json: "step").verdict == .enabled)
    }
  }

  @Test("A full pipe blocks events that the sender's state would accept")
  func fullPipe() async throws {
    let buttons = Topology(
      name: "full", program: "TestNodes",
      nodes: [.machine("Button", name: "button"), .machine("Gate", name: "gate")],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "gate", send: "pass", name: "passes", capacity: 1)
      ])
    try await withTopology(buttons) { topology in
      try await topology.expectStatus(of: "button", "room in its pipe") {
        $0.status?.outs.first?.applied == 1
      }
      #expect(try await topology.client.why("button", json: "press").verdict == .enabled)
      try await topology.pause("gate")
      try await topology.send("button", Button.Event.press)
      let found = try await topology.client.why("button", json: "press")
      #expect(found.events[0].blockingAnswers.map(\.blocker) == [.pipesFull(["passes"])])
      try await topology.resume("gate")
      let again = try await poll(within: .seconds(10)) {
        try await topology.client.why("button", json: "press").verdict == .enabled ? true : nil
      }
      #expect(again == true)
    }
  }

  @Test("A query for the enabled events changes no state and no counter")
  func harmless() async throws {
    try await withTopology(ExampleTopology.slowLift()) { topology in
      try await topology.expectEnabled("open", of: "lift")
      #expect(try await topology.client.synchronize("lift", LiftMotor.Event.open).isCommitted)
      try await topology.expect("door", LiftDoor.State.open(persons: 0))
      try await topology.expectStatus(of: "motor", "its step") { $0.status?.version == 1 }
      func counts() async throws -> [[UInt64]] {
        try await topology.directory().nodes.map { node in
          [node.status?.version ?? 0, node.status?.events ?? 0, node.status?.refused ?? 0]
        }
      }
      let before = try await counts()
      for _ in 0..<5 {
        for name in ["lift", "door", "motor"] {
          _ = try await topology.client.enabledEvents(of: name)
          _ = try? await topology.client.why(name, json: ["go": ["floor": 2]])
        }
      }
      #expect(try await counts() == before)
      #expect(try await topology.client.why("door", json: "close").verdict == .enabled)
    }
  }

  @Test("A query for an unknown node or event is refused with the known names")
  func wrong() async throws {
    let questions: [(name: String, event: JSONValue, message: String)] = [
      ("lift", "opn", Suggestion.hint("open")),
      ("door", "opn", "machine 'LiftDoor' "), ("motor", "enter", "machine 'LiftMotor' "),
      ("house", "open", "'house'"), ("lift", ["go": ["flor": 1]], Suggestion.hint("floor")),
      ("door", ["enter": ["persons": "two"]], "field 'persons' of event"),
      ("preview", "open", TopologyClientError.constantProblem),
      ("audit", "open", TopologyClientError.monitorProblem),
    ]
    var lift = try ExampleTopology.slowLift()
    lift.nodes.append(.constant("closed", name: "preview", machine: "LiftDoor"))
    lift.monitors = [MonitorSpecification("StateLog", name: "audit")]
    try await withTopology(lift) { topology in
      for question in questions {
        do {
          _ = try await topology.client.why(question.name, json: question.event)
          Issue.record("\(question) was asked")
        } catch {
          #expect("\(error)".contains(question.message), "\(error)")
        }
      }
      let preview = try await topology.client.enabledEvents(of: "preview")
      #expect(preview.events == [])
    }
  }
}
