import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// A caller of visitors, and a node with an instance for each visitor.
enum Visits {
  static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  static func topology(
    parameters: JSONValue = [:], environment: [String: String] = [:], resident: Int? = nil,
    final: [String] = [], keep: Duration? = nil, capacity: Int = 256,
    durability: Durability = .process
  ) -> Topology {
    Topology(
      name: "visits", program: "TestNodes", environment: environment,
      nodes: [
        .machine("Caller", name: "caller", restart: quick, durability: durability),
        .machine(
          "Visitor", name: "visitors", parameters: parameters, restart: quick,
          durability: durability, key: "key", maximumResidentInstances: resident,
          finalStates: final, keepDuration: keep),
      ],
      pipes: [.ports(from: "caller.out", to: "visitors.in", name: "visits", capacity: capacity)],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  /// Waits until each key has received its part of the visits, each visit once and in order.
  static func expect(
    _ count: Int, keys: Int, in topology: TopologyHarness, within time: Duration = .seconds(60)
  ) async throws {
    for key in 0..<keys {
      let times = (1...count).count { $0 % keys == key }
      let last = (1...count).last { $0 % keys == key } ?? 0
      try await topology.expect(
        "visitors[k\(key)]", Visitor.State.visited(times: times, last: last, wrong: 0),
        within: time)
    }
  }
}

@Suite("Nodes with an instance for each key", .timed)
struct KeyedNodeTests {
  @Test("Each key has its own instance, with its own state and version")
  func separate() async throws {
    try await withTopology(Visits.topology()) { topology in
      for n in 1...3 {
        let outcome = try await topology.send("visitors", Visitor.Event.visit(key: "a", n: n))
        #expect(
          outcome
            == .accepted(
              version: UInt64(n),
              state: [
                "visited": ["times": .integer(Int64(n)), "last": .integer(Int64(n)), "wrong": 0]
              ]))
      }
      let other = try await topology.send("visitors", Visitor.Event.visit(key: "b", n: 7))
      #expect(
        other
          == .accepted(
            version: 1, state: ["visited": ["times": 1, "last": 7, "wrong": 0]]))
      try await topology.expectStatus(of: "visitors", "the counts of both") {
        $0.status?.state == ["visited": 2] && $0.status?.version == 4
      }
    }
  }

  @Test("An event creates no instance if the initial state refuses the event")
  func refusedFirst() async throws {
    try await withTopology(Visits.topology()) { topology in
      let outcome = try await topology.send("visitors", Visitor.Event.leave(key: "a"))
      #expect(outcome == .refused(.noTransition, state: "new"))
      #expect(try await topology.status("visitors").status?.state == JSONValue.object([:]))
    }
  }

