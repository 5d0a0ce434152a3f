import PipeRuntime

/// The layout of the page, and the selection on it.
extension Screen {
  /// The lists on the current page.
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
    case .nodes, .pipes, .composites, .events, .deadLetters, .graph: NamedSelection()
    }
  }

  package func selection(_ part: ScreenPart) -> NamedSelection {
    selections[part] ?? Self.selection(of: part)
  }

  package func selected(_ part: ScreenPart) -> ScreenRow? {
    guard let shown = lists.first(where: { $0.part == part }) else { return nil }
    let rows = shown.list.rows
    return selection(part).selectedRow(in: rows.map(\.identifier)).map { rows[$0] }
  }

  /// Lays out the page. Selected rows stay selected.
  mutating func layOut() {
    var all: [(part: ScreenPart, list: ScreenList)] = []
    for part in parts { all.append((part, list(part))) }
    let isOverview = subject == nil && page == .all
    let wanted = all.filter {
      // The overview omits empty lists, except the lists of nodes and of logs.
      !isOverview || $0.part == .nodes || $0.part == .logs || !$0.list.rows.isEmpty
    }
    let availableLines = max(0, size.rows - Self.fixedLineCount - header.count)
    let heights = ScreenHeights.shareLines(
      wanted.map { 1 + max(1, $0.list.rows.count) }, availableLines: availableLines)
    lists = zip(wanted, heights).map { LaidOutList(part: $0.part, list: $0.list, height: $1) }
    if let first = lists.first, !lists.contains(where: { $0.part == focus }) { focus = first.part }
    for shown in lists {
      selections[shown.part, default: Self.selection(of: shown.part)]
        .rememberPosition(in: shown.list.rows.map(\.identifier), height: max(1, shown.height - 1))
    }
  }

  /// The time for which a drawing of the graph is kept. Unit: nanoseconds.
  private static let drawingLifetime: Int64 = 500_000_000

  private mutating func list(_ part: ScreenPart) -> ScreenList {
    let columns = max(1, size.columns - 2)
    var list =
      part == .graph
      ? graph(columns)
      : shownData.list(part, of: subjectName, columns: columns, order: orders[part])
    guard !filter.isEmpty else { return list }
    let text = filter.lowercased()
    list.rows = list.rows.filter { $0.text.lowercased().contains(text) }
    if list.rows.isEmpty { list.emptyListText = "no row contains '\(filter)'" }
    return list
  }

  /// Returns the drawing of the topology. The drawing is reused for a short time, because making a
  /// drawing takes longer than making all other lists.
  private mutating func graph(_ columns: Int) -> ScreenList {
    let now = shownData.now
    if let drawing, drawing.columns == columns, now - drawing.time < Self.drawingLifetime,
      now >= drawing.time
    {
      return drawing.list
    }
    let list = shownData.list(.graph, of: nil, columns: columns)
    drawing = (now, columns, list)
    return list
  }

  /// The node or composite to which an event or a request is sent: the subject of the page or, if
  /// the page has no subject, the selected row. For a pipe, the receiver of the pipe.
  var target: String? {
    switch subject {
    case .node(let name): return name
    case .pipe(let name): return data.pipe(name)?.pipe.to
    case nil: break
    }
    switch focus {
    case .nodes, .composites: return selected(focus)?.identifier
    case .pipes: return selected(.pipes).flatMap { data.pipe($0.identifier)?.pipe.to }
    case .logs, .events, .history, .deadLetters, .graph: return nil
    }
  }

  /// The event that is selected on the page of a node or a composite.
  var selectedEvent: EventEnabledness? {
    guard focus == .events, case .node(let name) = subject, let row = selected(.events),
      case .found(let found)? = shownData.enabledEventsByNode[name]
    else { return nil }
    return found.events.first { $0.rowName == row.identifier }
  }

  var isNodeTargeted: Bool {
    switch subject {
    case .node: true
    case .pipe: false
    case nil: focus == .nodes || focus == .composites
    }
  }

  var textToCopy: String? {
    if case .pipe(let name) = subject { return name }
    return selected(focus)?.text
  }
}

