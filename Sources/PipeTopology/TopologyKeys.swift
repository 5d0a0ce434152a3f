import PipeMachines
import PipeSupport
import PipeWire

/// The keys of topology files.
package enum TopologyKeys {
  package static let top = TopologyMapping(
    [
      TopologyKey(
        "topology", .orVariable(.pattern("^[A-Za-z0-9][A-Za-z0-9_.-]{0,40}$")),
        "The name, by which a running topology is found", standard: nil),
      TopologyKey(
        "program", .someText,
        "The executable that hosts the nodes: a path from the file's directory, or a name that is "
          + "looked for beside `orchestrator`, beside the file, and in `PATH`",
        standard: "each node's own"),
      TopologyKey(
        "environment", .reference("environment"), "Variables for all nodes: `{ NAME: value }`",
        standard: "none"),
      TopologyKey(
        "nodes", .named("node", isEmpty: false), "The nodes by name: one process each",
        standard: nil),
      TopologyKey(
        "pipes", .list(of: "pipe"),
        "A list of the pipes that carry events between nodes", standard: "none"),
      TopologyKey(
        "composites", .named("composite"),
        "The composites by name: nodes that take synchronized events together", standard: "none"),
      TopologyKey(
        "monitors", .named("monitor"),
        "The monitors by name, which start with the topology: read-only processes",
        standard: "none"),
      TopologyKey(
        "timeouts", mapping: timeouts,
        "How long the parts of a node's life may take, but for time in which its process waits for a "
          + "processor"),
    ], rules: ["patternProperties": ["^x-": true]])

  static let timeouts = TopologyMapping([
    TopologyKey(
      "start", .reference("positiveDuration"), "From spawning a node to its being ready",
      standard: code(Timeouts().start)),
    TopologyKey(
      "heartbeat", .reference("positiveDuration"),
      "The longest silence before a node counts as hung", standard: code(Timeouts().heartbeat)),
    TopologyKey(
      "stop", .reference("positiveDuration"), "From asking a node to stop to SIGKILL",
      standard: code(Timeouts().stop)),
  ])

  package static let node = TopologyMapping(
    [
      TopologyKey(
        "machine", .someText, "The machine's registered name; a node has this or `constant`",
        standard: ""),
      TopologyKey(
        "constant", .reference("case"),
        "A state, in which the node stays; with `machine` it is checked against that machine's states",
        standard: ""),
      TopologyKey(
        "program", .someText, "As at the top level, for this node", standard: "the topology's"),
      TopologyKey(
        "parameters", .anyObject,
        "What the machine takes as its parameters. A value that its type cannot hold, or that its "
          + "`validate()` has no use for, is an error at that value. A machine finds a file that they "
          + "name beside the topology file, with `TopologyFile.path(of:)`",
        standard: "the machine's own"),
      TopologyKey(
        "environment", .reference("environment"), "Variables for this node", standard: "none"),
      TopologyKey("restart", mapping: restart, "When the node is started again"),
      TopologyKey(
        "required", .orVariable(.truth),
        "Whether its failure takes the topology down, with exit code 1", standard: "`false`"),
      TopologyKey(
        "depends_on", dependencies,
        "A list of nodes, or `{ NODE: ready }`, or `{ NODE: { state: STATE } }`: it starts after they "
          + "run, and have been in that state, and stops before them",
        standard: "none"),
      TopologyKey(
        "durability", .choice(Durability.self),
        "What its state and its events survive: `none`; `process`, the end of any process at any "
          + "instant; `power`, a loss of power as well",
        standard: "`\(Durability.standard.rawValue)`"),
    ],
    rules: nodeRules)

  private static let nodeRules: [String: JSONValue] = [
    "anyOf": [["required": ["machine"]], ["required": ["constant"]]],
    "not": ["required": ["constant", "parameters"]],
  ]

  static let restart = TopologyMapping([
    TopologyKey(
      "policy", .choice(RestartPolicy.Mode.self),
      "Which ends are answered with a start: `never`, `on-failure` or `always`",
      standard: "`\(RestartPolicy().mode.rawValue)`"),
    TopologyKey(
      "max", .integer(in: RestartPolicy.maxRange),
      "Restarts within the window before the node has failed", standard: "\(RestartPolicy().max)"),
    TopologyKey(
      "window", .reference("positiveDuration"), "How long a restart counts",
      standard: code(RestartPolicy().window)),
    TopologyKey(
      "backoff", mapping: backoff, "The wait before a restart: doubled from `initial` up to `max`"),
  ])

  static let backoff = TopologyMapping([
    TopologyKey(
      "initial", .reference("duration"), "The wait before the first restart",
      standard: code(RestartPolicy().backoff.initial)),
    TopologyKey(
      "max", .reference("duration"), "The longest wait",
      standard: code(RestartPolicy().backoff.max)),
    TopologyKey(
      "jitter", .orVariable(.part),
      "The part of a wait that may be taken off at random, from 0 to 1",
      standard: "\(RestartPolicy().backoff.jitter)"),
  ])

  private static let dependencies: JSONValue = [
    "anyOf": [
      [
        "type": "object",
        "additionalProperties": [
          "anyOf": [["enum": ["ready"]], .variable, .reference("dependency")]
        ],
      ],
      .reference("nodeList"),
    ]
  ]

  static let dependency = TopologyMapping(
    [
      TopologyKey(
        "state", state,
        "A state's label, whatever its values are; `{ label: { field: value } }`; or some fields of a "
          + "struct",
        standard: "")
    ], rules: ["required": ["state"]])

  private static let state: JSONValue = [
    "anyOf": [.reference("caseName"), .variable, ["type": "object", "minProperties": 1]]
  ]

  package static let pipe = TopologyMapping(
    [
      TopologyKey(
        "from", end,
        "`NODE.PORT`, an out-port that the machine declares; or `NODE`, with `when` and `send`",
        standard: nil),
      TopologyKey(
        "when", .someText, "A state of the sender: on each entry into it an event is sent",
        standard: ""),
      TopologyKey("to", end, "`NODE`, or `NODE.PORT`, or `COMPOSITE`", standard: nil),
      TopologyKey(
        "send", event,
        "That event: a label, or `{ label: { field: value } }`. `$name` is the state's value of that "
          + "name, `$_0` its first one without a label, `$$` a dollar",
        standard: ""),
      TopologyKey(
        "name", .orVariable(.pattern("^[^\\s]{1,128}$")), "The pipe's name",
        standard: "from its ends: `door:closed->motor:start`"),
      TopologyKey(
        "capacity", .integer(in: PipeSpecification.capacityRange),
        "Events that may be under way before the sender must stop taking further ones, "
          + "\(PipeSpecification.capacityRange.lowerBound) to "
          + "\(PipeSpecification.capacityRange.upperBound)",
        standard: "1024"),
      TopologyKey(
        "on_refused", .choice(PipeSpecification.OnRefused.self),
        "What becomes of an event that the receiver refuses: `record` it as a dead letter, `postpone` "
          + "it until the state changes, or `fail` the node",
        standard: "`record`"),
      TopologyKey(
        "durability", .choice(Durability.self), "As for a node, and no higher than its two nodes'",
        standard: "the lower of theirs"),
    ],
    rules: pipeRules)

  private static let pipeRules: [String: JSONValue] = [
    "if": ["properties": ["from": ["pattern": "\\$\\{"]]],
    "else": [
      "if": ["properties": ["from": ["pattern": "\\."]]],
      "then": ["properties": ["when": false, "send": false]],
      "else": ["required": ["when", "send"]],
    ],
  ]

  private static let event: JSONValue = [
    "allOf": [.reference("case"), ["if": ["type": "object"], "then": .reference("template")]]
  ]
  private static let end = JSONValue.pattern("^[^.]+(\\..+)?$")

  package static let composite = TopologyMapping([
    TopologyKey(
      "components", .nodeList(minItems: 1),
      "A list of nodes with a machine, and of other composites",
      standard: nil),
    TopologyKey(
      "synchronize", synchronized,
      "The events that components take together, all or none: `{ EVENT: [COMPONENT, …] }`, or a list "
        + "of events. Without a list of participants, every component takes part that takes the event "
        + "in some state",
      standard: "none: each event is one component's own"),
    TopologyKey(
      "projection", .someText,
      "A composite state that the program registers, made of the nodes' states in the order of "
        + "`components`",
      standard: "an object of the nodes' states, by their names"),
    TopologyKey(
      "program", .someText, "The program that coordinates it, as at the top level",
      standard: "the topology's"),
  ])

  private static let synchronized: JSONValue = [
    "anyOf": [
      [
        "type": "object", "propertyNames": .reference("caseName"),
        "additionalProperties": ["anyOf": [["type": "null"], .nodeList(minItems: 1)]],
      ],
      [
        "type": "array", "items": ["anyOf": [.reference("caseName"), .variable]],
        "uniqueItems": true,
      ],
    ]
  ]

  package static let monitor = TopologyMapping([
    TopologyKey("monitor", .someText, "The monitor's registered name", standard: nil),
    TopologyKey(
      "watch", .nodeList(minItems: 1), "A list of nodes and composites", standard: "all"),
    TopologyKey(
      "program", .someText, "The program that has it, as at the top level",
      standard: "the topology's"),
  ])

  private static func code(_ duration: Duration) -> String { "`\(DurationText.write(duration))`" }
}
