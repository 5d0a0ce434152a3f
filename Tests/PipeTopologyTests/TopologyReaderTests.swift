import Glibc
import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire
import TestSupport
import Testing

@Suite("Topology files")
struct TopologyReaderTests {
  @Test("Every key of the schema is read into the model")
  func everything() throws {
    let text = """
      topology: full.1
      program: nodes
      environment: { A: 1, B: x }
      nodes:
        door:
          machine: ElevatorDoor
          program: ./own
          parameters: { capacity: 10, list: [1, a] }
          environment: { B: y, C: '' }
          restart: { policy: always, max: 0, window: 1m30s, backoff: { initial: 0s, max: 2h, jitter: 0.25 } }
          required: true
          durability: none
          place: front
          on_host_loss: move
        motor: { machine: ElevatorMotor, depends_on: { door: ready } }
        display: { machine: FloorDisplay, depends_on: [motor, door] }
        guest:
          machine: Guest
          depends_on:
            door: { state: closed }
            motor: { state: { moving: { from: 1, to: 2 } } }
            display: { state: { floor: 3, "text": "$${x}" } }
            preview: ready
        preview: { constant: { closing: { persons: 3 } }, machine: ElevatorDoor }
      pipes:
        - { from: door.arrivals, to: display.updates, name: p, durability: none }
        - { from: door, when: open, to: display, send: { persons: { count: $persons } } }
        - { from: door, when: closed, to: motor, send: start, capacity: 1, on_refused: postpone }
      monitors:
        audit: { monitor: StateLog, watch: [door, motor], program: logs }
        all: { monitor: StateLog }
      timeouts: { start: 1s, heartbeat: 2s, stop: 300ms }
      """
    let found = try topology(text)
    let restart = RestartPolicy(
      .always, maximumRestarts: 0, window: .seconds(90),
      backoff: .init(initial: .zero, max: .seconds(7200), jitter: 0.25))
    var door = NodeSpecification.machine(
      "ElevatorDoor", name: "door", program: "./own",
      parameters: ["capacity": 10, "list": [1, "a"]], environment: ["B": "y", "C": ""],
      restart: restart, required: true)
    door.durability = .volatile
    door.place = "front"
    door.hostLossPolicy = .move
    var ports = PipeSpecification.ports(from: "door.arrivals", to: "display.updates", name: "p")
    ports.durability = .volatile
    let expected = Topology(
      name: "full.1", program: "nodes", environment: ["A": "1", "B": "x"],
      nodes: [
        door,
        .machine("ElevatorMotor", name: "motor", dependsOn: ["door"]),
        .machine("FloorDisplay", name: "display", dependsOn: ["door", "motor"]),
        .machine(
          "Guest", name: "guest",
          dependsOn: [
            NodeDependency("door", .state("closed")),
            NodeDependency("motor", .state(.init(["moving": ["from": 1, "to": 2]]))),
            NodeDependency("display", .state(.init(["floor": 3, "text": "${x}"]))), "preview",
          ]),
        .constant(["closing": ["persons": 3]], name: "preview", machine: "ElevatorDoor"),
      ],
      pipes: [
        ports,
        .rule(
          from: "door", when: "open", to: "display", send: ["persons": ["count": "$persons"]]),
        .rule(
          from: "door", when: "closed", to: "motor", send: "start", capacity: 1,
          onRefused: .postpone),
      ],
      monitors: [
        MonitorSpecification(
          "StateLog", name: "audit", watchedNames: ["door", "motor"], program: "logs"),
        MonitorSpecification("StateLog", name: "all"),
      ],
      timeouts: Timeouts(start: .seconds(1), heartbeat: .seconds(2), stop: .milliseconds(300)))
    #expect(found == expected)
    #expect(found.nodes.map(\.name) == ["door", "motor", "display", "guest", "preview"])
    #expect(found.environment(of: door) == ["A": "1", "B": "y", "C": ""])
    #expect(found.path(ofProgram: "nodes") == ["program"])
    #expect(found.path(ofProgram: "./own") == ["nodes", "door", "program"])
    #expect(found.path(ofProgram: "logs") == ["monitors", "audit", "program"])
    #expect(found.programs == ["./own", "logs", "nodes"])
  }

