import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire
import Testing

@Suite("The wiring check")
struct TopologyCheckerTests {
  /// Returns a correct wiring with one more pipe, which is on line 9 from column 5.
  private func withRule(_ pipe: String) -> String {
    withNodes(
      """
      door: { machine: ElevatorDoor }
      display: { machine: FloorDisplay }
      types: { machine: Types }
      """) + "pipes:\n  - { from: door.arrivals, to: display.updates }\n  - \(pipe)\n"
  }

  @Test(
    "Pipes that match their machines are accepted",
    arguments: [
      "{ from: door.arrivals, to: display }",
      "{ from: door, when: closed, to: display.updates, send: refresh }",
      "{ from: door, when: closed, to: display, send: { refresh: {} } }",
      "{ from: door, when: open, to: display, send: { persons: { count: $persons } } }",
      "{ from: door, when: open, to: types, send: { maybe: { _0: $persons } } }",
      "{ from: door, when: open, to: types, send: { string: { _0: 'at $persons$$' } } }",
      "{ from: door, when: open, to: types, send: { list: { _0: [1, $persons] } } }",
      "{ from: door, when: open, to: types, send: { own: { _0: red } } }",
      "{ from: door, when: open, to: types, send: { maybe: {} } }",
      "{ from: door, when: open, to: types, send: { double: { _0: 1 } } }",
      "{ from: door, when: open, to: types, send: { byte: { _0: 255 } } }",
    ])
  func fits(pipe: String) throws {
    #expect(try Described.check(withRule(pipe)) == [])
  }

  @Test(
    "Pipes that do not match their machines are refused with location and valid alternatives",
    arguments: [
      (
        "{ from: door.arrival, to: display }", "9:13", "unknown-port",
        "node 'door' has no out-port 'arrival'; it has 'arrivals'. Did you mean 'arrivals'?"
      ),
      (
        "{ from: door.arrivals, to: display.update }", "9:32", "unknown-port",
        "node 'display' has no in-port 'update'; it has 'updates'. Did you mean 'updates'?"
      ),
      (
        "{ from: display.x, to: door }", "9:13", "unknown-port",
        "node 'display' has no out-port 'x'; it has none"
      ),
      (
        "{ from: door, when: close, to: display, send: refresh }", "9:25", "unknown-state",
        "machine 'ElevatorDoor' of node 'door' has no state 'close'; it has 'open', 'closing', "
          + "'closed'. Did you mean 'closed'?"
      ),
      (
        "{ from: door, when: closed, to: display, send: refesh }", "9:52", "unknown-event",
        "machine 'FloorDisplay' of node 'display' has no event 'refesh'; it has 'refresh', "
          + "'floor', 'persons'. Did you mean 'refresh'?"
      ),
      (
        "{ from: door, when: closed, to: display, send: { flor: { number: 1 } } }", "9:54",
        "unknown-event", Suggestion.hint("floor")
      ),
      (
        "{ from: door, when: closed, to: display, send: floor }", "9:52", "missing-field",
        "field 'number' of event 'floor(number: Int)' is missing; write '{\"floor\":{\"number\":1}}'"
      ),
      (
        "{ from: door, when: closed, to: display, send: { floor: { number: 1, nmber: 2 } } }",
        "9:74", "unknown-field",
        "event 'floor(number: Int)' has no field 'nmber'; it has 'number'. Did you mean 'number'?"
      ),
      (
        "{ from: door, when: closed, to: display, send: { floor: { number: one } } }", "9:71",
        "type-mismatch", "cannot be \"one\"; write a value of type Int"
      ),
      (
        "{ from: door, when: open, to: display, send: { floor: { number: $person } } }", "9:50",
        "unknown-variable",
        "state 'open' has no value '$person'; it has '$persons'. Did you mean '$persons'?"
      ),
      (
        "{ from: door, when: closed, to: display, send: { floor: { number: $persons } } }", "9:52",
        "unknown-variable", "state 'closed' has no value '$persons'; it has none"
      ),
      (
        "{ from: door, when: open, to: types, send: { string: { _0: $persons } } }", "9:64",
        "type-mismatch", "cannot be '$persons', which has type Int; use a value of type String"
      ),
      (
        "{ from: door, when: open, to: types, send: { int: { _0: 'a $persons' } } }", "9:61",
        "type-mismatch", "write a value of type Int"
      ),
      (
        "{ from: door, when: open, to: types, send: { byte: { _0: 256 } } }", "9:62",
        "type-mismatch", "cannot be 256; write a value of type UInt8"
      ),
      (
        "{ from: door, when: open, to: types, send: { list: { _0: [1, a] } } }", "9:62",
        "type-mismatch", "write a value of type Array<Int>"
      ),
      (
        "{ from: door, when: open, to: types, send: { bool: { _0: 1 } } }", "9:62",
        "type-mismatch", "write a value of type Bool"
      ),
      (
        "{ from: door, when: open, to: types, send: never }", "9:48", "not-in-alphabet",
        "machine 'Types' of node 'types' does not accept event 'never' in any state"
      ),
      (
        "{ from: door.arrivals, to: types }", "9:32", "unlike-events",
        "sends 'refresh', which machine 'Types' of node 'types' does not declare, nor 'floor', "
          + "'persons'"
      ),
    ])
  func misfits(pipe: String, place: String, code: String, message: String) throws {
    let found = try Described.check(withRule(pipe))
    #expect(found.count == 1, "\(found)")
    #expect(found.first?.contains(message) == true, "\(found)")
    #expect(found.allSatisfy { $0.hasPrefix("test.yaml:\(place): error: pipe '") }, "\(found)")
    #expect(found.allSatisfy { $0.hasSuffix("[\(code)]") }, "\(found)")
  }

