import PipeModelChecker
import PipeDiagrams
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator graph`.
struct ShowGraph: Verb {
  let description = VerbDescription(
    "graph", "Draws the wiring of a topology, or the state chart of a node",
    discussion:
      "Reads FILE, or without FILE the file of the running topology. With FILE, the topology "
      + "does not have to be running. Transitions are found by asking the programs for single "
      + "steps with sample values, as 'check --explore' does; no node is run. Uncertain "
      + "transitions are dotted. "
      + "Graphviz draws svg if it is installed and finishes within 2 s; otherwise, a built-in "
      + "drawing is used.",
    options: [
      .topology,
      Option(
        "output", "o", value: .choice("FORMAT", GraphFormat.allCases.map(\.rawValue)),
        "Output format. Default: ascii"),
      Option("live", "Adds the current states and pipe contents of the running topology"),
    ],
    positionals: [
      Positional(
        "FILE", .fileOrNode, .optional,
        "The topology file; - reads standard input. Default: the file of the running topology"),
      Positional(
        "NODE", .node, .optional, "The node whose state chart is drawn. Default: draws the wiring"),
    ],
    examples: [
      ("orchestrator graph topologies/lift.yaml", "Draws the wiring of the lift in the terminal"),
      (
        "orchestrator graph topologies/lift.yaml motor", "Draws the state chart of the lift's motor"
      ),
      ("orchestrator graph door --live", "Draws the door's state chart with its current state"),
      ("orchestrator graph -o svg > topology.svg", "Draws the running topology as a picture"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let chosen = try FileAndNodes(arguments.positionals) {
      $0 == "-" || FileSystem.exists($0) && !FileSystem.isDirectory($0)
    }
    guard chosen.nodes.count < 2 else {
      throw UsageError.extraPositional(chosen.nodes[1], of: description.command)
    }
    let format = arguments.value("output").flatMap(GraphFormat.init) ?? .ascii
    let file = chosen.isFileGiven ? chosen.file : nil
    let source = try await source(file, arguments)
    let graph =
      if let node = chosen.nodes.first {
        try chart(of: node, source)
      } else {
        wiring(source)
      }
    switch format {
    case .svg: try console.write(Graphviz.svg(graph, note: console.note))
    case .ascii where console.isTerminal:
      try console.write(AsciiDrawing(graph, columns: console.size.columns).text)
    case .ascii, .dot, .mermaid, .plantuml, .json: try console.write(format.text(graph))
    }
    return .success
  }

  /// The data for the drawing: the topology in its file and, with `--live`, its current state.
  private struct Source {
    let loaded: LoadedTopology
    let directory: TopologyDirectory?
  }

  private func source(_ file: String?, _ arguments: ParsedArguments) async throws -> Source {
    guard let file else {
      try arguments.requireLocalTopology(
        "'orchestrator graph' without FILE reads the topology file and asks the programs")
      let directory = try await arguments.onTopology { try await $0.directory() }
      return Source(
        loaded: try LoadedTopology.load(fileOf: directory),
        directory: arguments.contains(option: "live") ? directory : nil)
    }
    let loaded = try LoadedTopology.load(TopologyInput(argument: file))
    guard arguments.contains(option: "live") else { return Source(loaded: loaded, directory: nil) }
    let client = try TopologyClient.attach(
      to: arguments.target.named(defaultingTo: loaded.topology.name))
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
    guard let currentNode = directory[node: node] else {
      throw CommandError(
        "running topology '\(directory.topology)' has no node '\(node)'; 'orchestrator "
          + "apply' applies its current file")
    }
    guard currentNode.isRunning, let state = currentNode.status?.state else {
      var graph = chart.graph()
      graph.notes.append("now: \(currentNode.reason ?? currentNode.phase)")
      return graph
    }
    return chart.graph(
      current: StateChart.name(of: state, source.loaded.descriptions[node]),
      text: "= " + state.stateText(fields: currentNode.stateFields))
  }
}

extension LoadedTopology {
  /// Loads the file from which a running topology was started. The file may have changed since.
  static func load(fileOf directory: TopologyDirectory) throws -> LoadedTopology {
    guard FileSystem.exists(directory.file) else {
      throw CommandError(
        "no such file '\(directory.file)', which topology '\(directory.topology)' was "
          + "started from; name the topology file")
    }
    return try LoadedTopology.load(.file(directory.file), name: directory.topology)
  }

  /// Returns the state chart of a node. If the node has no state chart, throws an error with the
  /// reason.
  func chart(of node: String) throws -> StateChart {
    if topology.composite(node) != nil {
      throw CommandError(
        "'\(node)' is a composite and has no state chart; name one of its nodes, or omit "
          + "NODE to draw the wiring", code: .usage)
    }
    if topology.monitors.contains(where: { $0.name == node }) {
      throw CommandError(
        "'\(node)' is a monitor and has no state chart; name a node with a machine", code: .usage)
    }
    do {
      return try StateChartSearch(self).chart(of: node)
    } catch {
      switch error {
      case .unknownNode(let known): throw TopologyClientError.unknownNode(node, known: known)
      case .noMachine:
        throw CommandError(
          "node '\(node)' is constant and has no state chart; name a node with a machine",
          code: .usage)
      case .evaluator(let evaluatorError):
        throw CommandError("node '\(node)': the program \(evaluatorError.wording)")
      }
    }
  }
}

extension EvaluatorError {
  /// A description of the failure, with what to do next.
  fileprivate var wording: String {
    switch self {
    case .launchFailed(let reason): "could not be started: \(reason)"
    case .ended(let how): "ended when asked for a single step: \(how)"
    case .timedOut(let time):
      "did not answer within \(time.shortText) when asked for a single step; check what the "
        + "program waits for"
    case .invalidAnswer(let text):
      "sent an invalid answer when asked for a single step ('\(text)'); rebuild the program "
        + "with this version of PipeRuntime"
    }
  }
}
