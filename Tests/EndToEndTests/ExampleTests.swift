import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The example topologies", .timed)
struct ExampleTests {
  static let files = [
    "elevator", "washing-machine", "relay", "counter", "example", "kettles", "movies",
    "movies-pages", "quiz", "address", "washing-machine-reduced",
    "payment",
  ].map { "topologies/\($0).yaml" }
  static let compositeFiles = [
    "lift", "composite", "philosophers", "vending-machine", "checkout", "shop",
  ].map { "topologies/\($0).yaml" }

  @Test(
    "'check' reports no error and no warning for any example", arguments: files + compositeFiles)
  func checks(file: String) async throws {
    let command = try CommandLineTool()
    defer { command.remove() }
    let result = try await command.run("check", file, in: nil)
    #expect(result.code == 0, "\(result)")
    #expect(result.error == "")
  }

  @Test("Every example runs, shows each node's state, and stops gracefully", arguments: files)
  func runs(file: String) async throws {
    try await withTopology(file) { topology in
      let directory = try await topology.directory()
      #expect(directory.isRunning)
      for node in directory.nodes {
        #expect(node.phase == "running")
        #expect(node.incarnation == 1)
        #expect(!topology.recordedStates(of: node.name).isEmpty)
      }
    }
  }

  @Test("The elevator's passengers keep the elevator moving without a client")
  func elevatorLives() async throws {
    let brisk: [String: JSONValue] = [
      "ElevatorDoor": ["closingTime": 200], "ElevatorMotor": ["floorTime": 100],
      "Passengers": ["pace": 100],
    ]
    let topology = try ExampleTopology.read("elevator.yaml", parameters: brisk)
    try await withTopology(topology) { elevator in
      try await elevator.expect(
        "door", inOrder: ["open", "closing", "closed", "open"], within: .seconds(20))
      try await elevator.expect(
        "motor", inOrder: ["moving", "arrived", "idle", "moving", "arrived"], within: .seconds(20))
      try await elevator.expect(
        "passengers", inOrder: ["riding", "waiting", "boarding"], within: .seconds(20))
      let away = StatePattern("away from the ground floor, with persons") { state in
        let (floor, persons) = (state["showing"]?["floor"], state["showing"]?["persons"])
        return floor?.integer ?? 0 > 0 && persons?.integer ?? 0 > 0
      }
      try await elevator.expect("display", is: away, within: .seconds(20))
    }
  }

  /// The elevator without passengers and with short times.
  static let quietElevator = """
    topology: elevator
    program: nodes
    nodes:
      door: { machine: ElevatorDoor, parameters: { capacity: 10, closingTime: 20 } }
      motor: { machine: ElevatorMotor, parameters: { floorTime: 10 } }
      display: { machine: FloorDisplay }
    pipes:
      - { from: door.arrivals, to: display.updates }
      - { from: door, when: closed, to: motor, send: start, on_refused: postpone }
      - { from: motor, when: arrived, to: door, send: openButtonWasPressed }
      - { from: door, when: open, to: display, send: { persons: { count: $persons } } }
      - { from: motor, when: arrived, to: display, send: { floor: { number: $floor } } }
    """

  @Test("An event sent to the elevator's door travels through the pipes to the other nodes")
  func injectedEvents() async throws {
    try await withTopology(yaml: Self.quietElevator) { elevator in
      let entered = try await elevator.send("door", ["personsHaveEntered": ["persons": 3]])
      #expect(entered == .accepted(version: 1, state: ["open": ["persons": 3]]))
      try await elevator.expect("display", is: ["showing": ["floor": 0, "persons": 3]])
      let pressed = try await elevator.send("door", "closeButtonWasPressed")
      #expect(pressed == .accepted(version: 2, state: ["closing": ["persons": 3]]))
      try await elevator.expect(
        "door",
        exactly: [["closing": ["persons": 3]], .json("closed"), ["open": ["persons": 0]]])
      try await elevator.expect(
        "motor",
        exactly: [
          ["moving": ["from": 0, "to": 1]], ["arrived": ["floor": 1]], ["idle": ["floor": 1]],
        ])
      try await elevator.expect("display", is: ["showing": ["floor": 1, "persons": 0]])
    }
  }

  @Test("A full elevator's door refuses its button and keeps its state")
  func guardRefuses() async throws {
    try await withTopology(yaml: Self.quietElevator) { elevator in
      try await elevator.send("door", ["personsHaveEntered": ["persons": 10]])
      let refused = try await elevator.send("door", "closeButtonWasPressed")
      #expect(refused == .refused(.guard, state: ["open": ["persons": 10]]))
      let unfit = try await elevator.send("door", "doorHasLocked")
      #expect(unfit == .refused(.noTransition, state: ["open": ["persons": 10]]))
      let door = try await elevator.status("door")
      #expect(door.status?.refused == 2)
      #expect(door.status?.version == 1)
    }
  }

  @Test("A closing door that opens again cancels its pending close effect")
  func cancelledEffect() async throws {
    let slow = Self.quietElevator.replacing("closingTime: 20", with: "closingTime: 60000")
    try await withTopology(yaml: slow) { elevator in
      try await elevator.send("door", "closeButtonWasPressed")
      let opened = try await elevator.send("door", "openButtonWasPressed")
      #expect(opened == .accepted(version: 2, state: ["open": ["persons": 0]]))
      try await elevator.expectStatus(of: "door", "its effect is cancelled") {
        $0.status?.effects == 0
      }
    }
  }

  @Test(
    "The washing machine goes through its seven states, and its panel counts the finished program",
    arguments: ["washing-machine", "washing-machine-reduced"])
  func washingMachine(name: String) async throws {
    let brisk: JSONValue = ["unit": 100]
    let topology = try ExampleTopology.read(
      "\(name).yaml", parameters: ["WashingMachine": brisk, "ReducedWashingMachine": brisk])
    try await withTopology(topology) { laundry in
      try await laundry.expect("washer", is: "coldAndEmpty")
      try await laundry.send("washer", "start")
      try await laundry.expect(
        "washer",
        exactly: [
          "fullWithHotWater", "waterHeated", "drumAgitating", "pumping", "fullWithColdWater",
          "spinning", "coldAndEmpty",
        ], within: .seconds(30))
      try await laundry.expect(
        "panel",
        exactly: (1...6).map { ["showing": ["step": .integer($0), "finished": 0]] }
          + [["showing": ["step": 0, "finished": 1]]])
    }
  }

  @Test("A relay of ten nodes forwards hundreds of tokens, all of them in order")
  func relay() async throws {
    try await withTopology("topologies/relay.yaml") { relay in
      let count = 300
      for n in 1...count { try await relay.send("n1", ["token": ["n": .integer(Int64(n))]]) }
      try await relay.expect(
        "tally",
        is: ["counted": ["count": .integer(Int64(count)), "last": .integer(Int64(count))]],
        within: .seconds(20))
      let last = relay.recordedStates(of: "tally").compactMap {
        $0.state["counted"]?["last"]?.integer
      }
      #expect(last == (0...Int64(count)).map { $0 })
    }
  }
}
