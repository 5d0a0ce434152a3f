import PipeDiagrams
import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("Sorting, dead letters, the graph and logs on the screen", .timed)
struct ScreenPagesTests {
  private static let second: Int64 = 1_000_000_000

  private static func node(
    _ name: String, restarts: UInt64 = 0, letters: UInt64 = 0, phase: String = "running"
  ) -> NodeInformation {
    var node = NodeInformation(
      name: name, kind: .machine, hosts: "Machine", program: "nodes", phase: phase,
      isRunning: phase == "running", inbox: "inbox of \(name)", feed: "")
    (node.incarnation, node.restarts) = (1, restarts)
    var status = NodeStatus()
    (status.state, status.version, status.time) = ("idle", 3, second)
    status.deadLetters = letters
    node.status = status
    return node
  }

  private static func directory(_ nodes: [NodeInformation]) -> TopologyDirectory {
    TopologyDirectory(
      topology: "shop", file: "shop.yaml", pid: 1, phase: "running", isRunning: true, nodes: nodes,
      pipes: [])
  }

  private static func screen(_ nodes: [NodeInformation]) -> Screen {
    var screen = Screen(size: TerminalSize(columns: 100, rows: 24))
    _ = screen.take(.directory(directory(nodes)), at: 2 * second)
    return screen
  }

  private static func text(_ screen: inout Screen) -> [String] {
    screen.frame().map { $0.cut(to: screen.size.columns).description }
  }

  @discardableResult
  private static func press(_ text: String, _ screen: inout Screen) -> [Screen.Action] {
    text.flatMap {
      screen.take(.key($0 == "⎋" ? .escape : $0 == "⏎" ? .enter : .character($0)), at: 3 * second)
    }
    .filter { $0 != .draw }
  }

  /// Returns the names in the first column of the first list.
  private static func names(_ screen: inout Screen) -> [String] {
    _ = screen.frame()
    return screen.lists[0].list.rows.map(\.identifier)
  }

  @Test("'o' sorts a list by each column in turn, 'O' reverses the order, and words name the order")
  func sorted() {
    var screen = Self.screen([
      Self.node("till", restarts: 2), Self.node("door", letters: 12, phase: "failed"),
      Self.node("lift", restarts: 10, letters: 3), Self.node("attic", phase: "stopped"),
    ])
    Self.press("2", &screen)
    #expect(Self.names(&screen) == ["till", "door", "lift", "attic"])
    Self.press("o", &screen)
    #expect(Self.names(&screen) == ["attic", "door", "lift", "till"])
    var lines = Self.text(&screen)
    #expect(lines[2].hasPrefix("  NODE▲"), "\(lines)")
    #expect(lines.last?.hasPrefix("sorted by NODE, from A to Z") == true)
    Self.press("O", &screen)
    #expect(Self.names(&screen) == ["till", "lift", "door", "attic"])
    // The worst phase comes first.
    Self.press("o", &screen)
    #expect(Self.names(&screen) == ["door", "till", "lift", "attic"])
    // Numbers are sorted as numbers, the largest first.
    Self.press("oooo", &screen)
    #expect(Self.text(&screen).last?.hasPrefix("sorted by LETTERS, largest first") == true)
    #expect(Self.names(&screen) == ["door", "lift", "till", "attic"])
    Self.press("o", &screen)
    #expect(Self.names(&screen) == ["lift", "till", "door", "attic"])
    // After the last column, the list is in the order of the topology again.
    Self.press("o", &screen)
    #expect(Self.names(&screen) == ["till", "door", "lift", "attic"])
    lines = Self.text(&screen)
    #expect(lines.last?.hasPrefix("sorted in the order of the topology file") == true)
    #expect(!lines[2].contains("▲") && !lines[2].contains("▼"))
    Self.press("O", &screen)
    #expect(Self.text(&screen).last?.hasPrefix("sort the list first") == true)
    Self.press("5o", &screen)
    #expect(Self.text(&screen).last?.hasPrefix("this list cannot be sorted") == true)
  }

  @Test("A sorted list keeps the selected row when the order changes")
  func selected() {
    var screen = Self.screen([Self.node("a", restarts: 1), Self.node("b", restarts: 2)])
    Self.press("2ooooooo", &screen)
    #expect(Self.names(&screen) == ["b", "a"])
    Self.press("g", &screen)
    let changed = Self.directory([Self.node("a", restarts: 3), Self.node("b", restarts: 2)])
    _ = screen.take(.directory(changed), at: 4 * Self.second)
    #expect(Self.names(&screen) == ["a", "b"])
    #expect(screen.selected(.nodes)?.identifier == "b")
  }

