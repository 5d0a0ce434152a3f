import PipeExplorer
import PipeRuntime
import PipeSupervision

/// `orchestrator check`
struct Check: Verb {
  let description = VerbDescription(
    "check", "Checks a topology file, and its wiring against its programs",
    discussion:
      "Asks each program to describe its machines, and runs none of them. Every error is "
      + "told, with its line and column. With --explore every state that the topology can reach is "
      + "searched, too: docs/EXPLORE.md. Exit code then: 0 nothing found but warnings, 1 something "
      + "found, 6 the search was not complete and has found nothing.",
    options: [
      Option("file-only", "Checks the file alone, without asking its programs"),
      Option("explore", "Searches all states that can be reached, by the file's section 'explore'"),
      Option("time", value: .duration, "With --explore: how long, at most. Default: no limit"),
      Option(
        "memory", value: .count("MIB", from: 1),
        "With --explore: the memory for states, at most, in MiB. Default: 1024"),
      Option(
        "threads", value: .count("N", from: 1),
        "With --explore: the threads that search. Default: 2"),
      Option(
        "property", value: .text("NAME"),
        "With --explore: checks this property of the file, and nothing else"),
      Option(
        "hash",
        "With --explore: tells states apart by fingerprints of 64 bits, which takes less memory"),
      Option(
        "out", value: .directory,
        "With --explore: writes each counterexample there, as a scenario for 'test'"),
      Option(
        "graph", value: .file,
        "With --explore: draws all states, where there are \(ExploredGraph.limit) at most, into "
          + "this file, .dot or .mmd"),
      Option(
        "output", "o",
        value: .choice("FORMAT", OutputFormat.allCases.map(\.rawValue) + [Check.sarif]),
        "How data is written to stdout. Default: text"),
    ],
    positionals: [Positional("FILE", .file, .some, "The topology files; - is standard input")],
    examples: [
      ("orchestrator check topologies/elevator.yaml", "Checks the elevator and all its pipes"),
      (
        "orchestrator check --explore topologies/lift.yaml",
        "Searches all that the lift can do, and tells what can go wrong"
      ),
    ])

  private static let sarif = "sarif"

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    if arguments.flag("explore") { return try await explore(arguments, console: console) }
    let exploring = ["time", "memory", "threads", "property", "hash", "out", "graph"]
    if let option = exploring.first(where: arguments.flag) {
      throw CommandError("--\(option) needs --explore", code: .usage)
    }
    let reports = arguments.positionals.map {
      CheckReport(TopologyInput(argument: $0), isFileOnly: arguments.flag("file-only"))
    }
    if arguments.value("output") == Self.sarif {
      var log = SARIFLog(version: ShowVersion.current)
      log.add(reports.flatMap(\.diagnostics))
      try console.print(log.json)
      return reports.allSatisfy(\.isValid) ? .success : .usage
    }
    if arguments.format == .text {
      for diagnostic in reports.flatMap(\.diagnostics) { console.diagnostic(diagnostic) }
    }
    try console.print(
      reports.map(\.record), as: arguments.format,
      lines: reports.filter(\.isValid).map(\.line))
    return reports.allSatisfy(\.isValid) ? .success : .usage
  }

  // MARK: Exploring

  private func explore(
    _ arguments: ParsedArguments, console: Console
  ) async throws -> ExitCode {
    let request = try ExploreRequest(arguments)
    var log = SARIFLog(version: ShowVersion.current)
    var records: [JSONValue] = []
    var code = ExitCode.success
    for path in arguments.positionals {
      let explored: ExploredFile
      do {
        explored = try await request.explore(TopologyInput(argument: path), console: console)
      } catch let errors as TopologyErrors {
        // The other files are searched all the same.
        for diagnostic in errors.diagnostics { console.diagnostic(diagnostic) }
        log.add(errors.diagnostics)
        code = .usage
        continue
      }
      if code != .usage { code = code.worse(explored.exitCode) }
      log.add(explored)
      switch arguments.format {
      case _ where arguments.value("output") == Self.sarif: break
      case .text:
        let width = console.isTerminal ? console.size.columns : nil
        for line in ExplorationPage(explored).lines(console.style, width: width) {
          try console.print(line)
        }
      case .json: records.append(explored.record)
      case .jsonl: for record in explored.records { try console.print(record) }
      }
    }
    if arguments.value("output") == Self.sarif {
      try console.print(log.json)
    } else if arguments.format == .json {
      try console.print(.array(records))
    }
    return code
  }
}

extension ExitCode {
  /// Of two files' codes the one that is told: what was found, else what is not known.
  fileprivate func worse(_ other: ExitCode) -> ExitCode {
    if self == .failure || other == .failure { return .failure }
    return self == .incomplete ? self : other
  }
}

/// What was found out about one file.
private struct CheckReport {
  let path: String
  let topology: Topology?
  let diagnostics: [Diagnostic]

  var isValid: Bool { topology != nil }

  init(_ input: TopologyInput, isFileOnly: Bool) {
    path = input.name
    do throws(TopologyErrors) {
      if isFileOnly {
        let examined = try TopologyReader.examine(input)
        diagnostics = examined.diagnostics.inFileOrder
        topology = diagnostics.hasErrors ? nil : examined.topology
      } else {
        let loaded = try LoadedTopology.load(input)
        topology = loaded.topology
        diagnostics = loaded.warnings
      }
    } catch {
      topology = nil
      diagnostics = error.diagnostics
    }
  }

  /// `topologies/elevator.yaml: ok: 4 nodes, 9 pipes`
  var line: String {
    let always = [(topology?.nodes.count ?? 0, "node"), (topology?.pipes.count ?? 0, "pipe")]
    let others = [
      (topology?.composites.count ?? 0, "composite"), (topology?.monitors.count ?? 0, "monitor"),
      (diagnostics.count, "warning"),
    ]
    let parts = always + others.filter { $0.0 > 0 }
    return "\(path): ok: " + parts.map { $0.counted($1) }.joined(separator: ", ")
  }

  var record: JSONValue {
    [
      "file": .string(path), "valid": .bool(isValid),
      "topology": topology.map { .string($0.name) } ?? .null,
      "nodes": topology.map { .integer(Int64($0.nodes.count)) } ?? .null,
      "pipes": topology.map { .integer(Int64($0.pipes.count)) } ?? .null,
      "composites": topology.map { .integer(Int64($0.composites.count)) } ?? .null,
      "monitors": topology.map { .integer(Int64($0.monitors.count)) } ?? .null,
      "diagnostics": .array(diagnostics.map(\.record)),
    ]
  }
}

extension Diagnostic {
  /// The JSON form; the place is `null` where it is not known.
  package var record: JSONValue {
    [
      "file": .string(file), "line": line > 0 ? .integer(Int64(line)) : .null,
      "column": column > 0 ? .integer(Int64(column)) : .null,
      "severity": .string(severity.rawValue), "code": .string(code.rawValue),
      "message": .string(message),
    ]
  }
}
