import PipeExplorer
import PipeRuntime
import PipeSupervision

/// What a command line asks of `check --explore`.
struct ExploreRequest {
  private let settings: ExplorationSettings
  private let folder: ScenarioFolder?
  private let graph: (path: String, form: GraphDrawing)?

  init(_ arguments: ParsedArguments) throws {
    if arguments.flag("file-only") {
      throw CommandError(
        "--explore asks the programs, so it cannot be used with --file-only; leave one out",
        code: .usage)
    }
    var settings = ExplorationSettings()
    settings.time = arguments.duration("time")
    if let memory = arguments.count("memory") {
      settings.memory =
        memory.multipliedReportingOverflow(by: 1 << 20).overflow
        ? .max : memory << 20
    }
    if let threads = arguments.count("threads") { settings.threads = min(threads, 64) }
    settings.properties = arguments.values("property")
    settings.continuesAfterViolation = arguments.flag("all")
    if settings.continuesAfterViolation, settings.properties.isEmpty {
      throw CommandError(
        "--all continues behind the first violation of a property, so it needs --property",
        code: .usage)
    }
    if let limit = arguments.count("node-states") { settings.nodeStateLimit = limit }
    settings.isReduced = !arguments.flag("no-reduction")
    settings.isHashed = arguments.flag("hash")
    graph = try arguments.value("graph").map { path in
      guard let form = GraphDrawing(path: path) else {
        throw CommandError(
          "--graph \(path): the name has to end in .dot, for Graphviz, or .mmd, for Mermaid",
          code: .usage)
      }
      guard arguments.positionals.count == 1 else {
        throw CommandError("--graph draws one topology; name one file", code: .usage)
      }
      return (path, form)
    }
    settings.drawsGraph = graph != nil
    self.settings = settings
    folder = try arguments.value("out").map { try ScenarioFolder($0) }
  }

  /// Searches one topology, and writes what was asked for.
  /// - Throws: `TopologyErrors` where the file cannot be searched.
  func explore(
    _ input: TopologyInput, console: Console, isStopped: () -> Bool
  ) async throws -> ExploredFile {
    let loaded = try LoadedTopology.load(input)
    for warning in loaded.warnings { console.diagnostic(warning) }
    if let line = loaded.silenced.silenceLine(of: input.name) { console.note(line) }
    let properties = loaded.topology.explore?.properties.map(\.name) ?? []
    if let name = settings.properties.first(where: { !properties.contains($0) }) {
      throw CommandError(
        "\(input.name) has no property '\(name)'" + Suggestion.among(properties, like: name),
        code: .usage)
    }
    let meter = ProgressMeter(console)
    let explorer = TopologyExplorer(loaded, loaded.topology.explore, settings)
    let report = try await explorer.explore(isStopped: isStopped) { meter.show($0) }
    var explored = ExploredFile(report, of: loaded.topology.name, source: loaded.source)
    try folder?.write(&explored)
    if let graph { try draw(report, graph.path, graph.form) }
    return explored
  }

  private func draw(_ report: ExplorationReport, _ path: String, _ form: GraphDrawing) throws {
    guard let drawn = report.graph else {
      throw CommandError(
        "--graph \(path): \(report.reached.states) states are too many to be drawn, or were not "
          + "all met; \(ExploredGraph.limit) can be. Declare fewer values, or leave --graph out")
    }
    try FileSystem.replace(path, with: form.text(drawn).utf8)
  }
}