  @Test("The page of dead letters lists, resends and deletes dead letters")
  func deadLetters() {
    var screen = Self.screen([Self.node("till"), Self.node("door", letters: 2)])
    #expect(Self.press("6", &screen) == [.ask(.deadLetters(of: ["door"]))])
    #expect(Self.text(&screen)[3].contains("requesting…"))
    let letters = [
      DeadLetter(
        id: 7, pipe: "till.out->door.in", sequence: 3, event: ["enter": ["persons": 9]],
        reason: "at most 8 persons", version: 3, time: Self.second),
      DeadLetter(
        id: 8, pipe: "request", sequence: 1, event: "open", reason: "not in 'open'", version: 3,
        time: 2 * Self.second),
    ]
    _ = screen.take(.answer(.deadLetters(["door": .found(letters)])), at: 3 * Self.second)
    let lines = Self.text(&screen)
    #expect(lines[3].hasPrefix("▶ door") && lines[3].contains("not in 'open'"), "\(lines)")
    #expect(lines[4].contains("enter(persons: 9)") && lines[4].contains("at most 8 persons"))
    #expect(Self.press("R", &screen) == [.ask(.deadLetter(.resend, id: 8, of: "door"))])
    #expect(Self.press("jD", &screen).isEmpty)
    #expect(Self.text(&screen).last?.hasPrefix("Delete dead letter 7 of 'door'?") == true)
    #expect(Self.press("x", &screen).isEmpty)
    #expect(Self.press("DD", &screen) == [.ask(.deadLetter(.drop, id: 7, of: "door"))])
    Self.press("⏎", &screen)
    #expect(Self.text(&screen).contains { $0.contains("dead letter") })
    // The node reports another number, so the dead letters are requested again.
    Self.press("⎋", &screen)
    let changed = Self.directory([Self.node("till"), Self.node("door", letters: 1)])
    #expect(
      screen.take(.directory(changed), at: 4 * Self.second)
        == [.draw, .ask(.deadLetters(of: ["door"]))])
    let none = Self.directory([Self.node("till"), Self.node("door")])
    _ = screen.take(.answer(.deadLetters([:])), at: 4 * Self.second)
    #expect(screen.take(.directory(none), at: 5 * Self.second) == [.draw])
    #expect(Self.text(&screen)[3].contains("no dead letters"))
    Self.press("2R", &screen)
    #expect(Self.text(&screen).last?.hasPrefix("select a dead letter on page 6") == true)
  }

  @Test("The page of the graph draws the topology with its current states")
  func graph() {
    var screen = Self.screen([Self.node("till"), Self.node("door", phase: "failed")])
    #expect(Self.press("7", &screen) == [.ask(.wiring)])
    #expect(Self.text(&screen)[3].contains("drawing…"))
    let wiring = Wiring(
      topology: "shop",
      nodes: [.init(name: "till", machine: "Till"), .init(name: "door", machine: "Door")],
      pipes: [.init(name: "till->door", from: "till", to: "door", label: "sold → open")])
    _ = screen.take(.answer(.wiring(.found(wiring))), at: 3 * Self.second)
    var drawing = Self.text(&screen).joined(separator: "\n")
    for word in ["till", "door", "idle", "failed", "sold → open"] {
      #expect(drawing.contains(word), "\(drawing)")
    }
    #expect(!drawing.contains("▶"))
    // The drawing follows the states.
    _ = screen.take(
      .change(
        StateChange(
          node: "till", incarnation: 1, version: 4, time: 0, cause: "request", state: "sold")),
      at: 5 * Self.second)
    drawing = Self.text(&screen).joined(separator: "\n")
    #expect(drawing.contains("= sold") || drawing.contains("sold\n") || drawing.contains(" sold "))
    // A drawing that does not fit is scrolled by lines.
    _ = screen.take(.resize(TerminalSize(columns: 100, rows: 8)), at: 5 * Self.second)
    let top = Self.text(&screen)
    Self.press("j", &screen)
    let scrolled = Self.text(&screen)
    #expect(Array(scrolled[3..<6]) == Array(top[4..<7]), "\(top) \(scrolled)")
    Self.press("k", &screen)
    #expect(Self.text(&screen)[3...6] == top[3...6])
    _ = screen.take(.answer(.wiring(.failed("no such file"))), at: 6 * Self.second)
    #expect(Self.text(&screen)[3].contains("no such file"))
  }

  @Test("Log lines are in the order of their times, even if they arrive later")
  func logs() {
    var screen = Self.screen([Self.node("till"), Self.node("door")])
    func entry(_ node: String, _ time: Int64) -> LogEntry {
      LogEntry(
        node: node, time: Timestamp(milliseconds: time), stream: .out, text: "at \(time)")
    }
    _ = screen.take(.logs([entry("till", 10), entry("till", 30)]), at: 3 * Self.second)
    _ = screen.take(.logs([entry("door", 20), entry("door", 40)]), at: 3 * Self.second)
    Self.press("5", &screen)
    let times = Self.text(&screen).compactMap { line in
      line.range(of: "at ").map { String(line[$0.upperBound...].prefix(2)) }
    }
    #expect(times == ["10", "20", "30", "40"])
  }

  @Test("The history of a node with a key shows the steps of its instances with their names")
  func instances() throws {
    var screen = Self.screen([Self.node("orders")])
    Self.press("2⏎", &screen)
    for (index, instance) in ["orders[4711]", "orders[4712]", "orders[4711]"].enumerated() {
      let json: JSONValue = [
        "node": "orders", "incarnation": 1, "index": .integer(Int64(index + 1)),
        "version": .integer(Int64(index / 2 + 1)), "time": 1, "cause": "request",
        "event": "pay", "from": "placed", "state": "paid", "instance": .string(instance),
      ]
      _ = screen.take(.step(try json.decode(NodeStep.self)), at: 3 * Self.second)
    }
    // The states of the node are numbers of instances; they do not push the steps out.
    _ = screen.take(
      .change(
        StateChange(
          node: "orders", incarnation: 1, version: 9, time: 0, cause: "request", state: "idle")),
      at: 3 * Self.second)
    let rows = Self.text(&screen).filter { $0.contains("--pay--> paid") }
    #expect(rows.count == 3 && rows[0].contains("orders[4711]"), "\(rows)")
    #expect(rows[1].contains("orders[4712]"), "\(rows)")
  }
}
