import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import PipeSystem
import TestNodes
import TestTraits
import Testing

/// Guests with keys in nodes that take synchronized events together.
enum Guests {
  static func topology(
    environment: [String: String] = [:], resident: Int? = nil, final: [String] = [],
    keep: Duration? = nil, durability: Durability = .process, within host: String? = nil,
    capacity: Int = 256
  ) -> Topology {
    Topology(
      name: "guests", program: "TestNodes", environment: environment,
      nodes: [.machine("Herald", name: "herald", restart: Visits.quick, durability: durability)]
        + ["left", "right", "third"].map {
          .machine(
            "Guest", name: $0, restart: Visits.quick, durability: durability, key: "key",
            maximumResidentInstances: resident, finalStates: final, keepDuration: keep)
        },
      pipes: [
        .ports(from: "herald.out", to: "left.in", name: "visits", capacity: capacity)
      ],
      composites: [
        CompositeSpecification(
          name: "pair", components: ["left", "right"], synchronize: ["meet", "part"],
          within: host, key: "key"),
        CompositeSpecification(
          name: "others", components: ["left", "third"],
          synchronize: [Synchronization("meet", participants: ["left", "third"])], key: "key"),
      ],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))
  }

  /// The topology with one composite only.
  static func pair(
    environment: [String: String] = [:], resident: Int? = nil, final: [String] = [],
    keep: Duration? = nil, durability: Durability = .process, within host: String? = nil,
    capacity: Int = 256
  ) -> Topology {
    var topology = topology(
      environment: environment, resident: resident, final: final, keep: keep,
      durability: durability, within: host, capacity: capacity)
    topology.composites.removeLast()
    topology.nodes.removeAll { $0.name == "third" }
    return topology
  }

  /// Requests meetings of guests with several keys at the same time, until the condition holds.
  /// - Returns: The number of meetings that were committed, by key.
  static func meet(
    _ keys: [String], in topology: TopologyHarness,
    until isOver: @escaping @Sendable (_ round: Int) -> Bool
  ) async throws -> [String: Int] {
    try await withThrowingTaskGroup(of: (String, Int).self) { group in
      for key in keys {
        group.addTask {
          var (committed, round) = (0, 0)
          while !isOver(round) {
            round += 1
            let reply = try await topology.client.synchronize("pair", Guest.Event.meet(key: key))
            switch reply {
            case .committed: committed += 1
            case .refused, .busy, .unavailable: break
            case .unknown(let transaction):
              throw UnexpectedResult("transaction \(transaction) of key '\(key)' is not known")
            }
          }
          // The instance does not stay locked.
          let last = try await topology.client.synchronize(
            "pair", Guest.Event.meet(key: key), mode: .await(.seconds(60)))
          guard last.isCommitted else { throw UnexpectedResult("the last one was \(last)") }
          return (key, committed + 1)
        }
      }
      return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
  }

  /// Waits until both guests with each key have had this number of meetings.
  static func expect(_ committed: [String: Int], in topology: TopologyHarness) async throws {
    for (key, count) in committed {
      for node in ["left", "right"] {
        try await topology.expect(
          "\(node)[\(key)]", "\(count) meetings", within: .seconds(60)
        ) { (state: Guest.State) in
          if case .present(count, _, _, 0) = state { true } else { false }
        }
      }
    }
  }
}

@Suite(
  "Synchronized events of instances", .timed, .enabled(if: RecordedNodes.arePossible))
struct InstanceTransactionTests {
  private static let keys = ["k0", "k1", "k2", "k3", "k4", "k5"]

