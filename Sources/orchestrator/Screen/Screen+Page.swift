import PipeRuntime

/// What stands on the page, and what is selected there.
extension Screen {
  /// The lists that are shown now.
  var parts: [ScreenPart] {
    switch subject {
    case nil: page.parts
    case .node: [.events, .history]
    case .pipe: []
    }
  }

  private var subjectName: String? {
    switch subject {
    case .node(let name), .pipe(let name): name
    case nil: nil
    }
  }

  static func selection(of part: ScreenPart) -> NamedSelection {
    switch part {
    case .logs: NamedSelection(newest: .last)
    case .history: NamedSelection(newest: .first)
    case .nodes, .pipes, .composites, .events: NamedSelection()
    }
  }

  package func selection(_ part: ScreenPart) -> NamedSelection {
    selections[part] ?? Self.selection(of: part)
  }

  package func selected(_ part: ScreenPart) -> ScreenRow? {
    guard let shown = lists.first(where: { $0.part == part }) else { return nil }
    let rows = shown.list.rows
    return selection(part).row(in: rows.map(\.name)).map { rows[$0] }
  }

  /// Finds what stands on the page, and where. Selections stay with what was chosen.
  mutating func layOut() {
    let all = parts.map { (part: $0, list: list($0)) }
    let isOverview = subject == nil && page == .all
    let wanted = all.filter {
      // Where all lists are shown, those are left out of which there is nothing.
      !isOverview || $0.part == .nodes || $0.part == .logs || !$0.list.rows.isEmpty
    }
    let room = max(0, size.rows - 2 - head.count)
    let heights = ScreenHeights.share(wanted.map { 1 + max(1, $0.list.rows.count) }, room: room)
    lists = zip(wanted, heights).map { ShownList(part: $0.part, list: $0.list, height: $1) }
    if let first = lists.first, !lists.contains(where: { $0.part == focus }) { focus = first.part }
    for shown in lists {
      selections[shown.part, default: Self.selection(of: shown.part)]
        .settle(in: shown.list.rows.map(\.name), height: max(1, shown.height - 1))
    }
  }

  private func list(_ part: ScreenPart) -> ScreenList {
    var list = shown.list(part, of: subjectName, columns: max(1, size.columns - 2))
    guard !filter.isEmpty else { return list }
    let text = filter.lowercased()
    list.rows = list.rows.filter { $0.text.lowercased().contains(text) }
    if list.rows.isEmpty { list.emptiness = "nothing has '\(filter)'" }
    return list
  }

  /// Who an event or a question is for: what the page is about, or what is selected.
  var target: String? {
    switch subject {
    case .node(let name): return name
    case .pipe(let name): return data.pipe(name)?.pipe.to
    case nil: break
    }
    switch focus {
    case .nodes, .composites: return selected(focus)?.name
    case .pipes: return selected(.pipes).flatMap { data.pipe($0.name)?.pipe.to }
    case .logs, .events, .history: return nil
    }
  }

  /// The event that is selected on the page of a node or a composite.
  var selectedEvent: EventEnabledness? {
    guard focus == .events, case .node(let name) = subject, let row = selected(.events),
      case .found(let found)? = shown.enabled[name]
    else { return nil }
    return found.events.first { $0.rowName == row.name }
  }

  var subjectOrSelectionIsNode: Bool {
    switch subject {
    case .node: true
    case .pipe: false
    case nil: focus == .nodes || focus == .composites
    }
  }

  var copied: String? {
    if case .pipe(let name) = subject { return name }
    return selected(focus)?.text
  }
}
