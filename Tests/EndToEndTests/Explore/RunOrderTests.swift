import PipeRuntime
import Soak
import TestTraits
import Testing

@Suite("What is certain of the order of a run", .timed)
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

  /// Every order that some seeds give.
  private static func lines(_ order: RunOrder) throws -> Set<[Item]> {
    var lines: Set<[Item]> = []
    for seed in UInt64(0)..<40 {
      var generator = SplitMix64(seed: seed)
      lines.insert(try order.line(using: &generator))
    }
    return lines
  }

  @Test("an event is taken after it was sent, and what is independent comes in any order")
  func sent() throws {
    let (sends, other) = (Self.item("a", 1, sends: [("p", 1)]), Self.item("c", 1))
    let takes = Self.item("b", 1, takes: 1)
    let lines = try Self.lines(RunOrder([[takes], [sends], [other]], [Self.pipe]))
    #expect(
      lines == [[sends, takes, other], [sends, other, takes], [other, sends, takes]])
  }

  @Test("a node whose pipe was full acts after its receiver has taken an event, or refused it")
  func room() throws {
    let steps = [
      Self.item("a", 1, sends: [("p", 1), ("p", 2)]), Self.item("a", 2), Self.item("a", 3),
    ]
    var takes = [Self.item("b", 1, takes: 1), Self.item("b", 2, takes: 2)]
    takes[1].state = nil
    let lines = try Self.lines(RunOrder([steps, takes], [Self.pipe]))
    #expect(lines == [[steps[0], takes[0], takes[1], steps[1], steps[2]]])
  }

  @Test("what a pipe holds at the start was sent by nobody, and takes room")
  func held() throws {
    var pipe = Self.pipe
    pipe.held = 1
    let (step, takes) = (Self.item("a", 1, sends: [("p", 2)]), Self.item("b", 1, takes: 1))
    #expect(try Self.lines(RunOrder([[step], [takes]], [pipe])) == [[takes, step]])
  }

  @Test("what needs something that was not told is left out, with all behind it")
  func missing() throws {
    let takes = [Self.item("b", 1), Self.item("b", 2, takes: 1), Self.item("b", 3)]
    let order = RunOrder([[], takes], [Self.pipe])
    #expect(order.count == 1)
    #expect(try Self.lines(order) == [[takes[0]]])
  }

  @Test("items that wait for each other are no run")
  func circle() {
    let back = RunOrder.Pipe(name: "q", sender: "b", receiver: "a", capacity: 1)
    let items = [
      [Self.item("a", 1, takes: 1, of: "q", sends: [("p", 1)])],
      [Self.item("b", 1, takes: 1, sends: [("q", 1)])],
    ]
    #expect(throws: RunOrder.Circle.self) {
      _ = try Self.lines(RunOrder(items, [Self.pipe, back]))
    }
  }

  // MARK: Traces

  private static func step(
    _ place: Int64, _ version: Int64, _ members: [String: JSONValue] = [:]
  ) throws -> NodeStep {
    let head: [String: JSONValue] = [
      "node": "a", "incarnation": 1, "version": .integer(version), "place": .integer(place),
      "event": "tick", "state": "home",
    ]
    return try JSONValue.object(head.merging(members) { $1 }).decode(NodeStep.self)
  }

  @Test("a trace begins with the first tick that is told, and ends where steps are left out")
  func gap() throws {
    var trace = RunTrace()
    #expect(!trace.hasBegun("a"))
    trace.take(try Self.step(3, 3, ["request": ["client": 1, "number": 3]]))
    #expect(trace.hasBegun("a"))
    trace.take(
      try Self.step(4, 4, ["source": ["pipe": "p", "stream": 1, "number": 7], "event": "x"]))
    trace.take(try Self.step(5, 5, ["event": "soon"]))
    trace.take(try Self.step(9, 9, ["skipped": 4]))
    trace.take(try Self.step(10, 10))
    #expect(trace.items(of: "a").map(\.version) == [3, 4, 5])
    #expect(trace.items(of: "a").map(\.origin) == [.outside, .pipe("p", number: 7), .effect])
    #expect(trace.version(of: "a") == 10)
  }

  @Test("a trace whose first step is not the first one, and is no tick, is empty")
  func late() throws {
    var trace = RunTrace()
    trace.take(try Self.step(2, 2, ["event": "x"]))
    trace.take(try Self.step(3, 3))
    #expect(trace.items(of: "a").isEmpty)
  }

  @Test("a dead letter comes behind the step whose state has refused it")
  func letters() throws {
    var trace = RunTrace()
    for version in Int64(1)...4 { trace.take(try Self.step(version, version)) }
    func letter(_ id: UInt64, _ version: UInt64) -> DeadLetter {
      DeadLetter(
        id: id, pipe: "p", sequence: id, event: "x", reason: "noTransition", version: version,
        time: 0)
    }
    trace.take([letter(1, 2), letter(2, 2)], of: "a")
    trace.take([letter(2, 2), letter(3, 3)], of: "a")
    #expect(trace.items(of: "a").map(\.version) == [1, 2, 2, 2, 3, 3, 4])
    #expect(
      trace.items(of: "a").map { $0.state == nil }
        == [false, false, true, true, false, true, false])
    // The fourth one is not known: what came behind the third is not either.
    trace.take([letter(5, 4)], of: "a")
    #expect(trace.items(of: "a").map(\.version) == [1, 2, 2, 2, 3, 3])
  }
}