  @Test("A synchronized event is taken by the instances with its key in all nodes, or by none")
  func atomic() async throws {
    try await withTopology(Guests.pair()) { topology in
      let client = topology.client
      let first = try await client.synchronize("pair", Guest.Event.meet(key: "a"))
      guard case .committed(_, let versions) = first else { throw UnexpectedResult("\(first)") }
      #expect(versions == ["left[a]": 1, "right[a]": 1])
      try await topology.send("right[a]", Guest.Event.leave(key: "a"))
      let refused = try await client.synchronize("pair", Guest.Event.meet(key: "a"))
      guard case .refused(let refusals) = refused else { throw UnexpectedResult("\(refused)") }
      #expect(refusals.map(\.participant) == ["right[a]"])
      #expect(refusals.map(\.state) == [["away": ["met": 1]]])
      // An instance that would have been created by a refused event does not exist.
      try await topology.send("right[b]", Guest.Event.leave(key: "b"))
      #expect(try await !client.synchronize("pair", Guest.Event.meet(key: "b")).isCommitted)
      try await topology.expectStatus(of: "left", "one instance") {
        $0.status?.state == ["present": 1]
      }
      try await topology.expectStatus(of: "right", "two instances") {
        $0.status?.state == ["away": 2]
      }
      try await topology.send("right[a]", Guest.Event.comeBack(key: "a"))
      #expect(try await client.synchronize("pair", Guest.Event.meet(key: "a")).isCommitted)
      try await topology.expect(
        "left[a]", Guest.State.present(met: 2, visits: 0, last: 0, wrong: 0))
      // The record of the step has deleted the prepared step.
      let journal = try await TopologyRecords.orchestrator(client).journal(of: "left", limit: 1)
      #expect(journal.preparedInstanceCount == 0)
      let results = try await client.broadcast("pair", json: ["meet": ["key": "b"]])
      #expect(results["left[b]"] == .accepted(version: 1))
      #expect(results.keys.sorted() == ["left[b]", "right[b]"])
    }
  }

  @Test("A synchronized event that is sent to a single node, or without a key, is rejected")
  func direct() async throws {
    try await withTopology(Guests.pair()) { topology in
      do {
        try await topology.send("left", Guest.Event.meet(key: "a"))
        Issue.record("the event was accepted")
      } catch {
        #expect("\(error)".contains("composite 'pair'"), "\(error)")
      }
      do {
        _ = try await topology.client.synchronize("pair", json: ["meet": ["key": .null]])
        Issue.record("an event without a key was accepted")
      } catch {
        #expect("\(error)".contains("key"), "\(error)")
      }
      try await topology.expectStatus(of: "left", "no instance") {
        $0.status?.state == JSONValue.object([:])
      }
    }
  }

  @Test(
    "A crash at any failpoint leaves the events of all keys atomic and no instance locked",
    arguments: [
      "left:prepare.before", "left:step.after", "left:record.after", "left:prepare.recorded",
      "left:yes.after", "left:commit.received", "left:step.recorded", "left:acknowledge.after",
      "left:write.before", "left:write.after", "pair:synchronize.received", "pair:prepare.sent",
      "pair:step.after", "pair:commit.before", "pair:record.after", "pair:commit.recorded",
      "pair:commit.sent", "pair:commit.finished", "pair:write.before",
    ], [nil, 2])
  func failpoints(place: String, resident: Int?) async throws {
    // Each of two incarnations crashes once, the second a little later than the first.
    // The database is written rarely.
    let rules =
      place.contains("write.")
      ? "\(place)=crash@1/1" : "\(place)=crash@2/1,\(place)=crash@7/2"
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    try await withTopology(
      Guests.pair(environment: [FailpointCounter.rulesVariable: rules], resident: resident),
      options: options
    ) { topology in
      try await topology.expectStatus(of: "pair", "the composite to run") { $0.isRunning }
      let committed = try await Guests.meet(Self.keys, in: topology) { $0 >= 6 }
      try await Guests.expect(committed, in: topology)
      let node = String(place.prefix { $0 != ":" })
      let name = place.drop { $0 != ":" }.dropFirst()
      try await topology.expectLog(node, contains: "failpoint \(name): crash")
      #expect(!topology.logs("left").contains { $0.contains(ParticipantConflict.lostStep) })
      // A crash that is not handled yet would make the stop fail.
      try await topology.expectStatus(of: node, "the next process") {
        $0.isRunning && $0.incarnation > 1
      }
    }
  }

