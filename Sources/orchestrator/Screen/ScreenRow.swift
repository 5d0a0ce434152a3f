import PipeClient
import PipeRuntime
import PipeSupervision

/// A row of a list.
package struct ScreenRow: Hashable, Sendable {
  /// The row's identifier. It is unique in the list, and stays the same as long as the row shows
  /// the same item.
  package var identifier: String
  package var line: StyledLine
  /// The complete text of the row. The filter searches this text, and copying copies it.
  package var text: String

  package init(_ identifier: String, _ line: StyledLine, text: String? = nil) {
    self.identifier = identifier
    self.line = line
    self.text = text ?? "\(line)"
  }
}

/// A list with its heading.
package struct ScreenList: Hashable, Sendable {
  package var heading: String
  package var rows: [ScreenRow]
  /// The columns by which the list can be sorted; empty if it cannot be sorted.
  package var columns: [Table.Column] = []
  /// The text that is shown if the list is empty.
  package var emptyListText: String

  package init(_ heading: String, _ rows: [ScreenRow] = [], emptyListText: String) {
    self.heading = heading
    self.rows = rows
    self.emptyListText = emptyListText
  }

  /// Creates a list from a table, with one row for each name.
  init(
    _ table: Table, names: [String], columns: Int, emptyListText: String,
    order: ScreenOrder? = nil, styles: (Int) -> [TextStyle] = { _ in [] }
  ) {
    var marked = table
    if let order, table.columns.indices.contains(order.column) {
      marked.columns[order.column].heading += order.mark(table.columns[order.column])
    }
    let lines = marked.lines(width: columns)
    heading = lines[0]
    self.columns = table.columns
    self.emptyListText = emptyListText
    rows = (order?.indices(of: table) ?? Array(names.indices)).map { index in
      var line = StyledLine(lines[index + 1])
      for style in styles(index) { line = line.adding(style) }
      return ScreenRow(
        names[index], line, text: table.rows[index].filter { !$0.isEmpty }.joined(separator: "  "))
    }
  }
}

extension NodeInformation {
  /// The full pipes that prevent a running node from accepting events.
  var fullPipes: [String] { isRunning ? status?.blocked ?? [] : [] }

  /// The phase that the screen shows. A running node with a full pipe is shown as blocked. A
  /// running node that does not know the decision of its coordinator is shown as in doubt.
  var shownPhase: String {
    guard fullPipes.isEmpty else { return "blocked" }
    return isRunning && !doubts.isEmpty ? "in doubt" : phase
  }
}

/// The lists of a screen with a given number of columns.
extension ScreenData {
  package func list(
    _ part: ScreenPart, of subject: String?, columns: Int, order: ScreenOrder? = nil
  ) -> ScreenList {
    switch part {
    case .nodes: nodeList(columns, order)
    case .pipes: pipeList(columns, order)
    case .composites: compositeList(columns, order)
    case .logs: logList
    case .deadLetters: deadLetterList(columns, order)
    case .graph: graphList(columns)
    case .events: eventList(of: subject ?? "", columns)
    case .history: historyList(of: subject ?? "", columns)
    }
  }

  private func nodeList(_ columns: Int, _ order: ScreenOrder?) -> ScreenList {
    let nodes = nodes.filter { $0.kind != .composite }
    var table = Table(
      .init("NODE", minimumWidth: 10), .init("STATUS", minimumWidth: 7),
      .init("STATE", minimumWidth: 18),
      .init("EV/S", .right, dropOrder: 5), .init("QUEUE", .right, dropOrder: 3),
      .init("LETTERS", .right, dropOrder: 2), .init("RESTARTS", .right, dropOrder: 4),
      .init("TREND", dropOrder: 1))
    for node in nodes {
      let state = node.stateText
      let waiting = node.status?.ins.reduce(0) { $0 + $1.waiting }
      let trend = trendsByNode[node.name]
      table.add(
        node.name, node.shownPhase, state.isEmpty ? "-" : state, NodeTrend.text(trend?.rate),
        waiting.map(String.init) ?? "-", node.status.map { String($0.deadLetters) } ?? "-",
        String(node.restarts), trend?.barText ?? "")
    }
    return ScreenList(
      table, names: nodes.map(\.name), columns: columns, emptyListText: "no nodes", order: order
    ) { Self.styles(of: nodes[$0]) }
  }

