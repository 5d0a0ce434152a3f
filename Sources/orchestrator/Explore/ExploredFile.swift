import PipeRuntime

/// What was found out about one topology file, with the places of what was found.
package struct ExploredFile: Sendable {
  /// A finding at its place in the file.
  package struct Finding: Sendable {
    package var finding: ExplorationFinding
    package var mark: SourceMark
    /// The scenario file that shows how it comes about, where one was written.
    package var scenarioPath: String?
  }

  /// The file's path, as it was given.
  package let file: String
  package let topology: String
  package var findings: [Finding]
  package let report: ExplorationReport

  package init(_ report: ExplorationReport, of topology: String, source: SourceMap) {
    file = source.file
    self.topology = topology
    self.report = report
    let placed = report.findings.map { Finding(finding: $0, mark: source.mark(of: $0.path)) }
    // Errors come before warnings, since those are often what comes of them.
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
