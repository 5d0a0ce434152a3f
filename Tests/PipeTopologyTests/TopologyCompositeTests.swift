import FoundationEssentials
import PipeMachines
import PipeTopology
import PipeWire
import Testing

@Suite("Composites of a topology")
struct TopologyCompositeTests {
  @Test("The participants of an event can be listed, or omitted in a mapping or a list")
  func forms() throws {
    func synchronize(_ text: String) throws -> [Synchronization] {
      let composites = "lift: { components: [door, motor], synchronize: \(text) }"
      return try topology(Described.withLift(composites: composites)).composites[0].synchronize
    }
    #expect(
      try synchronize("{ go: [motor, door], open: }") == [
        Synchronization("go", participants: ["motor", "door"]), "open",
      ])
    #expect(try synchronize("[open, go]") == ["open", "go"])
    #expect(try synchronize("{}") == [])
  }

  @Test(
    "Composites that match their machines are accepted",
    arguments: [
      "lift: { components: [door, motor] }",
      "lift: { components: [door, motor], synchronize: [open, go] }",
      "lift: { components: [door, motor], synchronize: { go: }, projection: LiftState }",
      "a: { components: [door, motor], synchronize: [go] }\nb: { components: [a, odd, panel] }",
      "a: { components: [door, motor], synchronize: [open] }\n"
        + "b: { components: [a, odd], synchronize: [open] }",
      "a: { components: [door, motor], synchronize: [open] }\n"
        + "b: { components: [door, odd], synchronize: [open] }",
      "lift: { components: [door, motor], synchronize: [open, go], within: motor }",
      "a: { components: [door, motor], synchronize: [open], within: door }\n"
        + "b: { components: [door, odd], synchronize: [open] }",
      "a: { components: [door, motor], synchronize: [open], within: door }\n"
        + "b: { components: [door, odd], synchronize: [open], within: door }",
    ])
  func fits(composites: String) {
    #expect(Described.problems(Described.withLift(composites: composites)).found == [])
  }

  @Test(
    "Composites that do not match their machines are refused with location and alternatives",
    arguments: [
      (
        "lift: { components: [door, ^moter] }", "unknown-node",
        "no such node or composite 'moter'; the topology has 'door', 'motor', 'odd', 'panel', "
          + "'preview'. Did you mean 'motor'?"
      ),
      ("lift: { components: [door, ^preview] }", "bad-component", "'preview' is constant"),
      ("lift: { components: [door, ^audit] }", "bad-component", "'audit' is a monitor"),
      (
        "a: { components: [door, ^b] }\nb: { components: [motor, a] }", "composite-cycle",
        "composites contain each other: a > b > a"
      ),
      (
        "lift: { components: [door, motor], synchronize: { open: [door, ^moter] } }",
        "unknown-participant",
        "'moter' is not a component of the composite; the components are 'door', 'motor'. Did you "
          + "mean 'motor'?"
      ),
      (
        "lift: { components: [door, motor], synchronize: { close: [door, ^motor] } }",
        "not-in-alphabet",
        "participant 'motor' does not accept the event in any state; it accepts "
          + "'open', 'go'"
      ),
      (
        "lift: { components: [door, motor], synchronize: { ring: [^door, motor] } }",
        "not-in-alphabet", "more than one"
      ),
      (
        "lift: { components: [door, motor], synchronize: [go, ^close] }", "too-few-participants",
        "only 'door' accepts it; a synchronized event requires two or more participants"
      ),
      (
        "lift: { components: [door, motor], synchronize: [go, ^opn] }", "too-few-participants",
        "no component accepts it; a synchronized event requires two or more participants; they accept "
          + "'open', 'close', 'go', 'arrive'. Did you mean 'open'?"
      ),
      (
        "a: { components: [door, motor] }\nb: { components: [a, odd], synchronize: { ^open: } }",
        "ambiguous-event", "participant 'a' could accept it in 2 ways: door or motor"
      ),
      (
        "lift: { components: [door, odd, motor], synchronize: { go: [door, ^odd, motor] } }",
        "unlike-payloads",
        "participant 'odd' declares 'go(floor: String)', and 'motor' declares 'go(floor: Int)'"
      ),
      (
        "lift: { components: [door, motor], projection: ^LiftStat }", "unknown-projection",
        "program 'nodes' has no composite state 'LiftStat'; it has 'LiftState'. Did you mean"
      ),
      (
        "lift: { components: [door, motor, panel], projection: ^LiftState }", "unlike-projection",
        "projection 'LiftState' takes 2 states (LiftDoor.State, LiftMotor.State), but the "
          + "composite has 3 nodes (door, motor, panel)"
      ),
      (
        "lift: { components: [door, panel], projection: ^LiftState }", "unlike-projection",
        "takes LiftMotor.State as its state 2, but node 'panel' with machine 'LiftPanel' has other"
      ),
      (
        "a: { components: [door, motor], synchronize: [go] }\n"
          + "b: { components: [door, motor], synchronize: [open], program: ^other }",
        "unlike-programs", "use one program for both"
      ),
      (
        "lift: { components: [door, motor], synchronize: [go], within: ^moter }", "unknown-node",
        "no such node 'moter'; it has 'door', 'motor'. Did you mean 'motor'?"
      ),
      (
        "lift: { components: [door, motor], synchronize: [open], within: ^panel }", "bad-host",
        "node 'panel' does not participate in its events; participants are 'door', 'motor'"
      ),
      (
        "lift: { components: [door, motor], synchronize: [open], within: ^preview }", "bad-host",
        "node 'preview' is constant and does not participate"
      ),
      (
        "lift: { components: [door, motor], synchronize: [open], within: ^audit }", "bad-host",
        "'audit' is a monitor, not a node"
      ),
      (
        "lift: { components: [door, motor], synchronize: [open], within: ^lift }", "bad-host",
        "'lift' is a composite, not a node; name the node whose process embeds the coordinator"
      ),
      (
        "a: { components: [door, motor], synchronize: [open], within: door }\n"
          + "b: { components: [door, odd], synchronize: [open], within: ^odd }",
        "bad-host", "'within' names different nodes: 'odd' and 'door'"
      ),
      (
        "lift: { components: [door, motor], synchronize: [open], program: other, within: ^door }",
        "bad-host",
        "program 'other' coordinates the composite, but node 'door' runs program "
          + "'nodes'"
      ),
    ])
  func misfits(composites: String, code: String, message: String) {
    let (found, place) = Described.problems(Described.withLift(composites: composites))
    if message != "more than one" { #expect(found.count == 1, "\(found)") }
    let first = found.first ?? ""
    #expect(first.hasPrefix("test.yaml:\(place): error: "), "\(found), not at \(place)")
    #expect(found.contains { $0.contains(message) } || message == "more than one", "\(found)")
    #expect(first.hasSuffix("[\(code)]"), "\(found)")
  }

  @Test("Errors of a composite's events and of its projection are reported together")
  func allAtOnce() {
    let lift = "{ components: [motor, door], synchronize: [close], projection: LiftState }"
    let (found, _) = Described.problems(Described.withLift(composites: "lift: \(lift)"))
    #expect(found.count == 3, "\(found)")
    #expect(found.filter { $0.hasSuffix("[unlike-projection]") }.count == 2)
  }

  private static let lift = "lift: { components: [door, motor], synchronize: [open, go] }"

  @Test(
    "A pipe can send synchronized events to a composite and other events to a node",
    arguments: [
      "[{ from: panel, when: idle, to: lift, send: open }]",
      "[{ from: panel, when: pressed, to: lift, send: { go: { floor: $floor } } }]",
      "[{ from: panel.calls, to: lift }]", "[{ from: panel.doors, to: lift }]",
      "[{ from: panel, when: idle, to: door, send: close }]", "[{ from: panel.closes, to: door }]",
      "[{ from: panel.shuts, to: door }]", "[{ from: panel.opens, to: lift }]",
      "[{ from: panel, when: idle, to: lift, send: close }]",
    ])
  func pipes(pipes: String) {
    let text = Described.withLift(composites: Self.lift, pipes: pipes)
    #expect(Described.problems(text).found == [])
  }

  @Test(
    "A pipe that bypasses a composite is refused, and the error names the composite",
    arguments: [
      (
        "[{ from: panel, when: idle, to: ^door, send: open }]", "synchronized-event",
        "node 'door' accepts 'open' only as a synchronized event; send the event to composite "
          + "'lift'"
      ),
      (
        "[{ from: panel.calls, to: ^motor }]", "synchronized-event",
        "out-port 'calls' of node 'panel' sends 'go', which node 'motor' accepts only as "
          + "synchronized events; send these events to composite 'lift'"
      ),
      (
        "[{ from: panel.opens, to: ^door }]", "synchronized-event",
        "out-port 'opens' of node 'panel' sends 'open', which node 'door' accepts only as "
          + "synchronized events; send these events to composite 'lift' ["
      ),
      (
        "[{ from: panel.turns, to: ^door }]", "synchronized-event",
        "out-port 'turns' of node 'panel' sends 'open', which node 'door' accepts only as "
          + "synchronized events; send these events to composite 'lift', from a separate port"
      ),
      (
        "[{ from: panel.turns, to: ^lift }]", "not-synchronized",
        "composite 'lift' does not synchronize 'close', which out-port 'turns' of node 'panel' "
          + "also sends; send these events to a node, from a separate port"
      ),
      (
        "[{ from: panel.shuts, to: ^lift }]", "not-synchronized",
        "composite 'lift' synchronizes no event of out-port 'shuts' of node 'panel', which sends "
          + "'close'; connect the port to a node"
      ),
      (
        "[{ from: panel, when: idle, to: lift, send: ^opn }]", "not-synchronized",
        "composite 'lift' has no event 'opn'; it synchronizes 'go', 'open'. Did you mean 'open'?"
      ),
      (
        "[{ from: panel.closes, to: ^lift }]", "not-synchronized",
        "composite 'lift' synchronizes no event of out-port 'closes' of node 'panel'"
      ),
      (
        "[{ from: panel, when: idle, to: lift, send: ^go }]", "missing-field",
        "field 'floor' of event 'go(floor: Int)' is missing"
      ),
      (
        "[{ from: panel.calls, to: ^lift.in }]", "unknown-port",
        "'lift' is a composite and has no in-port 'in'; write 'to: lift'"
      ),
      (
        "[{ from: panel, when: idle, to: lift, send: { close: { ^fast: true } } }]",
        "unknown-field",
        "has no field 'fast'"
      ),
    ])
  func misledPipes(pipes: String, code: String, message: String) {
    let text = Described.withLift(composites: Self.lift, pipes: pipes)
    let (found, place) = Described.problems(text)
    #expect(found.count == 1, "\(found)")
    let first = found.first ?? ""
    #expect(first.hasPrefix("test.yaml:\(place): error: "), "\(found), not at \(place)")
    #expect(first.contains(message), "\(found)")
    #expect(first.hasSuffix("[\(code)]"), "\(found)")
  }

  private static let shown =
    "lift: { components: [door, motor], synchronize: [open, go], projection: LiftState }"

  @Test(
    "A pipe can start at a composite, from a state of the composite's projection or nodes",
    arguments: [
      (shown, "[{ from: lift, when: moving, to: panel, send: { press: { floor: 1 } } }]"),
      (
        lift,
        "[{ from: lift, when: { door: closed, motor: moving }, to: panel, "
          + "send: { press: { floor: 1 } } }]"
      ),
      (lift, "[{ from: lift, when: { motor: standing }, to: lift, send: close, name: shut }]"),
    ])
  func rules(composites: String, pipes: String) throws {
    let text = Described.withLift(composites: composites, pipes: pipes)
    #expect(Described.problems(text).found.allSatisfy { $0.hasSuffix("[self-pipe]") })
    let read = try topology(text)
    #expect(read.pipes[0].sender == "lift")
    // The written file reads back to equal pipes.
    let written = try topology(read.yaml)
    #expect(written.pipes == read.pipes)
  }

  @Test(
    "An invalid rule of a composite is refused at its location with the valid alternatives",
    arguments: [
      (
        shown, "[{ from: lift, when: ^movin, to: door, send: close }]", "unknown-state",
        "composite state 'LiftState' of composite 'lift' has no state 'movin'; it has 'waiting', "
          + "'moving'. Did you mean 'moving'?"
      ),
      (
        shown, "[{ from: lift, when: ^{ door: open }, to: door, send: close }]", "bad-value",
        "composite 'lift' has projection 'LiftState'; name a state of the projection: 'when: STATE'"
      ),
      (
        lift, "[{ from: lift, when: ^moving, to: door, send: close }]", "bad-value",
        "composite 'lift' has no projection, and therefore no state 'moving'"
      ),
      (
        lift, "[{ from: lift, when: { ^dor: open }, to: door, send: close }]", "unknown-node",
        "composite 'lift' has no node 'dor'; it has 'door', 'motor'. Did you mean 'door'?"
      ),
      (
        lift, "[{ from: lift, when: { door: ^opn }, to: door, send: close }]", "unknown-state",
        "machine 'LiftDoor' of node 'door' has no state 'opn'; it has 'closed', 'open'"
      ),
      (
        lift, "[{ from: ^lift.out, to: door }]", "unknown-port",
        "'lift' is a composite and has no out-port 'out'; write 'from: lift' with 'when' and 'send'"
      ),
      (
        lift, "[{ from: panel, when: ^{ panel: idle }, to: door, send: close }]", "bad-value",
        "'panel' is a node and has one state; write 'when: STATE'"
      ),
      (
        lift, "[{ from: lift, when: ^{}, to: door, send: close, name: p }]", "bad-value",
        "is empty; name nodes of the composite, each with a state"
      ),
      (
        lift,
        "[{ from: lift, when: { door: open }, to: panel, send: { press: { ^floor: $panel } } }]",
        "unknown-variable", "state 'lift' has no value '$panel'"
      ),
    ])
  func misledRules(composites: String, pipes: String, code: String, message: String) {
    let (found, place) = Described.problems(
      Described.withLift(composites: composites, pipes: pipes))
    #expect(found.count == 1, "\(found)")
    let first = found.first ?? ""
    if code != "unknown-variable" {
      #expect(first.hasPrefix("test.yaml:\(place): error: "), "\(found), not at \(place)")
    }
    #expect(first.contains(message), "\(found)")
    #expect(first.hasSuffix("[\(code)]"), "\(found)")
  }

  @Test("A warning is reported if effects can produce an event that several composites synchronize")
  func ambiguousEffect() {
    let composites = """
      a: { components: [door, odd], synchronize: [open] }
      b: { components: [motor, odd], synchronize: [open] }
      """
    let (found, _) = Described.problems(Described.withLift(composites: composites))
    #expect(found.count == 1, "\(found)")
    let first = found.first ?? ""
    #expect(
      first.hasPrefix(
        "test.yaml:6:8: warning: node 'odd' accepts 'open' through composite 'a' or 'b': an effect "
          + "that sends 'open' ends the node"), "\(found)")
    #expect(first.hasSuffix("[ambiguous-event]"), "\(found)")
    let once = "a: { components: [door, odd], synchronize: [open] }"
    #expect(Described.problems(Described.withLift(composites: once)).found == [])
  }

  @Test("No warning is reported if the effects are declared not to produce the ambiguous event")
  func declaredEffect() throws {
    let composites = """
      a: { components: [door, odd], synchronize: [open] }
      b: { components: [motor, odd], synchronize: [open] }
      """
    let text = Described.withLift(composites: composites)
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "t")
    for (gives, codes) in [(["go"], []), (["open"], [Diagnostic.Code.ambiguousEvent])] {
      var odd = try #require(Described.lift.first { $0.machine == "OddMotor" })
      odd.effects = [
        EffectDescription(name: "hum", producedEvents: gives, mayEndWithoutEvent: true)
      ]
      let found = TopologyChecker.check(
        topology, source: source,
        against: .init(programs: ["nodes": Described.program], nodes: ["odd": odd]))
      #expect(found.map(\.code).filter { $0 == .ambiguousEvent } == codes)
    }
  }

  @Test("A pipe to a node causes a warning if its port can also send a synchronized event")
  func mixedPort() {
    let pipes = "[{ from: panel.doors, to: ^door }]"
    let (found, place) = Described.problems(
      Described.withLift(composites: Self.lift, pipes: pipes))
    #expect(found.count == 1, "\(found)")
    #expect(found.first?.hasPrefix("test.yaml:\(place): warning: ") == true, "\(found)")
    #expect(found.first?.contains("can send 'open'") == true, "\(found)")
  }

  @Test("A composite's plan has all data for its coordinator, and is unchanged by JSON coding")
  func plans() throws {
    let text = Described.withLift(
      composites: """
        lift: { components: [door, motor], synchronize: [open, go], projection: LiftState }
        house: { components: [lift, panel] }
        alone: { components: [odd] }
        """)
    let topology = try topology(text)
    let machines = Dictionary(
      uniqueKeysWithValues: topology.nodes.filter { $0.constant == nil }.map { node in
        (node.name, Described.program.machine(node.machine!)!)
      })
    let plans = try TopologyComposites(topology, machines: machines).coordinatorPlans
    #expect(plans.map { $0.composites.map(\.name) } == [["lift", "house"], ["alone"]])
    let plan = plans[0]
    #expect(plan.name == "lift")
    #expect(plan.program == "nodes")
    #expect(plan.durability == .process)
    #expect(plan.participants == ["door", "motor"])
    #expect(plan.components.map(\.node) == ["door", "motor", "panel"])
    #expect(plan.components.map(\.initial) == ["closed", ["standing": ["floor": 0]], "idle"])
    #expect(plan.synchronizedEvents(of: "door") == ["open": ["lift"], "go": ["lift"]])
    #expect(plan.synchronizedEvents(of: "panel") == [:])
    let lift = try #require(plan["lift"])
    #expect(lift.projection == "LiftState")
    #expect(lift.vectors.map(\.description) == ["lift.go(door, motor)", "lift.open(door, motor)"])
    #expect(lift.events.map(\.signature) == ["go(floor: Int)", "open"])
    #expect(
      lift.refusal(of: "close")
        == "composite 'lift' does not synchronize 'close'; send it to 'door'")
    #expect(lift.nodesByOwnEvent == ["close": "door", "arrive": "motor"])
    #expect(
      lift.refusal(of: "opn")
        == "composite 'lift' has no event 'opn'; it synchronizes 'go', 'open'. Did you mean "
        + "'open'?")
    let house = try #require(plan["house"])
    #expect(house.components == ["lift", "panel"])
    #expect(house.nodes == ["door", "motor", "panel"])
    #expect(house.vector(of: "go")?.composite == "lift")
    #expect(lift.evaluationLimitsByEvent == nil)
    var slow = machines
    slow["door"]?.selfContained = ["open": 200, "close": 9]
    slow["motor"]?.selfContained = ["open": 500]
    let limited = try #require(
      try TopologyComposites(topology, machines: slow).coordinatorPlans[0]["lift"])
    #expect(limited.evaluationLimitsByEvent == ["open": 500])
    let data = try JSONEncoder().encode(plans)
    #expect(try JSONDecoder().decode([ConflictClassPlan].self, from: data) == plans)
  }

  @Test("A program's description can omit its composite states")
  func descriptionWithoutComposites() throws {
    let json = #"{"program":"p","protocolVersion":1,"machines":[],"monitors":[]}"#
    let description = try JSONDecoder().decode(ProgramDescription.self, from: Data(json.utf8))
    let expected = ProgramDescription(
      program: "p", protocolVersion: 1, machines: [], embedsCoordinators: false,
      readsJournals: false)
    #expect(description == expected)
    let whole = try JSONEncoder().encode(Described.program)
    #expect(try JSONDecoder().decode(ProgramDescription.self, from: whole) == Described.program)
  }

  @Test("A composite's pipe is at most as durable as its components")
  func durability() {
    func problems(_ level: String) -> (found: [String], place: String) {
      Described.problems(
        Described.withLift(
          composites: Self.lift,
          pipes: "[{ from: panel, when: idle, to: lift, send: open, durability: ^\(level) }]"))
    }
    #expect(problems("process").found == [])
    let (found, place) = problems("power")
    #expect(found.count == 1, "\(found)")
    #expect(found.first?.hasPrefix("test.yaml:\(place): error: ") == true, "\(found)")
  }

  @Test("A composite's pipe for an event of one node is at most as durable as that node")
  func ownDurability() {
    let pipe = "{ from: panel, when: idle, to: lift, send: close, durability: ^process }"
    let file = Described.withLift(composites: Self.lift, pipes: "[\(pipe)]")
    #expect(Described.problems(file).found == [])
    let volatile = file.replacing(
      "door: { machine: LiftDoor }", with: "door: { machine: LiftDoor, durability: none }")
    let (found, place) = Described.problems(volatile)
    #expect(
      found == [
        "test.yaml:\(place): error: pipe 'panel:idle->lift:close': 'durability' cannot be "
          + "'process': the event goes to node 'door' of composite 'lift', which has the lower "
          + "durability 'none'; raise the node's 'durability', or remove the pipe's [bad-value]"
      ])
    // An event of all components is recorded by their coordinator.
    let others = volatile.replacing("send: close", with: "send: open")
    #expect(Described.problems(others).found == [])
  }

  @Test("Composites of undescribed machines are not checked")
  func undescribed() throws {
    let text = Described.withLift(
      composites: "lift: { components: [door, motor], synchronize: [nothing], projection: P }")
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "t")
    #expect(TopologyChecker.check(topology, source: source, against: .init(programs: [:])) == [])
  }
}
