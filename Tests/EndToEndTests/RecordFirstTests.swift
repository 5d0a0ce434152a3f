import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// In each test, a record fails after the node has taken steps. A delay before the failure gives
/// other processes time to learn of these steps.
@Suite("Steps that the journal has not recorded yet", .timed)
struct RecordFirstTests {
  private static let restart = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  /// Returns failpoints that fail this record of a node's first process.
  private static func failing(_ record: Int, of node: String) -> [String: String] {
    let rules = ["step.after=delay:100ms", "record.error=error"].map {
      "\(node):\($0)@\(record)/1"
    }
    return ["PIPERUNTIME_FAILPOINTS": rules.joined(separator: ",")]
  }

  /// Returns a node whose first record, of the initial state, succeeds, and whose second record
  /// fails.
  private static func node(_ machine: String, parameters: JSONValue = [:]) -> Topology {
    Topology(
      name: "one", program: "TestNodes", environment: failing(2, of: "node"),
      nodes: [.machine(machine, name: "node", parameters: parameters, restart: restart)])
  }

  /// Returns a topology with a source of numbers, and a sink that checks the numbers.
  private static func numbers(environment: [String: String]) -> Topology {
    Topology(
      name: "numbers", program: "TestNodes", environment: environment,
      nodes: [
        .machine("Source", name: "source", restart: restart),
        .machine("Sink", name: "sink", restart: restart),
      ],
      pipes: [.ports(from: "source.out", to: "sink.in", name: "numbers", capacity: 16)])
  }

  /// Sends an event until it is accepted. A failed attempt has not been applied.
  private static func press(_ topology: TopologyHarness) async throws -> RequestOutcome? {
    try await poll(every: .milliseconds(5), within: .seconds(20)) {
      try? await topology.client.send("node", Button.Event.press)
    }
  }

  @Test("A sender keeps events until its receiver has recorded them", arguments: 2...5)
  func acknowledgements(record: Int) async throws {
    let topology = Self.numbers(environment: Self.failing(record, of: "sink"))
    try await withTopology(topology) { topology in
      var count = 0
      try await topology.repeat(untilFailpoint: "sink:record.error") {
        try await topology.send("source", Source.Event.go(count: 40))
        count += 40
        try await topology.expect(
          "sink", Sink.State.counting(last: count, count: count, wrong: 0),
          within: .seconds(30))
      }
      #expect(try await topology.status("source").status?.gaps == 0)
      #expect(try await topology.status("sink").status?.gaps == 0)
    }
  }

  @Test("A sender records its state together with its outgoing events", arguments: 2...6)
  func outbox(record: Int) async throws {
    let count = 40
    let topology = Self.numbers(environment: Self.failing(record, of: "source"))
    try await withTopology(topology) { topology in
      let sent: RequestOutcome? = try await poll(every: .milliseconds(5), within: .seconds(20)) {
        try? await topology.client.send("source", Source.Event.go(count: count))
      }
      #expect(sent != nil)
      try await topology.expect(
        "sink", Sink.State.counting(last: count, count: count, wrong: 0),
        within: .seconds(30))
      try await topology.expectLog("source", contains: "failpoint record.error: error")
      #expect(try await topology.status("sink").status?.gaps == 0)
    }
  }

  @Test("A client gets no reply before its step is recorded")
  func replies() async throws {
    try await withTopology(Self.node("Button")) { topology in
      let first = try #require(try await Self.press(topology))
      let second = try #require(try await Self.press(topology))
      #expect(first == .accepted(version: 1, state: ["pressed": ["times": 1]]))
      #expect(second == .accepted(version: 2, state: ["pressed": ["times": 2]]))
      try await topology.expectLog("node", contains: "failpoint record.error: error")
    }
  }

  @Test("A node publishes no state before the state is recorded")
  func feed() async throws {
    try await withTopology(Self.node("Button")) { topology in
      try await topology.expect("node", Button.State.pressed(times: 0))
      _ = try #require(try await Self.press(topology))
      _ = try #require(try await Self.press(topology))
      try await topology.expect("node", Button.State.pressed(times: 2))
      try await topology.expectLog("node", contains: "failpoint record.error: error")
      let early = topology.recordedStates(of: "node").filter {
        $0.incarnation == 1 && $0.version > 0
      }
      #expect(early.isEmpty, "\(early)")
    }
  }

  @Test("A step is in no feed and in no summary before it is recorded")
  func steps() async throws {
    try await withTopology(Self.node("Button")) { topology in
      let steps = StreamCollector(try await topology.client.steps(of: ["node"]))
      let summaries = StreamCollector(try await topology.client.states(of: ["node"], .latest))
      let first = try await poll(within: .seconds(20)) { summaries.all.first }
      #expect(first?.version == 0)
      _ = try #require(try await Self.press(topology))
      // The next process reports steps once it knows its subscribers.
      let reported = try await poll(within: .seconds(20)) {
        _ = try #require(try await Self.press(topology))
        guard case .step(let step)? = steps.all.last else { return NodeStep?.none }
        return step
      }
      #expect(reported.map { $0.incarnation > 1 } == true)
      try await topology.expectLog("node", contains: "failpoint record.error: error")
      let early = steps.all.filter {
        if case .step(let step) = $0 { step.incarnation == 1 } else { true }
      }
      #expect(early.isEmpty, "\(early)")
      let shown = summaries.all.filter { $0.incarnation == 1 && $0.version > 0 }
      #expect(shown.isEmpty, "\(shown)")
    }
  }

  @Test("An effect does not start before its step is recorded")
  func effects() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let ledger = directory.path + "/ledger"
    let topology = Self.node("Clerk", parameters: ["ledger": .string(ledger)])
    try await withTopology(topology) { topology in
      let paid: RequestOutcome? = try await poll(every: .milliseconds(5), within: .seconds(20)) {
        try? await topology.client.send("node", Clerk.Event.pay)
      }
      #expect(paid != nil)
      try await topology.expect("node", Clerk.State.idle(paid: 1))
      try await topology.expectLog("node", contains: "failpoint record.error: error")
    }
    let descriptor = open(ledger, O_RDONLY)
    defer { close(descriptor) }
    let text = String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
    #expect(text.split(separator: "\n").count == 1, "\(text)")
  }
}
