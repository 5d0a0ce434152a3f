import PipeRuntime
import PipeSupervision

extension EventEnabledness {
  /// Unique among the events of a page, of which several nodes may take one each for itself.
  var rowName: String { "\(event.name)@\(recipient)" }

  /// Who it is sent to: the composite through which it is taken, or the node that takes it alone.
  var recipient: String { composite ?? participants.first ?? "" }
}

/// What a page about one node, or one pipe, shows.
extension ScreenData {
  func eventList(of name: String, _ columns: Int) -> ScreenList {
    let found: EnabledEvents
    switch enabled[name] {
    case .found(let events): found = events
    case .failed(let reason): return ScreenList("EVENTS", emptiness: reason)
    case nil: return ScreenList("EVENTS", emptiness: "asked…")
    }
    var table = Table(
      .init(" "), .init("EVENT", least: 14), .init("LEADS TO, OR WHY NOT", least: 20))
    for event in found.events {
      table.add(Self.mark(event.verdict), event.event.signature, outcome(of: event, name))
    }
    return ScreenList(
      table, names: found.events.map(\.rowName),
      columns: columns, emptiness: "it takes no events"
    ) { found.events[$0].verdict == .withheld ? [.dim] : [] }
  }

  private static func mark(_ verdict: EventEnabledness.Verdict) -> String {
    switch verdict {
    case .enabled: "✓"
    case .withheld: "✗"
    case .dependsOnValue, .undetermined: "?"
    }
  }

  private func outcome(of event: EventEnabledness, _ name: String) -> String {
    guard event.verdict != .withheld else {
      return event.withheld.map { answer in
        let because = answer.because { Self.clock(Timestamp(nanoseconds: $0)) }
        return event.participants == [answer.participant]
          ? because : "\(answer.participant): \(because)"
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
    if event.verdict == .dependsOnValue { words.append("its values decide") }
    if event.verdict == .undetermined { words.append("only a run can tell") }
    return words.joined(separator: "; ")
  }

  /// `→ opening, open`; `nil` where it is not known.
  private func targets(of event: String, _ name: String) -> String? {
    guard case .found(let chart)? = charts[name], let state = node(name)?.status?.state else {
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
    let rows = (histories[name]?.entries ?? []).reversed().map { entry in
      let time = entry.time.map { Self.clock(Timestamp(nanoseconds: $0)) } ?? ""
      let state = entry.state.map { $0.stateText(fields: fields) } ?? "?"
      let event = entry.event.map { "--\($0.caseText)--> " } ?? ""
      let missed = entry.missed > 0 ? "; \(entry.missed) before not shown" : ""
      let sends = entry.sent.isEmpty ? "" : "  sends " + entry.sent.joined(separator: ", ")
      return ScreenRow(
        entry.name,
        StyledLine(time + "  ", .dim) + StyledLine(event + state)
          + StyledLine("  (\(entry.cause)\(missed))\(sends)", .dim))
    }
    return ScreenList("HISTORY", rows, emptiness: "no state is told yet")
  }

  /// What a page about a node begins with.
  package func head(ofNode name: String) -> [StyledLine] {
    guard let node = node(name) else {
      return [StyledLine(name, .bold) + "  the topology has it no more"]
    }
    var first =
      StyledLine(node.name, .bold) + "  "
      + StyledLine(node.shownPhase).adding(Self.emphasis(of: node))
    let state = node.stateText
    if !state.isEmpty { first = first + "  " + StyledLine(state, .bold) }
    var second = "version \(node.status?.version ?? 0)"
    if let change = change(of: node) {
      second += "  for \(age(of: change.time)), by \(change.cause)"
    }
    if let pid = node.pid { second += "  pid \(pid)" }
    if let uptime = node.uptime(now: now) { second += "  up \(uptime.shortText)" }
    var third = [node.hosts ?? "", node.durability.rawValue].filter { !$0.isEmpty }
      .joined(separator: "  ")
    third += "  restarts \(node.restarts)"
    var counts = StyledLine(third, .dim)
    if let status = node.status {
      counts = counts + StyledLine("  events \(status.events)  refused \(status.refused)", .dim)
      counts =
        counts
        + StyledLine("  letters \(status.letters)", status.letters > 0 ? .color(.yellow) : .dim)
    }
    var lines = [first, StyledLine(second), counts]
    for pipe in node.fullPipes {
      lines.append(StyledLine("blocked: pipe '\(pipe)' is full", .color(.yellow)))
    }
    for doubt in node.doubts {
      lines.append(
        StyledLine(
          "IN DOUBT: " + doubt.wording { Self.clock(Timestamp(nanoseconds: $0)) }, .color(.red),
          .bold))
    }
    if let reason = node.reason, !reason.isEmpty {
      lines.append(StyledLine(reason, .color(.yellow)))
    }
    return lines
  }

  private static func emphasis(of node: NodeInformation) -> TextStyle {
    switch node.shownPhase {
    case "running": .color(.green)
    case "failed": .color(.red)
    default: .color(.yellow)
    }
  }

  /// What a page about a pipe shows.
  package func head(ofPipe name: String) -> [StyledLine] {
    guard let pipe = pipe(name) else {
      return [StyledLine(name, .bold) + "  the topology has it no more"]
    }
    let lines = pipe.lines(events: [], Style(isColored: false)).map { StyledLine($0) }
    let rate = rates[name]
    return [lines[0].adding(.bold)] + lines.dropFirst()
      + [
        StyledLine("  fill      \(Self.fill(pipe))"),
        StyledLine(
          "  rate      \(NodeTrend.text(rate?.sent)) sent/s, \(NodeTrend.text(rate?.applied)) applied/s"
        ),
      ]
  }
}
