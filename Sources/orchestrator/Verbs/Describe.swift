import PipeDiagrams
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator describe`.
struct Describe: Verb {
  let description = VerbDescription(
    "describe", "Describes nodes and composites: states, events and ports",
    discussion:
      "Describes the nodes of a running topology or, with --file, of a topology file. With "
      + "--file, the command asks the programs for descriptions, and runs no node.",
    options: [
      .topology,
      Option(
        "file", value: .file,
        "Describes the topology in this file; the topology does not have to be running"),
      .output,
      Option(
        "graph",
        "Adds the transitions of each machine. They are found by asking the machine's program "
          + "for single steps; 'orchestrator graph' draws them"),
      Option("quiet", "q", "Prints only the names of nodes and composites"),
      Option("events", "Prints only the names of the events that the nodes accept, one per line"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes and composites. Default: all")],
    examples: [
      ("orchestrator describe door -o json", "Describes the door as JSON"),
      (
        "orchestrator describe lift",
        "Shows the synchronized events and the status of a composite"
      ),
      (
        "orchestrator describe --file topologies/lift.yaml lift",
        "Describes the composite from the file"
      ),
      ("orchestrator describe --graph door", "Lists the transitions of the door, one per line"),
      ("orchestrator describe --events door", "Lists the names of the door's events, for scripts"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let reports =
      if let file = arguments.value("file") {
        try reportsFromFile(file, arguments.positionals)
      } else {
        try await reportsFromTopology(arguments)
      }
    if arguments.contains(option: "quiet") || arguments.contains(option: "events") {
      for line in Self.names(reports, events: arguments.contains(option: "events")) {
        try console.print(line)
      }
      return .success
    }
    let charts = arguments.contains(option: "graph") ? try await charts(reports, arguments) : [:]
    try console.print(
      reports.map { $0.record(charts[$0.name]) }, as: arguments.format,
      lines: Array(
        reports.map { $0.lines(console.style) + Self.lines(of: charts[$0.name], console.style) }
          .joined(separator: [""])))
    return .success
  }

  /// Returns the state charts of the nodes that have a machine, by node.
  private func charts(
    _ reports: [any DescribeReport], _ arguments: ParsedArguments
  ) async throws -> [String: StateChart] {
    let loaded: LoadedTopology
    if let file = arguments.value("file") {
      loaded = try LoadedTopology.load(.file(file))
    } else {
      try arguments.requireLocalTopology("--graph reads the topology file and asks the programs")
      loaded =
        try LoadedTopology.load(
          fileOf: try await arguments.onTopology { try await $0.directory(fresh: false) })
    }
    var charts: [String: StateChart] = [:]
    let machines = loaded.topology.nodes.filter { $0.constant == nil }.map(\.name)
    for report in reports where machines.contains(report.name) {
      charts[report.name] = try loaded.chart(of: report.name)
    }
    return charts
  }

  private static func lines(of chart: StateChart?, _ style: Style) -> [String] {
    guard let chart else { return [] }
    let lines = chart.lines + chart.notes.map { "note: \($0)" }
    return lines.enumerated().map { number, line in
      "  " + style.dim((number == 0 ? "graph" : "").padded(to: 13)) + line.printable
    }
  }

  private static func names(_ reports: [any DescribeReport], events: Bool) -> [String] {
    guard events else { return reports.map(\.name) }
    var seen: Set<String> = []
    return reports.flatMap(\.events).filter { seen.insert($0).inserted }
  }

  private func reportsFromTopology(_ arguments: ParsedArguments) async throws
    -> [any DescribeReport]
  {
    let nodes = arguments.positionals
    let (found, machines, classes, pipes) = try await arguments.onTopology { topology in
      let directory = try await topology.directory()
      let found = try directory.nodes(named: nodes)
      let hasComposites = found.contains { $0.kind == .composite }
      let classes = hasComposites ? try await topology.conflictClasses() : []
      var machines: [String: MachineDescription] = [:]
      for node in found where node.kind != .composite {
        do {
          machines[node.name] = try await topology.describe(node.name)
        } catch TopologyClientError.failed {
          // The node has not described itself yet, so the report shows only the node's status.
        }
      }
      return (found, machines, classes, directory.pipes)
    }
    return found.map { node -> any DescribeReport in
      if let conflictClass = classes.first(where: { $0[node.name] != nil }),
        let plan = conflictClass[node.name]
      {
        return CompositeDescribeReport(
          composite: plan, conflictClass: conflictClass, node: node, pipes: pipes)
      }
      return NodeDescribeReport(node: node, machine: machines[node.name], pipes: pipes)
    }
  }

  private func reportsFromFile(_ path: String, _ names: [String]) throws -> [any DescribeReport] {
    let loaded = try LoadedTopology.load(.file(path))
    let reports: [any DescribeReport] =
      loaded.topology.nodes.map { NodeDescribeReport(of: $0, in: loaded) }
      + CompositeDescribeReport.all(of: loaded.conflictClasses)
    if names.isEmpty { return reports }
    return try names.map { name in
      guard let report = reports.first(where: { $0.name == name }) else {
        throw TopologyClientError.unknownNode(name, known: reports.map(\.name))
      }
      return report
    }
  }
}

/// The description of one node or composite.
private protocol DescribeReport {
  var name: String { get }
  /// The names of the events that the node or composite accepts.
  var events: [String] { get }
  var record: JSONValue { get }
  func lines(_ style: Style) -> [String]
}

extension DescribeReport {
  /// Returns the report as JSON, with the state chart if it is known.
  fileprivate func record(_ chart: StateChart?) -> JSONValue {
    guard let chart, case .object(var members) = record else { return record }
    members["graph"] = chart.json
    return .object(members)
  }
}

extension CompositeDescribeReport: DescribeReport {
  fileprivate var events: [String] {
    composite.events.map(\.name) + composite.nodesByOwnEvent.keys.sorted()
  }
}

extension NodeDescribeReport: DescribeReport {
  fileprivate var name: String { node.name }

  fileprivate var events: [String] {
    (machine?.events ?? []).map(\.name).filter { machine?.alphabet.contains($0) == true }
  }

  /// Creates the report about a node from the topology's file. The topology does not have to be
  /// running.
  fileprivate init(of node: NodeSpecification, in loaded: LoadedTopology) {
    let topology = loaded.topology
    self.init(
      node: NodeInformation(
        name: node.name, kind: node.constant == nil ? .machine : .constant, hosts: node.machine,
        program: topology.program(of: node).flatMap { loaded.programs[$0] } ?? "",
        phase: "described", isRunning: false, inbox: "", feed: "",
        durability: topology.durability(of: node.name)),
      machine: node.constant == nil ? loaded.descriptions[node.name] : nil,
      pipes: loaded.pipes.map {
        PipeInformation(name: $0.name, from: $0.sender, to: $0.receiver, capacity: $0.capacity)
      })
  }
}

/// The output of `describe` for one node.
struct NodeDescribeReport {
  let node: NodeInformation
  /// The description of the machine; `nil` if the node has not described itself yet.
  let machine: MachineDescription?
  /// The topology's pipes.
  let pipes: [PipeInformation]

  /// Returns a heading, and one or more lines for each known property.
  func lines(_ style: Style) -> [String] {
    var parts = [
      (node.kind.rawValue, [node.hosts, node.program].compactMap(\.self).filter { !$0.isEmpty })
    ]
    if node.kind == .machine {
      parts.append(("durability", [node.durability.rawValue, node.journal].compactMap(\.self)))
    }
    if let machine { parts += Self.parts(of: machine) }
    let timer = node.isRunning ? node.status?.timer : nil
    parts.append(("timer", [timer?.text(at: WallClock.nanoseconds)].compactMap(\.self)))
    parts.append(("in doubt", node.doubts.map { $0.wording(since: style.time) }))
    return [heading(style)] + style.lines(of: parts + traffic, labelWidth: 12)
  }

  /// Returns the first line, such as `door  running  closed  (version 3)`.
  func heading(_ style: Style) -> String {
    let state = node.stateText.isEmpty ? "" : "  " + node.stateText.printable
    let version = node.versionText.map { "  (\($0))" } ?? ""
    return "\(style.bold(node.name))  \(style.colorByPhase(node.phase))\(state)\(version)"
  }

  /// The lines about the incoming pipes, the outgoing pipes, the ignored events and the dead
  /// letters.
  var traffic: [(String, [String])] {
    [
      ("pipes in", pipes.filter { $0.to == node.name }.map(inPipeText)),
      ("pipes out", pipes.filter { $0.from == node.name }.map(outPipeText)),
      ("ignored events", node.status?.ignored.map { ["\($0)"] } ?? []),
      ("dead letters", deadLetters),
    ]
  }

  /// The JSON form.
  var record: JSONValue {
    [
      "node": .string(node.name),
      "description": machine.flatMap { try? JSONValue(encoding: $0) } ?? .null,
      "status": node.record(now: WallClock.nanoseconds),
    ]
  }

  private static func parts(of machine: MachineDescription) -> [(String, [String])] {
    let unacceptedEvents = machine.events.filter { !machine.alphabet.contains($0.name) }
    return [
      ("error", [machine.error].compactMap(\.self)),
      ("initial", machine.initial == .null ? [] : [machine.stateText(machine.initial)]),
      ("states", machine.states.map(\.signature)),
      ("state", machine.stateFields.map { $0.map { "\($0.name): \($0.type)" } } ?? []),
      ("events", machine.events.filter { machine.alphabet.contains($0.name) }.map(\.signature)),
      ("never takes", unacceptedEvents.map(\.signature)),
      ("timers", (machine.timers ?? []).map(\.text)),
      (
        "ignores",
        machine.states.compactMap { state in
          machine.ignored?[state.name].map { "in \(state.name): \($0.joined(separator: ", "))" }
        }
      ),
      ("outputs", machine.outputs.map(\.signature)),
      ("in-ports", machine.inPorts.map { "\($0.name): \($0.eventType)" }),
      ("out-ports", machine.outPorts.map { "\($0.name): \($0.eventType)" }),
    ]
  }

  private func inPipeText(_ pipe: PipeInformation) -> String {
    guard let end = node.status?.ins.first(where: { $0.name == pipe.name }) else {
      return pipe.name
    }
    return "\(pipe.name)  \(end.events) received, \(end.applied) applied, \(end.waiting) waiting, "
      + "capacity \(end.capacity)" + (end.ignored.map { ", \($0) refused and ignored" } ?? "")
  }

  private func outPipeText(_ pipe: PipeInformation) -> String {
    guard let end = node.status?.outs.first(where: { $0.name == pipe.name }) else {
      return pipe.name
    }
    let isFull = node.status?.blocked.contains(pipe.name) == true
    return "\(pipe.name)  \(end.events) sent, \(end.applied) applied, \(end.waiting) waiting, "
      + "capacity \(end.capacity)" + (isFull ? ", full" : "")
      + [(end.lost, "lost"), (end.unsendable, "not sendable")].compactMap { count, label in
        count.flatMap { $0 > 0 ? ", \($0) \(label)" : nil }
      }.joined()
  }

  private var deadLetters: [String] {
    guard let status = node.status, status.deadLetters > 0 || status.deadLettersLost != nil else {
      return []
    }
    let lost = status.deadLettersLost.map { ", and \($0) lost because the limit is reached" } ?? ""
    return ["\(status.deadLetters)\(lost)" + (status.deadLetters > 0 ? "; the latest:" : "")]
      + status.recentDeadLetters.map {
        "\($0.pipe) \($0.sequence): \($0.event.caseText): \($0.reason)"
      }
  }
}

extension NodeInformation {
  /// The version, such as `version 12`; `nil` if the node has not reported a state.
  var versionText: String? {
    guard let status, status.state != nil else { return nil }
    return "version \(status.version)"
  }

  /// The phase and the process, such as `door: running, pid 12`.
  var line: String {
    "\(name): \(phase)" + (pid.map { ", pid \($0)" } ?? "")
  }
}

/// The output of `describe` for one composite.
struct CompositeDescribeReport {
  let composite: CompositePlan
  let conflictClass: ConflictClassPlan
  /// The composite in the running topology; `nil` if the report is about a file.
  var node: NodeInformation?
  /// The topology's pipes.
  var pipes: [PipeInformation] = []

  /// Returns a report for each composite of the conflict classes.
  static func all(of classes: [ConflictClassPlan]) -> [CompositeDescribeReport] {
    classes.flatMap { conflictClass in
      conflictClass.composites.map {
        CompositeDescribeReport(composite: $0, conflictClass: conflictClass)
      }
    }
  }

  var name: String { composite.name }

  /// Returns a heading, and one or more lines for each known property.
  func lines(_ style: Style) -> [String] {
    let others = conflictClass.composites.map(\.name).filter { $0 != name }
    var parts = [
      ("composite", ["program \(conflictClass.program)"]),
      ("components", [composite.components.joined(separator: ", ")]),
      (
        "nodes",
        composite.nodes == composite.components ? [] : [composite.nodes.joined(separator: ", ")]
      ),
      ("synchronizes", vectors), ("passes on", ownEvents),
      ("mode", ["rendezvous: all or none; a client can request broadcast instead"]),
      ("projection", [composite.projection ?? "none: the list of the nodes' states"]),
      (
        "coordinator",
        [
          (others.isEmpty ? "its own" : "shared with \(others.joined(separator: ", "))")
            + (conflictClass.host.map { ", within \($0)" } ?? "")
        ]
      ),
    ]
    if let node {
      parts += [
        ("durability", [node.durability.rawValue, node.journal].compactMap(\.self)),
        ("in doubt", node.doubts.map { $0.wording(since: style.time) }),
      ]
      parts += NodeDescribeReport(node: node, machine: nil, pipes: pipes).traffic
    }
    return [heading(style)] + style.lines(of: parts, labelWidth: 12)
  }

  private func heading(_ style: Style) -> String {
    guard let node else { return style.bold(name) }
    return NodeDescribeReport(node: node, machine: nil, pipes: []).heading(style)
  }

  /// The synchronized events with their participants, such as `go(floor: Int)  door, motor`.
  private var vectors: [String] {
    let width = composite.events.map { $0.signature.count }.max() ?? 0
    return zip(composite.events, composite.vectors).map { event, vector in
      let through = vector.composite == name ? "" : ", through \(vector.composite)"
      return event.signature.padded(to: width) + "  "
        + vector.participants.joined(separator: ", ") + through
    }
  }

  /// Each event that a node accepts on its own, with the name of this node, such as `close  door`.
  private var ownEvents: [String] {
    let width = composite.nodesByOwnEvent.keys.map(\.count).max() ?? 0
    return composite.nodesByOwnEvent.sorted { $0.key < $1.key }
      .map { $0.key.padded(to: width) + "  " + $0.value }
  }

  /// The JSON form.
  var record: JSONValue {
    let plan = (try? JSONValue(encoding: composite)) ?? .null
    return [
      "composite": .string(name), "description": plan, "coordinator": .string(conflictClass.name),
      "within": .optional(conflictClass.host), "program": .string(conflictClass.program),
      "modes": ["rendezvous", "broadcast"],
      "conflictClass": .array(conflictClass.composites.map { .string($0.name) }),
      "status": node?.record(now: WallClock.nanoseconds) ?? .null,
    ]
  }
}