  /// Returns the colours of a node's row. The row also says in words what the colours emphasize.
  private static func styles(of node: NodeInformation) -> [TextStyle] {
    if let color = color(of: node) { return [.color(color)] }
    return node.shownPhase == "running" ? [] : [.dim]
  }

  /// Returns the colour of a node with a problem or in a temporary phase; `nil` for other nodes.
  private static func color(of node: NodeInformation) -> TerminalColor? {
    switch node.shownPhase {
    case "running": node.status.map { $0.deadLetters > 0 } == true ? .yellow : nil
    case "failed", "lost", "in doubt": .red
    case "blocked": .magenta
    case "stopped", "held", "completed": nil
    default: .cyan
    }
  }

  private func pipeList(_ columns: Int, _ order: ScreenOrder?) -> ScreenList {
    let pipes = pipes
    var table = Table(
      .init("PIPE", minimumWidth: 20, keepsEnd: true), .init("FILL"), .init("UNDER WAY", .right),
      .init("CAPACITY", .right, dropOrder: 1), .init("SENT/S", .right, dropOrder: 3),
      .init("APPLIED/S", .right, dropOrder: 2), .init("STALLED", minimumWidth: 8))
    for pipe in pipes {
      let rate = ratesByPipe[pipe.pipe.name]
      table.add(
        pipe.pipe.name, Self.fillText(pipe), pipe.underWayCount.map { String($0) } ?? "-",
        String(pipe.pipe.capacity), NodeTrend.text(rate?.sendRate), NodeTrend.text(rate?.applyRate),
        pipe.stallReason)
    }
    return ScreenList(
      table, names: pipes.map(\.pipe.name), columns: columns, emptyListText: "no pipes",
      order: order
    ) { pipes[$0].stallReason.isEmpty ? [] : [.color(.yellow)] }
  }

  /// Returns a bar such as `■■■□□□□□`. The bar shows the share of the pipe's capacity that is used
  /// by events under way.
  static func fillText(_ pipe: PipeSnapshot) -> String {
    let width = 8
    guard let underWay = pipe.underWayCount else { return String(repeating: "?", count: width) }
    let part = Double(underWay) / Double(max(pipe.pipe.capacity, 1))
    // If the pipe is not empty, at least one square is filled, even if the share is small.
    let filled = min(width, underWay == 0 ? 0 : max(1, Int(part * Double(width))))
    return String(repeating: "■", count: filled) + String(repeating: "□", count: width - filled)
  }

  private func compositeList(_ columns: Int, _ order: ScreenOrder?) -> ScreenList {
    let composites = nodes.filter { $0.kind == .composite }
    var table = Table(
      .init("COMPOSITE", minimumWidth: 10), .init("STATUS", dropOrder: 1, minimumWidth: 7),
      .init("STATE", minimumWidth: 12),
      .init("BLOCKED", minimumWidth: 20))
    for composite in composites {
      let state = composite.stateText
      table.add(
        composite.name, composite.phase, state.isEmpty ? "-" : state,
        blockedEvents(by: composite.name))
    }
    return ScreenList(
      table, names: composites.map(\.name), columns: columns, emptyListText: "no composites",
      order: order
    ) { Self.styles(of: composites[$0]) }
  }

  /// Returns the blocked events of a composite, with the nodes that block them: `go by door, motor;
  /// stop by door`.
  private func blockedEvents(by composite: String) -> String {
    switch enabledEventsByNode[composite] {
    case .found(let found):
      let blockedEvents = found.events.filter { $0.verdict == .blocked }.map { event in
        event.event.name + " by " + event.blockingAnswers.map(\.participant).joined(separator: ", ")
      }
      return blockedEvents.isEmpty ? "nothing" : blockedEvents.joined(separator: "; ")
    case .failed(let reason): return reason
    case nil: return "…"
    }
  }

  private var logList: ScreenList {
    ScreenList("LOGS", logs, emptyListText: "no log lines yet")
  }
}

