import PipeRuntime

/// The findings about one topology file, with their source locations.
package struct ExploredFile: Sendable {
  /// A finding with its location in the file.
  package struct Finding: Sendable {
    package var finding: ExplorationFinding
    package var mark: TextPosition
    /// The scenario file that reproduces the finding, if one was written.
    package var scenarioPath: String?
  }

  /// The file's path, as given.
  package let file: String
  package let topology: String
  package var findings: [Finding]
  package let report: ExplorationReport

  package init(_ report: ExplorationReport, of topology: String, source: SourceMap) {
    file = source.file
    self.topology = topology
    self.report = report
    let placed = report.findings.map { Finding(finding: $0, mark: source.mark(of: $0.path)) }
    // Errors come before warnings, because warnings are often consequences of errors.
    findings = placed.enumerated().sorted {
      let (left, right) = ($0.element, $1.element)
      let isLater = [left, right].map { $0.finding.code.isWarning ? 1 : 0 }
      return (isLater[0], left.mark, $0.offset) < (isLater[1], right.mark, $1.offset)
    }.map(\.element)
  }

  package var errorCount: Int { findings.count { !$0.finding.code.isWarning } }

  package var exitCode: ExitCode {
    if errorCount > 0 { return .failure }
    return report.verdict.degree == .incomplete ? .incomplete : .success
  }

  /// `path:line:column: error: text [code]`
  func line(_ found: Finding, _ style: Style) -> String {
    let place = found.mark == .unknown ? "" : ":\(found.mark.line):\(found.mark.column)"
    let code = found.finding.code
    let word = code.isWarning ? style.yellow("warning:") : style.red("error:")
    return "\(file)\(place): \(word) \(found.finding.message.printable) [\(code.rawValue)]"
  }
}

extension ExploredFile {
  /// All findings and the verdict as one object.
  package var record: JSONValue {
    guard case .object(var members) = summary else { return .null }
    members["findings"] = .array(findings.map(record(of:)))
    return .object(members)
  }

  /// An object for each finding, followed by the verdict.
  package var records: [JSONValue] { findings.map(record(of:)) + [summary] }

  private var summary: JSONValue {
    [
      "file": .string(file), "topology": .string(topology),
      "verdict": .string(report.verdict.degree.rawValue),
      "text": .string(report.verdict.wording(findings: errorCount)),
      "remarks": .array(
        report.verdict.remarks.map { remark in
          [
            "code": .string(remark.code.rawValue), "effect": .string(remark.effect.rawValue),
            "message": .string(remark.message),
          ]
        }),
      "search": report.isReduced ? "reduced" : "full",
      "states": .integer(Int64(report.totals.states)),
      "steps": .integer(Int64(report.totals.steps)),
      "depth": .integer(Int64(report.totals.depth)),
      "bytes": .integer(Int64(report.totals.byteCount)),
      "milliseconds": .integer(Int64(clamping: report.duration.wholeMilliseconds)),
    ]
  }

  private func record(of found: Finding) -> JSONValue {
    let code = found.finding.code
    return [
      "file": .string(file),
      "line": found.mark.line > 0 ? .integer(Int64(found.mark.line)) : .null,
      "column": found.mark.column > 0 ? .integer(Int64(found.mark.column)) : .null,
      "severity": code.isWarning ? "warning" : "error", "code": .string(code.rawValue),
      "message": .string(found.finding.message),
      "similar": .integer(Int64(found.finding.similarCount)),
      "steps": .array(found.finding.scenario.map { CounterexampleTable($0).records } ?? []),
      "end": .object(found.finding.scenario?.end ?? [:]),
      "scenario": found.scenarioPath.map { .string($0) } ?? .null,
    ]
  }
}
