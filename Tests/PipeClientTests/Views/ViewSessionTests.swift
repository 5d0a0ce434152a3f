import PipeClient
import PipeMachines
import PipeWire
import Testing

/// Shows a count. `+` adds one, and `-` subtracts one.
private enum CountView: TerminalView {
  enum Event: MachineEvent { case add, subtract }
  static let minimumSize = TerminalSize(columns: 24, rows: 2)
  static func body(_ state: Int, size: TerminalSize) -> [StyledLine] {
    ["count \(state)", "in \(size)", "beyond"]
  }
  static func event(for key: Key, in state: Int) -> Event? {
    switch key {
    case .character("+"): .add
    case .character("-") where state > 0: .subtract
    default: nil
    }
  }
}

@Suite("A view session")
struct ViewSessionTests {
  private static func change(_ version: UInt64, _ state: JSONValue) -> StateChange {
    StateChange(
      node: "n", incarnation: 1, version: version, time: 0, cause: "request", state: state)
  }

  private func session(count: Int64? = 0) -> ViewSession {
    var session = ViewSession(
      view: CountView.self, node: "n", size: TerminalSize(columns: 30, rows: 3))
    if let count { #expect(session.show(Self.change(0, .integer(count))) == [.draw]) }
    return session
  }

  private func texts(_ session: ViewSession) -> [String] { session.lines.map(\.description) }

  @Test("A view shows its body, cut to its size, and the status line at the bottom")
  func lines() {
    #expect(texts(session(count: nil))[0] == "waiting for 'n'")
    let status = "n" + String(repeating: " ", count: 22) + "q quits"
    #expect(texts(session()) == ["count 0", "in 30×2", status])
  }

  @Test("A key waits for the reply to the previous key, and applies to the state in that reply")
  func order() {
    var session = session()
    #expect(session.press(.character("+")) == [.draw, .send("add")])
    // In the state 0, the key would have no effect. The view applies the key in the state 1.
    #expect(session.press(.character("-")) == [])
    #expect(session.handleOutcome(.accepted(version: 1, state: 1)) == [.draw, .send("subtract")])
    #expect(texts(session)[0] == "count 1")
    // The feed may report the state before the reply.
    #expect(session.show(Self.change(2, 0)) == [.draw])
    #expect(session.press(.character("+")) == [])
    #expect(session.handleOutcome(.accepted(version: 2, state: 0)) == [.draw, .send("add")])
    #expect(session.handleOutcome(.accepted(version: 3, state: 1)) == [.draw])
    #expect(texts(session)[0] == "count 1")
  }

  @Test("A view ignores outdated states of the feed, but not the states of a new process")
  func late() {
    var session = session()
    _ = session.press(.character("+"))
    _ = session.handleOutcome(.accepted(version: 5, state: 5))
    #expect(session.show(Self.change(4, 4)) == [])
    #expect(texts(session)[0] == "count 5")
    // The reply to a repeated request is older than the shown state.
    _ = session.press(.character("+"))
    #expect(session.handleOutcome(.accepted(version: 3, state: 3)) == [.draw])
    #expect(texts(session)[0] == "count 5")
    var restarted = Self.change(0, 0)
    restarted.incarnation = 2
    #expect(session.show(restarted) == [.draw])
    #expect(texts(session)[0] == "count 0")
  }

  @Test("The outcome of an event is in the status line until the next key")
  func notices() {
    var session = session()
    _ = session.press(.character("+"))
    #expect(session.handleOutcome(.refused("no")) == [.draw])
    #expect(texts(session)[2].hasPrefix("n  refused: add, no"))
    #expect(session.press(.up) == [.draw])
    #expect(!texts(session)[2].contains("refused"))
    _ = session.press(.character("+"))
    #expect(session.handleOutcome(.failed("node 'n' is busy")) == [.draw])
    #expect(texts(session)[2].hasPrefix("n  node 'n' is busy"))
    #expect(session.lines[2].width == 30)
  }

  @Test("Excess keys are dropped with a notice")
  func manyKeys() {
    var session = session()
    for _ in 0..<65 { _ = session.press(.character("+")) }
    #expect(!texts(session)[2].contains("too many"))
    #expect(session.press(.character("+")) == [.draw])
    #expect(texts(session)[2].contains("too many keys"))
  }

  @Test(
    "'q' and ^C end a view, and ^Z suspends the view",
    arguments: [
      Key.character("q"), .control("c"),
    ])
  func quits(key: Key) {
    var session = session()
    #expect(session.press(.control("z")) == [.suspend])
    #expect(session.press(key) == [.end(.quit)])
    #expect(session.press(.character("+")) == [])
    #expect(session.show(Self.change(1, 1)) == [])
    #expect(session.end(.terminalClosed) == [])
  }

  @Test("A view shows that its terminal is too small, whatever the size")
  func small() {
    var session = session()
    for columns in 1...23 {
      for rows in 1...4 {
        let size = TerminalSize(columns: columns, rows: rows)
        #expect(session.resize(to: size) == [.draw])
        #expect(session.lines.count <= rows)
        #expect(session.lines.first?.description.hasPrefix("the") == true)
      }
    }
    // The same holds if only one dimension is too small.
    for size in [TerminalSize(columns: 200, rows: 2), TerminalSize(columns: 23, rows: 50)] {
      _ = session.resize(to: size)
      #expect(texts(session)[0].hasPrefix("the terminal is too"), "\(size)")
    }
    _ = session.resize(to: TerminalSize(columns: 24, rows: 3))
    #expect(texts(session)[0] == "count 0")
  }

  @Test("A state of another type ends the view")
  func wrongState() {
    var session = session()
    let actions = session.show(Self.change(1, ["open": ["persons": 1]]))
    guard case .end(.stateTypeMismatch(let node, let view, let problem))? = actions.first else {
      Issue.record("it should have ended")
      return
    }
    #expect(node == "n" && view == "CountView")
    #expect(problem.contains("open"))
  }

  private func directory(
    node phase: String, isRunning: Bool, topology: String = "running"
  ) -> TopologyDirectory {
    TopologyDirectory(
      topology: "t", file: "t.yaml", pid: 1, phase: topology, isRunning: isRunning,
      nodes: [
        NodeInformation(
          name: "n", kind: .machine, hosts: "Count", program: "nodes", phase: phase,
          isRunning: isRunning, inbox: "", feed: "")
      ], pipes: [])
  }

  @Test("A view waits for a starting node, and ends when its node has ended")
  func phases() {
    var session = session()
    #expect(session.update(from: directory(node: "running", isRunning: true)) == [])
    for phase in ["backing off", "starting", "configuring", "ready"] {
      #expect(session.update(from: directory(node: phase, isRunning: false)) == [.draw])
      #expect(texts(session)[2].hasPrefix("n \(phase)"))
    }
    #expect(session.update(from: directory(node: "running", isRunning: true)) == [.draw])
    #expect(!texts(session)[2].contains("ready"))
    var gone = directory(node: "running", isRunning: true)
    gone.nodes = []
    var removed = session
    #expect(
      removed.update(from: gone)
        == [.end(.nodeDown(node: "n", reason: "the node was removed from the topology"))])
    var other = session
    #expect(
      other.update(from: directory(node: "failed", isRunning: false))
        == [.end(.nodeDown(node: "n", reason: "failed"))])
    #expect(
      session.update(from: directory(node: "running", isRunning: true, topology: "stopping"))
        == [.end(.topologyDown("topology 't' is going down"))])
  }

  @Test("Each way in which a view ends has a separate exit code")
  func exitCodes() {
    #expect(ViewEnding.quit.exitCode == 0)
    #expect(ViewEnding.terminalClosed.exitCode == 1)
    #expect(ViewEnding.nodeDown(node: "n", reason: "stopped").exitCode == 1)
    #expect(ViewEnding.topologyDown("gone").exitCode == 1)
    #expect(ViewEnding.stateTypeMismatch(node: "n", view: "V", problem: "p").exitCode == 2)
    #expect(ViewEnding.failed("no", code: 3).exitCode == 3)
  }
}
