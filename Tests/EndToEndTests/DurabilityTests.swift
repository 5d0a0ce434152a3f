import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Nodes with a journal", .timed)
struct DurabilityTests {
  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  /// Returns a topology with a source of numbers, and a sink that checks the numbers.
  private static func numbers(
    capacity: Int = 256, work: Int = 20, environment: [String: String] = [:],
    durability: Durability = .process
  ) -> Topology {
    Topology(
      name: "numbers", program: "TestNodes", environment: environment,
      nodes: [
        .machine("Source", name: "source", restart: quick, durability: durability),
        .machine(
          "Sink", name: "sink", parameters: ["work": .integer(Int64(work))], restart: quick,
          durability: durability),
      ],
      pipes: [.ports(from: "source.out", to: "sink.in", name: "numbers", capacity: capacity)],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  private static func node(
    _ machine: String, parameters: JSONValue = [:], timeouts: Timeouts = Timeouts()
  ) -> Topology {
    Topology(
      name: "one", program: "TestNodes",
      nodes: [.machine(machine, name: "node", parameters: parameters, restart: quick)],
      timeouts: timeouts)
  }

  private static func text(of path: String) -> String {
    let descriptor = open(path, O_RDONLY)
    defer { close(descriptor) }
    return String(decoding: (try? FileSystem.read(descriptor)) ?? [], as: UTF8.self)
  }

  @Test(
    "Events arrive once and in order while sender and receiver are killed again and again",
    arguments: [Durability.process, .power])
  func bothKilled(durability: Durability) async throws {
    let count = 2_000
    try await withTopology(Self.numbers(durability: durability)) { topology in
      try await topology.send("source", Source.Event.go(count: count))
      for part in 1...8 {
        try await topology.expect("sink", "number \(part * 200)", within: .seconds(60)) {
          (state: Sink.State) in
          guard case .counting(let last, _, _) = state else { return false }
          return last >= part * 200
        }
        try await topology.kill(part.isMultiple(of: 2) ? "source" : "sink")
      }
      try await topology.expect(
        "sink", Sink.State.counting(last: count, count: count, wrong: 0),
        within: .seconds(60))
      for node in ["source", "sink"] {
        let status = try await topology.expectStatus(of: node, "its end of the pipe") {
          $0.isRunning && $0.status != nil
        }
        #expect(status.incarnation > 2)
        #expect(status.status?.gaps == 0)
        let ends = topology.logs(node).filter { $0.contains("note ended:") }
        #expect(
          ends.allSatisfy { $0.hasSuffix("killed by SIGKILL") },
          "\(topology.logs(node).joined(separator: "\n"))")
      }
    }
  }

  @Test(
    "No event is lost or repeated after a crash at any failpoint of the protocol",
    arguments: [
      "source:start.after", "sink:start.after", "source:step.before", "sink:step.before",
      "source:step.after", "sink:step.after", "source:record.after", "sink:record.after",
      "source:send.before", "source:send.after", "source:open.after", "sink:welcome.after",
      "sink:ack.after", "source:trim.after", "source:effect.before", "source:reply.before",
      "source:reply.after", "source:write.before", "sink:write.before", "source:write.after",
      "sink:write.after",
    ])
  func everywhere(place: String) async throws {
    // Each of two incarnations crashes once, the second a little later than the first. A journal is
    // also written when its node stops, and the node must not crash then.
    let first = "\(place)=crash@1/1"
    let rules = place.contains("write.") ? first : "\(first),\(place)=crash@2/2"
    let environment = ["PIPERUNTIME_FAILPOINTS": rules]
    let topology = Self.numbers(capacity: 16, work: 0, environment: environment)
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    let count = 400
    try await withTopology(topology, options: options) { topology in
      let node = String(place.prefix { $0 != ":" })
      try await topology.expectStatus(of: "source", "the source to run") { $0.isRunning }
      try await topology.send("source", Source.Event.go(count: count))
      try await topology.expect(
        "sink", Sink.State.counting(last: count, count: count, wrong: 0),
        within: .seconds(30))
      let name = place.drop { $0 != ":" }.dropFirst()
      try await topology.expectLog(node, contains: "failpoint \(name): crash")
      // A node that has just crashed has no status yet.
      for end in ["source", "sink"] {
        let information = try await topology.expectStatus(of: end, "its status") {
          $0.status != nil
        }
        #expect(information.status?.gaps == 0)
      }
    }
  }

  @Test(
    "No event is lost or repeated if a sender crashes before any event is acknowledged",
    arguments: ["step.after", "record.after"])
  func unanswered(place: String) async throws {
    // The receiver is suspended with the first numbers, either before or after it recorded them.
    let environment = ["PIPERUNTIME_FAILPOINTS": "sink:\(place)=stop@2/1"]
    let count = 12
    try await withTopology(
      Self.numbers(capacity: 16, work: 0, environment: environment)
    ) { topology in
      try await topology.send("source", Source.Event.go(count: count))
      try await topology.expectLog("sink", contains: "failpoint \(place): stop")
      try await topology.expect("source", Source.State.idle(sent: count))
      try await topology.kill("source")
      try await topology.expectStatus(of: "source", "another start") {
        $0.isRunning && $0.incarnation == 2
      }
      try await topology.kill("sink")
      try await topology.expect(
        "sink", Sink.State.counting(last: count, count: count, wrong: 0),
        within: .seconds(30))
      #expect(try await topology.status("sink").status?.gaps == 0)
    }
  }

  @Test("Acknowledged events are removed from the sender's journal")
  func trimmed() async throws {
    let count = 200
    try await withTopology(Self.numbers(capacity: 16, work: 0)) { topology in
      try await topology.send("source", Source.Event.go(count: count))
      try await topology.expectStatus(of: "source", "all acknowledged") {
        $0.status?.outs.first?.applied == UInt64(count)
      }
      try await topology.stop("source")
      let journal = try JournalFile(of: "source", in: topology)
      #expect(try journal.integer("SELECT count(*) FROM outbox") == 0)
      #expect(try journal.integer("SELECT acknowledged FROM sent") == count)
    }
  }

  @Test(
    "No event is lost or repeated when a connection is cut at any failpoint",
    arguments: ["send.before", "send.after", "open.after"])
  func cut(place: String) async throws {
    let environment = [
      "PIPERUNTIME_FAILPOINTS": "source:\(place)=cut%0.2", "PIPERUNTIME_FAILPOINT_SEED": "3",
    ]
    let count = 400
    for durability in [Durability.volatile, .process] {
      let topology = Self.numbers(
        capacity: 16, work: 0, environment: environment, durability: durability)
      try await withTopology(topology) { topology in
        if place == "open.after" { try await topology.restart("sink") }
        try await topology.send("source", Source.Event.go(count: count))
        try await topology.expect("sink", "number \(count)", within: .seconds(30)) {
          (state: Sink.State) in
          guard case .counting(count, _, _) = state else { return false }
          return true
        }
        guard place != "open.after" else { return }
        try await topology.expectLog("source", contains: "failpoint \(place): cut")
        try await topology.expect(
          "sink", Sink.State.counting(last: count, count: count, wrong: 0))
      }
    }
  }

  @Test("A restarted node resumes in its last state and does not send the state's events again")
  func notEnteredAgain() async throws {
    let topology = Topology(
      name: "gate", program: "TestNodes",
      nodes: [
        .machine("Button", name: "button", restart: Self.quick),
        .machine("Button", name: "lamp", restart: Self.quick),
      ],
      pipes: [.rule(from: "button", when: "pressed", to: "lamp", send: "press", name: "wire")])
    try await withTopology(topology) { topology in
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      // Four entries, including the entry into the initial state.
      try await topology.expect("lamp", Button.State.pressed(times: 4))
      for start in UInt64(2)...4 {
        try await topology.kill("button")
        let again = try await topology.expect("button", is: ["pressed": ["times": 3]])
        #expect(again.version == 3)
        try await topology.expectStatus(of: "button", "start \(start)") {
          $0.isRunning && $0.incarnation == start
        }
      }
      try await topology.send("button", Button.Event.press)
      try await topology.expect("lamp", Button.State.pressed(times: 5))
      // The button has sent one event for each entry, and no event is still in flight.
      let wire = try await topology.status("button").status?.outs.first
      #expect(wire?.events == 5)
    }
  }

  @Test("A restarted topology continues in its last states")
  func startedAgain() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let path = try tool.directory.write(Self.node("Button").yaml, to: "one.yaml")
    for round in 1...3 {
      try await tool.run("up", "--wait", path, code: 0)
      let sent = try await tool.run("send", "node", "press")
      #expect(sent.output.contains(#"{"pressed":{"times":\#(round)}}"#), "\(sent)")
      try await tool.run("down", code: 0)
    }
  }