  @Test("A request without a key is rejected with the name of the missing field")
  func withoutKey() async throws {
    try await withTopology(Visits.topology()) { topology in
      do {
        try await topology.send("visitors", Visitor.Event.woke)
        Issue.record("an event without a key was accepted")
      } catch {
        #expect("\(error)".contains("no field 'key'"), "\(error)")
      }
      for key in ["", String(repeating: "x", count: 1_025)] {
        await #expect(throws: (any Error).self) {
          try await topology.send("visitors", Visitor.Event.visit(key: key, n: 1))
        }
      }
      let status = try await topology.status("visitors").status
      #expect(status?.state == JSONValue.object([:]))
    }
  }

  @Test("Keys that differ only by Unicode normalization have separate instances")
  func normalization() async throws {
    try await withTopology(Visits.topology()) { topology in
      try await topology.send("visitors", Visitor.Event.visit(key: "\u{E9}", n: 1))
      try await topology.send("visitors", Visitor.Event.visit(key: "e\u{301}", n: 1))
      try await topology.expectStatus(of: "visitors", "two instances") {
        $0.status?.state == ["visited": 2]
      }
      try await topology.kill("visitors")
      try await topology.send("visitors", Visitor.Event.visit(key: "\u{E9}", n: 2))
      try await topology.expect(
        "visitors[\u{E9}]", Visitor.State.visited(times: 2, last: 2, wrong: 0))
    }
  }

  @Test(
    "Events of many keys are applied once and in order while sender and receiver are killed",
    arguments: [nil, 3])
  func killed(resident: Int?) async throws {
    let (count, keys) = (2_000, 20)
    try await withTopology(Visits.topology(resident: resident)) { topology in
      try await topology.send("caller", Caller.Event.go(count: count, keys: keys))
      for part in 1...6 {
        try await topology.expectStatus(
          of: "visitors", "\(part * 250) visits", within: .seconds(60)
        ) {
          ($0.status?.version ?? 0) >= UInt64(part * 250)
        }
        try await topology.kill(part.isMultiple(of: 2) ? "caller" : "visitors")
      }
      try await Visits.expect(count, keys: keys, in: topology)
      let status = try await topology.status("visitors").status
      #expect(status?.gaps == 0)
      #expect(status?.version == UInt64(count))
      #expect(status?.state == ["visited": .integer(Int64(keys))])
    }
  }

  @Test(
    "No instance loses or repeats an event after a crash at any failpoint",
    arguments: [
      "visitors:start.after", "visitors:restore.after", "visitors:step.before",
      "visitors:step.after", "visitors:record.after", "visitors:ack.after",
      "visitors:write.before", "visitors:write.after", "caller:record.after",
    ])
  func failpoints(place: String) async throws {
    let first = "\(place)=crash@1/1"
    let rules = place.contains("write.") ? first : "\(first),\(place)=crash@2/2"
    let (count, keys) = (300, 7)
    let isFirstOnly = place.contains("start.") || place.contains("restore.")
    var environment = ["PIPERUNTIME_FAILPOINTS": isFirstOnly ? first : rules]
    if place.contains("restore.") { environment = ["PIPERUNTIME_FAILPOINTS": "\(place)=crash@1/2"] }
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    try await withTopology(
      Visits.topology(environment: environment, resident: 2, capacity: 16), options: options
    ) { topology in
      try await topology.expectStatus(of: "caller", "the caller to run") { $0.isRunning }
      try await topology.send("caller", Caller.Event.go(count: count, keys: keys))
      if place.contains("restore.") {
        try await topology.expectStatus(of: "visitors", "a visit") {
          ($0.status?.version ?? 0) > 0
        }
        try await topology.kill("visitors")
      }
      try await Visits.expect(count, keys: keys, in: topology)
      let name = place.drop { $0 != ":" }.dropFirst()
      let node = String(place.prefix { $0 != ":" })
      try await topology.expectLog(node, contains: "failpoint \(name): crash")
      // A crash that is not handled yet would make the stop fail.
      try await topology.expectStatus(of: node, "the next process") {
        $0.isRunning && $0.incarnation > 1
      }
    }
  }

  @Test(
    "After a crash, an instance's effect runs again with its idempotency key, and is applied once")
  func effects() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let ledger = directory.path + "/ledger"
    let parameters: JSONValue = ["ledger": .string(ledger), "time": 3_000]
    try await withTopology(Visits.topology(parameters: parameters, resident: 1)) { topology in
      for key in ["a", "b"] {
        try await topology.send("visitors", Visitor.Event.visit(key: key, n: 1))
        try await topology.send("visitors", Visitor.Event.rest(key: key))
      }
      // Other instances come and go while the effects run.
      for n in 1...5 { try await topology.send("visitors", Visitor.Event.visit(key: "\(n)", n: 1)) }
      #expect(try await topology.status("visitors").status?.effects == 2)
      let hasBegun: Bool? = try await poll(within: .seconds(20)) {
        Self.lines(of: ledger).count == 2 ? true : nil
      }
      #expect(hasBegun == true)
      try await topology.kill("visitors")
      for key in ["a", "b"] {
        try await topology.expect(
          "visitors[\(key)]", Visitor.State.rested(times: 1), within: .seconds(30))
      }
      let keys = Self.lines(of: ledger)
      #expect(Set(keys).count == 2, "\(keys)")
      #expect(
        keys.contains { $0.hasPrefix("visits/visitors[a]/") && $0.hasSuffix("/2") }, "\(keys)")
      try await topology.expectStatus(of: "visitors", "no effect") { $0.status?.effects == 0 }
      #expect(
        try await topology.status("visitors").status?.state == ["visited": 5, "rested": 2])
    }
  }

  private static func lines(of path: String) -> [String] {
    guard let descriptor = Optional(open(path, O_RDONLY)), descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    let text = String(decoding: (try? FileSystem.read(descriptor)) ?? [], as: UTF8.self)
    return text.split(separator: "\n").map(String.init)
  }

  @Test("An instance in a final state refuses events, and is removed after the time of 'keep'")
  func ended() async throws {
    try await withTopology(
      Visits.topology(final: ["gone"], keep: .seconds(2))
    ) { topology in
      try await topology.send("visitors", Visitor.Event.visit(key: "a", n: 1))
      try await topology.send("visitors", Visitor.Event.leave(key: "a"))
      let late = try await topology.send("visitors", Visitor.Event.visit(key: "a", n: 2))
      #expect(late == .refused(.ended, state: "gone"))
      try await topology.kill("visitors")
      // The node removes ended instances only when it takes a step.
      let isRemoved: Bool? = try await poll(within: .seconds(30)) {
        try await topology.send("visitors", Visitor.Event.visit(key: "b", n: 1))
        return try await topology.status("visitors").status?.state == ["visited": 1] ? true : nil
      }
      #expect(isRemoved == true)
      let again = try await topology.send("visitors", Visitor.Event.visit(key: "a", n: 1))
      guard case .accepted(version: 1, _) = again else {
        Issue.record("\(again)")
        return
      }
    }
  }

  @Test("A parameter with the name of the key field has the instance's key as its value")
  func parameter() async throws {
    let topology = Topology(
      name: "street", program: "TestNodes",
      nodes: [.machine("Doorplate", name: "plates", key: "house")])
    try await withTopology(topology) { topology in
      for house in [7, 12] {
        let outcome = try await topology.send("plates", Doorplate.Event.paint(house: house))
        let shows: JSONValue = ["shows": ["house": .integer(Int64(house))]]
        #expect(outcome == .accepted(version: 1, state: shows))
      }
    }
  }

  @Test("An event that crashes the process becomes a dead letter, and other instances continue")
  func poison() async throws {
    var options = TopologyHarness.Options()
    options.crashingNodes = ["visitors"]
    try await withTopology(Visits.topology(), options: options) { topology in
      for key in ["a", "b"] {
        try await topology.send("visitors", Visitor.Event.visit(key: key, n: 1))
      }
      let outcome = try await topology.send(
        "visitors", Visitor.Event.crash(key: "a"), timeout: .seconds(60))
      guard case .refused(.thrown, _) = outcome else {
        Issue.record("\(outcome)")
        return
      }
      #expect(try await topology.status("visitors").status?.deadLetters == 1)
      for key in ["a", "b"] {
        try await topology.send("visitors", Visitor.Event.visit(key: key, n: 2))
        try await topology.expect(
          "visitors[\(key)]", Visitor.State.visited(times: 2, last: 2, wrong: 0))
      }
    }
  }

  @Test("An effect that crashes the process becomes a dead letter, and other instances continue")
  func poisonEffect() async throws {
    try await withTopology(
      Visits.topology(parameters: ["crashing": "bad"]), options: .crashing("visitors")
    ) { topology in
      for key in ["bad", "good"] {
        try await topology.send("visitors", Visitor.Event.visit(key: key, n: 1))
      }
      try await topology.send("visitors", Visitor.Event.rest(key: "bad"))
      let parked = try await topology.expectStatus(
        of: "visitors", "a dead letter", within: .seconds(60)
      ) {
        $0.isRunning && $0.status?.deadLetters == 1
      }
      #expect(parked.incarnation == 4)
      let letter = try #require(parked.status?.recentDeadLetters.first)
      #expect(
        letter.reason == "the effect of instance 'bad' ended the node's process 3 times in a row")
      try await topology.send("visitors", Visitor.Event.rest(key: "good"))
      try await topology.expect("visitors[good]", Visitor.State.rested(times: 1))
      // A parked effect stays parked in the next process, and ends when its dead letter is dropped.
      try await topology.kill("visitors")
      try await topology.expectStatus(of: "visitors", "the dead letter") {
        $0.isRunning && $0.status?.deadLetters == 1
      }
      let tool = CommandLineTool(beside: topology)
      try await tool.run("dead-letters", "visitors", "drop", "1", code: 0)
      let journal = try JournalFile(of: "visitors", in: topology)
      let isEnded: Bool? = try await poll(within: .seconds(20)) {
        try journal.integer("SELECT count(*) FROM instance_effect") == 0 ? true : nil
      }
      #expect(isEnded == true)
      #expect(try await topology.status("visitors").incarnation == 5)
    }
  }

  @Test("A node refuses a journal of instances if the node's 'key' was removed or changed")
  func otherKey() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    var topology = Visits.topology()
    let file = try tool.directory.write(topology.yaml, to: "visits.yaml")
    try await tool.run("up", "--wait", file, code: 0)
    try await tool.run("send", "visitors[a]", #"{"visit":{"n":1}}"#, code: 0)
    try await tool.run("down", code: 0)
    topology.nodes[1].key = nil
    try tool.directory.write(topology.yaml, to: "visits.yaml")
    let failed = try await tool.run("up", "--wait", file, code: 1)
    #expect(
      failed.error.contains("belongs to a node with the key 'key', not to 'none'"), "\(failed)")
    _ = try await tool.run("down")
  }
}