  @Test(
    "After repeated kills of all processes, the instances with the same key agree",
    arguments: [(nil, nil), (2, nil), (nil, "right")] as [(Int?, String?)])
  func killed(resident: Int?, host: String?) async throws {
    try await withTopology(Guests.pair(resident: resident, within: host)) { topology in
      let names = ["left", "pair", "right"]
      let isOver = Locked(false)
      let killing = Task {
        defer { isOver.withLock { $0 = true } }
        for round in 0..<12 {
          try await topology.kill(names[round % 3])
        }
      }
      let committed = try await Guests.meet(Self.keys, in: topology) { round in
        isOver.withLock { $0 } && round >= 10
      }
      try await killing.value
      try await Guests.expect(committed, in: topology)
    }
  }

  @Test(
    "Events of a pipe are applied once and in order while their instances take part in transactions",
    arguments: [nil, "left", "pair", "herald"] as [String?], [256, 8])
  func order(killed: String?, capacity: Int) async throws {
    let (count, keys) = (600, Self.keys.count)
    try await withTopology(Guests.pair(resident: 3, capacity: capacity)) { topology in
      try await topology.send("herald", Herald.Event.go(count: count, keys: keys))
      let meetings = Task {
        try await Guests.meet(Self.keys, in: topology) { $0 >= 25 }
      }
      if let killed {
        for part in 1...3 {
          try await topology.expectStatus(of: "left", "\(part * 100) steps", within: .seconds(60)) {
            ($0.status?.version ?? 0) >= UInt64(part * 100)
          }
          try await topology.kill(killed)
        }
      }
      let committed = try await meetings.value
      try await Guests.expect(committed, in: topology)
      for key in 0..<keys {
        let visits = (1...count).count { $0 % keys == key }
        let last = (1...count).last { $0 % keys == key } ?? 0
        try await topology.expect(
          "left[k\(key)]",
          Guest.State.present(
            met: committed["k\(key)"] ?? 0, visits: visits, last: last, wrong: 0),
          within: .seconds(60))
      }
      try await topology.expectStatus(of: "left", "no dead letter and no gap") {
        $0.status?.deadLetters == 0 && $0.status?.gaps == 0
      }
    }
  }

  @Test("While the instances with one key wait, instances with other keys take events and commit")
  func concurrent() async throws {
    try await withTopology(Guests.topology()) { topology in
      let client = topology.client
      #expect(try await client.synchronize("pair", Guest.Event.meet(key: "a")).isCommitted)
      try await topology.pause("right")
      // The coordinator waits for the vote of a suspended participant for some seconds. A busy host
      // may need longer for the rest, so there are several attempts.
      let isShown: Bool? = try await poll(within: .seconds(60)) {
        let first = Task { try await client.synchronize("pair", Guest.Event.meet(key: "a")) }
        let isHeld: Bool? = try await poll(every: .milliseconds(10), within: .seconds(2)) {
          try await Self.hold(of: "left[a]", in: topology) != nil ? true : nil
        }
        let second = try await client.synchronize("others", Guest.Event.meet(key: "b"))
        let visit = try await topology.send("left[b]", Guest.Event.visit(key: "b", n: 1))
        let hold = try await Self.hold(of: "left[a]", in: topology)
        let reply = try await first.value
        guard isHeld == true, hold != nil else { return nil }
        #expect(second.isCommitted)
        if case .accepted = visit {} else { Issue.record("\(visit)") }
        #expect(reply == .unavailable("right[a]"))
        return true
      }
      #expect(isShown == true)
      try await topology.resume("right")
      let last = try await client.synchronize(
        "pair", Guest.Event.meet(key: "a"), mode: .await(.seconds(60)))
      #expect(last.isCommitted)
    }
  }

  /// Returns the reason why an instance takes no event now.
  private static func hold(
    of instance: String, in topology: TopologyHarness
  ) async throws -> EventBlocker? {
    let why = try await topology.client.why(instance, json: "visit")
    return why.events.first?.blockingAnswers.first?.blocker
  }

