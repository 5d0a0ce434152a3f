import Glibc
import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// The search that a command line with `check --explore` requests.
struct ExploreRequest {
  private let settings: ExplorationSettings
  private let folder: ScenarioFolder?
  /// The directory for scenarios that cover all transitions.
  private let coverFolder: ScenarioFolder?
  private let graph: (path: String, format: StateGraphFormat)?

  init(_ arguments: ParsedArguments) throws {
    if arguments.contains(option: "file-only") {
      throw CommandError(
        "\(UsageError.conflict("--explore", "--file-only")); --explore asks the programs",
        code: .usage)
    }
    var settings = ExplorationSettings()
    settings.timeLimit = arguments.duration("time")
    if let memory = arguments.countValue("memory") {
      settings.memoryLimit =
        memory.multipliedReportingOverflow(by: 1 << 20).overflow
        ? .max : memory << 20
    }
    if let threads = arguments.countValue("threads") { settings.threadCount = min(threads, 64) }
    settings.properties = arguments.values("property")
    settings.continuesAfterViolation = arguments.contains(option: "all")
    if settings.continuesAfterViolation, settings.properties.isEmpty {
      throw CommandError(
        "--all requires --property",
        code: .usage)
    }
    if let limit = arguments.countValue("node-states") { settings.nodeStateLimit = limit }
    settings.isReduced = !arguments.contains(option: "no-reduction")
    settings.isHashed = arguments.contains(option: "hash")
    graph = try arguments.value("graph").map { path in
      guard let format = StateGraphFormat(path: path) else {
        throw CommandError(
          "--graph \(path): the file name must end in .dot for Graphviz, or .mmd for Mermaid",
          code: .usage)
      }
      guard arguments.positionals.count == 1 else {
        throw CommandError("--graph requires exactly one topology file", code: .usage)
      }
      return (path, format)
    }
    settings.includesGraph = graph != nil
    settings.includesCover = arguments.value("cover") != nil
    if settings.includesCover {
      for option in ["hash", "property"] where arguments.contains(option: option) {
        throw CommandError(
          "\(UsageError.conflict("--cover", "--\(option)")); --cover requires a search of all states",
          code: .usage)
      }
      // The same topology must always have the same scenarios. The order in which several threads
      // find the states varies.
      settings.threadCount = 1
    }
    self.settings = settings
    folder = try arguments.value("out").map { try ScenarioFolder($0, option: "out") }
    coverFolder = try arguments.value("cover").map { try ScenarioFolder($0, option: "cover") }
  }

  /// Searches the states of one topology, and writes the requested files.
  /// - Throws: `TopologyErrors` if the topology cannot be searched.
  func explore(
    _ input: TopologyInput, console: Console, isStopped: () -> Bool
  ) async throws -> ExploredFile {
    let loaded = try LoadedTopology.load(input)
    for warning in loaded.warnings { console.diagnostic(warning) }
    if let line = loaded.silencedWarnings.silencedWarningsLine(of: input.name) {
      console.note(line)
    }
    let properties = loaded.topology.explore?.properties.map(\.name) ?? []
    if let name = settings.properties.first(where: { !properties.contains($0) }) {
      throw CommandError(
        "no such property '\(name)' in \(input.name)" + Suggestion.among(properties, like: name),
        code: .usage)
    }
    let meter = ProgressMeter(console)
    let explorer = TopologyExplorer(loaded, loaded.topology.explore, settings)
    let report = try await explorer.explore(isStopped: isStopped) { meter.show($0) }
    var explored = ExploredFile(report, of: loaded.topology.name, source: loaded.source)
    try folder?.write(&explored)
    if let coverFolder { try write(&explored, into: coverFolder, loaded) }
    if let graph { try draw(report, graph.path, graph.format) }
    return explored
  }

  /// Writes the scenarios that cover all transitions.
  private func write(
    _ explored: inout ExploredFile, into folder: ScenarioFolder, _ loaded: LoadedTopology
  ) throws {
    guard let cover = explored.report.cover else {
      throw CommandError(
        "--cover \(folder.path): the graph of \(explored.report.totals.stepCount) steps does not fit "
          + "into memory; raise --memory, or declare fewer values")
    }
    var written = ExploredFile.WrittenCover(items: cover.items)
    written.uncoveredNodes = loaded.topology.explore?.unevaluatedNodes.sorted() ?? []
    for (index, scenario) in cover.scenarios.enumerated() {
      let path = try folder.write(
        scenario, named: "cover-\(index + 1)", of: explored.topology, file: explored.file)
      written.paths.append(path)
      guard let failure = GatedReplay.unsupportedPart(of: scenario, in: loaded) else { continue }
      written.ungateableCount += 1
      written.reason = written.reason ?? failure.description
    }
    explored.cover = written
  }

  private func draw(_ report: ExplorationReport, _ path: String, _ format: StateGraphFormat) throws
  {
    guard let exploredGraph = report.graph else {
      throw CommandError(
        "--graph \(path): cannot draw \(report.totals.stateCount) states: the limit is "
          + "\(ExploredGraph.maximumStateCount) states, and the search must be complete; declare fewer "
          + "values, or omit --graph")
    }
    try FileSystem.replace(path, with: format.text(exploredGraph).utf8)
  }
}

