import PipeGraphs
import PipeRuntime
import PipeSupervision

/// `orchestrator describe`
struct Describe: Verb {
  let description = VerbDescription(
    "describe", "Shows nodes' machines, and composites: states, events and ports",
    discussion:
      "Of a running topology, or of one that a file describes: then its programs are asked, "
      + "and none of them is run.",
    options: [
      .topology,
      Option("file", value: .file, "Describes the topology of this file, which need not run"),
      .output,
      Option(
        "graph",
        "With what each machine does in its states, found by asking its program for single steps; "
          + "'orchestrator graph' draws it"),
      Option("quiet", "q", "Writes the names of nodes and composites only"),
      Option("events", "Writes the names of the events only that they take, one to a line"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes and composites. Default: all")],
    examples: [
      ("orchestrator describe door -o json", "What the door says of itself"),
      (
        "orchestrator describe lift",
        "Which events a composite's nodes take together, and how it is"
      ),
      ("orchestrator describe --file topologies/lift.yaml lift", "The same, as the file has it"),
      ("orchestrator describe --graph door", "With each of its transitions in a line"),
      ("orchestrator describe --events door", "The names of the door's events, for scripts"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let pages =
      if let file = arguments.value("file") {
        try filed(file, arguments.positionals)
      } else {
        try await running(arguments)
      }
    if arguments.flag("quiet") || arguments.flag("events") {
      for line in Self.names(pages, events: arguments.flag("events")) { try console.print(line) }
      return .success
    }
    let charts = arguments.flag("graph") ? try await charts(pages, arguments) : [:]
    try console.print(
      pages.map { $0.record(charts[$0.name]) }, as: arguments.format,
      lines: Array(
        pages.map { $0.lines(console.style) + Self.lines(of: charts[$0.name], console.style) }
          .joined(separator: [""])))
    return .success
  }

  /// The state charts of those that have a machine.
  private func charts(
    _ pages: [any Page], _ arguments: ParsedArguments
  ) async throws -> [String: StateChart] {
    let loaded: LoadedTopology
    if let file = arguments.value("file") {
      loaded = try LoadedTopology.load(.file(file))
    } else {
      try arguments.expectHere("--graph reads the topology's file, and asks its programs,")
      loaded =
        try LoadedTopology.load(
          fileOf: try await arguments.onTopology { try await $0.directory(fresh: false) })
    }
    var charts: [String: StateChart] = [:]
    let machines = loaded.topology.nodes.filter { $0.constant == nil }.map(\.name)
    for page in pages where machines.contains(page.name) {
      charts[page.name] = try loaded.chart(of: page.name)
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

  private static func names(_ pages: [any Page], events: Bool) -> [String] {
    guard events else { return pages.map(\.name) }
    var seen: Set<String> = []
    return pages.flatMap(\.events).filter { seen.insert($0).inserted }
  }

  private func running(_ arguments: ParsedArguments) async throws -> [any Page] {
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
          // It has not described itself: there is its status alone.
        }
      }
      return (found, machines, classes, directory.pipes)
    }
    return found.map { node -> any Page in
      if let group = classes.first(where: { $0[node.name] != nil }), let plan = group[node.name] {
        return CompositePage(composite: plan, group: group, node: node, pipes: pipes)
      }
      return NodePage(node: node, machine: machines[node.name], pipes: pipes)
    }
  }

  private func filed(_ path: String, _ names: [String]) throws -> [any Page] {
    let loaded = try LoadedTopology.load(.file(path))
    let pages: [any Page] =
      loaded.topology.nodes.map { NodePage(of: $0, in: loaded) }
      + CompositePage.all(of: loaded.conflictClasses)
    if names.isEmpty { return pages }
    return try names.map { name in
      guard let page = pages.first(where: { $0.name == name }) else {
        throw TopologyClientError.unknownNode(name, known: pages.map(\.name))
      }
      return page
    }
  }
}

/// What is told of one node or composite.
private protocol Page {
  var name: String { get }
  /// The names of what it takes.
  var events: [String] { get }
  var record: JSONValue { get }
  func lines(_ style: Style) -> [String]
}

extension Page {
  /// With the state chart, where there is one.
  fileprivate func record(_ chart: StateChart?) -> JSONValue {
    guard let chart, case .object(var members) = record else { return record }
    members["graph"] = chart.json
    return .object(members)
  }
}

extension CompositePage: Page {
  fileprivate var events: [String] { composite.events.map(\.name) + composite.own.keys.sorted() }
}

extension NodePage: Page {
  fileprivate var name: String { node.name }

  fileprivate var events: [String] {
    (machine?.events ?? []).map(\.name).filter { machine?.alphabet.contains($0) == true }
  }

  /// A node of a topology that need not run.
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