  @Test("A restarted node locks its prepared instances again, and no other instances")
  func restored() async throws {
    let environment = [FailpointCounter.rulesVariable: "pair:commit.before=stop@1/1"]
    try await withTopology(Guests.pair(environment: environment, resident: 1)) { topology in
      let client = topology.client
      try await topology.send("left[a]", Guest.Event.visit(key: "a", n: 1))
      let meeting = Task {
        try await client.synchronize(
          "pair", Guest.Event.meet(key: "a"), mode: .await(.seconds(300)))
      }
      try await topology.expectLog("pair", contains: "failpoint commit.before: stop")
      for round in 1...2 {
        // More instances than may stay in memory.
        for key in 0..<20 {
          let outcome = try await topology.send("left", Guest.Event.visit(key: "\(key)", n: round))
          if case .accepted = outcome {} else { Issue.record("\(outcome)") }
        }
        try await topology.expectStatus(of: "left", "an instance in doubt") {
          $0.doubts.map(\.participant) == ["left[a]"]
        }
        if case .inDoubt(let doubt)? = try await Self.hold(of: "left[a]", in: topology) {
          #expect(doubt.composite == "pair" && doubt.event == "meet")
        } else {
          Issue.record("left[a] is not in doubt")
        }
        if round == 1 { try await topology.kill("left") }
      }
      // The events for the locked instance wait for its outcome.
      let waiting = Task {
        [
          try await client.send("left[a]", Guest.Event.visit(key: "a", n: 2)),
          try await client.send("left[a]", Guest.Event.visit(key: "a", n: 3)),
        ]
      }
      let tool = CommandLineTool(beside: topology)
      let why = try await tool.run("why", "left[a]", "visit", code: 4)
      #expect(why.output.contains("in doubt"), "\(why)")
      let rows = try await tool.run("ps", "left")
      #expect(rows.output.contains("IN DOUBT"), "\(rows)")
      try await topology.resume("pair")
      #expect(try await meeting.value.isCommitted)
      for outcome in try await waiting.value {
        if case .accepted = outcome {} else { Issue.record("\(outcome)") }
      }
      try await topology.expect(
        "left[a]", Guest.State.present(met: 1, visits: 3, last: 3, wrong: 0))
      try await topology.expect(
        "right[a]", Guest.State.present(met: 1, visits: 0, last: 0, wrong: 0))
      try await topology.expectStatus(of: "left", "no instance in doubt") { $0.doubts.isEmpty }
    }
  }