/// The format of a drawing that shows all states and steps of a small topology: Graphviz or
/// Mermaid.
package enum StateGraphFormat: String, CaseIterable {
  case dot
  case mermaid = "mmd"

  /// Selects the format by the extension of a file's name; `nil` for other extensions.
  package init?(path: String) {
    guard let dot = path.lastIndex(of: "."),
      let format = StateGraphFormat(rawValue: String(path[path.index(after: dot)...]))
    else { return nil }
    self = format
  }

  package func text(_ graph: ExploredGraph) -> String {
    let lines =
      switch self {
      case .dot: dot(graph)
      case .mermaid: mermaid(graph)
      }
    return lines.joined(separator: "\n") + "\n"
  }

  private func dot(_ graph: ExploredGraph) -> [String] {
    func quoted(_ lines: [String]) -> String {
      "\""
        + lines.map { $0.printable.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") }
        .joined(separator: "\\n") + "\""
    }
    return ["digraph states {", "  node [shape=box]"]
      + graph.stateTexts.enumerated().map { number, lines in
        "  s\(number) [label=\(quoted(lines))\(number == 0 ? ", style=bold" : "")]"
      }
      + graph.steps.map { "  s\($0.source) -> s\($0.target) [label=\(quoted([$0.label]))]" } + ["}"]
  }

  private func mermaid(_ graph: ExploredGraph) -> [String] {
    func quoted(_ lines: [String]) -> String {
      "\"" + lines.map { $0.printable.replacing("\"", with: "#quot;") }.joined(separator: "<br>")
        + "\""
    }
    return ["flowchart TD"]
      + graph.stateTexts.enumerated().map { "  s\($0)[\(quoted($1))]" }
      + graph.steps.map { "  s\($0.source) -->|\(quoted([$0.label]))| s\($0.target)" }
  }
}

/// A directory into which scenarios are written.
struct ScenarioFolder {
  let path: String

  /// Creates the directory if it does not exist.
  /// - Parameter option: The option that names the directory, for errors.
  init(_ path: String, option: String) throws(CommandError) {
    if !FileSystem.isDirectory(path), mkdir(path, 0o777) != 0 {
      throw CommandError(
        "--\(option) \(path): \(SystemError.text(of: errno)); name an existing directory, or a "
          + "new directory in an existing directory", code: .usage)
    }
    self.path = path
  }

  /// Writes the findings' counterexamples, and stores the path of each file in its finding.
  func write(_ explored: inout ExploredFile) throws {
    var counts: [String: Int] = [:]
    for index in explored.findings.indices {
      let finding = explored.findings[index].finding
      guard var scenario = finding.scenario else { continue }
      let code = finding.code.rawValue
      counts[code, default: 0] += 1
      scenario.demonstratedFinding = scenario.demonstratedFinding ?? code
      explored.findings[index].scenarioPath = try write(
        scenario, named: "\(code)-\(counts[code]!)", of: explored.topology, file: explored.file)
    }
  }

  /// Writes a scenario.
  /// - Parameters:
  ///   - name: The name of the scenario, without the name of the topology.
  ///   - file: The topology file.
  /// - Returns: The path of the scenario file.
  func write(
    _ scenario: Scenario, named name: String, of topology: String, file: String
  ) throws -> String {
    var scenario = scenario
    scenario.name = "\(topology)-\(name)"
    if scenario.name.utf8.count > Self.maximumNameLength { scenario.name = name }
    scenario.topology = RelativePath.path(
      to: FileSystem.resolvedPath(file) ?? FileSystem.absolutePath(file),
      from: FileSystem.resolvedPath(path) ?? FileSystem.absolutePath(path))
    let file = "\(path.hasSuffix("/") ? path : path + "/")\(scenario.name).yaml"
    try FileSystem.replace(file, with: scenario.yaml.utf8)
    return file
  }

  /// The maximum length of a scenario's name. Unit: bytes.
  private static let maximumNameLength = 41
}

/// Writes the progress of a search to standard error at intervals.
final class ProgressMeter {
  private let console: Console
  private let startTime = ContinuousClock.now
  private var lastReportTime = ContinuousClock.now

  /// The interval of progress reports. It is short enough that a user sees progress, and long
  /// enough to keep a log file small.
  private static let reportInterval: Duration = .seconds(2)

  init(_ console: Console) { self.console = console }

  func show(_ progress: ExplorationProgress) {
    let now = ContinuousClock.now
    guard now - lastReportTime >= Self.reportInterval else { return }
    lastReportTime = now
    console.note(Self.line(progress, after: now - startTime))
  }

  /// The progress in one line, such as `1200 states, 600 states/s, depth 12, 3 MiB`.
  static func line(_ progress: ExplorationProgress, after time: Duration) -> String {
    let milliseconds = max(1, Int(clamping: time.wholeMilliseconds))
    let rate = progress.stateCount.multipliedReportingOverflow(by: 1000).partialValue / milliseconds
    return "\(progress.stateCount.counted("state")), \(rate) states/s, depth \(progress.depth), "
      + "\(progress.byteCount >> 20) MiB"
  }
}

/// Notices SIGINT and SIGTERM. The first signal ends the search, which then reports its findings. A
/// second signal ends the process.
final class InterruptSignal {
  private let signals: SignalDescriptor
  private var isInterrupted = false

  private static let handledSignals: [Signal] = [.interrupt, .terminate]

  /// Precondition: the process has not started any other thread yet; see `SignalDescriptor`.
  init() throws { signals = try SignalDescriptor(Self.handledSignals) }

  /// Returns whether a signal has arrived.
  func hasArrived() -> Bool {
    guard !isInterrupted, signals.next() != nil else { return isInterrupted }
    isInterrupted = true
    var set = sigset_t()
    sigemptyset(&set)
    for signal in Self.handledSignals { sigaddset(&set, signal.number) }
    pthread_sigmask(SIG_UNBLOCK, &set, nil)
    return true
  }
}
