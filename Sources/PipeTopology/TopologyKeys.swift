import PipeMachines
import PipeSupport
import PipeWire

/// The declarations of the keys in topology files.
package enum TopologyKeys {
  /// The tables in docs/TOPOLOGY.md: for each table, its heading and its lines of text.
  package static let documentationTables = [
    ("Top level", topLevel.tableLines), ("A node", node.tableLines), ("A pipe", pipe.tableLines),
    ("A composite", composite.tableLines), ("A monitor", monitor.tableLines),
    (
      "What is "
        + "explored", explore.tableLines
    ),
    ("An allowed finding", allowedFinding.tableLines),
  ]

  static let topLevel = TopologyMapping(
    meaning: "The state machines that run as processes, and the pipes between them.",
    emptyModel: Topology(name: ""),
    keys: [
      TopologyKey(
        "topology", \.name, .name,
        "The name of the topology, by which commands find it while it runs",
        isRequired: true),
      TopologyKey(
        "program", \.program, .text,
        "The executable that contains the machines of the nodes: a path relative to the file's "
          + "directory, or a name that is looked up beside `orchestrator`, beside the file, and "
          + "in `PATH`",
        default: "each node's own"),
      TopologyKey(
        "environment", \.environment, .environment, "Variables for all nodes: `{ NAME: value }`",
        default: "none"),
      TopologyKey(
        "nodes", \.nodes, .named(.node, node, \.name, isEmpty: false),
        "The nodes by name: one process each", isRequired: true),
      TopologyKey(
        "pipes", \.pipeEntries, .list(of: "pipe", pipe),
        "A list of the pipes that carry events between nodes", default: "none"),
      TopologyKey(
        "composites", \.composites, .named(.composite, composite, \.name),
        "The composites by name: nodes that take synchronized events together", default: "none"),
      TopologyKey(
        "monitors", \.monitors, .named(.monitor, monitor, \.name),
        "The monitors by name: read-only processes that start with the topology",
        default: "none"),
      TopologyKey(
        "timeouts", \.timeouts, .keys(timeouts),
        "Time limits for the start, the heartbeats and the stop of a node, without the time in "
          + "which its process waits for a processor"),
      TopologyKey("logs", \.logs, .keys(logs), "How much of each log is kept"),
      TopologyKey("journal", \.journal, .keys(journal), "How much of each journal is kept"),
      TopologyKey(
        "explore", \.explore, .section(explore, as: "explore"),
        "Settings for `orchestrator check --explore`", default: "assumed, and reported"),
      TopologyKey(
        "silence", \.silence, .warningCodes,
        "The expected warnings of `check`, as a list of their codes: `[unconnected-port]`",
        default: "none"),
    ], schemaRules: ["patternProperties": ["^x-": true]])

  private static let timeouts = TopologyMapping(
    emptyModel: Timeouts(),
    keys: [
      TopologyKey(
        "start", \.start, .positiveDuration,
        "From the start of a node's process until the node is ready"),
      TopologyKey(
        "heartbeat", \.heartbeat, .positiveDuration,
        "The longest time without a heartbeat before a node counts as hung"),
      TopologyKey("stop", \.stop, .positiveDuration, "From the request to stop until SIGKILL"),
    ])

  private static let logs = TopologyMapping(
    emptyModel: LogRetention(),
    keys: [
      TopologyKey(
        "max_size", \.maxSize, .byteSize(in: LogRetention.sizeRange),
        "The size at which a log file is rotated, such as `10MB`"),
      TopologyKey(
        "max_files", \.maxFiles, .integer(in: LogRetention.fileRange, unit: "files"),
        "The number of files to keep, including the current file"),
    ])

  private static let journal = TopologyMapping(
    emptyModel: JournalRetention(),
    keys: [
      TopologyKey(
        "records", \.records, .integer(in: JournalRetention.recordRange, unit: "records"),
        "The number of records to keep; each record has a state of the node"),
      TopologyKey(
        "record_age", \.recordAge, .positiveDuration,
        "How long a record is kept, such as `7d`, unless it is one of the last "
          + "\(JournalRetention.minimumRecordCount). Without the key, records of any age are kept"),
      TopologyKey(
        "dead_letters", \.deadLetters,
        .integer(in: JournalRetention.deadLetterRange, unit: "dead letters"),
        "The number of dead letters that are stored; further refused events are only counted"),
    ])

  static let node = TopologyMapping(
    meaning: "One process: a machine, or a state that never changes.",
    // The node before its keys are read. Its content is a placeholder: the check below requires
    // `machine` or `constant`.
    emptyModel: NodeSpecification(name: "", content: .constant(.null)),
    keys: [
      TopologyKey(
        "machine", \.machine, .text("a machine's name"),
        "The machine's registered name; a node has `machine` or `constant`"),
      TopologyKey(
        "constant", \.constant, .state,
        "The state in which the node stays; with `machine` the state is checked against that "
          + "machine's states"
      ),
      TopologyKey(
        "program", \.program, .text, "As at the top level, for this node",
        default: "the topology's"),
      TopologyKey(
        "parameters", \.parameters, .object,
        "The machine's parameters. A value of the wrong type, or that `validate()` rejects, is an "
          + "error at that value. `TopologyFile.path(of:)` resolves a file name in a parameter "
          + "relative to the topology file",
        default: "the machine's defaults"),
      TopologyKey(
        "key", \.key, .text("a field"),
        "The node has one instance of its machine for each value of this field of an event; see "
          + "[Instances](INSTANCES.md)",
        default: "one machine"),
      TopologyKey(
        "resident", \.maximumResidentInstances,
        .integer(in: NodeSpecification.residentInstancesRange, unit: "instances"),
        "With `key`: the number of instances that are kept in memory",
        default: "\(NodeSpecification.defaultResidentCount)"),
      TopologyKey(
        "final", \.finalStates, .stateLabels,
        "With `key`: a list of the states in which an instance ends. The instance then refuses "
          + "every event, with the reason `ended`",
        default: "none"),
      TopologyKey(
        "keep", \.keepDuration, .positiveDuration,
        "With `final`: how long an instance is kept after it has ended. Then the instance is "
          + "removed, and the next event for its key begins a new instance",
        default: "`7d`"),
      TopologyKey(
        "shards", \.shardsToWrite, .integer(in: NodeSpecification.shardCountRange, unit: "shards"),
        "With `key`: the number of processes among which the node divides its instances; see "
          + "[Divide a node among processes](INSTANCES.md#divide-a-node-among-processes)",
        default: "1"),
      TopologyKey(
        "environment", \.environment, .environment, "Variables for this node", default: "none"),
      TopologyKey(
        "working_directory", \.workingDirectory, .text,
        "The working directory of the process: a path relative to the file's directory",
        default: "the orchestrator's"),
      TopologyKey("stop", \.stop, .keys(stop), "How the node is stopped"),
      TopologyKey("logs", \.logs, .omittingDefault(nodeLogs), "How much of the node's log is kept"),
      TopologyKey(
        "journal", \.journal, .omittingDefault(nodeJournal),
        "How much of the node's journal is kept"),
      TopologyKey("restart", \.restart, .keys(restart), "When the node is restarted"),
      TopologyKey(
        "required", \.required, .booleanValue,
        "Whether a failure of the node stops the topology, with exit code 1"),
      TopologyKey(
        "depends_on", \.dependsOn, .dependencies,
        "A list of nodes, or `{ NODE: ready }`, or `{ NODE: { state: STATE } }`: the node starts "
          + "after these nodes are running and have been in that state, and stops before these "
          + "nodes. A node with a `key` has no state to wait for",
        default: "none"),
      TopologyKey(
        "durability", \.durability, .choice,
        "What the node's state and events survive: nothing (`none`), a crash of any process at any "
          + "time (`process`), or a loss of power as well (`power`)",
        default: "`\(Durability.standard.rawValue)`"),
      TopologyKey(
        "place", \.place, .placeName,
        "Where the node runs: the name of a place in the deployment file. Has no effect without a "
          + "deployment file",
        default: "where the orchestrator runs"),
      TopologyKey(
        "on_host_loss", \.hostLossPolicyToWrite, .choice,
        "With `place`: what happens to the node when its host may be lost: `wait` until its "
          + "process is known to have ended, or `move` to another host",
        default: "`\(HostLossPolicy.wait.rawValue)`"),
      TopologyKey(
        "was", \.was, .formerNames,
        "A list of the names that the node had before. Its journal, and the pipes whose names derive "
          + "from its name, move from these names; see "
          + "[Rename a node](MIGRATIONS.md#rename-a-node)",
        default: "none"),
    ],
    schemaRules: [
      "anyOf": [["required": ["machine"]], ["required": ["constant"]]],
      "if": ["required": ["on_host_loss"]], "then": ["required": ["place"]],
      "not": ["required": ["constant", "parameters"]],
    ]
  ) { reading, fields, node in
    reading.complete(&node, fields)
  }

  private static let stop = TopologyMapping(
    emptyModel: StopPolicy(),
    keys: [
      TopologyKey(
        "signal", \.signal, .choice,
        "The signal for a process that does not answer requests yet, or has not ended after half "
          + "of the timeout: "
          + StopSignal.allCases.map { "`\($0.rawValue)`" }.joined(separator: ", ")),
      TopologyKey(
        "timeout", \.timeout, .positiveDuration, "From the request to stop until SIGKILL",
        default: "`timeouts.stop`"),
    ])

  private static let nodeLogs = TopologyMapping(
    emptyModel: NodeSpecification.Logs(),
    keys: [
      TopologyKey(
        "max_size", \.maxSize, .byteSize(in: LogRetention.sizeRange),
        "As at the top level, for this node", default: "`logs.max_size`"),
      TopologyKey(
        "max_files", \.maxFiles, .integer(in: LogRetention.fileRange, unit: "files"),
        "As at the top level, for this node", default: "`logs.max_files`"),
    ])

  private static let nodeJournal = TopologyMapping(
    emptyModel: NodeSpecification.Journal(),
    keys: [
      TopologyKey(
        "records", \.records, .integer(in: JournalRetention.recordRange, unit: "records"),
        "As at the top level, for this node", default: "`journal.records`"),
      TopologyKey(
        "record_age", \.recordAge, .positiveDuration,
        "As at the top level, for this node", default: "`journal.record_age`"),
      TopologyKey(
        "dead_letters", \.deadLetters,
        .integer(in: JournalRetention.deadLetterRange, unit: "dead letters"),
        "As at the top level, for this node", default: "`journal.dead_letters`"),
    ])

  private static let restart = TopologyMapping(
    emptyModel: RestartPolicy(),
    keys: [
      TopologyKey(
        "policy", \.mode, .choice,
        "When a node whose process has ended is restarted: `never`, `on-failure` or `always`"),
      TopologyKey(
        "max", \.maximumRestarts,
        .integer(in: RestartPolicy.maximumRestartsRange, unit: "restarts"),
        "The number of restarts within the window before the node counts as failed"),
      TopologyKey("window", \.window, .positiveDuration, "How long a restart counts toward `max`"),
      TopologyKey(
        "backoff", \.backoff, .keys(backoff),
        "The delay before a restart, doubled from `initial` up to `max`"),
    ])

  private static let backoff = TopologyMapping(
    emptyModel: Backoff(),
    keys: [
      TopologyKey("initial", \.initial, .duration, "The delay before the first restart"),
      TopologyKey("max", \.max, .duration, "The longest delay"),
      TopologyKey(
        "jitter", \.jitter, .unitFraction,
        "The fraction of a delay that may be subtracted at random, from 0 to 1"),
    ]
  ) { reading, fields, backoff in
    if backoff.initial > backoff.max {
      reading.report(
        .badValue, fields.cursor,
        "has 'initial' \(DurationText.write(backoff.initial)), which is above its 'max' "
          + "\(DurationText.write(backoff.max)); lower 'initial' or raise 'max'")
    }
    return true
  }

  static let dependency = TopologyMapping<StateCondition?>(
    meaning: "What a node waits for after another node is running.",
    emptyModel: nil,
    keys: [
      TopologyKey(
        "state", \.self, .condition,
        "A state's label, with any values; `{ label: { field: value } }`; or some fields of a "
          + "struct")
    ], schemaRules: ["required": ["state"]]
  ) { reading, fields, _ in
    // Unknown keys are already reported. A mapping with only unknown keys gets no second error.
    if case .mapping(let entries) = fields.cursor.node.content, entries.isEmpty {
      reading.report(
        .missingKey, fields.cursor, "has no 'state'; add it, or write 'ready' without braces")
    }
    return true
  }

  static let pipe = TopologyMapping(
    meaning: "A bounded queue of events from one node to another.",
    emptyModel: PipeEntry(),
    keys: [
      TopologyKey(
        "from", \.from, .pipeEnd,
        "`NODE.PORT`, an out-port that the machine declares; or `NODE` or `COMPOSITE`, with "
          + "`when` and `send`",
        isRequired: true),
      TopologyKey(
        "when", \.enteredState, .enteredState,
        "A state of the sender: an event is sent on each entry into that state. For a composite, a "
          + "state of its projection, or without a projection the states of nodes, `{ NODE: "
          + "STATE }`"),
      TopologyKey("to", \.to, .pipeEnd, "`NODE`, or `NODE.PORT`, or `COMPOSITE`", isRequired: true),
      TopologyKey(
        "send", \.sentEvent, .event,
        "The event to send: a label, or `{ label: { field: value } }`. `$name` is the state's "
          + "value of that name, `$_0` its first value without a label, `$$` a dollar sign; for "
          + "a composite without a projection, `$NODE` is that node's state"),
      TopologyKey(
        "name", \.pipe.name, .pipeName, "The pipe's name",
        default: "derived from its ends: `door:closed->motor:start`"),
      TopologyKey(
        "capacity", \.pipe.capacity,
        .integer(in: PipeSpecification.capacityRange, unit: "events"),
        "The number of events in flight at which the sender stops accepting further events, from "
          + "\(PipeSpecification.capacityRange.lowerBound) to "
          + "\(PipeSpecification.capacityRange.upperBound)"),
      TopologyKey(
        "on_refused", \.pipe.onRefused, .choice,
        "What happens to an event that the receiver refuses: `record` it as a dead letter, "
          + "`ignore` it, `postpone` it until the state changes, or `fail` the node"),
      TopologyKey(
        "durability", \.pipe.durability, .choice,
        "As for a node, and not higher than the durability of its two nodes",
        default: "the lower "
          + "durability of its nodes"),
      TopologyKey(
        "was", \.pipe.was, .formerPipeNames,
        "A list of the names that the pipe had before, from which its events move",
        default: "none"),
    ],
    schemaRules: [
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
    meaning: "Nodes that take some events together, and all other events separately.",
    emptyModel: CompositeSpecification(name: "", components: []),
    keys: [
      TopologyKey(
        "components", \.components, .uniqueNames,
        "A list of nodes with a machine, and of other composites", isRequired: true),
      TopologyKey(
        "key", \.key, .text("a field"),
        "Required if the nodes have a `key`, which must be the same: a synchronized event then "
          + "concerns the instances with the value of this field; see "
          + "[Instances](INSTANCES.md#take-an-event-together)",
        default: "the nodes have no `key`"),
      TopologyKey(
        "synchronize", \.synchronize, .synchronized,
        "The events that components take together, all or none: `{ EVENT: [COMPONENT, …] }`, or a "
          + "list of events. Without a list of participants, every component that accepts the "
          + "event in some state participates",
        default: "none: each event belongs to one component"),
      TopologyKey(
        "projection", \.projection, .text,
        "A composite state that the program registers, computed from the nodes' states in the "
          + "order of `components`",
        default: "an object with the nodes' states by name"),
      TopologyKey(
        "program", \.program, .text,
        "The program that coordinates the composite, as at the top level",
        default: "the topology's"),
      TopologyKey(
        "within", \.within, .text,
        "A participating node whose process embeds the coordinator: events cost less, but while "
          + "that node computes or restarts, no event is coordinated. The same node for all "
          + "composites that share participants",
        default: "a separate process"),
      TopologyKey(
        "was", \.was, .formerNames,
        "A list of the names that the composite had before, as for a node",
        default: "none"),
    ]
  ) { _, fields, _ in
    // A composite without components is unusable. Its other keys are still read, to report their
    // errors.
    fields.readKeys.contains("components")
  }

  static let explore = TopologyMapping(
    meaning: "Settings for the search of all reachable states.",
    emptyModel: ExploreSection(),
    keys: [
      TopologyKey(
        "capacity", \.capacity, .integer(in: PipeSpecification.capacityRange, unit: "events"),
        "The maximum number of events in each pipe during the search, unless the pipe's own "
          + "capacity is lower",
        default: "\(ExploreSection.defaultCapacity) at first, raised while the verdict may "
          + "depend on it"),
      TopologyKey(
        "keys", \.instanceCountsByNode, .keyCounts,
        "The number of instances of nodes with a `key`, from "
          + "\(ExploreSection.keyCountRange.lowerBound) to \(ExploreSection.keyCountRange.upperBound): "
          + "`{ NODE: 3 }`",
        default: "\(ExploreSection.defaultKeyCount) for each node with a `key`"),
      TopologyKey(
        "from_outside", \.fromOutside, .eventsFromOutside,
        "The events that come from outside: `{ NODE: [EVENT, …] }`, with the name of a node or "
          + "composite. An event is a label, or `{ label: { field: value } }`, where `0..4` is a "
          + "range of integers",
        default: "assumed: events that no node or effect sends"),
      TopologyKey(
        "values", \.values, .valuesToTry,
        "The values to try: `{ NODE.EVENT: { FIELD: [value, …] } }`, or `0..4`",
        default: "all values of Booleans and of cases without values, some values of other types"),
      TopologyKey(
        "gives", \.effectEvents, .eventsOfEffects,
        "The events that effects may send: `{ NODE: { OUTPUT: [EVENT, …] } }`. `~` at the end: the "
          + "effect may also end without an event",
        default: "the events that the machine declares; without a declaration assumed: events that "
          + "have no other sender"),
      TopologyKey(
        "fold", \.foldModuli, .folds,
        "Integer fields of states that wrap to 0: `{ NODE: { FIELD: 8 } }` treats 8 as 0, and 9 as "
          + "1. The merged states must behave alike, which is checked",
        default: "none"),
      TopologyKey(
        "any", \.unevaluatedNodes, .nodesToAssume,
        "A list of nodes whose steps cannot be searched: these nodes may accept and send any event "
          + "at any time",
        default: "none"),
      TopologyKey(
        "end", \.allowedEndStates, .ends,
        "Final states, which are no deadlocks: `{ NODE: STATE }`, or a list of such mappings",
        default: "none"),
      TopologyKey(
        "properties", \.properties, .properties,
        "The properties to check, by name: `{ never: { NODE: STATE } }` or `{ always_possible: { "
          + "NODE: STATE } }`, where several nodes are in their states at the same time",
        default: "none"),
      TopologyKey(
        "allow", \.allow, .list(of: "finding", allowedFinding),
        "A list of expected findings, each with a reason: these findings are counted, and do not "
          + "fail the check",
        default: "none"),
    ])

  static let allowedFinding = TopologyMapping(
    meaning: "Findings of a search that are expected.",
    emptyModel: AllowedFinding(.deadlock, reason: ""),
    keys: [
      TopologyKey("finding", \.kind, .choice, "The code of the findings", isRequired: true),
      TopologyKey("node", \.node, .text, "The node or composite", default: "any"),
      TopologyKey("pipe", \.pipe, .text, "The pipe, by its name", default: "any"),
      TopologyKey("event", \.event, .text, "The label of the event", default: "any"),
      TopologyKey("state", \.state, .text, "The label of the state", default: "any"),
      TopologyKey("reason", \.reason, .text, "Why the findings are expected", isRequired: true),
    ])

  static let property = TopologyMapping(
    meaning: "A property of states.",
    emptyModel: PropertyEntry(),
    keys: [
      TopologyKey(
        "never", \.never, .combination, "States that the nodes must never be in at the same time"),
      TopologyKey(
        "always_possible", \.alwaysPossible, .combination,
        "States that the nodes must always be able to reach at the same time"),
    ], schemaRules: ["minProperties": 1, "maxProperties": 1]
  ) { reading, fields, entry in
    let named = ["never", "always_possible"].compactMap { fields[$0] }
    if named.isEmpty, case .mapping(let entries) = fields.cursor.node.content, entries.isEmpty {
      reading.report(
        .missingKey, fields.cursor, "is empty; add 'never' or 'always_possible' with states")
    } else if named.count > 1 {
      reading.report(
        .conflictingKeys, at: reading.source.position(ofKey: named[1].path),
        "\(fields.cursor.title) has both 'never' and 'always_possible'; split it into two properties"
      )
    }
    return named.count == 1 && !fields.readKeys.isEmpty
  }

  static let monitor = TopologyMapping(
    meaning: "A read-only process that watches nodes.",
    emptyModel: MonitorSpecification("", name: ""),
    keys: [
      TopologyKey(
        "monitor", \.monitor, .text, "The monitor's registered name", isRequired: true),
      TopologyKey(
        "watch", \.watchedNames, .watchedNames, "A list of nodes and composites", default: "all"),
      TopologyKey(
        "program", \.program, .text, "The program that contains the monitor, as at the top level",
        default: "the topology's"),
      TopologyKey(
        "parameters", \.parameters, .object,
        "The parameters of the monitor, if the monitor is a `ParameterizedMonitor`",
        default: "the monitor's defaults"),
      TopologyKey(
        "environment", \.environment, .environment, "Variables for this monitor",
        default: "none"),
    ])
}

extension TopologyReading {
  /// Checks that a node has a machine or a constant state, and that its keys do not conflict.
  /// Returns whether the node is usable.
  fileprivate mutating func complete(
    _ node: inout NodeSpecification, _ fields: TopologyFields
  ) -> Bool {
    if let policy = fields["on_host_loss"], fields["place"] == nil {
      report(
        .conflictingKeys, at: source.position(ofKey: policy.path),
        "\(fields.cursor.owner) has 'on_host_loss', but no 'place'; add 'place: NAME', or remove "
          + "'on_host_loss'")
    }
    guard fields["constant"] == nil else {
      if let parameters = fields["parameters"] {
        report(
          .conflictingKeys, at: source.position(ofKey: parameters.path),
          "\(fields.cursor.owner) is constant and accepts no 'parameters'; remove them")
      }
      return fields.readKeys.contains("constant")
    }
    if fields["machine"] == nil {
      report(
        .missingKey, at: source.position(ofKey: fields.cursor.path),
        "\(fields.cursor.owner) has neither 'machine' nor 'constant'; add one of them")
    }
    node.constant = nil
    return fields.readKeys.contains("machine")
  }
}
