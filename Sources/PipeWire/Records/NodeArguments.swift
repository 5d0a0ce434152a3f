import PipeMachines
import PipeSupport

/// How the orchestrator starts a node: `PROGRAM run --node NAME …`.
package struct NodeArguments: Hashable, Sendable {
  /// What the node hosts.
  package enum Content: Hashable, Sendable {
    case machine(String, parameters: JSONValue)
    /// A state that never changes, checked against the machine's state type where one is named.
    case constant(JSONValue, machine: String?)
    /// A monitor of some nodes, or of all.
    case monitor(String, watch: [String]?)
    /// The coordinator of some composites, of which the configuration tells more.
    case composites([String])
  }

  package var topology: String
  package var node: String
  package var content: Content
  package var control: String
  package var inbox: String
  package var feed: String
  package var incarnation: UInt64
  /// Where its journal is; `nil` where it keeps none.
  package var journal: Journal?

  /// A journal and what it survives.
  package struct Journal: Hashable, Sendable {
    package var path: String
    package var durability: Durability

    package init(path: String, durability: Durability) {
      self.path = path
      self.durability = durability
    }
  }

  package init(
    topology: String, node: String, content: Content, control: String, inbox: String, feed: String,
    incarnation: UInt64, journal: Journal? = nil
  ) {
    self.journal = journal
    self.topology = topology
    self.node = node
    self.content = content
    self.control = control
    self.inbox = inbox
    self.feed = feed
    self.incarnation = incarnation
  }

  /// The descriptor of a node's record, which an orchestrator leaves open for it: see
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
    case .monitor(let monitor, let watch):
      list += ["--monitor", monitor]
      if let watch { list += ["--watch", watch.joined(separator: ",")] }
    case .composites(let names): list += ["--composites", names.joined(separator: ",")]
    }
    if let journal {
      list += ["--journal", journal.path, "--durability", journal.durability.rawValue]
    }
    return list + [
      "--control", control, "--inbox", inbox, "--feed", feed, "--incarnation",
      String(incarnation),
    ]
  }

  /// Reads what follows `run`.
  package init(parsing arguments: some Sequence<String>) throws(NodeUsageError) {
    var values: [String: String] = [:]
    var iterator = arguments.makeIterator()
    while let name = iterator.next() {
      guard Self.names.contains(name) else { throw .unknownOption(name) }
      guard let value = iterator.next() else { throw .missingValue(name) }
      values[name] = value
    }
    func required(_ name: String) throws(NodeUsageError) -> String {
      guard let value = values[name] else { throw .missingOption(name) }
      return value
    }
    func json(_ name: String) throws(NodeUsageError) -> JSONValue? {
      guard let text = values[name] else { return nil }
      guard let value = try? JSONValue(parsing: text.utf8) else { throw .notJSON(name, text) }
      return value
    }
    topology = try required("--topology")
    node = try required("--node")
    control = try required("--control")
    inbox = try required("--inbox")
    feed = try required("--feed")
    guard let incarnation = UInt64(values["--incarnation"] ?? "1") else {
      throw .notJSON("--incarnation", values["--incarnation"]!)
    }
    self.incarnation = incarnation
    if let path = values["--journal"] {
      let level = values["--durability"] ?? Durability.process.rawValue
      guard let durability = Durability(rawValue: level), durability != .volatile else {
        throw .notJSON("--durability", level)
      }
      journal = Journal(path: path, durability: durability)
    }
    if let state = try json("--constant") {
      content = .constant(state, machine: values["--machine"])
    } else if let names = values["--composites"] {
      content = .composites(names.split(separator: ",").map(String.init))
    } else if let monitor = values["--monitor"] {
      content = .monitor(
        monitor, watch: values["--watch"]?.split(separator: ",").map(String.init))
    } else {
      content = .machine(
        try required("--machine"), parameters: try json("--parameters") ?? .null)
    }
  }

  private static let names: Set<String> = [
    "--topology", "--node", "--machine", "--parameters", "--constant", "--monitor", "--watch",
    "--composites",
    "--control", "--inbox", "--feed", "--incarnation", "--journal", "--durability",
  ]
}

/// A node program called with arguments that it does not take.
package enum NodeUsageError: Error, Hashable, Sendable, CustomStringConvertible {
  case unknownOption(String)
  case missingValue(String)
  case missingOption(String)
  case notJSON(String, String)

  package var description: String {
    switch self {
    case .unknownOption(let name): "unknown option '\(name)'"
    case .missingValue(let name): "'\(name)' needs a value"
    case .missingOption(let name):
      "'\(name)' is missing. Nodes are started by 'orchestrator run FILE'."
    case .notJSON(let name, let text): "the value of '\(name)' is malformed: '\(text)'"
    }
  }
}
