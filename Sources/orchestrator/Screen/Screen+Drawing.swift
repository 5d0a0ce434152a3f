import PipeRuntime

extension Screen {
  /// All lines of the terminal, according to the last layout of the page.
  var lines: [StyledLine] {
    let bodyHeight = max(0, size.rows - Self.fixedLineCount)
    var body: [StyledLine]
    switch overlay {
    case .help: body = Self.help
    case .text(let title, let lines, let first):
      body = [StyledLine(title, .bold)] + lines.dropFirst(first).map { StyledLine($0) }
    case .form(let form): body = form.lines(height: max(1, bodyHeight - 3), columns: size.columns)
    case .palette(let palette):
      body = palette.lines(height: max(1, bodyHeight - 2), columns: size.columns)
    case .filter, .confirmation, nil: body = pageLines
    }
    body = Array(body.prefix(bodyHeight))
    body += Array(repeating: "", count: bodyHeight - body.count)
    return [title, health] + body + [footer]
  }

  /// The number of lines that are the same on all pages: the title, the health and the footer.
  static let fixedLineCount = 3

  /// The root cause of the worst problem, or `all well`.
  private var health: StyledLine {
    guard let health = shownData.health else { return "" }
    let text = health.summary
    return switch health.severity {
    case .failure: StyledLine(text, .bold, .color(.red))
    case .warning: StyledLine(text, .color(.yellow))
    case .note, nil: StyledLine(text, .color(.green))
    }
  }

  /// The title line, such as `lift: running  up 3 min   1 overview  2 nodes …`.
  private var title: StyledLine {
    let data = shownData
    guard let directory = data.directory else {
      return StyledLine(data.noAnswerReason ?? "waiting for the orchestrator")
    }
    var line = StyledLine(directory.topology, .bold) + ": "
    if let noAnswerReason = data.noAnswerReason {
      line =
        line + StyledLine("last seen \(directory.phase); \(noAnswerReason)", .color(.red), .bold)
    } else {
      line = line + StyledLine(directory.phase)
    }
    if let startedAt = data.startedAt { line = line + "  up \(data.age(of: startedAt))" }
    if frozenData != nil { line = line + "  " + StyledLine("FROZEN", .bold, .reversed) }
    if !filter.isEmpty { line = line + "  " + StyledLine("filter '\(filter)'", .color(.yellow)) }
    line = line + "  "
    let full = line + tabs(hasTitles: true)
    return full.width <= size.columns ? full : line + tabs(hasTitles: false)
  }

  /// The keys of the pages. On a narrow terminal, only the current page has its title.
  private func tabs(hasTitles: Bool) -> StyledLine {
    ScreenTab.allCases.reduce(StyledLine("")) { line, page in
      let isCurrent = page == self.page && subject == nil
      let text = hasTitles || isCurrent ? " \(page.key) \(page.title) " : " \(page.key)"
      return line + (isCurrent ? StyledLine(text, .reversed) : StyledLine(text, .dim))
    }
  }

  private var footer: StyledLine {
    switch overlay {
    case .filter(let field):
      return StyledLine("/", .bold)
        + field.line(columns: max(1, min(40, size.columns - 30)), isFocused: true)
        + StyledLine("  Enter keeps the filter, Esc shows all rows", .dim)
    case .confirmation(.leave):
      return StyledLine(
        "Stop the topology and leave? q or y confirms, any other key cancels", .bold,
        .color(.yellow))
    case .confirmation(.steer(let nodeAction, let name)):
      return StyledLine(
        nodeAction.prompt(for: name, columns: size.columns), .bold, .color(.yellow))
    case .confirmation(.drop(let id, let node)):
      return StyledLine(
        "Delete dead letter \(id) of '\(node)'? D or y confirms, any other key cancels", .bold,
        .color(.yellow))
    case .help: return StyledLine("any key goes back", .dim)
    case .text: return StyledLine("j k move, Esc goes back", .dim)
    case .form(let form): return form.footer
    case .palette: return StyledLine("type part of a name; Enter chooses, Esc goes back", .dim)
    case nil: break
    }
    if let notice {
      return StyledLine(notice.text, notice.isProblem ? .color(.red) : .color(.green), .bold)
    }
    let first = subject == nil ? "Enter more" : "Esc back"
    return StyledLine(
      "j/k move  \(first)  o sort  s send  w why  / filter  : all  ? help  q quit", .dim)
  }