  @Test(
    "Pipes beside a malformed pipe are still checked, and their errors have the right locations")
  func malformedBeside() throws {
    let text =
      withRule("{ from: door, when: closed, to: display }")
        + """
          - { from: door, when: close, to: display, send: refresh }
          - { frm: door }
          - { from: door.arrivals, to: display.update, name: last }

        """
    let (topology, source, found) = try TopologyReader.examine(
      text: Array(text.utf8), file: "test.yaml", variables: .init([:]))
    #expect(topology.pipes.map(\.receiver) == ["display", "display", "display"])
    #expect(found.allSatisfy { $0.line == 9 || $0.line == 11 } && found.hasErrors, "\(found)")
    let wiring = TopologyChecker.check(
      topology, source: source, against: .init(programs: ["nodes": Described.program]))
    #expect(wiring.map(\.code) == [.unknownState, .unknownPort])
    #expect(wiring.map { [$0.line, $0.column] } == [[10, 25], [12, 32]])
  }

  @Test("Connected ports with different events cause one error that names the differing case")
  func unlike() throws {
    var other = Described.display
    other.inPorts[0].events[1].fields[0].type = "String"
    other.inPorts[0].events.removeLast()
    let text = withPipe("{ from: door.arrivals, to: display.updates }")
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "t")
    let found = TopologyChecker.check(
      topology, source: source,
      against: .init(programs: ["nodes": Described.program], nodes: ["display": other]))
    #expect(
      found.map(\.description) == [
        "t:7:32: error: pipe 'door.arrivals->display.updates': out-port 'arrivals' of node 'door' "
          + "sends 'floor(number: Int)', but in-port 'updates' of node 'display' declares "
          + "'floor(number: String)'; other events differ, too: 'persons'; connect ports of the "
          + "same event type [unlike-events]"
      ])
  }

  @Test("An output without an effect causes a warning at its node")
  func unmappedOutputs() throws {
    var other = Described.motor
    other.outputs = [.init(name: "hum"), .init(name: "log")]
    other.unmappedOutputs = ["hum", "log"]
    let text = withNodes("m: { machine: ElevatorMotor }")
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "t")
    let found = TopologyChecker.check(
      topology, source: source,
      against: .init(programs: ["nodes": Described.program], nodes: ["m": other]))
    #expect(
      found.map(\.description) == [
        "t:4:6: warning: node 'm': machine 'ElevatorMotor' maps outputs 'hum', 'log' to no effect, so executing "
          + "them does nothing; map them in the machine's runtime [unmapped-output]"
      ])
  }

  @Test("A model cannot have instances, and the error is reported at 'key'")
  func modelWithKey() throws {
    var model = Described.motor
    model.runsModel = true
    let text = withNodes("m: { machine: ElevatorMotor, key: order }")
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "t")
    let found = TopologyChecker.check(
      topology, source: source,
      against: .init(programs: ["nodes": Described.program], nodes: ["m": model]))
    #expect(
      found.map(\.description) == [
        "t:4:37: error: node 'm': machine 'ElevatorMotor' runs a model; a node with 'key' runs machines that are "
          + "written in the language, or as a function of state and event [bad-value]"
      ])
  }

  @Test("A warning can be silenced by its code in the file, and an error cannot")
  func silence() throws {
    func found(_ codes: String) throws -> [Diagnostic.Code] {
      let text = withNodes(
        "m: { machine: M, parameters: { home: $HOME } }", and: "silence: \(codes)\n")
      let examined = try TopologyReader.examine(
        text: Array(text.utf8), file: "t", variables: .init([:]))
      return examined.diagnostics.without(warnings: examined.topology.silence).map(\.code)
    }
    #expect(try found("[unconnected-port]") == [.plainDollar])
    #expect(try found("[unconnected-port, plain-dollar]") == [])
    #expect(try found("[plain-dolar]") == [.plainDollar, .badValue])
    let read = try TopologyReader.read(
      text: withNodes("m: { machine: M }", and: "silence: [plain-dollar]\n").utf8, file: "t"
    ).topology
    #expect(read.silence == [.plainDollar])
    #expect(try TopologyReader.read(text: read.yaml.utf8, file: "t").topology == read)
  }

  @Test("An error names each machine and monitor that the program does not have")
  func unknownParts() throws {
    let text = withNodes(
      "d: { machine: FloorDispaly }", and: "monitors: { m: { monitor: StatLog } }\n")
    let found = try Described.check(text)
    #expect(found.count == 2)
    #expect(found[0].hasPrefix("test.yaml:4:17: error: node 'd': program 'nodes' has no machine"))
    #expect(found[0].hasSuffix(Suggestion.hint("FloorDisplay") + " [unknown-machine]"))
    #expect(
      found[1]
        == "test.yaml:5:27: error: monitor 'm': program 'nodes' has no monitor 'StatLog'; it "
        + "has 'StateLog'. Did you mean 'StateLog'? [unknown-monitor]")
  }

  @Test("An out-port without a pipe causes a warning, even if the node has other pipes")
  func unconnected() throws {
    let found = try Described.check(
      withPipe("{ from: door, when: closed, to: display, send: refresh }"))
    #expect(
      found == [
        "test.yaml:4:9: warning: node 'door': out-port 'arrivals' is not connected, so its events "
          + "are discarded; add a pipe from 'door.arrivals' [unconnected-port]"
      ])
  }

  @Test(
    "A misspelt port causes one error, and the intended port is not reported as unconnected"
  )
  func misspeltPort() throws {
    let misspelt = try Described.check(withPipe("{ from: door.arrival, to: display.updates }"))
    #expect(misspelt.count == 1 && misspelt[0].hasSuffix("[unknown-port]"), "\(misspelt)")
    let unlike = try Described.check(withPipe("{ from: door.out, to: display.updates }"))
    #expect(unlike.count == 1 && unlike[0].hasSuffix("[unknown-port]"), "\(unlike)")
    // Only the port with the most similar name is meant.
    var door = Described.door
    door.outPorts.append(PortDescription(name: "bell", eventType: "E", events: []))
    let (topology, source) = try TopologyReader.read(
      text: withPipe("{ from: door.arrival, to: display.updates }").utf8, file: "t")
    let found = TopologyChecker.check(
      topology, source: source,
      against: .init(programs: ["nodes": Described.program], nodes: ["door": door]))
    #expect(found.map(\.code) == [.unconnectedPort, .unknownPort])
    #expect(found.first?.message.contains("out-port 'bell'") == true)
  }

  @Test("The state of a constant must match the machine that the constant names")
  func constants() throws {
    func check(_ constant: String) throws -> [String] {
      try Described.check(withNodes("c: { machine: ElevatorDoor, constant: \(constant) }"))
    }
    #expect(try check("closed") == [])
    #expect(try check("{ closing: { persons: 3 } }") == [])
    #expect(try check("{ closing: { persons: x } }").first?.contains(":4:63: ") == true)
    #expect(try check("{ closing: { persons: $x } }").first?.contains("[type-mismatch]") == true)
    #expect(
      try check("closng").first?.contains(Suggestion.hint("closing") + " [unknown-state]") == true)
    #expect(try check("open").first?.contains("[missing-field]") == true)
    #expect(try Described.check(withNodes("c: { constant: anything }")) == [])
  }

  @Test(
    "A state dependency must name a state of the other node",
    arguments: [
      ("motor: { state: idle }", nil), ("motor: { state: { idle: { floor: 0 } } }", nil),
      ("motor: ready", nil), ("fixed: { state: closed }", nil),
      (
        "motor: { state: idel }",
        "7:63: error: node 'a': node 'motor' has no state 'idel'; it has 'idle', 'moving'. Did you "
          + "mean 'idle'? [unknown-state]"
      ),
      (
        "motor: { state: { idle: { flor: 0 } } }",
        "7:63: error: node 'a': state 'idle(floor: Int)' has no field 'flor'; it has 'floor'. Did "
          + "you mean 'floor'? [unknown-state]"
      ),
      (
        "counter: { state: counting }",
        "7:65: error: node 'a': the state of node 'counter' is a struct: write some of its fields, "
          + #"as in '{"count":1}' [unknown-state]"#
      ),
      ("counter: { state: { note: x } }", nil),
      (
        "counter: { state: { coutn: 1 } }",
        "7:65: error: node 'a': the state of node 'counter' has no field 'coutn'; it has 'count', "
          + "'note'. Did you mean 'count'? [unknown-state]"
      ),
    ] as [(String, String?)])
  func awaitedStates(dependency: String, problem: String?) throws {
    var counter = Described.machine("Types", initial: ["count": 0], states: [], events: [])
    counter.stateFields = [.init(name: "count", type: "Int"), .init(name: "note", type: "String")]
    let text = withNodes(
      """
      motor: { machine: ElevatorMotor }
      fixed: { machine: ElevatorDoor, constant: closed }
      counter: { machine: Types }
      a: { machine: WashingMachine, depends_on: { \(dependency) } }
      """)
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "t")
    let found = TopologyChecker.check(
      topology, source: source,
      against: .init(programs: ["nodes": Described.program], nodes: ["counter": counter]))
    #expect(found.map(\.description) == (problem.map { ["t:\($0)"] } ?? []))
  }

  @Test("A pipe's rule can use the values of a constant's state")
  func constantRule() throws {
    func check(_ variable: String) throws -> [String] {
      try Described.check(
        withNodes("c: { constant: { s: { n: 3 } } }\nd: { machine: FloorDisplay }")
          + "pipes: [{ from: c, when: s, to: d, send: { floor: { number: \(variable) } } }]\n")
    }
    #expect(try check("$n") == [])
    #expect(try check("$m").first?.contains("[unknown-variable]") == true)
  }

  @Test("Machines without a description are not checked")
  func undescribed() throws {
    let text = withPipe("{ from: door, when: x, to: display.y, send: z }")
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "t")
    #expect(TopologyChecker.check(topology, source: source, against: .init(programs: [:])) == [])
  }
}
