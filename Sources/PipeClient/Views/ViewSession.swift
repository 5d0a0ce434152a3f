import PipeMachines
import PipeSupport
import PipeWire

/// What a view shows, and what it does with keys: pure, and beside it ``ViewShell`` performs it.
///
/// A key is taken in the state that is shown, one after the other: while an event is on its way, and
/// until the state that it led to is shown, later keys wait.
package struct ViewSession {
  package enum Action: Equatable {
    /// What is to be seen has changed.
    case draw
    /// Send this event; ``sent(_:)`` tells what became of it.
    case send(JSONValue)
    /// After some time, ``stopWaiting(for:)``.
    case waitForState(version: UInt64)
    /// Give the terminal back and stop until continued.
    case suspend
    case end(ViewEnding)
  }

  /// What became of an event.
  package enum Sent: Equatable, Sendable {
    case moved(version: UInt64)
    /// Taken by several nodes together.
    case committed
    case refused(String)
    case failed(String)
  }

  private struct Shown {
    var content: ViewContent
    var incarnation: UInt64
    var version: UInt64
  }

  private let view: String
  private let node: String
  private let minimum: TerminalSize
  private let read: (JSONValue) throws -> ViewContent
  private var size: TerminalSize
  private var shown: Shown?
  /// What the status line says of the last event.
  private var notice: String?
  /// What the status line says of the node, where it does not run.
  private var phase: String?
  private var keys = Queue<Key>()
  private var underWay: JSONValue?
  private var awaited: UInt64?
  private var hasEnded = false

  /// Keys that may wait; further ones are dropped, and the status line says so.
  private static let keyLimit = 64

  package init(
    view: any TerminalView.Type, node: String, size: TerminalSize
  ) {
    self.view = view.name
    self.node = node
    self.size = size
    minimum = view.minimumSize
    read = view.reader()
  }

  // MARK: Inputs

  /// The node is in another state.
  package mutating func show(_ change: StateChange) -> [Action] {
    guard !hasEnded else { return [] }
    do {
      shown = Shown(
        content: try read(change.state), incarnation: change.incarnation, version: change.version)
    } catch {
      return end(.otherStates(node: node, view: view, problem: "\(error)"))
    }
    if let awaited, change.version >= awaited { self.awaited = nil }
    return [.draw] + takeKeys()
  }

  package mutating func press(_ key: Key) -> [Action] {
    guard !hasEnded else { return [] }
    switch key {
    case .character("q"), .control("c"): return end(.quit)
    case .control("z"): return [.suspend]
    case .control("l"): return [.draw]
    default: break
    }
    guard keys.count < Self.keyLimit else { return say("too many keys: the node is slow") }
    keys.append(key)
    guard notice != nil, underWay == nil, awaited == nil else { return takeKeys() }
    notice = nil
    return [.draw] + takeKeys()
  }

  /// What became of the event that was to be sent.
  package mutating func sent(_ result: Sent) -> [Action] {
    guard !hasEnded, let event = underWay else { return [] }
    underWay = nil
    switch result {
    case .committed: notice = nil
    case .moved(let version):
      notice = nil
      if let shown, shown.version < version {
        awaited = version
        return [.draw, .waitForState(version: version)]
      }
    case .refused(let reason): notice = "refused: \(event.caseText), \(reason)"
    case .failed(let problem): notice = problem
    }
    return [.draw] + takeKeys()
  }

  /// The state of this version has not come, and keys wait for it no longer.
  package mutating func stopWaiting(for version: UInt64) -> [Action] {
    guard !hasEnded, awaited == version else { return [] }
    awaited = nil
    return takeKeys()
  }

  package mutating func resize(to size: TerminalSize) -> [Action] {
    guard !hasEnded else { return [] }
    self.size = size
    return [.draw]
  }

  /// What the orchestrator tells of the node: whether it runs, is being started, or has ended.
  package mutating func look(at directory: TopologyDirectory) -> [Action] {
    guard !hasEnded else { return [] }
    guard let node = directory[node: node] else {
      return end(.nodeDown(node: self.node, reason: "the topology has it no more"))
    }
    if directory.phase == "stopping" {
      return end(.topologyDown("topology '\(directory.topology)' is going down"))
    }
    if !node.isRunning, !node.isComing(in: directory) {
      return end(.nodeDown(node: node.name, reason: node.reason ?? node.phase))
    }
    let phase = node.isRunning ? nil : node.phase
    guard phase != self.phase else { return [] }
    self.phase = phase
    return [.draw]
  }

  package mutating func end(_ ending: ViewEnding) -> [Action] {
    guard !hasEnded else { return [] }
    hasEnded = true
    return [.end(ending)]
  }

  private mutating func takeKeys() -> [Action] {
    while underWay == nil, awaited == nil, let shown, let key = keys.popFirst() {
      do {
        guard let event = try shown.content.event(key) else { continue }
        underWay = event
        return [.send(event)]
      } catch {
        return say("the event cannot be written as JSON: \(error)")
      }
    }
    return []
  }

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
    let room = TerminalSize(columns: size.columns, rows: size.rows - 1)
    var lines = body(size: room)
    lines += Array(repeating: "", count: max(0, room.rows - lines.count))
    return lines.prefix(room.rows) + [status]
  }

  /// What the view shows of the state.
  package func body(size: TerminalSize) -> [StyledLine] {
    guard let shown else { return [StyledLine("waiting for '\(node)'", .dim)] }
    return shown.content.body(size)
  }

  private var status: StyledLine {
    let hint = "q quits"
    var line = StyledLine(node, .bold)
    if let phase { line = line + " " + StyledLine(phase, .color(.yellow)) }
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
