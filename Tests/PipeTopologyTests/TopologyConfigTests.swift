import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire
import Testing

@Suite("Topologies that are written to a file")
struct TopologyConfigTests {
  /// Texts that are easily read back as something else.
  static let texts = [
    "", "a", "yes", "n", "null", "12", "1.5", "a: b", "# c", "- d", "'", "\"", "\\", "é", "\u{85}",
    "\u{2028}", "\u{7F}", "\u{1}", "\n", "\t", " a ", "$x", "{}", "[", "*a", "&a", "!t", "~", "😀",
    "\u{FEFF}", "/usr/bin", "a->b", "0x1F", ".inf", "<<", "=", "${x}", "$$", "a$${x}$", "@", "`",
    "%", "-", "/", "--",
  ]

  static let everything = Topology(
    name: "all", program: "/opt/a b", environment: ["A": "1", "B": "yes"],
    nodes: [
      .machine(
        "M", name: "z", program: "own",
        parameters: .object(
          Dictionary(
            uniqueKeysWithValues: texts.enumerated().map { index, text in
              ("\(text)\(index)", .string(text))
            }
          ).merging(["numbers": [1, .number(1.5), .number(2), .number(1e300), true, .null]]) {
            $1
          }), environment: ["C": "\n"],
        restart: RestartPolicy(
          .never, maximumRestarts: 0, window: .milliseconds(1),
          backoff: .init(initial: .zero, max: .nanoseconds(1_000_001))),
        required: true),
      .machine("M", name: "a", dependsOn: ["z"], place: "front"),
      NodeSpecification(
        name: "g", content: .machine("M"), workingDirectory: "w $x",
        stop: StopPolicy(signal: .interrupt, timeout: .seconds(9)),
        logs: .init(maxSize: 5_000, maxFiles: 100)),
      NodeSpecification(
        name: "h", content: .machine("M"), logs: .init(maxSize: 5_001),
        journal: .init(records: 8, recordAge: .seconds(1))),
      NodeSpecification(name: "i", content: .machine("M"), journal: .init(deadLetters: 1)),
      .constant("s", name: "c"), .constant(["s": ["v": [1]]], name: "d", machine: "M"),
      .machine(
        "M", name: "e", dependsOn: ["a", NodeDependency("z", .state("y"))], place: "back-2",
        hostLossPolicy: .move),
      .machine(
        "M", name: "f",
        dependsOn: [
          NodeDependency("a", .state(.init(["count": 3, "$${x}": "$${x}$"]))),
          NodeDependency("d", .state(.init(["s": ["v": [1]]]))),
        ]),
    ],
    pipes: [
      .ports(from: "z.out", to: "a.in", capacity: 7, onRefused: .fail),
      .rule(
        from: "a", when: "s", to: "z", send: ["e": ["x": "$v", "y": "$$1", "w": "$${x}", "z": []]]),
      .rule(from: "both", when: "s", to: "a", send: "e"),
      PipeSpecification(
        sender: "more", source: .states(["z": "s", "a": "t"], send: ["e": ["x": "$z"]]),
        receiver: "both"),
    ],
    composites: [
      CompositeSpecification(
        name: "both", components: ["z", "a"],
        synchronize: ["x", Synchronization("e", participants: ["z", "a"]), "b"], projection: "P"),
      CompositeSpecification(name: "more", components: ["both", "a"], program: "p"),
    ],
    monitors: [
      MonitorSpecification("L", name: "m"),
      MonitorSpecification("L", name: "o", parameters: ["limit": 2], environment: ["A": "$"]),
      MonitorSpecification("L", name: "n", watchedNames: ["z"], program: "p"),
    ],
    timeouts: Timeouts(start: .seconds(61), heartbeat: .milliseconds(1500), stop: .seconds(3601)),
    logs: LogRetention(maxSize: 100 << 20, maxFiles: 1),
    journal: JournalRetention(
      records: 100_000, recordAge: .seconds(7 * 86_400), deadLetters: 100_000))

  @Test(
    "A topology that is written as YAML or JSON is read as an equal topology",
    arguments: [everything])
  func roundTrip(original: Topology) throws {
    #expect(try topology(original.yaml) == original)
    #expect(try TopologyReader.read(original).topology == original)
    #expect(try topology(YAMLSafe.text(original.json)) == original)
    let resolved = original.resolved
    #expect(try topology(resolved.yaml) == resolved)
    #expect(resolved.resolved == resolved)
    #expect(TopologySchemaTests.schema.accepts(resolved.json))
  }

