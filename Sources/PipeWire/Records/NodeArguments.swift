import PipeMachines
import PipeSystem

/// The arguments with which the orchestrator starts a node: `PROGRAM run --node NAME …`.
package struct NodeArguments: Hashable, Sendable {
  /// The kind of node, with the arguments for that kind.
  package enum Content: Hashable, Sendable {
    case machine(String, parameters: JSONValue)
    /// A constant state. If a machine is named, the state is checked against the machine's state type.
    case constant(JSONValue, machine: String?)
    /// A monitor of the nodes in `watch` or, if `watch` is `nil`, of all nodes.
    case monitor(String, watch: [String]?, parameters: JSONValue = [:])
    /// The coordinator of these composites. The node's configuration contains their plan.
    case composites([String])
  }

  package var topology: String
  package var node: String
  package var content: Content
  package var control: String
  package var inbox: String
  package var feed: String
  package var incarnation: UInt64
  /// The node's journal; `nil` if the node keeps none.
  package var journal: Journal?
  /// The node's keys for connections between hosts; `nil` if all nodes are on one host.
  package var keys: Keys?
  /// The maximum time that the node may run without contact to its orchestrator; `nil` means no
  /// limit. For an embedded coordinator, the carrier node enforces the limit.
  package var lease: Duration?
  /// The settings of a node with a `key`; `nil` if the node has one machine.
  package var instances: Instances?

  /// The location of a node's own key pair, and the key of its orchestrator.
  package struct Keys: Hashable, Sendable {
    /// The path of the file with the node's key pair. No other process uses this pair.
    package var path: String
    /// The public key of the orchestrator's control socket.
    package var orchestratorKey: String

    /// The value of `path` if there is no file: the node receives its key pair on standard input,
    /// or in its `embed` frame.
    package static let inlinePath = "-"

    package init(path: String, orchestratorKey: String) {
      self.path = path
      self.orchestratorKey = orchestratorKey
    }

    /// A copy of the keys with `-` as the path, for a process that cannot read the key file.
    package var inlineKeys: Keys { Keys(path: Self.inlinePath, orchestratorKey: orchestratorKey) }
  }

  /// The settings of a node with one instance of its machine for each value of a key.
  package struct Instances: Hashable, Sendable {
    /// The name of the event field that contains the key.
    package var key: String
    /// The maximum number of instances in memory; `nil` means the default.
    package var maximumInMemory: Int?
    /// The names of the final states.
    package var finalStates: [String]
    /// How long an instance is kept after it has ended; `nil` means the default.
    package var retention: Duration?
    /// The shard that the process runs; `nil` if the node has one process.
    package var shard: NodeShard?

    package init(
      key: String, maximumInMemory: Int? = nil, finalStates: [String] = [],
      retention: Duration? = nil,
      shard: NodeShard? = nil
    ) {
      self.shard = shard
      self.key = key
      self.maximumInMemory = maximumInMemory
      self.finalStates = finalStates
      self.retention = retention
    }
  }

  /// A journal, its durability and its limits.
  package struct Journal: Hashable, Sendable {
    package var path: String
    package var durability: Durability
    package var retention: JournalRetention

    package init(
      path: String, durability: Durability, retention: JournalRetention = JournalRetention()
    ) {
      self.path = path
      self.durability = durability
      self.retention = retention
    }

    /// The options for the journal. Limits with default values have no options, so that a former
    /// orchestrator's process has the same arguments.
    fileprivate var arguments: [String] {
      var list = ["--journal", path, "--durability", durability.rawValue]
      let standard = JournalRetention()
      if retention.records != standard.records { list += ["--records", String(retention.records)] }
      if let age = retention.recordAge { list += ["--record-age", String(age.wholeMilliseconds)] }
      if retention.deadLetters != standard.deadLetters {
        list += ["--dead-letters", String(retention.deadLetters)]
      }
      return list
    }

    fileprivate init(path: String, _ parsed: ParsedArguments) {
      self.init(path: path, durability: parsed.value("durability") ?? .process)
      if let count = parsed.numberValue("records") { retention.records = Int(clamping: count) }
      retention.recordAge = parsed.numberValue("record-age").map { .milliseconds($0) }
      if let count = parsed.numberValue("dead-letters") {
        retention.deadLetters = Int(clamping: count)
      }
    }
  }

  package init(
    topology: String, node: String, content: Content, control: String, inbox: String, feed: String,
    incarnation: UInt64, journal: Journal? = nil, keys: Keys? = nil, lease: Duration? = nil,
    instances: Instances? = nil
  ) {
    self.instances = instances
    self.lease = lease
    self.journal = journal
    self.keys = keys
    self.topology = topology
    self.node = node
    self.content = content
    self.control = control
    self.inbox = inbox
    self.feed = feed
    self.incarnation = incarnation
  }

  /// The descriptor of the node's record, which the node inherits from the orchestrator. See
  /// ``ProcessRecord``.
  package static let recordDescriptor: Int32 = 3

  /// The argument vector without the program's name.
  package var arguments: [String] {
    var list = ["run", "--topology", topology, "--node", node]
    switch content {
    case .machine(let machine, let parameters):
      list += ["--machine", machine]
      if parameters != .null { list += ["--parameters", parameters.text] }
    case .constant(let state, let machine):
      list += ["--constant", state.text]
      if let machine { list += ["--machine", machine] }
    case .monitor(let monitor, let watch, let parameters):
      list += ["--monitor", monitor]
      if parameters != [:] { list += ["--parameters", parameters.text] }
      if let watch { list += ["--watch", watch.joined(separator: ",")] }
    case .composites(let names): list += ["--composites", names.joined(separator: ",")]
    }
    if let journal { list += journal.arguments }
    if let keys { list += ["--key", keys.path, "--control-key", keys.orchestratorKey] }
    if let instances {
      list += ["--instance-key", instances.key]
      if let resident = instances.maximumInMemory { list += ["--resident", String(resident)] }
      if !instances.finalStates.isEmpty {
        list += ["--final", instances.finalStates.joined(separator: ",")]
      }
      if let keep = instances.retention { list += ["--keep", String(keep.wholeMilliseconds)] }
      if let shard = instances.shard { list += ["--shards", String(shard.count)] }
    }
    if let lease { list += ["--lease", String(lease.wholeMilliseconds)] }
    return list + [
      "--control", control, "--inbox", inbox, "--feed", feed, "--incarnation",
      String(incarnation),
    ]
  }

  /// Returns the description of the command `PROGRAM run`.
  package static func description(of program: String) -> CommandDescription {
    let names = ValueKind.text("A,B")
    return CommandDescription(
      "run", of: program, "Runs one node; 'orchestrator run FILE' calls this command",
      options: [
        Option("topology", value: .topology, "The topology that the node is part of"),
        Option("node", value: .node, "The node's name"),
        Option("machine", value: .text("MACHINE"), "The registered name of the node's machine"),
        Option("parameters", value: .text("JSON"), "The parameters of the machine or the monitor"),
        Option("constant", value: .text("JSON"), "The state of a constant node"),
        Option("monitor", value: .text("MONITOR"), "The registered name of the monitor to run"),
        Option("watch", value: names, "The nodes that a monitor watches. Default: all"),
        Option("composites", value: names, "The composites that the node coordinates"),
        Option("control", value: .text("ENDPOINT"), "The endpoint of the orchestrator"),
        Option("inbox", value: .text("ENDPOINT"), "The endpoint at which the node accepts events"),
        Option(
          "feed", value: .text("ENDPOINT"),
          "The endpoint at which the node publishes its "
            + "states"),
        Option("incarnation", value: .count("N"), "The number of starts of the node. Default: 1"),
        Option("journal", value: .file, "The file of the node's journal. Default: no journal"),
        Option(
          "durability", value: .choice("LEVEL", [Durability.process, .power].map(\.rawValue)),
          "What the journal survives. Default: process"),
        Option(
          "records", value: .count("N", from: 8),
          "The number of records that the journal keeps. Default: 1000"),
        Option(
          "record-age", value: .count("MS", from: 1),
          "How long the journal keeps a record, in milliseconds. Default: any time"),
        Option(
          "dead-letters", value: .count("N", from: 1),
          "The number of dead letters that the journal stores. Default: 10000"),
        Option(
          "key", value: .file,
          "The file of the node's key pair; - reads standard input. Default: no key pair"),
        Option(
          "control-key", value: .text("KEY"), "The public key of the orchestrator, with '--key'"),
        Option(
          "instance-key", value: .text("FIELD"),
          "The field of events by which the node has one instance of its machine for each value. "
            + "Default: one machine"),
        Option(
          "resident", value: .count("N", from: 1),
          "Maximum number of instances in memory, with '--instance-key'. Default: 100000"),
        Option(
          "final", value: .text("A,B"),
          "The states in which an instance ends, with '--instance-key'. Default: none"),
        Option(
          "keep", value: .count("MS", from: 1),
          "How long an instance is kept after it has ended, in milliseconds. Default: 7 days"),
        Option(
          "shards", value: .count("N", from: 2),
          "The number of shards of the node, which has the name NODE.INDEX. Default: 1"),
        Option(
          "lease", value: .count("MS", from: 1),
          "Maximum time without contact to the orchestrator, in milliseconds. Default: no limit"),
      ])
  }

  /// Parses the arguments after `run`.
  package init(_ parsed: ParsedArguments, of program: String) throws(UsageError) {
    let description = Self.description(of: program)
    func required(_ name: String) throws(UsageError) -> String {
      try parsed.required(name, of: description)
    }
    topology = try required("topology")
    node = try required("node")
    control = try required("control")
    inbox = try required("inbox")
    feed = try required("feed")
    incarnation = parsed.numberValue("incarnation") ?? 1
    journal = parsed.value("journal").map { Journal(path: $0, parsed) }
    keys = try parsed.value("key").map { (path) throws(UsageError) in
      Keys(path: path, orchestratorKey: try required("control-key"))
    }
    lease = parsed.numberValue("lease").map { .milliseconds($0) }
    instances = parsed.value("instance-key").map { [node] in
      Instances(
        key: $0, maximumInMemory: parsed.numberValue("resident").map { Int(clamping: $0) },
        finalStates: parsed.commaSeparatedValues("final") ?? [],
        retention: parsed.numberValue("keep").map { .milliseconds($0) },
        shard: parsed.numberValue("shards").flatMap {
          NodeShard(named: node, count: Int(clamping: $0))
        })
    }
    if let state = try parsed.json("constant") {
      content = .constant(state, machine: parsed.value("machine"))
    } else if let names = parsed.commaSeparatedValues("composites") {
      content = .composites(names)
    } else if let monitor = parsed.value("monitor") {
      content = .monitor(
        monitor, watch: parsed.commaSeparatedValues("watch"),
        parameters: try parsed.json("parameters") ?? [:])
    } else {
      content = .machine(
        try required("machine"), parameters: try parsed.json("parameters") ?? .null)
    }
  }
}

extension ParsedArguments {
  /// Returns the value of a JSON option.
  fileprivate func json(_ name: String) throws(UsageError) -> JSONValue? {
    guard let text = value(name) else { return nil }
    return try JSONValue(argument: text, of: "--" + name)
  }
}

extension JSONValue {
  /// Parses the value of a JSON option.
  package init(argument text: String, of option: String) throws(UsageError) {
    guard let value = try? JSONValue(parsing: text.utf8) else {
      throw .invalidValue(for: option, value: text, expected: "expected JSON")
    }
    self = value
  }
}
