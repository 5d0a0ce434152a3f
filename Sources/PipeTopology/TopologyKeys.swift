import PipeMachines
import PipeSupport
import PipeWire

/// The keys of topology files.
package enum TopologyKeys {
  /// The tables of docs/TOPOLOGY.md, by their headings.
  package static let tables = [
    ("Top level", top.lines), ("A node", node.lines), ("A pipe", pipe.lines),
    ("A composite", composite.lines), ("A monitor", monitor.lines),
    (
      "What is "
        + "explored", explore.lines
    ),
    ("An allowed finding", allowed.lines),
  ]

  static let top = TopologyMapping(
    meaning: "Which state machines run as processes, and the pipes between them.",
    start: Topology(name: ""),
    keys: [
      TopologyKey(
        "topology", \.name, .name, "The name, by which a running topology is found",
        isNeeded: true),
      TopologyKey(
        "program", \.program, .text,
        "The executable that hosts the nodes: a path from the file's directory, or a name that is "
          + "looked for beside `orchestrator`, beside the file, and in `PATH`",
        standard: "each node's own"),
      TopologyKey(
        "environment", \.environment, .environment, "Variables for all nodes: `{ NAME: value }`",
        standard: "none"),
      TopologyKey(
        "nodes", \.nodes, .named(.node, node, \.name, isEmpty: false),
        "The nodes by name: one process each", isNeeded: true),
      TopologyKey(
        "pipes", \.pipeEntries, .list(of: "pipe", pipe),
        "A list of the pipes that carry events between nodes", standard: "none"),
      TopologyKey(
        "composites", \.composites, .named(.composite, composite, \.name),
        "The composites by name: nodes that take synchronized events together", standard: "none"),
      TopologyKey(
        "monitors", \.monitors, .named(.monitor, monitor, \.name),
        "The monitors by name, which start with the topology: read-only processes",
        standard: "none"),
      TopologyKey(
        "timeouts", \.timeouts, .keys(timeouts),
        "How long the parts of a node's life may take, but for time in which its process waits "
          + "for a processor"),
      TopologyKey("logs", \.logs, .keys(logs), "How much is kept of each log"),
      TopologyKey(
        "explore", \.explore, .section(explore, as: "explore"),
        "What `orchestrator check --explore` goes by", standard: "assumed, and told"),
      TopologyKey(
        "silence", \.silence, .codes,
        "A list of the warnings of `check` that are expected, by the codes that stand behind them: "
          + "`[unconnected-port]`",
        standard: "none"),
    ], rules: ["patternProperties": ["^x-": true]])

  private static let timeouts = TopologyMapping(
    start: Timeouts(),
    keys: [
      TopologyKey(
        "start", \.start, .positiveDuration, "From spawning a node to its being ready"),
      TopologyKey(
        "heartbeat", \.heartbeat, .positiveDuration,
        "The longest silence before a node counts as hung"),
      TopologyKey("stop", \.stop, .positiveDuration, "From asking a node to stop to SIGKILL"),
    ])

  private static let logs = TopologyMapping(
    start: LogRetention(),
    keys: [
      TopologyKey(
        "max_size", \.maxSize, .byteSize(in: LogRetention.sizeRange),
        "The size at which a log's file is put aside, such as `10MB`"),
      TopologyKey(
        "max_files", \.maxFiles, .integer(in: LogRetention.fileRange, unit: "files"),
        "The files that are kept, with the one that is written"),
    ])

  static let node = TopologyMapping(
    meaning: "One process: a machine, or a state that never changes.",
    // With no key read, the node has no content.
    start: NodeSpecification(name: "", content: .constant(.null)),
    keys: [
      TopologyKey(
        "machine", \.machine, .text("a machine's name"),
        "The machine's registered name; a node has this or `constant`"),
      TopologyKey(
        "constant", \.constant, .state,
        "A state, in which the node stays; with `machine` it is checked against that machine's "
          + "states"
      ),
      TopologyKey(
        "program", \.program, .text, "As at the top level, for this node",
        standard: "the topology's"),
      TopologyKey(
        "parameters", \.parameters, .object,
        "What the machine takes as its parameters. A value that its type cannot hold, or that its "
          + "`validate()` has no use for, is an error at that value. A machine finds a file that "
          + "they name beside the topology file, with `TopologyFile.path(of:)`",
        standard: "the machine's own"),
      TopologyKey(
        "environment", \.environment, .environment, "Variables for this node", standard: "none"),
      TopologyKey(
        "working_directory", \.workingDirectory, .text,
        "The directory in which its process runs: a path from the file's directory",
        standard: "the orchestrator's"),
      TopologyKey("stop", \.stop, .keys(stop), "How it is stopped"),
      TopologyKey("logs", \.logs, .unlessDefault(nodeLogs), "How much is kept of its log"),
      TopologyKey("restart", \.restart, .keys(restart), "When the node is started again"),
      TopologyKey(
        "required", \.required, .truth,
        "Whether its failure takes the topology down, with exit code 1"),
      TopologyKey(
        "depends_on", \.dependsOn, .dependencies,
        "A list of nodes, or `{ NODE: ready }`, or `{ NODE: { state: STATE } }`: it starts after "
          + "they run, and have been in that state, and stops before them",
        standard: "none"),
      TopologyKey(
        "durability", \.durability, .choice,
        "What its state and its events survive: `none`; `process`, the end of any process at any "
          + "instant; `power`, a loss of power as well",
        standard: "`\(Durability.standard.rawValue)`"),
      TopologyKey(
        "place", \.place, .placeName,
        "Where it runs: a name for which a deployment file has the address. Without a deployment it "
          + "says nothing",
        standard: "where the orchestrator runs"),
      TopologyKey(
        "on_host_loss", \.writtenHostLossPolicy, .choice,
        "What becomes of it when its host may be lost, beside `place`: `wait` until it is certain "
          + "that its process has ended, or `move` to another host",
        standard: "`\(HostLossPolicy.wait.rawValue)`"),
    ],
    rules: [
      "anyOf": [["required": ["machine"]], ["required": ["constant"]]],
      "if": ["required": ["on_host_loss"]], "then": ["required": ["place"]],
      "not": ["required": ["constant", "parameters"]],
    ]
  ) { reading, fields, node in
    reading.complete(&node, fields)
  }

  private static let stop = TopologyMapping(
    start: StopPolicy(),
    keys: [
      TopologyKey(
        "signal", \.signal, .choice,
        "The signal for a process that does not listen yet, or has not ended in half of the time: "
          + StopSignal.allCases.map { "`\($0.rawValue)`" }.joined(separator: ", ")),
      TopologyKey(
        "timeout", \.timeout, .positiveDuration, "From asking the node to stop to SIGKILL",
        standard: "`timeouts.stop`"),
    ])

  private static let nodeLogs = TopologyMapping(
    start: NodeSpecification.Logs(),
    keys: [
      TopologyKey(
        "max_size", \.maxSize, .byteSize(in: LogRetention.sizeRange),
        "As at the top level, for this node", standard: "`logs.max_size`"),
      TopologyKey(
        "max_files", \.maxFiles, .integer(in: LogRetention.fileRange, unit: "files"),
        "As at the top level, for this node", standard: "`logs.max_files`"),
    ])

  private static let restart = TopologyMapping(
    start: RestartPolicy(),
    keys: [
      TopologyKey(
        "policy", \.mode, .choice,
        "Which ends are answered with a start: `never`, `on-failure` or `always`"),
      TopologyKey(
        "max", \.max, .integer(in: RestartPolicy.maxRange, unit: "restarts"),
        "Restarts within the window before the node has failed"),
      TopologyKey("window", \.window, .positiveDuration, "How long a restart counts"),
      TopologyKey(
        "backoff", \.backoff, .keys(backoff),
        "The wait before a restart: doubled from `initial` up to `max`"),
    ])

  private static let backoff = TopologyMapping(
    start: Backoff(),
    keys: [
      TopologyKey("initial", \.initial, .duration, "The wait before the first restart"),
      TopologyKey("max", \.max, .duration, "The longest wait"),
      TopologyKey(
        "jitter", \.jitter, .part,
        "The part of a wait that may be taken off at random, from 0 to 1"),
    ]
  ) { reading, fields, backoff in
    if backoff.initial > backoff.max {
      reading.report(
        .badValue, fields.place,
        "starts at \(DurationText.write(backoff.initial)), above its 'max' of "
          + "\(DurationText.write(backoff.max)); lower one or raise the other")
    }
    return true
  }

  static let dependency = TopologyMapping<StateCondition?>(
    meaning: "What a node waits for, beside that another one runs.",
    start: nil,
    keys: [
      TopologyKey(
        "state", \.self, .condition,
        "A state's label, whatever its values are; `{ label: { field: value } }`; or some fields "
          + "of a struct")
    ], rules: ["required": ["state"]]
  ) { reading, fields, _ in
    // An unknown key is already reported.
    if case .mapping(let entries) = fields.place.node.content, entries.isEmpty {
      reading.report(
        .missingKey, fields.place, "has no 'state'; add it, or write 'ready' without braces")
    }
    return true
  }

  static let pipe = TopologyMapping(
    meaning: "A bounded queue of events from one node to another.",
    start: PipeEntry(),
    keys: [
      TopologyKey(
        "from", \.from, .end,
        "`NODE.PORT`, an out-port that the machine declares; or `NODE` or `COMPOSITE`, with "
          + "`when` and `send`",
        isNeeded: true),
      TopologyKey(
        "when", \.when, .enteredState,
        "A state of the sender: on each entry into it an event is sent. Of a composite a state of "
          + "its projection, or without one the states of nodes, `{ NODE: STATE }`"),
      TopologyKey("to", \.to, .end, "`NODE`, or `NODE.PORT`, or `COMPOSITE`", isNeeded: true),
      TopologyKey(
        "send", \.send, .event,
        "That event: a label, or `{ label: { field: value } }`. `$name` is the state's value of "
          + "that "
          + "name, `$_0` its first one without a label, `$$` a dollar; of a composite without a "
          + "projection `$NODE` is that node's state"),
      TopologyKey(
        "name", \.pipe.name, .pipeName, "The pipe's name",
        standard: "from its ends: `door:closed->motor:start`"),
      TopologyKey(
        "capacity", \.pipe.capacity,
        .integer(in: PipeSpecification.capacityRange, unit: "events"),
        "Events that may be under way before the sender must stop taking further ones, "
          + "\(PipeSpecification.capacityRange.lowerBound) to "
          + "\(PipeSpecification.capacityRange.upperBound)"),
      TopologyKey(
        "on_refused", \.pipe.onRefused, .choice,
        "What becomes of an event that the receiver refuses: `record` it as a dead letter, "
          + "`postpone` it until the state changes, or `fail` the node"),
      TopologyKey(
        "durability", \.pipe.durability, .choice,
        "As for a node, and no higher than its two nodes'", standard: "the lower of theirs"),
    ],
    rules: [
      "if": ["properties": ["from": ["pattern": "\\$\\{"]]],
      "else": [
        "if": ["properties": ["from": ["pattern": "\\."]]],
        "then": ["properties": ["when": false, "send": false]],
        "else": ["required": ["when", "send"]],
      ],
    ]
  ) { reading, fields, entry in
    reading.complete(&entry, fields)
  }

  static let composite = TopologyMapping(
    meaning: "Nodes that take some events together, and all others each for itself.",
    start: CompositeSpecification(name: "", components: []),
    keys: [
      TopologyKey(
        "components", \.components, .names,
        "A list of nodes with a machine, and of other composites", isNeeded: true),
      TopologyKey(
        "synchronize", \.synchronize, .synchronized,
        "The events that components take together, all or none: `{ EVENT: [COMPONENT, …] }`, or a "
          + "list "
          + "of events. Without a list of participants, every component takes part that takes the "
          + "event in some state",
        standard: "none: each event is one component's own"),
      TopologyKey(
        "projection", \.projection, .text,
        "A composite state that the program registers, made of the nodes' states in the order of "
          + "`components`",
        standard: "an object of the nodes' states, by their names"),
      TopologyKey(
        "program", \.program, .text, "The program that coordinates it, as at the top level",
        standard: "the topology's"),
      TopologyKey(
        "within", \.within, .text,
        "A node that takes part in its events, in whose process it is coordinated: events cost less "
          + "then, and while that node computes, or is started again, nobody coordinates. One for all "
          + "composites that share participants",
        standard: "a process of its own"),
    ]
  ) { _, fields, _ in
    // Without components the composite is unusable; its other keys are read only for their errors.
    fields.read.contains("components")
  }

  static let explore = TopologyMapping(
    meaning: "What the search of all reachable states goes by.",
    start: ExploreSection(),
    keys: [
      TopologyKey(
        "capacity", \.capacity, .integer(in: PipeSpecification.capacityRange, unit: "events"),
        "Events that each pipe holds at most while it is explored, where its own capacity is not "
          + "lower",
        standard: "\(ExploreSection.standardCapacity) at first, raised while that may matter"),
      TopologyKey(
        "from_outside", \.fromOutside, .eventsFromOutside,
        "The events that come from outside: `{ NODE: [EVENT, …] }`, or of a composite. An event "
          + "is a label, or `{ label: { field: value } }`, where `0..4` stands for whole numbers",
        standard: "those that nobody inside gives, assumed"),
      TopologyKey(
        "values", \.values, .valuesToTry,
        "The values that are tried: `{ NODE.EVENT: { FIELD: [value, …] } }`, or `0..4`",
        standard: "all of truth values and bare cases, some of others"),
      TopologyKey(
        "gives", \.gives, .eventsOfEffects,
        "The events that effects may give: `{ NODE: { OUTPUT: [EVENT, …] } }`. `~` behind them: it "
          + "may also end without one",
        standard: "what the machine declares; else those that nothing else gives, assumed"),
      TopologyKey(
        "fold", \.fold, .folds,
        "Whole numbers of states that begin again at 0: `{ NODE: { FIELD: 8 } }` takes 8 for 0, 9 "
          + "for 1. States that are taken for one another must behave alike, which is checked",
        standard: "none"),
      TopologyKey(
        "any", \.any, .nodesToAssume,
        "A list of nodes that cannot be asked: they may take, and send, anything at any time",
        standard: "none"),
      TopologyKey(
        "end", \.end, .ends,
        "States in which nothing need happen any more, `{ NODE: STATE }`, or a list of such",
        standard: "none"),
      TopologyKey(
        "properties", \.properties, .properties,
        "What is to hold, by its names: `{ never: { NODE: STATE } }` or "
          + "`{ always_possible: { NODE: STATE } }`, where several nodes are in their states at "
          + "once",
        standard: "none"),
      TopologyKey(
        "allow", \.allow, .list(of: "finding", allowed),
        "A list of findings that are expected, each with the reason: they are counted, and do not "
          + "fail the check",
        standard: "none"),
    ])

  static let allowed = TopologyMapping(
    meaning: "Findings of a search that are expected.",
    start: AllowedFinding(.deadlock, reason: ""),
    keys: [
      TopologyKey("finding", \.finding, .choice, "The code of the findings", isNeeded: true),
      TopologyKey("node", \.node, .text, "The node or composite", standard: "any"),
      TopologyKey("pipe", \.pipe, .text, "The pipe, by its name", standard: "any"),
      TopologyKey("event", \.event, .text, "The label of the event", standard: "any"),
      TopologyKey("state", \.state, .text, "The label of the state", standard: "any"),
      TopologyKey("reason", \.reason, .text, "Why they are expected", isNeeded: true),
    ])

  static let property = TopologyMapping(
    meaning: "What is to hold of some states.",
    start: PropertyEntry(),
    keys: [
      TopologyKey(
        "never", \.never, .combination, "States that are never reached, all at once"),
      TopologyKey(
        "always_possible", \.alwaysPossible, .combination,
        "States that can be reached again, all at once, whatever happens"),
    ], rules: ["minProperties": 1, "maxProperties": 1]
  ) { reading, fields, entry in
    let named = ["never", "always_possible"].compactMap { fields[$0] }
    if named.isEmpty, case .mapping(let entries) = fields.place.node.content, entries.isEmpty {
      reading.report(
        .missingKey, fields.place, "says nothing; add 'never' or 'always_possible' with states")
    } else if named.count > 1 {
      reading.report(
        .conflictingKeys, at: reading.source.mark(ofKey: named[1].path),
        "\(fields.place.title) has both 'never' and 'always_possible'; make two properties of it")
    }
    return named.count == 1 && !fields.read.isEmpty
  }

  static let monitor = TopologyMapping(
    meaning: "A read-only process that watches nodes.",
    start: MonitorSpecification("", name: ""),
    keys: [
      TopologyKey(
        "monitor", \.monitor, .text, "The monitor's registered name", isNeeded: true),
      TopologyKey(
        "watch", \.watch, .watched, "A list of nodes and composites", standard: "all"),
      TopologyKey(
        "program", \.program, .text, "The program that has it, as at the top level",
        standard: "the topology's"),
      TopologyKey(
        "parameters", \.parameters, .object,
        "What the monitor takes as its parameters, where it is a `ParameterizedMonitor`",
        standard: "the monitor's own"),
      TopologyKey(
        "environment", \.environment, .environment, "Variables for this monitor",
        standard: "none"),
    ])
}

extension TopologyReading {
  /// Checks that a node has a machine or a constant, and that its keys go together; returns whether
  /// the node is usable.
  fileprivate mutating func complete(
    _ node: inout NodeSpecification, _ fields: TopologyFields
  ) -> Bool {
    if let policy = fields["on_host_loss"], fields["place"] == nil {
      report(
        .conflictingKeys, at: source.mark(ofKey: policy.path),
        "\(fields.place.owner) has 'on_host_loss' and no 'place'; add 'place: NAME', or remove it")
    }
    guard fields["constant"] == nil else {
      if let parameters = fields["parameters"] {
        report(
          .conflictingKeys, at: source.mark(ofKey: parameters.path),
          "\(fields.place.owner) is constant, so it takes no 'parameters'; remove them")
      }
      return fields.read.contains("constant")
    }
    if fields["machine"] == nil {
      report(
        .missingKey, at: source.mark(ofKey: fields.place.path),
        "\(fields.place.owner) has neither 'machine' nor 'constant'; add one")
    }
    node.constant = nil
    return fields.read.contains("machine")
  }
}