  @Test(
    "If a reply is lost in a crash, the request is repeated and applied once",
    arguments: ["step.after", "record.after", "reply.before"])
  func requests(place: String) async throws {
    var topology = Self.node("Button")
    topology.environment = ["PIPERUNTIME_FAILPOINTS": "\(place)=crash@2/1"]
    try await withTopology(topology) { topology in
      for press in 1...4 {
        let outcome = try await topology.send(
          "node", Button.Event.press)
        #expect(
          outcome
            == .accepted(
              version: UInt64(press), state: ["pressed": ["times": .integer(Int64(press))]])
        )
      }
      try await topology.expectLog("node", contains: "failpoint \(place): crash")
      #expect(try await topology.status("node").incarnation == 2)
    }
  }

  @Test(
    "An interrupted effect runs again with its idempotency key, and no other effect has this key")
  func effects() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let ledger = directory.path + "/ledger"
    var topology = Self.node("Clerk", parameters: ["ledger": .string(ledger)])
    topology.environment = ["PIPERUNTIME_FAILPOINTS": "step.after=crash@3/1"]
    try await withTopology(topology) { topology in
      // The third record of the first process is the record of `done`.
      try await topology.send("node", Clerk.Event.pay)
      try await topology.expect("node", Clerk.State.idle(paid: 1))
      try await topology.send("node", Clerk.Event.pay)
      try await topology.expect("node", Clerk.State.idle(paid: 2))
      // No effect is pending: the next process runs only the effect of the next event.
      try await topology.kill("node")
      try await topology.send("node", Clerk.Event.pay)
      try await topology.expect("node", Clerk.State.idle(paid: 3))
    }
    let keys = Self.text(of: ledger).split(separator: "\n")
    #expect(keys.count == 4, "\(keys)")
    #expect(keys[0].hasPrefix("one/node/") && keys[0].hasSuffix("/1"), "\(keys)")
    #expect(keys[1] == keys[0])
    #expect(keys[2].hasSuffix("/3"), "\(keys)")
    #expect(keys[3].hasSuffix("/5"), "\(keys)")
  }

  @Test("A timer of a restarted node continues with its remaining time")
  func timers() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let ledger = directory.path + "/ledger"
    let parameters: JSONValue = ["ledger": .string(ledger), "time": 5_000]
    try await withTopology(Self.node("Clerk", parameters: parameters)) { topology in
      let clock = ContinuousClock()
      let start = clock.now
      try await topology.send("node", Clerk.Event.pay)
      // Kills the node repeatedly, each time before a timer with the full time could fire.
      for round in 1...4 {
        let before = try await topology.status("node").incarnation
        let hasBegun: Bool? = try await poll(within: .seconds(20)) {
          Self.text(of: ledger).split(separator: "\n").count == round ? true : nil
        }
        #expect(hasBegun == true)
        guard clock.now - start < .seconds(3) else { break }
        try await topology.kill("node")
        try await topology.expectStatus(of: "node", "another start") {
          $0.isRunning && $0.incarnation > before
        }
      }
      try await topology.expect("node", Clerk.State.idle(paid: 1), within: .seconds(20))
      let time = clock.now - start
      #expect(time >= .milliseconds(4_950))
      let keys = Self.text(of: ledger).split(separator: "\n")
      #expect(Set(keys).count == 1)
      #expect(keys.count > 1)
    }
  }
}
