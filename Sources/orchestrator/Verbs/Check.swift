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
    switch arguments.format {
    case .text:
      for report in reports {
        for diagnostic in report.diagnostics { console.diagnostic(diagnostic) }
        if report.isValid { try console.print(report.line) }
      }
    case .json: try console.print(.array(reports.map(\.record)))
    case .jsonl: for report in reports { try console.print(report.record) }
    }
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
    let parts = [
      Self.count(topology?.nodes.count, "node"), Self.count(topology?.pipes.count, "pipe"),
      Self.count(topology?.composites.count, "composite", isShownAtZero: false),
      Self.count(topology?.monitors.count, "monitor", isShownAtZero: false),
      Self.count(diagnostics.count, "warning", isShownAtZero: false),
    ]
    return "\(path): ok: " + parts.compactMap(\.self).joined(separator: ", ")
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

  private static func count(
    _ count: Int?, _ noun: String, isShownAtZero: Bool = true
  ) -> String? {
    guard let count, count > 0 || isShownAtZero else { return nil }
    return "\(count) \(noun)\(count == 1 ? "" : "s")"
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