/// The selected row of a list. The row is identified by its name, so it stays selected when rows
/// are added, removed or moved.
package struct NamedSelection: Hashable, Sendable {
  /// The end of the list at which new rows appear. Except with `nowhere`, the selection can follow
  /// the newest row.
  package enum NewestPosition: Hashable, Sendable { case nowhere, first, last }

  private let newestPosition: NewestPosition
  /// The name of the selected row; `nil` before a row is selected, and while the selection follows
  /// the newest row.
  private var name: String?
  /// The last known position of the selected row.
  private var lastPosition = 0
  private var firstVisibleRow = 0

  package init(newest: NewestPosition = .nowhere) { self.newestPosition = newest }

  /// Returns the index of the selected row; `nil` if the list is empty. If the selected row was
  /// removed from the list, returns the index at which the row was, or the index of the last row.
  package func selectedRow(in names: [String]) -> Int? {
    guard !names.isEmpty else { return nil }
    guard let name else { return newestPosition == .last ? names.count - 1 : 0 }
    return names.firstIndex(of: name) ?? min(lastPosition, names.count - 1)
  }

  /// Returns the range of visible rows. The range moves only as far as necessary to show the
  /// selected row.
  package func visibleRows(of names: [String], height: Int) -> Range<Int> {
    guard let selected = selectedRow(in: names), height > 0 else { return 0..<0 }
    let start = min(
      max(min(firstVisibleRow, names.count - height), selected - height + 1, 0), selected)
    return start..<min(names.count, start + height)
  }

  /// Remembers the position of the selected row, in case the row is missing from the next list.
  package mutating func rememberPosition(in names: [String], height: Int) {
    guard let row = selectedRow(in: names) else { return }
    self.lastPosition = row
    if name != nil || newestPosition == .nowhere { name = names[row] }
    firstVisibleRow = visibleRows(of: names, height: height).lowerBound
  }

  /// Moves the selection by a number of rows, but not beyond the first or last row.
  package mutating func move(by rows: Int, in names: [String], height: Int) {
    guard let row = selectedRow(in: names) else { return }
    self.lastPosition = max(0, min(row + rows, names.count - 1))
    let isNewest =
      switch newestPosition {
      case .nowhere: false
      case .first: self.lastPosition == 0
      case .last: self.lastPosition == names.count - 1
      }
    name = isNewest ? nil : names[self.lastPosition]
    rememberPosition(in: names, height: height)
  }

  /// Handles a key that moves the selection.
  /// - Returns: Whether the key moves selections. The result is also `true` if this selection is
  ///   already at the end of the list, and therefore stays there.
  package mutating func press(_ key: Key, in names: [String], height: Int) -> Bool {
    switch key {
    case .up, .character("k"): move(by: -1, in: names, height: height)
    case .down, .character("j"): move(by: 1, in: names, height: height)
    case .pageUp: move(by: -max(1, height), in: names, height: height)
    case .pageDown: move(by: max(1, height), in: names, height: height)
    case .home, .character("g"): move(by: -names.count, in: names, height: height)
    case .end, .character("G"): move(by: names.count, in: names, height: height)
    default: return false
    }
    return true
  }
}

/// Computes the heights of the parts that are stacked on a screen.
package enum ScreenHeights {
  /// Distributes the lines among the parts. A part that needs fewer lines than an equal share gets
  /// the lines that it needs. The other parts share the remaining lines equally. Lines that are
  /// still left go to the last part.
  /// - Parameters:
  ///   - wanted: The number of lines that each part would fill, including its heading.
  ///   - availableLines: The number of available lines.
  package static func shareLines(_ wanted: [Int], availableLines: Int) -> [Int] {
    var heights = Array(repeating: 0, count: wanted.count)
    var remaining = max(0, availableLines)
    var unassigned = Array(wanted.indices)
    while !unassigned.isEmpty {
      let equalShare = remaining / unassigned.count
      let smallParts = unassigned.filter { wanted[$0] <= equalShare }
      guard smallParts.isEmpty else {
        for index in smallParts {
          heights[index] = wanted[index]
          remaining -= wanted[index]
        }
        unassigned.removeAll { smallParts.contains($0) }
        continue
      }
      for (offset, index) in unassigned.enumerated() {
        heights[index] = equalShare + (offset < remaining % unassigned.count ? 1 : 0)
      }
      return heights
    }
    if let last = heights.indices.last { heights[last] += remaining }
    return heights
  }
}
