import PipeRuntime

/// Findings in topology files in the format SARIF 2.1.0. Code hosting services and editors show
/// such findings at the source lines.
///
/// Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
package struct SARIFLog {
  /// One finding with its location.
  struct Result {
    var ruleID: String
    var isWarning: Bool
    var message: String
    var file: String
    var position: TextPosition
    /// The number of similar findings that this result stands for, including the reported finding.
    var count = 1
    /// The steps that lead to the finding, with one line for each step.
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
        ruleID: located.finding.code.rawValue, isWarning: located.finding.code.isWarning,
        message: located.finding.message, file: explored.file, position: located.position,
        count: 1 + located.finding.similarCount,
        steps: rows.map { row in
          "\(row.node) takes \(row.acceptedEvent) from \(row.eventOrigin)"
            + (row.changedStates.isEmpty ? "" : ": \(row.changedStates)")
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
        ruleID: diagnostic.code.rawValue, isWarning: diagnostic.severity == .warning,
        message: diagnostic.message, file: diagnostic.file, position: diagnostic.position)
    }
  }

  package var json: JSONValue {
    let rules = Set(results.map(\.ruleID)).sorted()
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
      "ruleId": .string(result.ruleID),
      "ruleIndex": .integer(Int64(rules.firstIndex(of: result.ruleID) ?? -1)),
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
    var physicalLocation: [String: JSONValue] = [
      "artifactLocation": ["uri": .string(uri(of: result.file))]
    ]
    if result.position.line > 0 {
      physicalLocation["region"] = [
        "startLine": .integer(Int64(result.position.line)),
        "startColumn": .integer(Int64(max(1, result.position.column))),
      ]
    }
    return ["physicalLocation": .object(physicalLocation)]
  }

  /// Returns a path as a URI reference.
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
