import PipeDiagrams
import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("The screen without a terminal", .timed)
struct ScreenTests {
  private static let second: Int64 = 1_000_000_000

  private static func node(
    _ name: String, _ kind: NodeInformation.Kind = .machine, state: JSONValue,
    phase: String = "running"
  ) -> NodeInformation {
    var node = NodeInformation(
      name: name, kind: kind, hosts: "Machine", program: "nodes", phase: phase,
      isRunning: phase == "running", inbox: "inbox of \(name)", feed: "")
    (node.incarnation, node.pid, node.startedAt) = (1, 7, 2 * second)
    var status = NodeStatus()
    (status.state, status.version, status.time) = (state, 3, 5 * second)
    node.status = status
    return node
  }

  /// Returns a directory with a sender, a failed receiver, and a composite of both nodes.
  private static func directory(events: UInt64 = 4, time: Int64 = 5) -> TopologyDirectory {
    var door = node("door", state: "closed")
    let pipe = "door.out->motor.in"
    door.status?.outs = [
      NodeStatus.Pipe(name: pipe, events: 9, applied: 4, waiting: 0, capacity: 10)
    ]
    door.status?.events = events
    door.status?.time = time * second
    var motor = node("motor", state: ["standing": ["floor": 2]], phase: "failed")
    motor.status?.ins = [
      NodeStatus.Pipe(name: pipe, events: 9, applied: 4, waiting: 5, capacity: 10)
    ]
    return TopologyDirectory(
      topology: "lift", file: "lift.yaml", pid: 1, phase: "running", isRunning: true,
      nodes: [door, motor, node("pair", .composite, state: "waiting")],
      pipes: [PipeInformation(name: pipe, from: "door", to: "motor", capacity: 10)])
  }

  private static func screen(columns: Int = 80, rows: Int = 24) -> Screen {
    var screen = Screen(
      size: TerminalSize(columns: columns, rows: rows), startedAt: 2 * second)
    _ = screen.take(.directory(directory()), at: 5 * second)
    _ = screen.take(.directory(directory(events: 12, time: 7)), at: 7 * second)
    return screen
  }

  /// Returns the lines, without trailing spaces and without trailing empty lines.
  private static func text(_ screen: inout Screen) -> [String] {
    var lines = screen.frame().map { line in
      var text = line.cut(to: screen.size.columns).description
      while text.last == " " { text.removeLast() }
      return text
    }
    #expect(lines.count == screen.size.rows)
    while lines.last == "" { lines.removeLast() }
    return lines
  }

  @discardableResult
  private static func press(_ text: String, _ screen: inout Screen) -> [Screen.Action] {
    text.flatMap {
      screen.take(
        .key($0 == "⎋" ? .escape : $0 == "⏎" ? .enter : $0 == "⇥" ? .tab : .character($0)),
        at: 8 * second)
    }
    .filter { $0 != .draw }
  }

