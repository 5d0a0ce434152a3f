import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Synchronized events with crashing participants",
  .timed, .enabled(if: RecordedNodes.arePossible))
struct SynchronizedFaultTests {
  /// Requests synchronized events while parties crash, and compares their states with the replies.
  private static func meet(
    _ topology: TopologyHarness, times rounds: Int
  ) async throws {
    var committed = 0
    for _ in 0..<rounds {
      let reply = try await topology.meet()
      switch reply {
      case .committed: committed += 1
      case .refused, .busy, .unavailable: break
      case .unknown(let transaction):
        // The outcome of this transaction would be known later. These tests do not cover that case.
        throw UnexpectedResult("transaction \(transaction) is not known")
      }
    }
    // No participant stays locked, and the last event reaches all participants.
    let last = try await topology.meet(mode: .await(.seconds(60)))
    guard last.isCommitted else { throw UnexpectedResult("the last one was \(last)") }
    committed += 1
    let state = Party.State.willing(met: committed, steps: 0)
    try await topology.expect("left", state, within: .seconds(20))
    try await topology.expect("right", state, within: .seconds(20))
  }

  @Test(
    "A crash just before or after any record leaves the event atomic and no participant locked",
    arguments: [
      "left:step.after", "left:record.after", "left:step.recorded", "pair:step.after",
      "pair:commit.before", "pair:record.after",
    ], Parties.hosts)
  func everywhere(place: String, host: String?) async throws {
    // Each of two incarnations crashes once, the second a little later than the first.
    let rules = "\(place)=crash@1/1,\(place)=crash@3/2"
    let environment = ["PIPERUNTIME_FAILPOINTS": rules]
    var options = TopologyHarness.Options()
    options.waitsUntilRunning = false
    let pair = Parties.pair(environment: environment, within: host)
    try await withTopology(pair, options: options) { topology in
      try await topology.expectStatus(of: "pair", "the composite to run") { $0.isRunning }
      try await Self.meet(topology, times: 10)
      let node = String(place.prefix { $0 != ":" })
      let name = place.drop { $0 != ":" }.dropFirst()
      try await topology.expectLog(node, contains: "failpoint \(name): crash")
    }
  }

  @Test(
    "A restarted composite shows its state even if the state has not changed",
    arguments: Parties.hosts)
  func shownAgain(host: String?) async throws {
    let environment = ["PIPERUNTIME_FAILPOINTS": "pair:commit.recorded=crash@2/1"]
    try await withTopology(Parties.pair(environment: environment, within: host)) { topology in
      #expect(try await topology.meet().isCommitted)
      _ = try await topology.meet()
      try await topology.expectMet(2)
      let shown = try await poll(every: .milliseconds(10), within: .seconds(20)) {
        topology.recordedStates(of: "pair").last { $0.incarnation == 2 }
      }
      let party = try JSONValue(encoding: Party.State.willing(met: 2, steps: 0))
      #expect(shown?.state == ["left": party, "right": party])
    }
  }

  @Test("A restarted composite shows no state before it has the states of all its nodes")
  func unheard() async throws {
    // Another composite with the same coordinator shows whether the coordinator has the states.
    var file = Parties.pair()
    file.nodes.append(.machine("Party", name: "third", restart: Parties.quick))
    file.composites.append(
      CompositeSpecification(
        name: "others", components: ["right", "third"], synchronize: ["meet"]))
    try await withTopology(file) { topology in
      #expect(try await topology.meet().isCommitted)
      try await topology.expectMet(1)
      try await topology.send("left", Party.Event.step)
      let left = try await topology.status("left")
      let pid = try #require(left.pid)
      #expect(kill(pid, SIGSTOP) == 0)
      defer { _ = kill(pid, SIGCONT) }
      try await topology.kill("pair")
      try await topology.expectStatus(of: "pair", "start 2") {
        $0.incarnation == 2 && $0.isRunning && $0.status?.composites.count == 1
      }
      let others = try await poll(every: .milliseconds(10), within: .seconds(60)) {
        topology.recordedStates(of: "others").last { $0.incarnation == 2 }
      }
      #expect(others != nil)
      let composite = try await topology.status("pair").status?.composites.first
      #expect(composite?.state == nil, "\(String(describing: composite))")
      #expect(topology.recordedStates(of: "pair").last { $0.incarnation == 2 } == nil)
      #expect(kill(pid, SIGCONT) == 0)
      let shown = try await poll(every: .milliseconds(10), within: .seconds(20)) {
        topology.recordedStates(of: "pair").last { $0.incarnation == 2 }
      }
      let moved = try JSONValue(encoding: Party.State.willing(met: 1, steps: 1))
      let stayed = try JSONValue(encoding: Party.State.willing(met: 1, steps: 0))
      #expect(shown?.state == ["left": moved, "right": stayed])
    }
  }

