import PipeMachines
import PipeSupport
import PipeWire

/// The content of a view, and its reactions to keys and to changes of the node. The functions have
/// no side effects: they return actions, which ``ViewShell`` performs.
///
/// Keys are handled one by one, each in the state that the view shows at that time. While an event
/// is in flight, later keys wait. The answer to an event contains the resulting state.
package struct ViewSession {
  package enum Action: Equatable {
    /// Draw the content, which has changed.
    case draw
    /// Send this event, and pass its outcome to ``handleOutcome(_:)``.
    case send(JSONValue)
    /// Call ``stopLeaving()`` after some time.
    case waitToLeave
    /// Restore the terminal, and suspend the process until it is continued.
    case suspend
    case end(ViewEnding)
  }

  /// The outcome of an event.
  package enum EventOutcome: Equatable, Sendable {
    case accepted(version: UInt64, state: JSONValue)
    /// A composite, or one of its components, accepted the event.
    case committed
    case refused(String)
    case failed(String)
  }

  private struct ShownState {
    var content: any ViewContent
    var incarnation: UInt64
    var version: UInt64
  }

  private enum Phase {
    case open
    /// The node must still be notified that the view disappears. Then the view ends.
    case leaving(ViewEnding)
    case ended
  }

  private enum Exchange {
    case idle
    case sending(JSONValue)
    /// The event of `onDisappear` is in flight. The view sends no more events.
    case sendingLast
  }

  /// An event for items that have become visible, and the state in which they became visible.
  private struct VisibleItemsEvent: Equatable {
    var event: JSONValue
    var incarnation: UInt64
    var version: UInt64
  }

  private let view: String
  private let node: String
  private let minimumSize: TerminalSize
  private let reader: any ViewReader
  private var size: TerminalSize
  private var phase = Phase.open
  private var exchange = Exchange.idle
  private var shownState: ShownState?
  /// The message in the status line about the last event.
  private var notice: String?
  /// The phase of the node, which the status line shows; `nil` if the node is running.
  private var nodePhase: String?
  private var pendingKeys = Queue<Key>()
  /// Whether the view sends the events of `onAppear`, `onDisappear` and `onShow`.
  private var notifiesNode: Bool
  /// The incarnation of the node when the view last sent the event of `onAppear`.
  private var notifiedIncarnation: UInt64?
  private var lastVisibleItems: VisibleItemsEvent?

  /// The maximum number of keys that wait while an event is in flight. Further keys are dropped,
  /// and the status line says so.
  private static let maximumPendingKeyCount = 64

  /// - Parameter isPrinted: Whether the view is printed as text, and not shown on a terminal.
  package init(
    view: any TerminalView.Type, node: String, size: TerminalSize, isPrinted: Bool = false
  ) {
    self.view = view.name
    self.node = node
    self.size = size
    minimumSize = view.minimumSize
    reader = view.reader()
    notifiesNode = !isPrinted
  }

  // MARK: Inputs of the session

  /// Shows the node's new state.
  package mutating func show(_ change: StateChange) -> [Action] {
    if case .ended = phase { return [] }
    // The answer to an event may already have brought a newer state. A repeated state differs from
    // the earlier state only in the transactions in doubt, which a view does not show.
    if let shownState, change.incarnation == shownState.incarnation,
      change.version < shownState.version || change.isRepeated
    {
      return []
    }
    return show(change.state, change.incarnation, change.version) ?? [.draw] + sendNextEvent()
  }

  /// - Returns: If the state does not have the view's type, the actions that end the view;
  ///   otherwise `nil`.
  private mutating func show(
    _ state: JSONValue, _ incarnation: UInt64, _ version: UInt64
  ) -> [Action]? {
    let contentSize = contentSize
    do {
      if shownState == nil {
        shownState = ShownState(
          content: try reader.read(state), incarnation: incarnation, version: version)
      } else {
        try shownState?.content.show(state, size: contentSize)
        shownState?.incarnation = incarnation
        shownState?.version = version
      }
      return nil
    } catch {
      return end(.stateTypeMismatch(node: node, view: view, problem: "\(error)"))
    }
  }

  package mutating func press(_ key: Key) -> [Action] {
    guard case .open = phase else {
      return key == .character("q") || key == .control("c") ? leave(.quit) : []
    }
    switch key {
    case .control("c"): return leave(.quit)
    case .character("q") where !takesText: return leave(.quit)
    case .control("z"): return [.suspend]
    case .control("l"): return [.draw]
    default: break
    }
    guard pendingKeys.count < Self.maximumPendingKeyCount else {
      return showNotice("too many keys are waiting: the node is slow")
    }
    pendingKeys.append(key)
    guard case .idle = exchange else { return [] }
    notice = nil
    return [.draw] + sendNextEvent()
  }

  /// Processes the outcome of the event in flight.
  package mutating func handleOutcome(_ result: EventOutcome) -> [Action] {
    if case .ended = phase { return [] }
    if case .sendingLast = exchange, case .leaving(let ending) = phase { return end(ending) }
    guard case .sending(let event) = exchange else { return [] }
    exchange = .idle
    switch result {
    case .committed: notice = nil
    case .accepted(let version, let state):
      notice = nil
      // Shows the state at once, instead of waiting for it in the node's feed.
      if let shownState, shownState.version < version,
        let end = show(state, shownState.incarnation, version)
      {
        return end
      }
    case .refused(let reason): notice = "refused: \(event.caseText), \(reason)"
    case .failed(let problem): notice = problem
    }
    return [.draw] + sendNextEvent()
  }

  package mutating func resize(to size: TerminalSize) -> [Action] {
    if case .ended = phase { return [] }
    self.size = size
    return [.draw] + sendNextEvent()
  }

  /// Processes a topology directory, which shows whether the node is running, is being started, or
  /// has ended.
  package mutating func update(from directory: TopologyDirectory) -> [Action] {
    if case .ended = phase { return [] }
    guard let node = directory[node: node] else {
      return end(.nodeDown(node: self.node, reason: "the node was removed from the topology"))
    }
    if directory.phase == "stopping" {
      return end(.topologyDown("topology '\(directory.topology)' is going down"))
    }
    if !node.isRunning, !node.isAboutToRun(in: directory) {
      return end(.nodeDown(node: node.name, reason: node.reason ?? node.phase))
    }
    if node.kind == .constant { notifiesNode = false }
    let nodePhase = node.isRunning ? nil : node.phase
    guard nodePhase != self.nodePhase else { return [] }
    self.nodePhase = nodePhase
    return [.draw]
  }

  /// Notifies the node that the view disappears, and then ends the view. A second call ends the
  /// view immediately, unless the reason is a closed terminal.
  package mutating func leave(_ ending: ViewEnding) -> [Action] {
    switch phase {
    case .ended: return []
    case .leaving: return ending == .terminalClosed ? [] : end(ending)
    case .open:
      guard notifiesNode, shownState != nil else { return end(ending) }
      phase = .leaving(ending)
      pendingKeys = Queue()
      let actions = sendNextEvent()
      if case .ended = phase { return actions }
      return [.waitToLeave] + actions
    }
  }

  /// Stops waiting for the node's answer, and ends the view.
  package mutating func stopLeaving() -> [Action] {
    guard case .leaving(let ending) = phase else { return [] }
    return end(ending)
  }

  package mutating func end(_ ending: ViewEnding) -> [Action] {
    defer { phase = .ended }
    return switch phase {
    case .open: [.end(ending)]
    case .leaving(let first): [.end(first)]
    case .ended: []
    }
  }

  /// Sends the next event if there is one, unless another event is in flight.
  private mutating func sendNextEvent() -> [Action] {
    guard case .idle = exchange else { return [] }
    do {
      guard let event = try nextEvent() else {
        guard case .leaving(let ending) = phase else { return [] }
        return end(ending)
      }
      if case .leaving = phase { exchange = .sendingLast } else { exchange = .sending(event) }
      return [.send(event)]
    } catch {
      if case .leaving(let ending) = phase { return end(ending) }
      return showNotice("the event cannot be written as JSON: \(error)")
    }
  }

  private mutating func nextEvent() throws -> JSONValue? {
    let contentSize = contentSize
    guard let start = shownState?.incarnation else { return nil }
    if case .leaving = phase {
      return try shownState?.content.event(at: .disappearing, size: contentSize)
    }
    if notifiesNode, notifiedIncarnation != start {
      notifiedIncarnation = start
      if let event = try shownState?.content.event(at: .appearing, size: contentSize) {
        return event
      }
    }
    while let key = pendingKeys.popFirst() {
      if let event = try shownState?.content.press(key, size: contentSize) { return event }
    }
    return notifiesNode ? try visibleItemsEvent() : nil
  }

  /// Returns the event for visible items, unless the view has already sent it in this state.
  private mutating func visibleItemsEvent() throws -> JSONValue? {
    guard let shownState, let event = try shownState.content.event(at: .showing, size: contentSize)
    else {
      return nil
    }
    let visibleItems = VisibleItemsEvent(
      event: event, incarnation: shownState.incarnation, version: shownState.version)
    guard visibleItems != lastVisibleItems else { return nil }
    lastVisibleItems = visibleItems
    return event
  }

  private var takesText: Bool { shownState?.content.takesText ?? false }

  private mutating func showNotice(_ text: String) -> [Action] {
    notice = text
    return [.draw]
  }

  // MARK: Content of the terminal

  /// All lines of the terminal: the view's lines, and the status line at the bottom.
  package var lines: [StyledLine] {
    let requiredSize = TerminalSize(columns: minimumSize.columns, rows: minimumSize.rows + 1)
    guard size.columns >= requiredSize.columns, size.rows >= requiredSize.rows else {
      return Self.wrapped(
        "the terminal is too small: the view needs \(requiredSize), the terminal has \(size)", size)
    }
    let contentSize = contentSize
    var lines = body(size: contentSize)
    lines += Array(repeating: "", count: max(0, contentSize.rows - lines.count))
    return lines.prefix(contentSize.rows) + [statusLine]
  }

  /// The size of the terminal without its status line.
  private var contentSize: TerminalSize {
    TerminalSize(
      columns: max(size.columns, minimumSize.columns), rows: max(size.rows - 1, minimumSize.rows))
  }

  /// Returns the lines that the view shows for the current state.
  package func body(size: TerminalSize) -> [StyledLine] {
    guard let shownState else { return [StyledLine("waiting for '\(node)'", .dim)] }
    return shownState.content.body(size: size)
  }

  private var statusLine: StyledLine {
    let hint = takesText ? "^C quits" : "q quits"
    var line = StyledLine(node, .bold)
    if let nodePhase { line = line + " " + StyledLine(nodePhase, .color(.yellow)) }
    if let notice { line = line + "  " + StyledLine(notice, .color(.red)) }
    line = line.cut(to: max(0, size.columns - hint.count - 2))
    let gap = String(repeating: " ", count: max(1, size.columns - line.width - hint.count))
    return line + StyledLine(gap) + StyledLine(hint, .dim)
  }

  /// Wraps a text between words, so that its lines fit the width.
  private static func wrapped(_ text: String, _ size: TerminalSize) -> [StyledLine] {
    var lines: [String] = []
    for word in text.split(separator: " ") {
      if let last = lines.last, last.displayWidth + 1 + word.displayWidth <= size.columns {
        lines[lines.count - 1] = last + " " + word
      } else {
        lines.append(String(word))
      }
    }
    return lines.prefix(max(1, size.rows)).map { StyledLine($0) }
  }
}

