import PipeMachines
import PipeSupport
import PipeWire

/// What a view shows, and what it does with keys: pure, and beside it ``ViewShell`` performs it.
///
/// A key is taken in the state that is shown, one after the other: while an event is on its way, later keys
/// wait. Its answer has the state that it led to.
package struct ViewSession {
  package enum Action: Equatable {
    /// What is to be seen has changed.
    case draw
    /// Send this event; ``sent(_:)`` tells what became of it.
    case send(JSONValue)
    /// After some time, ``stopLeaving()``.
    case waitToLeave
    /// Give the terminal back and stop until continued.
    case suspend
    case end(ViewEnding)
  }

  /// What became of an event.
  package enum Sent: Equatable, Sendable {
    case moved(version: UInt64, state: JSONValue)
    /// Taken by several nodes together, or by one of a composite.
    case committed
    case refused(String)
    case failed(String)
  }

  private struct Shown {
    var content: any ViewContent
    var incarnation: UInt64
    var version: UInt64
  }

  private enum Phase {
    case open
    /// The node is told that the view disappears; then it ends so.
    case leaving(ViewEnding)
    case ended
  }

  private enum Exchange {
    case idle
    case sending(JSONValue)
    /// The view has disappeared with this event, and sends no more.
    case sendingLast
  }

  /// An event of what has come into sight, and the state in which that was.
  private struct Sight: Equatable {
    var event: JSONValue
    var incarnation: UInt64
    var version: UInt64
  }

  private let view: String
  private let node: String
  private let minimum: TerminalSize
  private let reader: any ViewReader
  private var size: TerminalSize
  private var phase = Phase.open
  private var exchange = Exchange.idle
  private var shown: Shown?
  /// What the status line says of the last event.
  private var notice: String?
  /// What the status line says of the node, where it does not run.
  private var nodePhase: String?
  private var keys = Queue<Key>()
  /// Whether the node is told when the view appears, disappears, and shows more.
  private var tellsOfItself: Bool
  /// The start of the node that knows of the view.
  private var appeared: UInt64?
  private var lastSight: Sight?

  /// Keys that may wait; further ones are dropped, and the status line says so.
  private static let keyLimit = 64

  /// - Parameter isPrinted: Whether it is printed rather than shown to somebody at a terminal.
  package init(
    view: any TerminalView.Type, node: String, size: TerminalSize, isPrinted: Bool = false
  ) {
    self.view = view.name
    self.node = node
    self.size = size
    minimum = view.minimumSize
    reader = view.reader()
    tellsOfItself = !isPrinted
  }

  // MARK: Inputs

  /// The node is in another state.
  package mutating func show(_ change: StateChange) -> [Action] {
    if case .ended = phase { return [] }
    // What an answer has told may be newer. Of what comes beside a state a view shows nothing.
    if let shown, change.incarnation == shown.incarnation,
      change.version < shown.version || change.isRepeated
    {
      return []
    }
    return show(change.state, change.incarnation, change.version) ?? [.draw] + proceed()
  }

  /// - Returns: What follows where the state is not the view's.
  private mutating func show(
    _ state: JSONValue, _ incarnation: UInt64, _ version: UInt64
  ) -> [Action]? {
    let room = room
    do {
      if shown == nil {
        shown = Shown(
          content: try reader.read(state), incarnation: incarnation, version: version)
      } else {
        try shown?.content.show(state, size: room)
        shown?.incarnation = incarnation
        shown?.version = version
      }
      return nil
    } catch {
      return end(.otherStates(node: node, view: view, problem: "\(error)"))
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
    guard keys.count < Self.keyLimit else { return say("too many keys: the node is slow") }
    keys.append(key)
    guard case .idle = exchange else { return [] }
    notice = nil
    return [.draw] + proceed()
  }

  /// What became of the event that was to be sent.
  package mutating func sent(_ result: Sent) -> [Action] {
    if case .ended = phase { return [] }
    if case .sendingLast = exchange, case .leaving(let ending) = phase { return end(ending) }
    guard case .sending(let event) = exchange else { return [] }
    exchange = .idle
    switch result {
    case .committed: notice = nil
    case .moved(let version, let state):
      notice = nil
      // It need not wait until the node's feed tells the state.
      if let shown, shown.version < version,
        let end = show(state, shown.incarnation, version)
      {
        return end
      }
    case .refused(let reason): notice = "refused: \(event.caseText), \(reason)"
    case .failed(let problem): notice = problem
    }
    return [.draw] + proceed()
  }

  package mutating func resize(to size: TerminalSize) -> [Action] {
    if case .ended = phase { return [] }
    self.size = size
    return [.draw] + proceed()
  }

  /// What the orchestrator tells of the node: whether it runs, is being started, or has ended.
  package mutating func look(at directory: TopologyDirectory) -> [Action] {
    if case .ended = phase { return [] }
    guard let node = directory[node: node] else {
      return end(.nodeDown(node: self.node, reason: "the topology has it no more"))
    }
    if directory.phase == "stopping" {
      return end(.topologyDown("topology '\(directory.topology)' is going down"))
    }
    if !node.isRunning, !node.isComing(in: directory) {
      return end(.nodeDown(node: node.name, reason: node.reason ?? node.phase))
    }
    if node.kind == .constant { tellsOfItself = false }
    let nodePhase = node.isRunning ? nil : node.phase
    guard nodePhase != self.nodePhase else { return [] }
    self.nodePhase = nodePhase
    return [.draw]
  }

  /// Somebody leaves the view: the node is told first. Asked a second time, the view ends at once.
  package mutating func leave(_ ending: ViewEnding) -> [Action] {
    switch phase {
    case .ended: return []
    case .leaving: return ending == .terminalClosed ? [] : end(ending)
    case .open:
      guard tellsOfItself, shown != nil else { return end(ending) }
      phase = .leaving(ending)
      keys = Queue()
      let actions = proceed()
      if case .ended = phase { return actions }
      return [.waitToLeave] + actions
    }
  }

  /// The node has not answered, and is not waited for any longer.
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

  /// Sends the next event that there is, unless one is under way.
  private mutating func proceed() -> [Action] {
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
      return say("the event cannot be written as JSON: \(error)")
    }
  }

  private mutating func nextEvent() throws -> JSONValue? {
    let room = room
    guard let start = shown?.incarnation else { return nil }
    if case .leaving = phase { return try shown?.content.event(at: .disappearing, size: room) }
    if tellsOfItself, appeared != start {
      appeared = start
      if let event = try shown?.content.event(at: .appearing, size: room) { return event }
    }
    while let key = keys.popFirst() {
      if let event = try shown?.content.press(key, size: room) { return event }
    }
    return tellsOfItself ? try eventOfSight() : nil
  }

  /// What has come into sight, unless the node was told of it in this state.
  private mutating func eventOfSight() throws -> JSONValue? {
    guard let shown, let event = try shown.content.event(at: .showing, size: room) else {
      return nil
    }
    let sight = Sight(event: event, incarnation: shown.incarnation, version: shown.version)
    guard sight != lastSight else { return nil }
    lastSight = sight
    return event
  }

  private var takesText: Bool { shown?.content.takesText ?? false }

  private mutating func say(_ text: String) -> [Action] {
    notice = text
    return [.draw]
  }

  // MARK: What is to be seen

  /// All lines of the terminal: the view's, and the status line at the bottom.
  package var lines: [StyledLine] {
    let needed = TerminalSize(columns: minimum.columns, rows: minimum.rows + 1)
    guard size.columns >= needed.columns, size.rows >= needed.rows else {
      return Self.wrapped(
        "The view needs \(needed), and the terminal has \(size). Make it larger.", size)
    }
    let room = room
    var lines = body(size: room)
    lines += Array(repeating: "", count: max(0, room.rows - lines.count))
    return lines.prefix(room.rows) + [status]
  }

  /// The terminal without its status line.
  private var room: TerminalSize {
    TerminalSize(
      columns: max(size.columns, minimum.columns), rows: max(size.rows - 1, minimum.rows))
  }

  /// What the view shows of the state.
  package func body(size: TerminalSize) -> [StyledLine] {
    guard let shown else { return [StyledLine("waiting for '\(node)'", .dim)] }
    return shown.content.body(size: size)
  }

  private var status: StyledLine {
    let hint = takesText ? "^C quits" : "q quits"
    var line = StyledLine(node, .bold)
    if let nodePhase { line = line + " " + StyledLine(nodePhase, .color(.yellow)) }
    if let notice { line = line + "  " + StyledLine(notice, .color(.red)) }
    line = line.cut(to: max(0, size.columns - hint.count - 2))
    let gap = String(repeating: " ", count: max(1, size.columns - line.width - hint.count))
    return line + StyledLine(gap) + StyledLine(hint, .dim)
  }

  /// A text in the words that fit into each line.
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

/// How a view ended.
package enum ViewEnding: Hashable, Sendable {
  /// By a key, by SIGINT or SIGTERM, by `-n`, or since nobody reads what it prints.
  case quit
  /// The terminal was closed.
  case terminalClosed
  /// The node does not run any more, for this reason.
  case nodeDown(node: String, reason: String)
  /// The topology went down, or its orchestrator.
  case topologyDown(String)
  /// The node's states are not those that the view shows.
  case otherStates(node: String, view: String, problem: String)
  /// It could not begin, or go on.
  case failed(String, code: Int32)

  /// What is told on standard error.
  package var message: String? {
    switch self {
    case .quit, .terminalClosed: nil
    case .nodeDown(let node, let reason):
      "node '\(node)' does not run any more: \(reason)"
    case .topologyDown(let reason): reason
    case .otherStates(let node, let view, let problem):
      "view '\(view)' cannot show node '\(node)': \(problem). Name a node whose states it shows."
    case .failed(let problem, _): problem
    }
  }

  /// The exit code of the process. Source: DESIGN.md 6.
  package var exitCode: Int32 {
    switch self {
    case .quit: 0
    case .terminalClosed, .nodeDown, .topologyDown: 1
    case .otherStates: 2
    case .failed(_, let code): code
    }
  }
}
