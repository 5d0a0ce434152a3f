import PipeClient
import PipeMachines
import PipeWire
import Testing

/// A list with a number of rows, which the node can extend. Tab goes to a field, whose text Enter
/// sends.
private enum RowsView: TerminalView {
  struct Screen {
    var count: Int
    var list = TerminalList()
    var text = TerminalTextField()
    var writes = false
  }
  enum Event: MachineEvent, Equatable {
    case open
    case close
    case more
    case say(String)
  }
  static let minimumSize = TerminalSize(columns: 10, rows: 2)

  static func screen(of state: Int) -> Screen { Screen(count: state) }
  static func update(_ screen: inout Screen, to state: Int, size: TerminalSize) {
    screen.count = state
  }
  static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine] {
    screen.writes
      ? [screen.text.line(columns: size.columns, isFocused: true)]
      : screen.list.lines(of: screen.count, height: size.rows) { "row \($0)" }
  }
  static func press(_ key: Key, in screen: inout Screen, size: TerminalSize) -> Event? {
    if key == .tab { screen.writes.toggle() }
    if screen.writes {
      if screen.text.press(key) { return nil }
      return key == .enter ? .say(screen.text.text) : nil
    }
    _ = screen.list.press(key, of: screen.count, height: size.rows)
    return nil
  }
  static func takesText(_ screen: Screen) -> Bool { screen.writes }
  static func onAppear(_ screen: Screen) -> Event? { screen.count == 0 ? .open : nil }
  static func onDisappear(_ screen: Screen) -> Event? { screen.count > 0 ? .close : nil }
  static func onShow(_ screen: Screen, size: TerminalSize) -> Event? {
    guard (1..<9).contains(screen.count) else { return nil }
    let window = screen.list.visibleRows(of: screen.count, height: size.rows)
    return window.upperBound == screen.count ? .more : nil
  }
}

@Suite("The lifecycle and the state of a view")
struct ViewLifecycleTests {
  private func session(
    _ count: Int64?, columns: Int = 20, rows: Int = 5, isPrinted: Bool = false
  ) -> (ViewSession, [ViewSession.Action]) {
    var session = ViewSession(
      view: RowsView.self, node: "n", size: TerminalSize(columns: columns, rows: rows),
      isPrinted: isPrinted)
    let actions = count.map { session.show(change(1, $0)) } ?? []
    return (session, actions)
  }

  private func change(_ version: UInt64, _ count: Int64, start: UInt64 = 1) -> StateChange {
    StateChange(
      node: "n", incarnation: start, version: version, time: 0, cause: "request",
      state: .integer(count))
  }

  private func texts(_ session: ViewSession) -> [String] { session.lines.map(\.description) }

  @Test("A view sends its appear event once per process of the node")
  func appears() {
    var (session, actions) = session(0)
    #expect(actions == [.draw, .send("open")])
    #expect(session.handleOutcome(.refused("no")) == [.draw])
    #expect(session.show(change(2, 0)) == [.draw])
    #expect(session.show(change(0, 0, start: 2)) == [.draw, .send("open")])
    // A view whose state does not require the event does not send it.
    (session, actions) = self.session(20)
    #expect(actions == [.draw])
  }

  @Test("A view sends its disappear event, and ends when the reply arrives")
  func disappears() {
    var (session, _) = session(20)
    #expect(session.press(.character("q")) == [.waitToLeave, .send("close")])
    #expect(session.press(.down) == [])
    #expect(session.handleOutcome(.accepted(version: 9, state: 0)) == [.end(.quit)])
    #expect(session.show(change(9, 0)) == [])
    #expect(session.leave(.quit) == [])
  }

  @Test(
    "A view that waits for a reply ends after a timeout, or when the user leaves the view again")
  func unanswered() {
    var (session, _) = session(20)
    #expect(session.leave(.terminalClosed) == [.waitToLeave, .send("close")])
    var other = session
    // The end of the terminal is noticed twice: through a signal, and by reading.
    #expect(session.leave(.terminalClosed) == [])
    #expect(session.stopLeaving() == [.end(.terminalClosed)])
    #expect(session.stopLeaving() == [])
    #expect(other.press(.control("c")) == [.end(.terminalClosed)])
    (session, _) = self.session(20)
    _ = session.press(.control("c"))
    #expect(session.end(.topologyDown("gone")) == [.end(.quit)])
  }