extension ScreenRow {
  /// The width of the node's name at the start of a log line. Unit: columns.
  private static let nodeWidth = 12

  /// - Parameter name: The identifier of the row: the number of the line among all received lines.
  init(log entry: LogEntry, name: String) {
    let node = entry.node.cut(to: Self.nodeWidth).padded(to: Self.nodeWidth)
    let text = StyledLine(entry.text)
    self.init(
      name,
      StyledLine(ScreenData.timeOfDay(entry.time) + " ", .dim)
        + StyledLine(node + " ", .color(.cyan))
        + (entry.stream == .note ? text.adding(.dim) : text),
      text: "\(entry.time) \(entry.node) \(entry.text)")
  }
}

extension EventEnabledness {
  /// The identifier of the event's row. It is unique on the page, even if several nodes accept the
  /// same event on their own.
  var rowName: String { "\(event.name)@\(recipient)" }

  /// The receiver of the event: the composite that synchronizes the event, or the node that accepts
  /// the event on its own.
  var recipient: String { composite ?? participants.first ?? "" }
}

/// The content of a page about one node or one pipe.
extension ScreenData {
  func eventList(of name: String, _ columns: Int) -> ScreenList {
    let found: EnabledEvents
    switch enabledEventsByNode[name] {
    case .found(let events): found = events
    case .failed(let reason): return ScreenList("EVENTS", emptyListText: reason)
    case nil: return ScreenList("EVENTS", emptyListText: "requesting…")
    }
    var table = Table(
      .init(" "), .init("EVENT", minimumWidth: 14), .init("TARGET OR REASON", minimumWidth: 20))
    for event in found.events {
      table.add(Self.symbol(event.verdict), event.event.signature, outcome(of: event, name))
    }
    return ScreenList(
      table, names: found.events.map(\.rowName),
      columns: columns, emptyListText: "accepts no events"
    ) { found.events[$0].verdict == .blocked ? [.dim] : [] }
  }

  private static func symbol(_ verdict: EventEnabledness.Verdict) -> String {
    switch verdict {
    case .enabled: "✓"
    case .ignored: "–"
    case .blocked: "✗"
    case .dependsOnValue, .undetermined: "?"
    }
  }

  private func outcome(of event: EventEnabledness, _ name: String) -> String {
    guard event.verdict != .blocked else {
      return event.blockingAnswers.map { answer in
        let explanation = answer.explanation { Self.timeOfDay(Timestamp(nanoseconds: $0)) }
        return event.participants == [answer.participant]
          ? explanation : "\(answer.participant): \(explanation)"
      }.joined(separator: "; ")
    }
    var words = [targets(of: event.event.name, name)].compactMap(\.self)
    if let composite = event.composite {
      let others = event.participants.filter { $0 != name }
      words.append(
        composite == name
          ? "taken by " + others.joined(separator: ", ")
          : "through \(composite)"
            + (others.isEmpty ? "" : ", with " + others.joined(separator: ", ")))
    } else if event.participants != [name] {
      words.append("taken by " + event.participants.joined(separator: ", "))
    }
    if event.verdict == .dependsOnValue { words.append("depends on its values") }
    if event.verdict == .undetermined { words.append("known only when it runs") }
    if event.verdict == .ignored { words.append("ignored") }
    return words.joined(separator: "; ")
  }

  /// Formats the states that an event can lead to, such as `→ opening, open`; `nil` if these states
  /// are unknown.
  private func targets(of event: String, _ name: String) -> String? {
    guard case .found(let chart)? = chartsByNode[name], let state = node(name)?.status?.state else {
      return nil
    }
    let source = state.caseName.flatMap { label in
      chart.states.contains { $0.name == label } ? label : nil
    }
    let targets = chart.transitions.filter { $0.source == (source ?? "state") && $0.event == event }
    guard !targets.isEmpty else { return nil }
    let names = targets.map { $0.target ?? "?" }
    return "→ "
      + names.enumerated().filter { names.firstIndex(of: $1) == $0 }.map(\.element)
      .joined(separator: ", ")
  }

