import Glibc
import PipeMachines
import PipeTopology
import PipeWire
import Testing

/// Returns the topology of a valid text.
func topology(_ text: String) throws -> Topology {
  try TopologyReader.read(text: text.utf8, file: "test.yaml").topology
}

/// Returns the reader's errors, one line each. Empty for a valid text.
func errors(_ text: some StringProtocol) -> [String] {
  do {
    _ = try TopologyReader.read(text: text.utf8, file: "test.yaml")
    return []
  } catch {
    return error.diagnostics.map(\.description)
  }
}

/// Returns a document with these lines of nodes.
func withNodes(_ nodes: String, and rest: String = "") -> String {
  let indented = nodes.split(separator: "\n").map { "  \($0)\n" }.joined()
  return "topology: t\nprogram: nodes\nnodes:\n\(indented)\(rest)"
}

/// Returns a document with two nodes and one pipe, whose flow mapping starts at line 7, column 5.
func withPipe(_ pipe: String) -> String {
  withNodes("door: { machine: ElevatorDoor }\ndisplay: { machine: FloorDisplay }")
    + "pipes:\n  - \(pipe)\n"
}

/// The machines of the examples, as their program describes them.
enum Described {
  static let displayEvents: [CaseDescription] = [
    .init(name: "refresh"), .init(name: "floor", fields: [.init(name: "number", type: "Int")]),
    .init(name: "persons", fields: [.init(name: "count", type: "Int")]),
  ]
  static let persons = [CaseDescription.Field(name: "persons", type: "Int")]
  static let floor = [CaseDescription.Field(name: "floor", type: "Int")]

  static func machine(
    _ name: String, initial: JSONValue, states: [CaseDescription], events: [CaseDescription],
    out: [PortDescription] = [], in inPorts: [PortDescription] = [], alphabet: [String]? = nil,
    outputs: [CaseDescription] = []
  ) -> MachineDescription {
    MachineDescription(
      machine: name, initial: initial, states: states, events: events,
      alphabet: alphabet ?? events.map(\.name), outputs: outputs,
      outPorts: out, inPorts: inPorts)
  }

  static let door = machine(
    "ElevatorDoor", initial: ["open": ["persons": 0]],
    states: [
      .init(name: "open", fields: persons), .init(name: "closing", fields: persons),
      .init(name: "closed"),
    ],
    events: [
      .init(name: "personsHaveEntered", fields: persons), .init(name: "closeButtonWasPressed"),
      .init(name: "doorHasLocked"), .init(name: "openButtonWasPressed"),
    ],
    out: [.init(name: "arrivals", eventType: "FloorDisplay.Event", events: displayEvents)])

  static let display = machine(
    "FloorDisplay", initial: ["showing": ["floor": 0, "persons": 0]],
    states: [.init(name: "showing", fields: floor + persons)], events: displayEvents,
    in: [.init(name: "updates", eventType: "FloorDisplay.Event", events: displayEvents)])

  static let motor = machine(
    "ElevatorMotor", initial: ["idle": ["floor": 0]],
    states: [
      .init(name: "idle", fields: floor),
      .init(
        name: "moving", fields: [.init(name: "from", type: "Int"), .init(name: "to", type: "Int")]),
    ],
    events: [
      .init(name: "call", fields: floor), .init(name: "start"),
      .init(name: "arrived", fields: floor),
    ])

  static let passengers = machine(
    "Passengers", initial: ["waiting": ["round": 0]],
    states: [
      .init(name: "waiting", fields: [.init(name: "round", type: "Int")]),
      .init(name: "boarding", fields: persons), .init(name: "riding"),
    ],
    events: [.init(name: "boarded"), .init(name: "doorsClosed"), .init(name: "arrived")])

  static let washing = machine(
    "WashingMachine", initial: "coldAndEmpty",
    states: [
      "coldAndEmpty", "fullWithHotWater", "waterHeated", "drumAgitating", "pumping",
      "fullWithColdWater", "spinning",
    ].map { .init(name: $0) },
    events: ["start", "filled", "heated", "agitated", "pumped", "rinsed", "spun"]
      .map { .init(name: $0) })

  static let token = [
    CaseDescription(name: "token", fields: [.init(name: "n", type: "Int")])
  ]
  static let relay = machine(
    "Relay", initial: ["idle": ["count": 0]],
    states: [.init(name: "idle", fields: [.init(name: "count", type: "Int")])], events: token,
    out: [.init(name: "out", eventType: "Relay.Event", events: token)],
    in: [.init(name: "in", eventType: "Relay.Event", events: token)])

  /// A machine with fields of many types, for payload checks.
  static let types = machine(
    "Types", initial: "on",
    states: [
      .init(
        name: "on",
        fields: [.init(name: "whole", type: "Int"), .init(name: "name", type: "String")]),
      .init(name: "off"),
    ],
    events: [
      .init(name: "int", fields: [.init(name: "_0", type: "Int")]),
      .init(name: "byte", fields: [.init(name: "_0", type: "UInt8")]),
      .init(name: "double", fields: [.init(name: "_0", type: "Double")]),
      .init(name: "bool", fields: [.init(name: "_0", type: "Bool")]),
      .init(name: "string", fields: [.init(name: "_0", type: "String")]),
      .init(name: "list", fields: [.init(name: "_0", type: "Array<Int>")]),
      .init(name: "maybe", fields: [.init(name: "_0", type: "Optional<Int>")]),
      .init(name: "own", fields: [.init(name: "_0", type: "Colour")]),
      .init(name: "never"),
    ],
    alphabet: ["int", "byte", "double", "bool", "string", "list", "maybe", "own"])

  static let program = ProgramDescription(
    program: "nodes", protocolVersion: 1,
    machines: [door, display, motor, passengers, washing, relay, types] + lift,
    monitors: ["StateLog"], composites: [liftState])

  /// Returns the checker's diagnostics for a text that the reader accepts.
  static func check(_ text: String) throws -> [String] {
    let (topology, source) = try TopologyReader.read(text: text.utf8, file: "test.yaml")
    return TopologyChecker.check(
      topology, source: source, against: .init(programs: ["nodes": program])
    ).map(\.description)
  }
}