  @Test("A view that the user has left still waits for the event in flight and its resulting state")
  func underWay() {
    var (session, _) = session(0)
    // 'open' is in flight. Only its resulting state requires 'close'.
    #expect(session.leave(.quit) == [.waitToLeave])
    #expect(session.handleOutcome(.accepted(version: 2, state: 20)) == [.draw, .send("close")])
    #expect(session.handleOutcome(.failed("busy")) == [.end(.quit)])
    (session, _) = self.session(0)
    _ = session.leave(.quit)
    #expect(session.handleOutcome(.refused("no")) == [.draw, .end(.quit)])
  }

  @Test("A printed view and a view of a constant node send no events when they open or close")
  func quiet() {
    var (session, actions) = session(0, isPrinted: true)
    #expect(actions == [.draw])
    #expect(session.show(change(2, 3)) == [.draw])
    #expect(session.leave(.quit) == [.end(.quit)])
    (session, _) = self.session(nil)
    let node = NodeInformation(
      name: "n", kind: .constant, hosts: "Rows", program: "nodes", phase: "running",
      isRunning: true, inbox: "", feed: "")
    #expect(
      session.update(
        from: TopologyDirectory(
          topology: "t", file: "t.yaml", pid: 1, phase: "running", isRunning: true,
          nodes: [node], pipes: [])) == [])
    #expect(session.show(change(1, 0)) == [.draw])
    #expect(session.leave(.quit) == [.end(.quit)])
  }

  @Test("A row that becomes visible is reported once per state")
  func sight() {
    var (session, actions) = session(6)
    #expect(actions == [.draw])
    for _ in 1...4 { #expect(session.press(.down) == [.draw]) }
    #expect(session.press(.down) == [.draw, .send("more")])
    #expect(session.handleOutcome(.refused("no")) == [.draw])
    #expect(session.press(.up) == [.draw])
    #expect(session.press(.down) == [.draw])
    #expect(session.show(change(2, 8)) == [.draw])
    #expect(texts(session)[3] == "▶ row 5")
    // A larger terminal shows the last row, too.
    #expect(
      session.resize(to: TerminalSize(columns: 20, rows: 9)) == [.draw, .send("more")])
    #expect(session.handleOutcome(.accepted(version: 3, state: 30)) == [.draw])
    #expect(session.show(change(3, 30)) == [.draw])
  }

  @Test("A view shows typed text, even a 'q', at once while an event is in flight")
  func typed() {
    var (session, _) = session(20)
    #expect(texts(session)[4].hasSuffix("q quits"))
    _ = session.press(.tab)
    #expect(texts(session)[4].hasSuffix("^C quits"))
    for character in "quiet" { #expect(session.press(.character(character)) == [.draw]) }
    #expect(texts(session)[0].hasPrefix("quiet "))
    #expect(session.press(.enter) == [.draw, .send(["say": ["_0": "quiet"]])])
    // A new state does not include the typed text, and leaves the text unchanged.
    #expect(session.show(change(2, 21)) == [.draw])
    #expect(texts(session)[0].hasPrefix("quiet "))
    #expect(session.handleOutcome(.accepted(version: 2, state: 21)) == [.draw])
    #expect(session.press(.control("c")) == [.waitToLeave, .send("close")])
  }

  @Test("A MiB of keys in a field is accepted, and so is the next key")
  func flooded() {
    var (session, _) = session(20)
    _ = session.press(.tab)
    var parser = KeyParser()
    let bytes = (0..<(1 << 20)).map { number -> UInt8 in
      let byte = UInt8(truncatingIfNeeded: number &* 7)
      // Replaces the bytes of the keys that leave the field: ^C, ^Z, Tab, Enter.
      return [0x03, 0x1A, 0x09, 0x0A, 0x0D].contains(byte) ? 0x78 : byte
    }
    var sends = 0
    for key in parser.take(bytes) + parser.handlePause() {
      for action in session.press(key) where action != .draw { sends += 1 }
    }
    #expect(sends == 0)
    #expect(!texts(session)[4].contains("too many"))
    _ = session.press(.control("e"))
    _ = session.press(.control("u"))
    _ = session.press(.character("x"))
    #expect(session.press(.enter) == [.draw, .send(["say": ["_0": "x"]])])
  }
}