  func historyList(of name: String, _ columns: Int) -> ScreenList {
    let fields = directory?[node: name]?.stateFields
    let rows = (historiesByNode[name]?.entries ?? []).reversed().map { entry in
      let time = entry.time.map { Self.timeOfDay(Timestamp(nanoseconds: $0)) } ?? ""
      let state = entry.state.map { $0.stateText(fields: fields) } ?? "?"
      let event = entry.event.map { "--\($0.caseText)--> " } ?? ""
      let missed = entry.missedCount > 0 ? "; \(entry.missedCount) earlier states not shown" : ""
      let sends =
        entry.sentEvents.isEmpty ? "" : "  sends " + entry.sentEvents.joined(separator: ", ")
      return ScreenRow(
        entry.identifier,
        StyledLine(time + "  ", .dim)
          + StyledLine(entry.instance.map { $0 + "  " } ?? "", .color(.cyan))
          + StyledLine(event + state)
          + StyledLine("  (\(entry.cause)\(missed))\(sends)", .dim))
    }
    return ScreenList("HISTORY", rows, emptyListText: "no state reported yet")
  }

  /// The first lines of a page about a node.
  package func header(ofNode name: String) -> [StyledLine] {
    guard let node = node(name) else {
      return [StyledLine(name, .bold) + "  not in the topology any more"]
    }
    var first =
      StyledLine(node.name, .bold) + "  "
      + StyledLine(node.shownPhase).adding(Self.emphasis(of: node))
    let state = node.stateText
    if !state.isEmpty { first = first + "  " + StyledLine(state, .bold) }
    var versionLine = "version \(node.status?.version ?? 0)"
    if let change = change(of: node) {
      versionLine += "  for \(age(of: change.time)), by \(change.cause)"
    }
    if node.isRunning, let timer = node.status?.timer {
      versionLine += "  after \(timer.after) in \(timer.remaining(at: now).shortText)"
    }
    if let pid = node.pid { versionLine += "  pid \(pid)" }
    if let uptime = node.uptime(now: now) { versionLine += "  up \(uptime.shortText)" }
    var detailText = [node.hosts ?? "", node.durability.rawValue].filter { !$0.isEmpty }
      .joined(separator: "  ")
    detailText += "  restarts \(node.restarts)"
    var countLine = StyledLine(detailText, .dim)
    if let status = node.status {
      countLine =
        countLine + StyledLine("  events \(status.events)  refused \(status.refused)", .dim)
        + StyledLine(status.ignored.map { "  ignored \($0)" } ?? "", .dim)
      countLine =
        countLine
        + StyledLine(
          "  dead letters \(status.deadLetters)", status.deadLetters > 0 ? .color(.yellow) : .dim)
    }
    var lines = [first, StyledLine(versionLine), countLine]
    for pipe in node.fullPipes {
      lines.append(StyledLine("blocked: pipe '\(pipe)' is full", .color(.magenta)))
    }
    for doubt in node.doubts {
      lines.append(
        StyledLine(
          "IN DOUBT: " + doubt.wording { Self.timeOfDay(Timestamp(nanoseconds: $0)) }, .color(.red),
          .bold))
    }
    if let reason = node.reason, !reason.isEmpty {
      lines.append(StyledLine(reason, .color(.yellow)))
    }
    return lines
  }

  private static func emphasis(of node: NodeInformation) -> TextStyle {
    if node.shownPhase == "running" { return .color(.green) }
    return color(of: node).map { .color($0) } ?? .dim
  }

  /// The lines of a page about a pipe.
  package func header(ofPipe name: String) -> [StyledLine] {
    guard let pipe = pipe(name) else {
      return [StyledLine(name, .bold) + "  not in the topology any more"]
    }
    let lines = pipe.lines(events: [], Style(isColored: false)).map { StyledLine($0) }
    let rate = ratesByPipe[name]
    return [lines[0].adding(.bold)] + lines.dropFirst()
      + [
        StyledLine("  fill      \(Self.fillText(pipe))"),
        StyledLine(
          "  rate      \(NodeTrend.text(rate?.sendRate)) sent/s, \(NodeTrend.text(rate?.applyRate)) applied/s"
        ),
      ]
  }
}