  @Test(
    "A coordinator refuses to start if its journal was truncated after a commit",
    arguments: [(".step", 64), (".step", 1_064), (".step", 26_624), ("-wal", 4_152)])
  func cutJournal(suffix: String, length: Int) async throws {
    try await withTopology(Parties.pair()) { topology in
      for _ in 1...2 { #expect(try await topology.meet().isCommitted) }
      try await topology.stop("pair")
      let file = try JournalFile(of: "pair", in: topology)
      #expect(truncate(file.path + suffix, off_t(length)) == 0)
      // Erases the log, which otherwise still has the records that the database lacks.
      if suffix == "-wal" {
        try file.write([UInt8](repeating: 0, count: 64 << 10), at: 8192, of: ".step")
      }
      await #expect(throws: TopologyClientError.self) { try await topology.start("pair") }
      let pair = try await topology.status("pair")
      #expect(pair.phase == "failed")
      #expect(pair.reason?.contains("'\(file.path)' is damaged") == true, "\(pair)")
      try await topology.expectMet(2)
    }
  }

  @Test(
    "A coordinator that is killed before its record leaves no participant locked",
    arguments: [nil, "right"] as [String?])
  func recovered(host: String?) async throws {
    let environment = [FailpointCounter.rulesVariable: "pair:commit.before=crash@1/1"]
    try await withTopology(Parties.pair(environment: environment, within: host)) { topology in
      // One call: the client repeats the request with the same number.
      #expect(try await topology.meet().isCommitted)
      try await topology.expectMet(1)
      try await topology.expectLog("left", contains: "the event was aborted")
    }
  }

  @Test(
    "A participant that is killed just after a commit knows that it has taken the event",
    arguments: Parties.hosts)
  func behind(host: String?) async throws {
    // The second event follows the first at once, before any acknowledgment.
    let environment = [FailpointCounter.rulesVariable: "left:prepare.recorded=crash@2/1"]
    try await withTopology(Parties.pair(environment: environment, within: host)) { topology in
      async let first = topology.meet()
      async let second = topology.meet()
      let committed = try await [first, second].filter(\.isCommitted).count
      #expect(committed >= 1)
      try await topology.expectLog("left", contains: "failpoint prepare.recorded: crash")
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
      try await topology.expectMet(committed + 1)
      #expect(!topology.logs("left").contains { $0.contains(ParticipantConflict.lostStep) })
    }
  }

  @Test(
    "All nodes agree after repeated kills of all processes during synchronized events",
    arguments: Parties.hosts)
  func killed(host: String?) async throws {
    try await withTopology(Parties.pair(within: host)) { topology in
      let names = ["left", "pair", "right"]
      let isOver = Locked(false)
      let killing = Task {
        defer { isOver.withLock { $0 = true } }
        for round in 0..<12 {
          try await topology.kill(names[round % 3])
        }
      }
      var committed = 0
      var others = 0
      while !isOver.withLock({ $0 }) || others + committed < 60 {
        let reply = try await topology.meet()
        if reply.isCommitted { committed += 1 } else { others += 1 }
      }
      try await killing.value
      let last = try await topology.meet(mode: .await(.seconds(60)))
      #expect(last.isCommitted)
      let state = Party.State.willing(met: committed + 1, steps: 0)
      try await topology.expect("left", state, within: .seconds(20))
      try await topology.expect("right", state, within: .seconds(20))
    }
  }

  @Test(
    "After a restart, all nodes have the committed states",
    arguments: Parties.hosts)
  func restart(host: String?) async throws {
    try await withTopology(Parties.pair(within: host)) { topology in
      for _ in 0..<5 { #expect(try await topology.meet().isCommitted) }
      try await topology.restart("pair", "left", "right")
      let state = Party.State.willing(met: 5, steps: 0)
      try await topology.expect("left", state)
      try await topology.expect("right", state)
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
    }
  }

  @Test(
    "A stopping node waits for the outcome of its vote",
    arguments: Parties.hosts)
  func stopWaits(host: String?) async throws {
    let rules = "pair:commit.recorded=delay:300ms@1/1"
    let environment = [FailpointCounter.rulesVariable: rules]
    let pair = Parties.pair(environment: environment, durability: .volatile, within: host)
    try await withTopology(pair) { topology in
      async let reply = topology.meet()
      try await topology.expectLog("pair", contains: "failpoint commit.recorded: delay")
      try await topology.stop("left")
      #expect(try await reply.isCommitted)
      let met = Party.State.willing(met: 1, steps: 0)
      try await topology.expect("left", met)
      try await topology.expect("right", met)
      try await topology.start("left")
      try await topology.expectStatus(of: "left", "to run") { $0.isRunning }
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
      #expect(!topology.logs("left").contains { $0.contains(ParticipantConflict.lostStep) })
    }
  }

  @Test(
    "Without journals, a composite does not wait for a crashed participant and logs the lost step",
    arguments: [nil, "right"] as [String?])
  func volatile(host: String?) async throws {
    let rules = "left:commit.received=crash@2/1"
    let environment = ["PIPERUNTIME_FAILPOINTS": rules]
    let pair = Parties.pair(environment: environment, durability: .volatile, within: host)
    try await withTopology(pair) { topology in
      for _ in 0..<2 { #expect(try await topology.meet().isCommitted) }
      try await topology.expectLog("left", contains: ParticipantConflict.lostStep)
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
      for (name, met) in [("left", 1), ("right", 3)] {
        let state = try JSONValue(encoding: Party.State.willing(met: met, steps: 0))
        try await topology.expectStatus(of: name, "\(met) events") { $0.status?.state == state }
      }
    }
  }
}
