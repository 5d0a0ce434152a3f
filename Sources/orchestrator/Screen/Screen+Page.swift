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

/// Which row of a list is selected, by its name: where rows come, go or change places, the selection stays with
/// the one that was chosen.
package struct NamedSelection: Hashable, Sendable {
  /// Where new rows come, if they are what is looked at.
  package enum Newest: Hashable, Sendable { case nowhere, first, last }

  private let newest: Newest
  /// `nil` before there was one, and while the newest row is selected, whichever that is.
  private var name: String?
  /// Where the chosen one was when it was last seen.
  private var row = 0
  private var first = 0

  package init(newest: Newest = .nowhere) { self.newest = newest }

  /// The selected row, counted from 0; `nil` where there is none. Where the one that was chosen has gone, it is
  /// the one in its place.
  package func row(in names: [String]) -> Int? {
    guard !names.isEmpty else { return nil }
    guard let name else { return newest == .last ? names.count - 1 : 0 }
    return names.firstIndex(of: name) ?? min(row, names.count - 1)
  }

  /// The rows that are seen: as before, or moved as little as shows the selected one.
  package func window(of names: [String], height: Int) -> Range<Int> {
    guard let selected = row(in: names), height > 0 else { return 0..<0 }
    let start = min(max(min(first, names.count - height), selected - height + 1, 0), selected)
    return start..<min(names.count, start + height)
  }

  /// Notes where the selected row is, since the next rows may be without it.
  package mutating func settle(in names: [String], height: Int) {
    guard let row = row(in: names) else { return }
    self.row = row
    if name != nil || newest == .nowhere { name = names[row] }
    first = window(of: names, height: height).lowerBound
  }

  /// Selects the row that is so many rows further, or the last one on the way there.
  package mutating func move(by rows: Int, in names: [String], height: Int) {
    guard let row = row(in: names) else { return }
    self.row = max(0, min(row + rows, names.count - 1))
    let isNewest =
      switch newest {
      case .nowhere: false
      case .first: self.row == 0
      case .last: self.row == names.count - 1
      }
    name = isNewest ? nil : names[self.row]
    settle(in: names, height: height)
  }

  /// Takes a key that moves.
  /// - Returns: Whether it is one.
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

/// How high the parts of a screen are that stand above each other.
package enum ScreenHeights {
  /// Gives each part what it wants, as far as there is room: who wants little gets that, the others share the
  /// rest, and what is left over is the last one's.
  /// - Parameters:
  ///   - wanted: Of each part the lines that it would fill, its heading among them.
  ///   - room: The lines that there are.
  package static func share(_ wanted: [Int], room: Int) -> [Int] {
    var heights = Array(repeating: 0, count: wanted.count)
    var left = max(0, room)
    var open = Array(wanted.indices)
    while !open.isEmpty {
      let fair = left / open.count
      let modest = open.filter { wanted[$0] <= fair }
      guard modest.isEmpty else {
        for index in modest {
          heights[index] = wanted[index]
          left -= wanted[index]
        }
        open.removeAll { modest.contains($0) }
        continue
      }
      for (place, index) in open.enumerated() {
        heights[index] = fair + (place < left % open.count ? 1 : 0)
      }
      return heights
    }
    if let last = heights.indices.last { heights[last] += left }
    return heights
  }
}