  @Test("YAML text keeps the order of nodes")
  func order() throws {
    #expect(
      try topology(Self.everything.yaml).nodes.map(\.name) == [
        "z", "a", "g", "h", "i", "c", "d", "e", "f",
      ])
  }

  @Test("Text that another YAML reader would read as a Boolean is quoted")
  func quoted() {
    #expect(Self.everything.yaml.contains("\n  B: \"yes\"\n"))
  }

  @Test("By default a node keeps a journal, and a pipe is as durable as its weaker end")
  func durability() {
    var topology = Self.everything
    topology.nodes[0].durability = nil
    for index in topology.pipes.indices { topology.pipes[index].durability = nil }
    #expect(topology.resolved.nodes[0].durability == .process)
    for pipe in topology.resolved.pipes {
      #expect(
        pipe.durability
          == min(topology.durability(of: pipe.sender), topology.durability(of: pipe.receiver)))
    }
  }

  @Test("'on_host_loss' is written only for nodes with a place")
  func hostLoss() throws {
    let topology = Topology(
      name: "t", program: "p",
      nodes: [.machine("M", name: "a"), .machine("M", name: "b", place: "front")])
    let nodes = try #require(topology.resolved.json["nodes"])
    #expect(nodes["a"]?["place"] == nil && nodes["a"]?["on_host_loss"] == nil)
    #expect(nodes["b"]?["place"] == "front" && nodes["b"]?["on_host_loss"] == "wait")
  }

  @Test("An embedded coordinator has the place of its carrier node")
  func placeOfLodger() {
    let topology = Topology(
      name: "t", program: "p",
      nodes: [.machine("M", name: "a", place: "front"), .machine("M", name: "b")],
      composites: [
        CompositeSpecification(name: "c", components: ["a", "b"], within: "a"),
        CompositeSpecification(name: "d", components: ["a", "b"]),
      ])
    #expect(["a", "b", "c", "d"].map(topology.place(of:)) == ["front", nil, "front", nil])
  }

  @Test(
    "Two topologies are equal if only the order of nodes differs, not if the order of pipes does")
  func equality() {
    var other = Self.everything
    other.nodes.reverse()
    other.monitors.reverse()
    #expect(other == Self.everything)
    other.pipes.reverse()
    #expect(other != Self.everything)
  }

  @Test("A resolved topology is written with all defaults")
  func resolved() throws {
    let text = """
      topology: t
      program: nodes
      nodes:
        door: { machine: Door, parameters: { size: 3 } }
        lamp: { machine: Lamp, depends_on: [door] }
        bell: { machine: Bell, depends_on: { lamp: ready, door: { state: closed } } }
      pipes:
        - { from: door, when: open, to: lamp, send: { show: { text: 'open: $n' } } }
      monitors:
        log: { monitor: StateLog }
      """
    let written = try topology(text).resolved.yaml
    #expect(
      written == """
        topology: t
        program: nodes
        nodes:
          door:
            machine: Door
            program: nodes
            parameters: {size: 3}
            stop:
              signal: SIGTERM
            restart:
              policy: on-failure
              max: 5
              window: 1m
              backoff:
                initial: 200ms
                max: 10s
                jitter: 0.1
            required: false
            durability: process
          lamp:
            machine: Lamp
            program: nodes
            stop:
              signal: SIGTERM
            restart:
              policy: on-failure
              max: 5
              window: 1m
              backoff:
                initial: 200ms
                max: 10s
                jitter: 0.1
            required: false
            depends_on:
              door: ready
            durability: process
          bell:
            machine: Bell
            program: nodes
            stop:
              signal: SIGTERM
            restart:
              policy: on-failure
              max: 5
              window: 1m
              backoff:
                initial: 200ms
                max: 10s
                jitter: 0.1
            required: false
            depends_on:
              door:
                state: closed
              lamp: ready
            durability: process
        pipes:
        - from: door
          when: open
          to: lamp
          send: {show: {text: "open: $n"}}
          name: "door:open->lamp:show"
          capacity: 1024
          on_refused: record
          durability: process
        monitors:
          log:
            monitor: StateLog
            watch: [door, lamp, bell]
            program: nodes
        timeouts:
          start: 10s
          heartbeat: 5s
          stop: 5s
        logs:
          max_size: 1MiB
          max_files: 3
        journal:
          records: 1000
          dead_letters: 10000

        """)
  }
}

/// JSON text without the line breaks and marks that JSON allows and a YAML reader interprets.
enum YAMLSafe {
  static func text(_ json: JSONValue) -> String {
    json.text.unicodeScalars.map { scalar in
      guard [0x7F, 0x85, 0x2028, 0xFEFF].contains(scalar.value) else { return String(scalar) }
      let hex = String(scalar.value, radix: 16)
      return "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
    }.joined()
  }
}