  private static var help: [StyledLine] {
    func line(_ keys: String, _ meaning: String) -> StyledLine {
      StyledLine("  " + keys.padded(to: 9), .bold) + StyledLine(meaning)
    }
    let pages = ScreenTab.allCases.map(\.title).joined(separator: ", ")
    return ScreenCommand.movementKeys.map { line($0.keys, $0.meaning) }
      + [line("1 … \(ScreenTab.allCases.count)", pages)]
      + ScreenCommand.all.filter { !$0.isPage }.map { command in
        line(command.key == " " ? "Space" : String(command.key), command.meaning)
      }
  }

  // MARK: Contents of pages

  private var pageLines: [StyledLine] {
    header + lists.filter { $0.height > 0 }.flatMap { lines(of: $0) }
  }

  /// The lines above the lists.
  var header: [StyledLine] {
    switch subject {
    case nil: []
    case .node(let name): shownData.header(ofNode: name) + [""]
    case .pipe(let name): shownData.header(ofPipe: name)
    }
  }

  private func lines(of shown: LaidOutList) -> [StyledLine] {
    let (part, list, height) = (shown.part, shown.list, shown.height)
    let names = list.rows.map(\.identifier)
    let isFocused = part == focus
    let selection = selection(part)
    let selected = selection.selectedRow(in: names)
    let window = selection.visibleRows(of: names, height: height - 1)
    var heading = StyledLine("  " + list.heading, .bold)
    if isFocused { heading = heading.adding(.underlined) }
    if window.count < names.count {
      heading = heading + StyledLine("  \((selected ?? 0) + 1)/\(names.count)", .dim)
    }
    guard !list.rows.isEmpty else {
      return [heading, StyledLine("  \(list.emptyListText)", .dim)]
    }
    // A drawing has no rows to select.
    return [heading]
      + window.map { row in
        row == selected && isFocused && part != .graph
          ? StyledLine("▶ ", .bold, .color(.cyan)) + list.rows[row].line.adding(.bold)
          : "  " + list.rows[row].line
      }
  }
}

extension SendForm {
  func lines(height: Int, columns: Int) -> [StyledLine] {
    guard let event else {
      let names = events.map(\.name)
      let selected = selection.selectedRow(in: names)
      return [StyledLine("send to '\(receiver)'", .bold), ""]
        + selection.visibleRows(of: names, height: height).map { row in
          row == selected
            ? StyledLine("▶ ", .bold, .color(.cyan)) + StyledLine(events[row].signature, .bold)
            : StyledLine("  " + events[row].signature)
        }
    }
    let width = event.fields.map { $0.name.displayWidth + $0.type.displayWidth + 2 }.max() ?? 0
    // Chooses the first line so that the line with the cursor is visible, even if not all lines
    // fit.
    let first = max(0, focusedLineIndex - height + 1)
    return [StyledLine("send \(event.name) to '\(receiver)'", .bold), ""]
      + zip(event.fields.indices, event.fields).dropFirst(first).prefix(height).map {
        index, field in
        StyledLine("  " + "\(field.name): \(field.type)".padded(to: width) + "  ")
          + fields[index].line(
            columns: max(8, min(40, columns - width - 6)), isFocused: index == focusedLineIndex)
      }
  }

  var footer: StyledLine {
    if let problem { return StyledLine(problem, .bold, .color(.red)) }
    let text =
      switch event?.fields.isEmpty {
      case nil: "j k move, Enter chooses, Esc goes back"
      case true?: "Enter sends the event, Esc goes back"
      case false?: "Tab goes to the next field, Enter in the last field sends, Esc goes back"
      }
    return StyledLine(text, .dim)
  }
}

extension ScreenPalette {
  func lines(height: Int, columns: Int) -> [StyledLine] {
    let choices = choices
    let names = choices.map(Self.name)
    let selected = selection.selectedRow(in: names)
    let header =
      StyledLine(":", .bold) + field.line(columns: max(8, min(40, columns - 2)), isFocused: true)
    guard !choices.isEmpty else {
      return [header, StyledLine("  no command or node has this name", .dim)]
    }
    return [header]
      + selection.visibleRows(of: names, height: height).map { row in
        let text: StyledLine =
          switch choices[row] {
          case .command(let command):
            StyledLine(command.name.padded(to: 12)) + StyledLine(command.meaning, .dim)
          case .node(let name):
            StyledLine(name.padded(to: 12)) + StyledLine("shows the page of this node", .dim)
          }
        return row == selected
          ? StyledLine("▶ ", .bold, .color(.cyan)) + text.adding(.bold) : "  " + text
      }
  }
}
