import PipeRuntime

/// The findings of `check --explore` about one topology file, with their source locations.
package struct ExploredFile: Sendable {
  /// A finding with its location in the file.
  package struct LocatedFinding: Sendable {
    package var finding: ExplorationFinding
    package var position: TextPosition
    /// The scenario file that reproduces the finding; `nil` if no file was written.
    package var scenarioPath: String?
  }

  /// The path of the file, as the user gave it.
  package let file: String
  package let topology: String
  package var findings: [LocatedFinding]
  package let report: ExplorationReport
  /// The scenario files that cover all transitions; `nil` if none were written.
  package var cover: WrittenCover?

  /// Scenario files that together cover all transitions and synchronized events.
  package struct WrittenCover: Sendable {
    package let items: Set<CoverageItem>
    package var paths: [String] = []
    /// The number of scenarios that cannot be replayed on real processes.
    package var ungateableCount = 0
    /// The reason why such a scenario cannot be replayed on real processes.
    package var reason: String?
    /// The nodes that the search does not evaluate, so that nothing is known about their transitions.
    package var uncoveredNodes: [String] = []

    package init(items: Set<CoverageItem>) { self.items = items }
  }

  package init(_ report: ExplorationReport, of topology: String, source: SourceMap) {
    file = source.file
    self.topology = topology
    self.report = report
    let locatedFindings = report.findings.map {
      LocatedFinding(finding: $0, position: source.position(of: $0.path))
    }
    // Errors come first, because warnings are often consequences of errors.
    findings = locatedFindings.enumerated().sorted {
      let (left, right) = ($0.element, $1.element)
      let severityOrder = [left, right].map { $0.finding.code.isWarning ? 1 : 0 }
      return (severityOrder[0], left.position, $0.offset) < (
        severityOrder[1], right.position, $1.offset
      )
    }.map(\.element)
  }

  package var errorCount: Int { findings.count { !$0.finding.code.isWarning } }

  package var exitCode: ExitCode {
    if errorCount > 0 { return .failure }
    return report.verdict.degree == .incomplete ? .incomplete : .success
  }

  /// The finding in one line, in the form `path:line:column: error: text [code]`.
  func line(_ located: LocatedFinding, _ style: Style) -> String {
    let locationSuffix =
      located.position == .unknown ? "" : ":\(located.position.line):\(located.position.column)"
    let code = located.finding.code
    let severityLabel = code.isWarning ? style.yellow("warning:") : style.red("error:")
    return
      "\(file)\(locationSuffix): \(severityLabel) \(located.finding.message.printable) [\(code.rawValue)]"
  }
}

extension ExploredFile {
  /// All findings and the verdict as one JSON object.
  package var record: JSONValue {
    guard case .object(var members) = summary else { return .null }
    members["findings"] = .array(findings.map(record(of:)))
    return .object(members)
  }

  /// A JSON object for each finding, followed by an object for the verdict.
  package var records: [JSONValue] { findings.map(record(of:)) + [summary] }

  private var summary: JSONValue {
    guard let cover, case .object(var members) = summaryWithoutCover else {
      return summaryWithoutCover
    }
    members["cover"] = [
      "scenarios": .texts(cover.paths),
      "transitions": .integer(Int64(cover.items.count(where: \.isTransition))),
      "synchronized": .integer(Int64(cover.items.count { !$0.isTransition })),
      "inProcessOnly": .integer(Int64(cover.ungateableCount)),
    ]
    return .object(members)
  }

  private var summaryWithoutCover: JSONValue {
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
      "states": .integer(Int64(report.totals.stateCount)),
      "steps": .integer(Int64(report.totals.stepCount)),
      "depth": .integer(Int64(report.totals.depth)),
      "bytes": .integer(Int64(report.totals.byteCount)),
      "milliseconds": .integer(Int64(clamping: report.duration.wholeMilliseconds)),
    ]
  }

  private func record(of located: LocatedFinding) -> JSONValue {
    let code = located.finding.code
    return [
      "file": .string(file),
      "line": located.position.line > 0 ? .integer(Int64(located.position.line)) : .null,
      "column": located.position.column > 0 ? .integer(Int64(located.position.column)) : .null,
      "severity": code.isWarning ? "warning" : "error", "code": .string(code.rawValue),
      "message": .string(located.finding.message),
      "similar": .integer(Int64(located.finding.similarCount)),
      "steps": .array(located.finding.scenario.map { CounterexampleTable($0).records } ?? []),
      "end": .object(located.finding.scenario?.expectedStates ?? [:]),
      "scenario": located.scenarioPath.map { .string($0) } ?? .null,
    ]
  }
}