  @Test("Instances stay in doubt until the next process of their coordinator aborts the event")
  func abandoned() async throws {
    let environment = [FailpointCounter.rulesVariable: "pair:commit.before=crash@1/1"]
    var guests = Guests.pair(environment: environment)
    for index in guests.nodes.indices {
      guests.nodes[index].restart.backoff = Backoff(
        initial: .seconds(600), max: .seconds(600), jitter: 0)
    }
    try await withTopology(guests) { topology in
      let caller = try TopologyClient(
        topology: topology.topology, control: topology.control,
        answerTimeout: TopologyHarness.clientTimeout)
      Task { _ = try? await caller.synchronize("pair", Guest.Event.meet(key: "a")) }
      try await topology.expectStatus(of: "pair", "a pause") { $0.phase == "backing off" }
      // An open client would repeat its request to the next coordinator.
      caller.close()
      try await topology.expectStatus(of: "left", "an instance in doubt") { !$0.doubts.isEmpty }
      try await topology.kill("left")
      try await topology.expectStatus(of: "left", "a pause") { $0.phase == "backing off" }
      try await topology.start("left")
      try await topology.expectStatus(of: "left", "an instance in doubt") { !$0.doubts.isEmpty }
      try await topology.start("pair")
      try await topology.expectStatus(of: "left", "no instance in doubt") { $0.doubts.isEmpty }
      // The event was aborted, so it has created no instance.
      try await topology.expectStatus(of: "left", "no instance") {
        $0.status?.state == JSONValue.object([:])
      }
      #expect(
        try await topology.client.synchronize(
          "pair", Guest.Event.meet(key: "a"), mode: .await(.seconds(60))
        ).isCommitted)
    }
  }

  @Test("An instance in a final state refuses synchronized events, until it is removed")
  func ended() async throws {
    let topology = Guests.pair(final: ["gone"], keep: .seconds(1))
    try await withTopology(topology) { topology in
      let client = topology.client
      #expect(try await client.synchronize("pair", Guest.Event.meet(key: "a")).isCommitted)
      #expect(try await client.synchronize("pair", Guest.Event.part(key: "a")).isCommitted)
      let refused = try await client.synchronize("pair", Guest.Event.meet(key: "a"))
      guard case .refused(let refusals) = refused else { throw UnexpectedResult("\(refused)") }
      #expect(refusals.map(\.reason) == [.ended])
      try await topology.kill("right")
      // The nodes remove instances when they take steps. Then the next life begins.
      let again: SynchronizedReply? = try await poll(within: .seconds(60)) {
        for node in ["left", "right"] {
          try await topology.send(node, Guest.Event.visit(key: "b", n: 1))
        }
        let reply = try await client.synchronize("pair", Guest.Event.meet(key: "a"))
        return reply.isCommitted ? reply : nil
      }
      guard case .committed(_, let versions)? = again else { throw UnexpectedResult("no commit") }
      #expect(versions == ["left[a]": 1, "right[a]": 1])
      for node in ["left", "right"] {
        try await topology.expect(
          "\(node)[a]", Guest.State.present(met: 1, visits: 0, last: 0, wrong: 0))
      }
    }
  }

  @Test("Without journals, instances take synchronized events together as well")
  func volatile() async throws {
    try await withTopology(Guests.pair(durability: .volatile)) { topology in
      let committed = try await Guests.meet(Self.keys, in: topology) { $0 >= 20 }
      #expect(committed.values.allSatisfy { $0 == 21 }, "\(committed)")
      try await Guests.expect(committed, in: topology)
    }
  }

  @Test("Commands name an instance of a composite, and show its participants")
  func commands() async throws {
    try await withTopology(Guests.pair()) { topology in
      let tool = CommandLineTool(beside: topology)
      let sent = try await tool.run("send", "pair[a]", "meet")
      #expect(sent.output.contains("left[a] version 1, right[a] version 1"), "\(sent)")
      let why = try await tool.run("why", "left[a]", "meet")
      #expect(why.output.contains("right[a]"), "\(why)")
      try await topology.send("right[a]", Guest.Event.leave(key: "a"))
      for name in ["left[a]", "pair[a]"] {
        let blocked = try await tool.run("why", name, "meet", code: 4)
        #expect(blocked.output.contains("right[a]"), "\(blocked)")
      }
      let refused = try await tool.run("send", "pair", #"{"meet":{"key":"a"}}"#, code: 1)
      #expect(refused.error.contains("'right[a]' is in away(met: 1)"), "\(refused)")
      let watched = try await tool.run("monitor", "pair[a]")
      #expect(watched.code != 0 && watched.error.contains("no states of instances"), "\(watched)")
    }
  }

  @Test("In the checkout example, an order is paid if and only if its payment is captured")
  func checkout() async throws {
    let loaded = try LoadedTopology.load(.file("topologies/checkout.yaml"))
    try await withTopology(loaded.topology) { topology in
      let tool = CommandLineTool(beside: topology)
      // Each of these events belongs to one node, and goes to its instance.
      for event in [#"{"place":{"amount":3}}"#, #"{"authorize":{"amount":3}}"#] {
        _ = try await tool.run("send", "checkout[7]", event, code: 0)
      }
      _ = try await tool.run("send", "checkout[8]", #"{"place":{"amount":3}}"#, code: 0)
      _ = try await tool.run("send", "checkout[8]", "pay", code: 1)
      _ = try await tool.run("send", "checkout[7]", "pay", code: 0)
      try await topology.expectStatus(of: "payments", "one captured payment") {
        $0.status?.state == ["captured": 1]
      }
      try await topology.expectStatus(of: "orders", "one shipped order", within: .seconds(20)) {
        $0.status?.state == ["placed": 1, "shipped": 1]
      }
    }
  }
}
