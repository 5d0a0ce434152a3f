import PipeRuntime

/// Handles the keys.
extension Screen {
  /// Handles a key.
  mutating func press(_ key: Key) -> [Action] {
    switch key {
    case .control("c"): return [.leave]
    case .control("z"): return [.suspend]
    case .control("l"): return []
    default: break
    }
    if let overlay { return press(key, in: overlay) }
    notice = nil
    (pendingForm, pendingWhyNode) = (nil, nil)
    if case .character(let character) = key,
      let command = ScreenCommand.all.first(where: { $0.key == character })
    {
      return perform(command)
    }
    switch key {
    case .enter: return open()
    case .escape:
      if filter.isEmpty, subject != nil { return show(page) }
      filter = ""
    case .tab: moveFocus(by: 1)
    case .backTab: moveFocus(by: -1)
    default:
      guard let shown = lists.first(where: { $0.part == focus }) else { break }
      let (names, height) = (shown.list.rows.map(\.identifier), max(1, shown.height - 1))
      if focus == .graph { return scrollGraph(key, names, height) }
      _ = selections[focus, default: Self.selection(of: focus)].press(
        key, in: names, height: height)
    }
    return []
  }

  /// Scrolls the drawing of the topology by lines. No line of the drawing is selected.
  private mutating func scrollGraph(_ key: Key, _ names: [String], _ height: Int) -> [Action] {
    var selection = self.selection(.graph)
    let window = selection.visibleRows(of: names, height: height)
    let first = Self.firstLine(
      after: key, firstLine: window.lowerBound, lineCount: names.count, height: height)
    guard let first, let selected = selection.selectedRow(in: names) else { return [] }
    // Selects the first line to show, and then the last line to show, so that all lines between
    // them become visible.
    selection.move(by: first - selected, in: names, height: height)
    selection.move(by: min(height, names.count - first) - 1, in: names, height: height)
    selections[.graph] = selection
    return []
  }

  private mutating func press(_ key: Key, in overlay: Overlay) -> [Action] {
    self.overlay = nil
    let height = max(1, size.rows - Self.fixedLineCount - 2)
    switch overlay {
    case .help: break
    case .text(let title, let lines, let first):
      guard
        let newFirstLine = Self.firstLine(
          after: key, firstLine: first, lineCount: lines.count, height: height)
      else { break }
      self.overlay = .text(title: title, lines: lines, first: newFirstLine)
    case .form(var form):
      switch form.press(key, height: height) {
      case .open: self.overlay = .form(form)
      case .cancelled: break
      case .send(let event): return [.ask(.send(event, to: form.receiver))]
      }
    case .palette(var palette):
      switch palette.press(key, height: height) {
      case .open: self.overlay = .palette(palette)
      case .cancelled: break
      case .chosen(.command(let command)): return perform(command)
      case .chosen(.node(let name)): return show(.node(name))
      }
    case .filter(var field):
      switch key {
      case .enter: break
      case .escape: filter = ""
      default:
        _ = field.press(key)
        filter = field.text
        self.overlay = .filter(field)
      }
    case .confirmation(let confirmation): return handleConfirmation(confirmation, key)
    }
    return []
  }

  /// Handles a key while an action waits for confirmation. Pressing the action's key again, or `y`,
  /// confirms the action.
  private mutating func handleConfirmation(_ confirmation: Confirmation, _ key: Key) -> [Action] {
    switch confirmation {
    case .leave: return [.character("q"), .character("y")].contains(key) ? [.leave] : []
    case .drop(let id, let node):
      guard [.character(ScreenCommand.DeadLetterAction.drop.key), .character("y")].contains(key)
      else { return [] }
      return [.ask(.deadLetter(.drop, id: id, of: node))]
    case .steer(let nodeAction, let name):
      guard [.character(nodeAction.key), .character("y")].contains(key) else { return [] }
      notice = Notice(text: "\(nodeAction.rawValue) \(name)…", isProblem: false)
      return [.ask(.steer(nodeAction, name))]
    }
  }

  /// Returns the index of the first visible line after a key that scrolls; `nil` for other keys.
  /// - Parameters:
  ///   - firstLine: The index of the first visible line before the key.
  ///   - lineCount: The number of all lines.
  ///   - height: The number of visible lines.
  private static func firstLine(
    after key: Key, firstLine: Int, lineCount: Int, height: Int
  ) -> Int? {
    let last = max(0, lineCount - height)
    let next: Int? =
      switch key {
      case .up, .character("k"): firstLine - 1
      case .down, .character("j"): firstLine + 1
      case .pageUp: firstLine - height
      case .pageDown, .character(" "): firstLine + height
      case .home, .character("g"): 0
      case .end, .character("G"): last
      default: nil
      }
    return next.map { max(0, min($0, last)) }
  }

