import PipeRuntime
import Soak
import TestTraits
import Testing

@Suite("The order of steps in a recorded run", .timed)
struct RunOrderTests {
  typealias Item = RunTrace.Item

  private static func item(
    _ node: String, _ version: UInt64, takes number: UInt64? = nil, of pipe: String = "p",
    sends sent: [(String, UInt64)] = []
  ) -> Item {
    Item(
      node: node, version: version, event: "x",
      origin: number.map { .pipe(pipe, number: $0) } ?? .outside, state: "home",
      sent: sent.map { .init(pipe: $0.0, stream: 1, number: $0.1, event: "x") })
  }

  private static let pipe = RunOrder.Pipe(name: "p", sender: "a", receiver: "b", capacity: 1)

  /// Returns the different orders that several seeds produce.
  private static func lines(_ order: RunOrder) throws -> Set<[Item]> {
    var lines: Set<[Item]> = []
    for seed in UInt64(0)..<40 {
      var generator = SplitMix64(seed: seed)
      lines.insert(try order.order(using: &generator))
    }
    return lines
  }

  @Test(
    "A step that receives an event follows the sending step, and independent steps are unordered")
  func sent() throws {
    let (sends, other) = (Self.item("a", 1, sends: [("p", 1)]), Self.item("c", 1))
    let takes = Self.item("b", 1, takes: 1)
    let lines = try Self.lines(RunOrder([[takes], [sends], [other]], [Self.pipe]))
    #expect(
      lines == [[sends, takes, other], [sends, other, takes], [other, sends, takes]])
  }

  @Test(
    "A node with a full pipe takes its next step only after the receiver has processed an event")
  func room() throws {
    let steps = [
      Self.item("a", 1, sends: [("p", 1), ("p", 2)]), Self.item("a", 2), Self.item("a", 3),
    ]
    var takes = [Self.item("b", 1, takes: 1), Self.item("b", 2, takes: 2)]
    takes[1].state = nil
    let lines = try Self.lines(RunOrder([steps, takes], [Self.pipe]))
    #expect(lines == [[steps[0], takes[0], takes[1], steps[1], steps[2]]])
  }

  @Test(
    "An event in a pipe at the start of a trace has no sending step, and uses the pipe's capacity")
  func initialCount() throws {
    var pipe = Self.pipe
    pipe.initialCount = 1
    let (step, takes) = (Self.item("a", 1, sends: [("p", 2)]), Self.item("b", 1, takes: 1))
    #expect(try Self.lines(RunOrder([[step], [takes]], [pipe])) == [[takes, step]])
  }

  @Test("A step that depends on an unreported step is omitted together with all later steps")
  func missing() throws {
    let takes = [Self.item("b", 1), Self.item("b", 2, takes: 1), Self.item("b", 3)]
    let order = RunOrder([[], takes], [Self.pipe])
    #expect(order.count == 1)
    #expect(try Self.lines(order) == [[takes[0]]])
  }

  @Test("A cycle of steps that wait for each other is rejected")
  func circle() {
    let back = RunOrder.Pipe(name: "q", sender: "b", receiver: "a", capacity: 1)
    let items = [
      [Self.item("a", 1, takes: 1, of: "q", sends: [("p", 1)])],
      [Self.item("b", 1, takes: 1, sends: [("q", 1)])],
    ]
    #expect(throws: RunOrder.Cycle.self) {
      _ = try Self.lines(RunOrder(items, [Self.pipe, back]))
    }
  }

  // MARK: Traces

  private static func step(
    _ place: Int64, _ version: Int64, _ members: [String: JSONValue] = [:]
  ) throws -> NodeStep {
    let head: [String: JSONValue] = [
      "node": "a", "incarnation": 1, "version": .integer(version), "index": .integer(place),
      "event": "tick", "state": "home",
    ]
    return try JSONValue.object(head.merging(members) { $1 }).decode(NodeStep.self)
  }

  @Test("A trace begins with the first reported 'tick' and ends where steps were skipped")
  func gap() throws {
    var trace = RunTrace()
    #expect(!trace.hasBegun("a"))
    trace.add(try Self.step(3, 3, ["request": ["client": 1, "number": 3]]))
    #expect(trace.hasBegun("a"))
    trace.add(
      try Self.step(4, 4, ["source": ["pipe": "p", "stream": 1, "number": 7], "event": "x"]))
    trace.add(try Self.step(5, 5, ["event": "soon"]))
    trace.add(try Self.step(9, 9, ["skipped": 4]))
    trace.add(try Self.step(10, 10))
    #expect(trace.items(of: "a").map(\.version) == [3, 4, 5])
    #expect(trace.items(of: "a").map(\.origin) == [.outside, .pipe("p", number: 7), .effect])
    #expect(trace.version(of: "a") == 10)
  }

  @Test("A trace is empty if its first step is neither the node's first step nor a 'tick'")
  func late() throws {
    var trace = RunTrace()
    trace.add(try Self.step(2, 2, ["event": "x"]))
    trace.add(try Self.step(3, 3))
    #expect(trace.items(of: "a").isEmpty)
  }

  @Test("A dead letter is placed after the step that led to the refusing state")
  func deadLetters() throws {
    var trace = RunTrace()
    for version in Int64(1)...4 { trace.add(try Self.step(version, version)) }
    func deadLetter(_ id: UInt64, _ version: UInt64) -> DeadLetter {
      DeadLetter(
        id: id, pipe: "p", sequence: id, event: "x", reason: "noTransition", version: version,
        time: 0)
    }
    trace.add([deadLetter(1, 2), deadLetter(2, 2)], of: "a")
    trace.add([deadLetter(2, 2), deadLetter(3, 3)], of: "a")
    #expect(trace.items(of: "a").map(\.version) == [1, 2, 2, 2, 3, 3, 4])
    #expect(
      trace.items(of: "a").map { $0.state == nil }
        == [false, false, true, true, false, true, false])
    // The fourth dead letter is missing, so the steps after the third dead letter are unknown, too.
    trace.add([deadLetter(5, 4)], of: "a")
    #expect(trace.items(of: "a").map(\.version) == [1, 2, 2, 2, 3, 3])
  }
}