  @Test("A pipe without a name is named after its ends")
  func derivedNames() throws {
    let text =
      withPipe("{ from: door.arrivals, to: display.updates }")
      + "  - { from: door.arrivals, to: display }\n"
      + "  - { from: door, when: closed, to: display.updates, send: { floor: { number: 1 } } }\n"
    #expect(
      try topology(text).pipes.map(\.name) == [
        "door.arrivals->display.updates", "door.arrivals->display",
        "door:closed->display.updates:floor",
      ])
  }

  @Test("All errors are found at once, in the order of the file")
  func allAtOnce() {
    let text = """
      topology: lift!
      program: nodes
      nodes:
        door:
          machin: ElevatorDoor
          restart: { max: -1, window: 60 }
        motor: { machine: ElevatorMotor, depends_on: { dor: ready } }
      pipes:
        - { from: motor, when: idle, to: dor, send: start, capacity: 0 }
      """
    #expect(
      errors(text) == [
        "test.yaml:1:11: error: the topology: 'topology': 'lift!' is not a valid name; use 1 to 41 "
          + "characters of A-Z a-z 0-9 _ - ., starting with a letter or digit [bad-name]",
        "test.yaml:4:3: error: node 'door' has neither 'machine' nor 'constant'; add one of them "
          + "[missing-key]",
        "test.yaml:5:5: error: node 'door': unknown key 'machin'; valid keys are 'machine', "
          + "'constant', 'program', 'parameters', 'key', 'resident', 'final', 'keep', 'shards', "
          + "'environment', 'working_directory', 'stop', 'logs', 'journal', 'restart', 'required', 'depends_on', 'durability', 'place', 'on_host_loss', 'was'. Did you mean 'machine'? [unknown-key]",
        "test.yaml:6:21: error: node 'door': 'restart.max' must be an integer number of restarts "
          + "from 0 to 1000000, not -1 [bad-value]",
        "test.yaml:6:33: error: node 'door': 'restart.window' has no unit; write 60s, 60ms or 60m "
          + "[bad-duration]",
        "test.yaml:7:50: error: node 'motor': no such node 'dor'; the topology has 'door', "
          + "'motor'. Did you mean 'door'? [unknown-node]",
        "test.yaml:9:36: error: pipe 'motor:idle->dor:start': no such node 'dor'; the topology has "
          + "'door', 'motor'. Did you mean 'door'? [unknown-node]",
        "test.yaml:9:64: error: pipe 1: 'capacity' must be an integer number of events from 1 to "
          + "65536, not 0 [bad-value]",
      ])
  }

  @Test("A file that cannot be read causes an error that says what to do")
  func files() throws {
    func failure(_ path: String) -> String {
      do {
        _ = try TopologyReader.read(path: path)
        return "none"
      } catch { return error.description }
    }
    let directory = try TemporaryDirectory()
    let folder = directory.path
    #expect(
      failure("\(folder)/none.yaml")
        == "\(folder)/none.yaml: error: no such file; check the path [unreadable-file]")
    #expect(
      failure(folder)
        == "\(folder): error: is a directory; name a file in the directory [unreadable-file]")
    func write(_ bytes: [UInt8]) throws {
      let large = try #require(fopen("\(folder)/large", "w"))
      #expect(fwrite(bytes, 1, bytes.count, large) == bytes.count)
      fclose(large)
    }
    let limit = TopologyReader.byteLimit
    try write(Array(repeating: UInt8(ascii: "x"), count: limit + 7))
    #expect(
      failure("\(folder)/large")
        == "\(folder)/large:1:1048577: error: file too large: the file has 1048583 bytes, and "
        + "exceeds the limit of 1048576 bytes in this line alone; remove unused parts, or keep "
        + "large data in a separate file, and name that file in a parameter [unreadable-file]")
    // Lines of 64 bytes: the last line within the limit is number 16384.
    let line = Array(repeating: UInt8(ascii: "#"), count: 63) + [UInt8(ascii: "\n")]
    try write(Array(Array(repeating: line, count: limit / 64 + 1).joined()))
    #expect(
      failure("\(folder)/large").hasPrefix(
        "\(folder)/large:16385:1: error: file too large: the file has 1048640 bytes, and exceeds "
          + "the limit of 1048576 bytes here; remove"))
    if geteuid() != 0 {
      chmod("\(folder)/large", 0)
      #expect(
        failure("\(folder)/large").contains("permission denied; check the permissions of the file"))
    }
  }

  @Test("If a file is empty or is not a mapping, the error shows how a topology starts")
  func notAMapping() {
    for text in ["", "# only a comment\n"] {
      #expect(errors(text).first?.contains("the file is empty; a topology starts with") == true)
    }
    for text in ["x", "[a]", "12"] {
      #expect(errors(text).first?.contains("must be a mapping that starts with") == true)
    }
  }
}