/// The reason why a view ended.
package enum ViewEnding: Hashable, Sendable {
  /// A key, SIGINT, SIGTERM or the limit `-n` ended the view, or the program that reads the view's
  /// output has ended.
  case quit
  /// The terminal was closed.
  case terminalClosed
  /// The node no longer runs, for this reason.
  case nodeDown(node: String, reason: String)
  /// The topology or its orchestrator ended.
  case topologyDown(String)
  /// The node's states do not have the type that the view shows.
  case stateTypeMismatch(node: String, view: String, problem: String)
  /// The view could not start or continue.
  case failed(String, code: Int32)

  /// The message for standard error.
  package var message: String? {
    switch self {
    case .quit, .terminalClosed: nil
    case .nodeDown(let node, let reason):
      "node '\(node)' is no longer running: \(reason)"
    case .topologyDown(let reason): reason
    case .stateTypeMismatch(let node, let view, let problem):
      "view '\(view)' cannot show node '\(node)': \(problem); name a node whose states the view "
        + "can show"
    case .failed(let problem, _): problem
    }
  }

  /// The exit code of the process. Source: docs/COMMANDS.md.
  package var exitCode: Int32 {
    switch self {
    case .quit: 0
    case .terminalClosed, .nodeDown, .topologyDown: 1
    case .stateTypeMismatch: 2
    case .failed(_, let code): code
    }
  }
}