  private mutating func perform(_ command: ScreenCommand) -> [Action] {
    switch command {
    case .page(let page): return show(page)
    case .filter:
      guard !parts.isEmpty else { return showError("this page has no rows") }
      overlay = .filter(TerminalTextField(filter, byteLimit: 200))
    case .sort: return sort()
    case .reverse:
      guard var order = orders[focus], let columns = sortedColumns else {
        return showError("sort the list first, with 'o'")
      }
      order.isReversed.toggle()
      orders[focus] = order
      notice = Notice(text: order.wording(columns[order.column]), isProblem: false)
    case .deadLetter(let action):
      guard focus == .deadLetters, let row = selected(.deadLetters),
        let name = DeadLetterName(row.identifier), let id = name.id
      else { return showError("select a dead letter on page 6 to \(action.rawValue) it") }
      guard action == .resend else {
        overlay = .confirmation(.drop(id: id, of: name.node))
        return []
      }
      return [.ask(.deadLetter(.resend, id: id, of: name.node))]
    case .send: return requestForm()
    case .why:
      guard let name = target, let node = data.node(name),
        node.kind == .machine || node.kind == .composite
      else { return showError("select a node or a composite first; '?' shows help") }
      pendingWhyNode = name
      notice = Notice(text: "requesting the enabled events…", isProblem: false)
      return [.ask(.why(name))]
    case .steer(let nodeAction):
      guard let name = target, isNodeTargeted else {
        return showError("select a node or a composite to \(nodeAction.rawValue)")
      }
      overlay = .confirmation(.steer(nodeAction, name))
    case .freeze: frozenData = frozenData == nil ? data : nil
    case .copy:
      guard let text = textToCopy else { return showError("nothing to copy") }
      notice = Notice(
        text: "copied, if the terminal supports it: \(text.printable.cut(to: 60))", isProblem: false
      )
      return [.copy(text)]
    case .palette: overlay = .palette(ScreenPalette(nodes: data.nodes.map(\.name)))
    case .help: overlay = .help
    case .quit:
      guard endsTopology else { return [.leave] }
      overlay = .confirmation(.leave)
    }
    return []
  }

  /// The columns of the list with the focus; `nil` if this list cannot be sorted.
  private var sortedColumns: [Table.Column]? {
    let columns = lists.first { $0.part == focus }?.list.columns ?? []
    return columns.isEmpty || focus == .events ? nil : columns
  }

  private mutating func sort() -> [Action] {
    guard let columns = sortedColumns else { return showError("this list cannot be sorted") }
    // The column TREND contains bars, by which the list cannot be sorted.
    let order = ScreenOrder.next(
      after: orders[focus], columns: columns.count { $0.heading != "TREND" })
    orders[focus] = order
    notice = Notice(
      text: order.map { $0.wording(columns[$0.column]) }
        ?? "sorted in the order of the topology file",
      isProblem: false)
    return []
  }

  private mutating func showError(_ text: String) -> [Action] {
    notice = Notice(text: text, isProblem: true)
    return []
  }

  private mutating func requestForm() -> [Action] {
    let event = selectedEvent
    guard let name = event?.recipient ?? target else {
      return showError("select a node, a composite or a pipe to send to")
    }
    pendingForm = (name, event?.event.name)
    notice = Notice(text: "requesting the events of '\(name)'…", isProblem: false)
    return [.ask(.alphabet(of: name))]
  }

  // MARK: Switching between pages

  private mutating func show(_ page: ScreenTab) -> [Action] {
    let hadSubject = subject != nil
    self.page = page
    subject = nil
    if hadSubject { focus = previousFocus }
    if !page.parts.contains(focus) { focus = page.parts[0] }
    return hadSubject ? [.follow(nil)] : []
  }

  private mutating func show(_ subject: Subject) -> [Action] {
    if self.subject == nil { previousFocus = focus }
    self.subject = subject
    filter = ""
    selections[.events] = nil
    selections[.history] = nil
    guard case .node(let name) = subject else { return [.follow(nil)] }
    focus = .events
    var actions: [Action] = [.follow(name)]
    if data.node(name)?.kind == .machine, requestedCharts.insert(name).inserted {
      actions.append(.ask(.chart(of: name)))
    }
    return actions
  }

  /// Opens the details of the selected row.
  private mutating func open() -> [Action] {
    guard let row = selected(focus) else { return [] }
    switch focus {
    case .nodes, .composites: return show(.node(row.identifier))
    case .pipes: return show(.pipe(row.identifier))
    case .events: return requestForm()
    case .graph: return []
    case .logs, .history, .deadLetters:
      overlay = .text(
        title: focus == .deadLetters ? "dead letter" : "\(focus)",
        lines: Self.wrapped(row.text, size.columns), first: 0)
      return []
    }
  }

  private static func wrapped(_ text: String, _ columns: Int) -> [String] {
    var lines: [String] = [""]
    for character in text.printable {
      if (lines.last ?? "").displayWidth + character.displayWidth > max(1, columns - 2) {
        lines.append("")
      }
      lines[lines.count - 1].append(character)
    }
    return lines
  }

  private mutating func moveFocus(by step: Int) {
    let parts = lists.map(\.part)
    guard let index = parts.firstIndex(of: focus) else { return }
    focus = parts[(index + step + parts.count) % parts.count]
  }
}
