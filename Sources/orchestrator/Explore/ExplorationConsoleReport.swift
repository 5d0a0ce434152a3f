import PipeRuntime

/// The findings of `check --explore` about one topology file, as text for users.
package struct ExplorationConsoleReport {
  package let explored: ExploredFile

  package init(_ explored: ExploredFile) { self.explored = explored }

  package func lines(_ style: Style, width: Int?) -> [String] {
    let findings = explored.findings.flatMap { located in
      [explored.line(located, style)] + counterexample(located, style, width: width)
    }
    return findings + [summary] + remarks + cover
  }

  /// The result in one line.
  ///
  /// For example: `topologies/elevator.yaml: exact: …; full search: 120 states, 340 steps, depth
  /// 21, 1.2s`
  private var summary: String {
    let report = explored.report
    let totals = report.totals
    return "\(explored.file): \(report.verdict.wording(findings: explored.errorCount)); "
      + "\(report.isReduced ? "reduced" : "full") search: "
      + "\(totals.stateCount.counted("state")), \(totals.stepCount.counted("step")), depth "
      + "\(totals.depth), "
      + report.duration.shortText
  }

  private var remarks: [String] {
    report.verdict.remarks.map { "  \($0.effect.remarkLabel): \($0.message)".printable }.sorted()
  }

  /// The written scenarios that cover all transitions.
  private var cover: [String] {
    guard let cover = explored.cover else { return [] }
    let whole =
      report.verdict.degree == .incomplete
      ? "everything that the search found" : "everything reachable"
    var lines = [
      cover.items.isEmpty
        ? "  cover: no transitions were found"
        : "  cover: \(cover.paths.count.counted("scenario")) "
          + "\(cover.paths.count == 1 ? "covers" : "cover") \(whole): \(cover.items.countText)"
    ]
    lines += cover.paths.map { "  written to \($0)" }
    if let reason = cover.reason {
      lines.append(
        "  \(cover.ungateableCount) of \(cover.paths.count) can be replayed only with "
          + "'test --in-process': \(reason)")
    }
    if !cover.uncoveredNodes.isEmpty {
      lines.append(
        "  not covered: the nodes under 'any': "
          + cover.uncoveredNodes.map { "'\($0)'" }.joined(separator: ", "))
    }
    return lines.map(\.printable)
  }

  private var report: ExplorationReport { explored.report }

  private func counterexample(
    _ located: ExploredFile.LocatedFinding, _ style: Style, width: Int?
  ) -> [String] {
    guard let scenario = located.finding.scenario, !scenario.steps.isEmpty else { return [] }
    let table = CounterexampleTable(scenario).table
    return table.lines(style: style, width: width.map { $0 - 2 }).map { "  " + $0 }
      + (located.scenarioPath.map { ["  written to \($0)".printable] } ?? [])
  }
}

extension ExplorationVerdict.Degree {
  /// The label for remarks with this effect on the verdict.
  fileprivate var remarkLabel: String {
    switch self {
    case .exact: "note"
    case .sampled: "sampled"
    case .incomplete: "incomplete"
    }
  }
}

/// The scenario of a counterexample as a table, with a row for each step.
package struct CounterexampleTable {
  /// One row of the table, as text.
  struct Row: Hashable {
    var stepNumber: Int
    var node: String
    var acceptedEvent: String
    var eventOrigin: String
    /// The states that have changed, or the event's outcome.
    var changedStates: String
  }

  let rows: [Row]

  package init(_ scenario: Scenario) {
    rows = scenario.steps.enumerated().map { Row($1, number: $0 + 1) }
  }

  package var table: Table {
    var table = Table(
      .init("STEP", .right), .init("NODE"), .init("TAKES"), .init("FROM"), .init("STATES"))
    for row in rows {
      table.add(
        "\(row.stepNumber)", row.node, row.acceptedEvent, row.eventOrigin, row.changedStates)
    }
    return table
  }

  /// A JSON object for each step.
  package var records: [JSONValue] {
    rows.map { row in
      [
        "step": .integer(Int64(row.stepNumber)), "node": .string(row.node),
        "takes": .string(row.acceptedEvent),
        "from": .string(row.eventOrigin), "states": .string(row.changedStates),
      ]
    }
  }
}

extension CounterexampleTable.Row {
  fileprivate init(_ step: ScenarioStep, number: Int) {
    self.stepNumber = number
    let actingNode: String
    switch step.action {
    case .crash(let node): (actingNode, acceptedEvent, eventOrigin) = (node, "kill -9", "outside")
    case .sends(let node, let event, let pipe):
      (actingNode, acceptedEvent, eventOrigin) = (
        node, "nothing", "itself, and sends \(event.caseText) into \(pipe)"
      )
    case .ends(let node, let effect):
      (actingNode, acceptedEvent, eventOrigin) = (node, "nothing", "effect \(effect), which ends")
    case .fires(let node, let delay):
      (actingNode, acceptedEvent, eventOrigin) = (
        node, "nothing", delay.map { "timer after \($0)" } ?? "timer"
      )
    case .takes(let recipient, let event, let origin):
      actingNode = recipient
      acceptedEvent = event.caseText
      eventOrigin =
        switch origin {
        case .outside: "outside"
        case .pipe(let name): "pipe \(name)"
        case .effect(recipient, let output): "effect \(output)"
        case .effect(let node, let output): "effect \(output) of \(node)"
        }
    }
    node = actingNode
    changedStates =
      switch step.outcome {
      case .states(let states):
        states.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.caseText)" }
          .joined(separator: ", ")
      case .refused(let node, let reason):
        "refused" + Self.refusingNodeSuffix(node, besides: actingNode)
          + (reason.map { ": \($0)" } ?? "")
      case .processEnds: "the process ends"
      }
  }

  /// Returns ` by NODE` if a node other than `actingNode` refuses the event; otherwise, an empty
  /// text.
  private static func refusingNodeSuffix(_ node: String?, besides actingNode: String) -> String {
    guard let node, node != actingNode else { return "" }
    return " by \(node)"
  }
}
