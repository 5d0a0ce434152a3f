import PipeRuntime

/// Findings in topology files as SARIF 2.1.0, which code hosts and editors show at the source
/// lines.
///
/// Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
package struct SARIFLog {
  /// One finding with its location.
  struct Result {
    var rule: String
    var isWarning: Bool
    var message: String
    var file: String
    var mark: TextPosition
    /// The number of occurrences.
    var count = 1
    /// The steps that lead to the finding, one line each.
    var steps: [String] = []
  }

  private var results: [Result] = []
  private var exploredRecords: [JSONValue] = []
  private let version: String

  package init(version: String) { self.version = version }

  package mutating func add(_ explored: ExploredFile) {
    results += explored.findings.map { located in
      let rows = located.finding.scenario.map { CounterexampleTable($0).rows } ?? []
      return Result(
        rule: located.finding.code.rawValue, isWarning: located.finding.code.isWarning,
        message: located.finding.message, file: explored.file, mark: located.mark,
        count: 1 + located.finding.similarCount,
        steps: rows.map { row in
          "\(row.node) takes \(row.takes) from \(row.from)"
            + (row.states.isEmpty ? "" : ": \(row.states)")
        })
    }
    let verdict = explored.report.verdict
    exploredRecords.append([
      "file": .string(explored.file), "verdict": .string(verdict.degree.rawValue),
      "remarks": .texts(verdict.remarks.map(\.message)),
    ])
  }

  package mutating func add(_ diagnostics: [Diagnostic]) {
    results += diagnostics.map { diagnostic in
      Result(
        rule: diagnostic.code.rawValue, isWarning: diagnostic.severity == .warning,
        message: diagnostic.message, file: diagnostic.file, mark: diagnostic.mark)
    }
  }

  package var json: JSONValue {
    let rules = Set(results.map(\.rule)).sorted()
    return [
      "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
      "runs": [
        [
          "tool": [
            "driver": [
              "name": "orchestrator", "semanticVersion": .string(version),
              "rules": .array(rules.map { ["id": .string($0)] }),
            ]
          ],
          "columnKind": "unicodeCodePoints",
          "results": .array(results.map { Self.json($0, rules) }),
          "properties": ["explored": .array(exploredRecords)],
        ]
      ],
    ]
  }

  private static func json(_ result: Result, _ rules: [String]) -> JSONValue {
    var members: [String: JSONValue] = [
      "ruleId": .string(result.rule),
      "ruleIndex": .integer(Int64(rules.firstIndex(of: result.rule) ?? -1)),
      "level": result.isWarning ? "warning" : "error",
      "message": ["text": .string(result.message)],
      "locations": [location(result)],
    ]
    if result.count > 1 { members["occurrenceCount"] = .integer(Int64(result.count)) }
    if !result.steps.isEmpty {
      members["codeFlows"] = [
        [
          "threadFlows": [
            [
              "locations": .array(
                result.steps.enumerated().map { number, text in
                  [
                    "executionOrder": .integer(Int64(number + 1)),
                    "location": ["message": ["text": .string(text)]],
                  ]
                })
            ]
          ]
        ]
      ]
    }
    return .object(members)
  }

  private static func location(_ result: Result) -> JSONValue {
    var physical: [String: JSONValue] = [
      "artifactLocation": ["uri": .string(uri(of: result.file))]
    ]
    if result.mark.line > 0 {
      physical["region"] = [
        "startLine": .integer(Int64(result.mark.line)),
        "startColumn": .integer(Int64(max(1, result.mark.column))),
      ]
    }
    return ["physicalLocation": .object(physical)]
  }

  /// A path as a URI reference.
  private static func uri(of path: String) -> String {
    var text = path.hasPrefix("/") ? "file://" : ""
    for byte in path.utf8 {
      let isUnreserved =
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        || "-._~/".utf8.contains(byte)
      if isUnreserved {
        text.unicodeScalars.append(UnicodeScalar(byte))
      } else {
        let hex = String(byte, radix: 16, uppercase: true)
        text += "%" + (hex.count == 1 ? "0" : "") + hex
      }
    }
    return text
  }
}
