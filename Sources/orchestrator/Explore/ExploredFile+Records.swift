import PipeRuntime

extension ExploredFile {
  /// All of it as one object.
  package var record: JSONValue {
    guard case .object(var members) = summary else { return .null }
    members["findings"] = .array(findings.map(record(of:)))
    return .object(members)
  }

  /// An object for each finding, and last the verdict.
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
      "states": .integer(Int64(report.reached.states)),
      "steps": .integer(Int64(report.reached.steps)),
      "depth": .integer(Int64(report.reached.depth)),
      "bytes": .integer(Int64(report.reached.byteCount)),
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
