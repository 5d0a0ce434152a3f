import PipeModelChecker
import PipeDiagrams
import PipeRuntime
import PipeSupervision

/// `orchestrator graph`
struct ShowGraph: Verb {
  let description = VerbDescription(
    "graph", "Draws how a topology is wired, or the states of a node's machine",
    discussion:
      "Of a file, which need not run, or without one of the running topology, as its file has it. "
      + "What a machine does is found by asking its program for single steps with sample values, as "
      + "'check --explore' does: no node is run. What is not certain is dotted. svg is drawn by "
      + "Graphviz where it is installed, and answers within 2 s, and otherwise without it.",
    options: [
      .topology,
      Option(
        "output", "o", value: .choice("FORM", GraphForm.allCases.map(\.rawValue)),
        "How it is written to stdout. Default: ascii"),
      Option("live", "With the states, and what is in the pipes, of the running topology"),
    ],
    positionals: [
      Positional(
        "FILE", .fileOrNode, .optional,
        "The topology file; - is standard input. Default: that of the running topology"),
      Positional(
        "NODE", .node, .optional, "The states of this node's machine. Default: all wiring"),
    ],
    examples: [
      ("orchestrator graph topologies/lift.yaml", "How the lift is wired, in the terminal"),
      ("orchestrator graph topologies/lift.yaml motor", "The states of its motor"),
      ("orchestrator graph door --live", "Of the running topology, with the state it is in"),
      ("orchestrator graph -o svg > topology.svg", "A picture of the running topology"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let chosen = try FileAndNodes(arguments.positionals) {
      $0 == "-" || FileSystem.exists($0) && !FileSystem.isDirectory($0)
    }
    guard chosen.nodes.count < 2 else {
      throw UsageError.extraPositional(chosen.nodes[1], of: description.command)
    }
    let form = arguments.value("output").flatMap(GraphForm.init) ?? .ascii
    let file = chosen.isFileGiven ? chosen.file : nil
    let source = try await source(file, arguments)
    let graph =
      if let node = chosen.nodes.first {
        try chart(of: node, source)
      } else {
        wiring(source)
      }
    switch form {
    case .svg: try console.write(Graphviz.svg(graph, note: console.note))
    case .ascii where console.isTerminal:
      try console.write(AsciiDrawing(graph, columns: console.size.columns).text)
    case .ascii, .dot, .mermaid, .plantuml, .json: try console.write(form.text(graph))
    }
    return .success
  }

  /// The content of the drawing: the topology from its file, and its current state, if it runs.
  private struct Source {
    let loaded: LoadedTopology
    let directory: TopologyDirectory?
  }

  private func source(_ file: String?, _ arguments: ParsedArguments) async throws -> Source {
    guard let file else {
      try arguments.expectHere(
        "'orchestrator graph' without a FILE reads the topology's, and asks its programs,")
      let directory = try await arguments.onTopology { try await $0.directory() }
      return Source(
        loaded: try LoadedTopology.load(fileOf: directory),
        directory: arguments.flag("live") ? directory : nil)
    }
    let loaded = try LoadedTopology.load(TopologyInput(argument: file))
    guard arguments.flag("live") else { return Source(loaded: loaded, directory: nil) }
    let client = try TopologyClient.attach(
      to: arguments.target.named(elseBy: loaded.topology.name))
    defer { client.close() }
    return Source(loaded: loaded, directory: try await client.directory())
  }

  private func wiring(_ source: Source) -> Graph {
    var wiring = Wiring(source.loaded)
    if let directory = source.directory { wiring.add(directory) }
    return wiring.graph
  }

  private func chart(of node: String, _ source: Source) throws -> Graph {
    let chart = try source.loaded.chart(of: node)
    guard let directory = source.directory else { return chart.graph() }
    guard let now = directory[node: node] else {
      throw CommandError(
        "topology '\(directory.topology)' runs without a node '\(node)'; 'orchestrator apply' gives "
          + "it the file")
    }
    guard now.isRunning, let state = now.status?.state else {
      var graph = chart.graph()
      graph.notes.append("now: \(now.reason ?? now.phase)")
      return graph
    }
    return chart.graph(
      current: StateChart.name(of: state, source.loaded.descriptions[node]),
      text: "= " + state.stateText(fields: now.stateFields))
  }
}

extension LoadedTopology {
  /// Loads the current file of a running topology.
  static func load(fileOf directory: TopologyDirectory) throws -> LoadedTopology {
    guard FileSystem.exists(directory.file) else {
      throw CommandError(
        "topology '\(directory.topology)' was read from '\(directory.file)', and there is no such "
          + "file now; name the file")
    }
    return try LoadedTopology.load(.file(directory.file), name: directory.topology)
  }

  /// Returns the state chart of a node. Throws an error for the person if there is none.
  func chart(of node: String) throws -> StateChart {
    if topology.composite(node) != nil {
      throw CommandError(
        "'\(node)' is a composite: its state is that of its nodes. Name one of them, or leave it "
          + "out for the whole wiring", code: .usage)
    }
    if topology.monitors.contains(where: { $0.name == node }) {
      throw CommandError(
        "'\(node)' is a monitor, which has no states; name a node with a machine", code: .usage)
    }
    do {
      return try StateChartSearch(self).chart(of: node)
    } catch {
      switch error {
      case .unknownNode(let known): throw TopologyClientError.unknownNode(node, known: known)
      case .noMachine:
        throw CommandError(
          "node '\(node)' is constant: it has one state, and no events; name a node with a machine",
          code: .usage)
      case .oracle(let trouble):
        throw CommandError("node '\(node)': its program \(trouble.wording)")
      }
    }
  }
}

extension EvaluatorError {
  /// The failure of the program, and how to fix it.
  fileprivate var wording: String {
    switch self {
    case .notStarted(let reason): "was not started: \(reason)"
    case .ended(let how): "ended when it was asked for single steps: \(how)"
    case .late(let time):
      "did not answer within \(time.shortText) when it was asked for single steps; correct what it "
        + "waits for"
    case .garbage(let text):
      "does not answer for single steps ('\(text)'); build it with this version of PipeRuntime"
    }
  }
}
