import PipeRuntime
import PipeSupervision

/// `orchestrator check`
struct Check: Verb {
  let description = VerbDescription(
    "check", "Checks a topology file, and its wiring against its programs",
    discussion:
      "Asks each program to describe its machines, and runs none of them. Every error is "
      + "told, with its line and column.",
    options: [
      Option("file-only", "Checks the file alone, without asking its programs"),
      .output,
    ],
    positionals: [Positional("FILE", .file, .some, "The topology files; - is standard input")],
    examples: [
      ("orchestrator check topologies/elevator.yaml", "Checks the elevator and all its pipes")
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let reports = arguments.positionals.map {
      CheckReport(TopologyInput(argument: $0), isFileOnly: arguments.flag("file-only"))
    }
    if arguments.format == .text {
      for diagnostic in reports.flatMap(\.diagnostics) { console.diagnostic(diagnostic) }
    }
    try console.print(
      reports.map(\.record), as: arguments.format,
      lines: reports.filter(\.isValid).map(\.line))
    return reports.allSatisfy(\.isValid) ? .success : .usage
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