  @Test("The overview fits 80 columns and 24 rows")
  func overview() {
    var screen = Self.screen()
    #expect(
      Self.text(&screen) == [
        "lift: running  up 5 s   1 overview  2 3 4 5 6 7",
        "motor has failed",
        "  NODE   STATUS   STATE               EV/S  QUEUE  LETTERS  RESTARTS  TREND",
        "▶ door   running  closed                 4      0        0         0  █",
        "  motor  failed   standing(floor: 2)     -      5        0         0",
        "  PIPE                FILL      UNDER WAY  CAPACITY  SENT/S  APPLIED/S  STALLED",
        "  door.out->motor.in  ■■■■□□□□          5        10       -          -  receive…",
        "  COMPOSITE  STATUS   STATE    BLOCKED", "  pair       running  waiting  …",
        "  LOGS", "  no log lines yet", "", "", "", "", "", "", "", "", "", "", "", "",
        "j/k move  Enter more  o sort  s send  w why  / filter  : all  ? help  q quit",
      ])
    // A wide terminal shows the titles of all pages.
    _ = screen.take(.resize(TerminalSize(columns: 120, rows: 24)), at: 7 * Self.second)
    #expect(
      Self.text(&screen)[0]
        == "lift: running  up 5 s   1 overview  2 nodes  3 pipes  4 composites  5 logs  6 dead letters  7 graph"
    )
  }

  @Test("A small terminal shows fewer columns and rows")
  func small() {
    var screen = Self.screen(columns: 40, rows: 9)
    let lines = Self.text(&screen)
    #expect(
      lines == [
        "lift: running  up 5 s   1 overview  2 3…", "motor has failed",
        "  NODE   STATUS   STATE  1/2",
        "▶ door   running  closed", "  PIPE                FILL      UNDER W…",
        "  door.out->motor.in  ■■■■□□□□         …", "  COMPOSITE  STATUS   STATE    BLOCKED …",
        "  LOGS",
        "j/k move  Enter more  o sort  s send  w…",
      ])
    // On a larger terminal the screen shows more again, with the same row selected.
    Self.press("j", &screen)
    _ = screen.take(.resize(TerminalSize(columns: 80, rows: 24)), at: 8 * Self.second)
    #expect(Self.text(&screen)[4].hasPrefix("▶ motor  failed"))
    _ = screen.take(.resize(TerminalSize(columns: 1, rows: 1)), at: 8 * Self.second)
    #expect(screen.frame().count >= 1)
  }

  @Test("Each page shows its list, and Tab moves from list to list")
  func pages() {
    var screen = Self.screen()
    for (key, heading) in [("2", "NODE"), ("3", "PIPE"), ("4", "COMPOSITE"), ("5", "LOGS")] {
      Self.press(key, &screen)
      let lines = Self.text(&screen)
      #expect(lines[2].hasPrefix("  " + heading))
      #expect(
        lines.count { $0.hasPrefix("  NODE ") || $0.hasPrefix("  LOGS") }
          == (heading == "PIPE" || heading == "COMPOSITE" ? 0 : 1))
    }
    Self.press("1", &screen)
    #expect(screen.focus == .logs)
    for part in [ScreenPart.nodes, .pipes, .composites, .logs] {
      Self.press("⇥", &screen)
      _ = screen.frame()
      #expect(screen.focus == part)
    }
  }

  @Test("Enter opens the selected node and follows its steps until Esc")
  func opened() {
    var screen = Self.screen()
    let actions = Self.press("⏎", &screen)
    #expect(actions == [.follow("door"), .ask(.chart(of: "door")), .ask(.enabled(of: "door"))])
    let found = EnabledEvents(
      name: "door", kind: .machine, state: "closed", version: 3,
      events: [
        EventEnabledness(
          event: CaseDescription(name: "open"), participants: ["door"],
          answers: [EventEnabledness.Answer(participant: "door", verdict: .enabled)]),
        EventEnabledness(
          event: CaseDescription(name: "close"), participants: ["door"],
          answers: [
            EventEnabledness.Answer(participant: "door", blocker: .refused(.noTransition))
          ]),
      ])
    _ = screen.take(.answer(.enabled(of: "door", .found(found))), at: 8 * Self.second)
    var chart = StateChart(name: "door")
    chart.states = [StateChart.State("closed"), StateChart.State("opening")]
    chart.transitions = [StateChart.Transition("closed", "open", "opening")]
    _ = screen.take(.answer(.chart(of: "door", .found(chart))), at: 8 * Self.second)
    let lines = Self.text(&screen)
    #expect(lines[2] == "door  running  closed" && lines[3] == "version 3  pid 7  up 6 s")
    #expect(lines.contains("▶ ✓  open   → opening"))
    #expect(lines.contains("  ✗  close  the state has no transition for the event"))
    #expect(lines.contains("  HISTORY") && lines.contains("  no state reported yet"))
    #expect(Self.press("⎋", &screen) == [.follow(nil)])
    #expect(Self.text(&screen)[3].hasPrefix("▶ door"))
  }

  @Test("Enabled events are requested again after a while, and at once after a state change")
  func asked() {
    var screen = Self.screen()
    Self.press("⏎", &screen)
    let answer = Screen.Response.enabled(of: "door", .failed("it does not answer"))
    #expect(screen.take(.answer(answer), at: 8 * Self.second) == [.draw])
    #expect(Self.text(&screen).contains("  it does not answer"))
    #expect(screen.take(.tick, at: 8 * Self.second + Self.second / 2) == [.draw])
    let change = StateChange(
      node: "door", incarnation: 1, version: 4, time: 0, cause: "request", state: "open")
    let due = screen.take(.change(change), at: 8 * Self.second + Self.second / 2)
    #expect(due == [.draw, .ask(.enabled(of: "door"))])
    // Only one request is pending at a time.
    #expect(screen.take(.tick, at: 20 * Self.second) == [.draw])
    #expect(screen.take(.answer(answer), at: 21 * Self.second).contains(.ask(.enabled(of: "door"))))
  }

  @Test("A filter shows only rows that contain the filter's text, until Esc")
  func filtered() {
    var screen = Self.screen()
    Self.press("/MOT", &screen)
    var lines = Self.text(&screen)
    #expect(lines[0].contains("filter 'MOT'") && lines[3].hasPrefix("▶ motor"))
    #expect(!lines.contains { $0.contains("  door   running") })
    Self.press("⏎", &screen)
    #expect(Self.text(&screen)[3].hasPrefix("▶ motor"))
    Self.press("⎋", &screen)
    lines = Self.text(&screen)
    #expect(lines[3].hasPrefix("  door") && lines[4].hasPrefix("▶ motor"))
    Self.press("2/zzz⏎", &screen)
    #expect(Self.text(&screen)[3] == "  no row contains 'zzz'")
  }

  @Test("A filter applies to one page and is kept when other pages are shown")
  func filterOfPage() {
    var screen = Self.screen()
    Self.press("2/mot⏎", &screen)
    #expect(!Self.text(&screen).contains { $0.contains("door") })
    Self.press("3", &screen)
    #expect(screen.filter.isEmpty && Self.text(&screen)[3].contains("door.out->motor.in"))
    Self.press("1", &screen)
    #expect(Self.text(&screen)[3].hasPrefix("  door   running"))
    // The page of a node has a filter of its own, which Esc removes first.
    Self.press(":door⏎/opener⏎", &screen)
    #expect(Self.text(&screen).count { $0 == "  no row contains 'opener'" } == 2)
    Self.press("⎋", &screen)
    #expect(screen.subject == .node("door") && screen.filter.isEmpty)
    Self.press("/opener⏎⎋⎋2", &screen)
    #expect(screen.filter == "mot" && !Self.text(&screen).contains { $0.contains("door") })
  }

  /// The events of a composite of two nodes: one that is synchronized, and one that each node
  /// accepts alone.
  private static let enabled = EnabledEvents(
    name: "pair", kind: .composite, state: "waiting", version: 3,
    events: [
      EventEnabledness(
        event: CaseDescription(name: "go"), composite: "pair", participants: ["door", "motor"],
        answers: [.init(participant: "door", verdict: .enabled)])
    ]
      + ["door", "motor"].map { node in
        EventEnabledness(
          event: CaseDescription(name: "wait"), participants: [node],
          answers: [.init(participant: node, verdict: .enabled)])
      })

  @Test(
    "The form for a selected event targets the composite, or the one node that accepts the event")
  func recipient() {
    var screen = Self.screen()
    Self.press("4⏎", &screen)
    _ = screen.take(.answer(.enabled(of: "pair", .found(Self.enabled))), at: 8 * Self.second)
    for (key, row, recipient) in [
      ("", "▶ ✓  go     taken by door, motor", "pair"), ("j", "▶ ✓  wait   taken by door", "door"),
      ("j", "▶ ✓  wait   taken by motor", "motor"),
    ] {
      Self.press(key, &screen)
      #expect(Self.text(&screen).contains(row), "\(Self.text(&screen))")
      #expect(Self.press("⏎", &screen) == [.ask(.alphabet(of: recipient))])
    }
    // On a node's page, too, a synchronized event targets its composite.
    Self.press("⎋2⏎", &screen)
    _ = screen.take(.answer(.enabled(of: "door", .found(Self.enabled))), at: 8 * Self.second)
    #expect(Self.press("s", &screen) == [.ask(.alphabet(of: "pair"))])
  }

  @Test(
    "A command on a node requires confirmation by the same key or y",
    arguments: [
      ("r", ScreenCommand.NodeAction.restart), ("K", .kill), ("S", .stop), ("u", .start),
    ])
  func affected(key: String, steering: ScreenCommand.NodeAction) {
    var screen = Self.screen()
    let asked = [Screen.Action.ask(.steer(steering, "door"))]
    #expect(Self.press(key, &screen).isEmpty)
    #expect(Self.text(&screen).last?.hasPrefix("\(steering.rawValue) 'door'?") == true)
    #expect(Self.press(key, &screen) == asked)
    #expect(Self.press(key + "x", &screen).isEmpty)
    #expect(Self.press(key + "⎋", &screen).isEmpty && Self.press(key + "y", &screen) == asked)
    // Pages of pipes and logs have no node to control.
    #expect(Self.press("3" + key + "y", &screen).allSatisfy { $0 != asked[0] })
  }

  @Test(
    "A prompt fits the terminal and names its keys, however long the node's name is",
    arguments: [80, 60, 52])
  func prompt(columns: Int) {
    let long = String(repeating: "conveyor", count: 12)
    for name in ["door", "conveyor-belt", long] {
      for steering in ScreenCommand.NodeAction.allCases {
        var screen = Screen(size: TerminalSize(columns: columns, rows: 24), startedAt: 0)
        var directory = Self.directory()
        directory.nodes = [Self.node(name, state: "closed")]
        _ = screen.take(.directory(directory), at: Self.second)
        Self.press(String(steering.key), &screen)
        let prompt = screen.frame().last?.description ?? ""
        #expect(prompt.displayWidth <= columns, "\(prompt)")
        #expect(prompt.hasPrefix("\(steering.rawValue) '\(name.prefix(3))"), "\(prompt)")
        #expect(prompt.hasSuffix("\(steering.key) or y confirms, other keys cancel"), "\(prompt)")
      }
    }
    var screen = Screen(size: TerminalSize(columns: 80, rows: 24), startedAt: 0)
    Self.press("?", &screen)
    for line in screen.frame() { #expect(line.width <= 80, "\(line)") }
  }

  @Test(
    "Words and colors distinguish blocked, failed, stopped and backing-off nodes, doubts and dead letters"
  )
  func blocked() {
    var screen = Self.screen()
    var directory = Self.directory()
    directory.nodes[0].status?.blocked = ["door.out->motor.in"]
    directory.nodes[0].status?.outs[0].events = 14
    directory.nodes[0].status?.deadLetters = 2
    directory.nodes.append(Self.node("sorter", state: "idle"))
    directory.nodes[3].status?.deadLetters = 1
    _ = screen.take(.directory(directory), at: 9 * Self.second)
    let lines = Self.text(&screen)
    #expect(lines[3].hasPrefix("▶ door    blocked"), "\(lines)")
    #expect(
      lines.contains { $0.contains("■■■■■■■■         10") && $0.contains("full") }, "\(lines)")
    for (name, phase) in [("washer", "stopped"), ("dryer", "backing off"), ("oven", "running")] {
      directory.nodes.append(Self.node(name, state: "idle", phase: phase))
    }
    directory.nodes[6].doubts = [
      InDoubtTransaction(
        participant: "oven", composite: "kitchen", event: "bake",
        transaction: TransactionID(epoch: 1, sequence: 2), since: 0)
    ]
    _ = screen.take(.directory(directory), at: 9 * Self.second)
    let list = screen.data.list(.nodes, of: nil, columns: 80)
    let looks: [(name: String, words: String, style: TextStyle)] = [
      ("door", "blocked", .color(.magenta)), ("motor", "failed", .color(.red)),
      ("sorter", "1", .color(.yellow)), ("washer", "stopped", .dim),
      ("dryer", "backing off", .color(.cyan)), ("oven", "in doubt", .color(.red)),
    ]
    for look in looks {
      let row = list.rows.first { $0.identifier == look.name }
      #expect(row?.line.spans.allSatisfy { $0.styles.contains(look.style) } == true, "\(look)")
      // Without colors, the row says the same.
      #expect(row?.text.contains(look.words) == true, "\(look)")
    }
    #expect(screen.data.pipes[0].stallReason == "full, receiver failed")
    Self.press("⏎", &screen)
    let page = Self.text(&screen)
    #expect(page[2] == "door  blocked  closed", "\(page)")
    #expect(page.contains("blocked: pipe 'door.out->motor.in' is full"), "\(page)")
  }

  @Test("A form lists the events of a node, or of a pipe's receiver, and sends one event")
  func sent() {
    var screen = Self.screen()
    #expect(Self.press("s", &screen) == [.ask(.alphabet(of: "door"))])
    let events = [CaseDescription(name: "go", fields: [.init(name: "floor", type: "Int")])]
    _ = screen.take(.answer(.alphabet(of: "door", .found(events))), at: 8 * Self.second)
    #expect(Self.press("⏎7⏎", &screen) == [.ask(.send(["go": ["floor": 7]], to: "door"))])
    _ = screen.take(.answer(.failed("door refused go(floor: 7)")), at: 8 * Self.second)
    #expect(Self.text(&screen).last == "door refused go(floor: 7)")
    #expect(Self.press("3s", &screen).contains(.ask(.alphabet(of: "motor"))))
    // A form does not open if another key was pressed before its alphabet arrived.
    Self.press("1", &screen)
    _ = screen.take(.answer(.alphabet(of: "motor", .found(events))), at: 8 * Self.second)
    #expect(screen.overlay == nil)
  }

  @Test("A frozen screen keeps its content until it is resumed")
  func frozen() {
    var screen = Self.screen()
    Self.press(" ", &screen)
    _ = screen.take(
      .change(
        StateChange(
          node: "door", incarnation: 1, version: 4, time: 0, cause: "request", state: "open")),
      at: 8 * Self.second)
    var lines = Self.text(&screen)
    #expect(lines[0].contains("FROZEN") && lines[3].contains("closed"))
    // Other pages show the same moment.
    Self.press("j⏎", &screen)
    #expect(Self.text(&screen)[2] == "motor  failed  standing(floor: 2)")
    Self.press("⎋ ", &screen)
    lines = Self.text(&screen)
    #expect(!lines[0].contains("FROZEN") && lines[3].contains("open"))
  }

  @Test("The palette finds commands and nodes by a part of their names")
  func palette() {
    var screen = Self.screen()
    Self.press(":mot", &screen)
    #expect(Self.text(&screen)[3] == "▶ motor       shows the page of this node")
    #expect(Self.press("⏎", &screen).first == .follow("motor"))
    Self.press("⎋:logs⏎", &screen)
    #expect(screen.page == .logs)
    Self.press(":zzz", &screen)
    #expect(Self.text(&screen)[3] == "  no command or node has this name")
    #expect(Self.press("⏎", &screen).isEmpty && screen.overlay == nil)
  }

  @Test("'q' leaves the screen, after a confirmation if the topology ends with the screen")
  func quit() {
    var screen = Self.screen()
    #expect(Self.press("q", &screen) == [.leave])
    var running = Screen(size: TerminalSize(columns: 80, rows: 24), endsTopology: true)
    #expect(Self.press("q", &running).isEmpty)
    #expect(Self.text(&running).last?.hasPrefix("Stop the topology and leave?") == true)
    #expect(Self.press("xq", &running).isEmpty && Self.press("q", &running) == [.leave])
    #expect(running.take(.key(.control("c")), at: 0).contains(.leave))
  }

  @Test("The help names every command on 24 rows")
  func help() {
    var screen = Self.screen()
    Self.press("?", &screen)
    let text = Self.text(&screen).joined(separator: "\n")
    for command in ScreenCommand.all {
      if case .page(let page) = command {
        #expect(text.contains(page.title))
      } else {
        #expect(text.contains(command.meaning.prefix(60)))
      }
    }
    // Any key closes the help and does nothing else.
    #expect(Self.press("q", &screen).isEmpty && screen.overlay == nil)
    #expect(Set(ScreenCommand.all.map(\.key)).count == ScreenCommand.all.count)
  }

  @Test("The screen shows that the orchestrator is silent, with the last known states")
  func silent() {
    var screen = Self.screen()
    _ = screen.take(.noAnswer(reason: "the orchestrator does not answer"), at: 8 * Self.second)
    #expect(
      Self.text(&screen)[0].hasPrefix(
        "lift: last seen running; the orchestrator does not answer"))
    _ = screen.take(.directory(Self.directory()), at: 9 * Self.second)
    #expect(Self.text(&screen)[0].hasPrefix("lift: running"))
  }

  @Test("Control characters in states do not reach the terminal")
  func controlCharacters() {
    var screen = Self.screen()
    let evil: JSONValue = "\u{1B}[2Jgone\u{7}"
    _ = screen.take(
      .change(
        StateChange(
          node: "door", incarnation: 1, version: 4, time: 0, cause: "\u{1B}c", state: evil)),
      at: 8 * Self.second)
    Self.press("⏎", &screen)
    let text = screen.frame().map(\.description).joined()
    #expect(text.contains("gone") && !text.unicodeScalars.contains { $0.value < 0x20 })
  }
}
