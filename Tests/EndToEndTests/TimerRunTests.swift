import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Timers of nodes", .timed)
struct TimerRunTests {
  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  private static func topology(
    _ failpoints: String? = nil, durability: Durability = .process, parameters: JSONValue = [:]
  ) -> Topology {
    Topology(
      name: "offers", program: "TestNodes",
      environment: failpoints.map { ["PIPERUNTIME_FAILPOINTS": $0] } ?? [:],
      nodes: [
        .machine(
          "Offer", name: "offer", parameters: parameters, restart: quick, durability: durability)
      ],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  private static func open(_ limit: Int) -> Offer.Event { .open(key: "", limit: limit) }

  @Test(
    "A timer of a node fires once, with any durability",
    arguments: [Durability.volatile, .process, .power])
  func once(durability: Durability) async throws {
    try await withTopology(Self.topology(durability: durability)) { topology in
      try await topology.send("offer", Self.open(100))
      try await topology.expect("offer", Offer.State.idle(expired: 1))
      // The timer of this state is cancelled. It would be due before the timer of the next state.
      try await topology.send("offer", Self.open(300))
      try await topology.send("offer", Offer.Event.accept(key: ""))
      try await topology.send("offer", Self.open(600))
      try await topology.expect("offer", Offer.State.idle(expired: 2))
      #expect(try await topology.status("offer").status?.version == 6)
    }
  }

  @Test("Transition counts list the steps of timers under '(after)'")
  func counts() async throws {
    try await withTopology(Self.topology()) { topology in
      let collected = StreamCollector(try await topology.client.states(of: ["offer"], .latest))
      _ = try await poll(within: .seconds(20)) { collected.all.first?.summary?.transitions }
      try await topology.send("offer", Self.open(100))
      let last = try await poll(within: .seconds(20)) {
        collected.all.last.flatMap { $0.version == 2 ? $0.summary?.transitions : nil }
      }
      #expect(last?.counts == ["idle": ["open": 1], "open": ["(after)": 1]])
    }
  }

  @Test("A timer of a killed node keeps its deadline")
  func deadline() async throws {
    try await withTopology(Self.topology()) { topology in
      try await topology.send("offer", Self.open(3_600_000))
      let before = try await topology.expectStatus(of: "offer", "a timer") {
        $0.status?.timer != nil
      }
      let due = try #require(before.status?.timer).due
      for incarnation in 2...3 {
        try await topology.kill("offer")
        let after = try await topology.expectStatus(of: "offer", "the timer of the next process") {
          $0.isRunning && $0.incarnation == incarnation && $0.status?.timer != nil
        }
        let timer = try #require(after.status?.timer)
        #expect(timer.after == "1 h")
        // Measured with two clocks, in three processes.
        #expect(abs(timer.due - due) < 200_000_000, "\(timer.due - due)")
      }
      try await topology.send("offer", Offer.Event.accept(key: ""))
      try await topology.expectStatus(of: "offer", "no timer") {
        $0.status?.timer == nil && $0.status?.version == 2
      }
      try await topology.kill("offer")
      try await topology.expectStatus(of: "offer", "the next process, without a timer") {
        $0.isRunning && $0.incarnation == 4 && $0.status?.state == ["idle": ["expired": 0]]
          && $0.status?.timer == nil
      }
    }
  }

  @Test(
    "A timer fires once, even if its node crashes just before or after recording the firing",
    arguments: [("step.after", 3), ("record.after", 3), ("step.after", 2), ("record.after", 2)])
  func crashes(place: String, hit: Int) async throws {
    try await withTopology(Self.topology("\(place)=crash@\(hit)/1")) { topology in
      try await topology.send("offer", Self.open(300))
      try await topology.expect("offer", Offer.State.idle(expired: 1))
      try await topology.expectLog("offer", contains: "failpoint \(place): crash")
      // If the first timer were still set, it would fire before this timer.
      try await topology.send("offer", Self.open(600))
      try await topology.expect("offer", Offer.State.idle(expired: 2))
      let node = try await topology.status("offer")
      #expect(node.status?.version == 4)
      #expect(node.incarnation == 2)
    }
  }

  @Test(
    "A changed time of day moves a deadline only if the system was rebooted",
    arguments: [(isRebooted: false, "3 h"), (isRebooted: true, "1 h")])
  func timeOfDay(isRebooted: Bool, remaining: String) async throws {
    try await withTopology(Self.topology()) { topology in
      try await topology.send("offer", Self.open(3 * 3_600_000 + 30_000))
      try await topology.stop("offer")
      let journal = try JournalFile(of: "offer", in: topology)
      // As if the time of day was set forward by two hours after the entry.
      try journal.run(
        "UPDATE effect SET time = time - 7200000000000"
          + (isRebooted ? ", boot = 'another', clock = 1" : ""))
      try await topology.start("offer")
      let node = try await topology.expectStatus(of: "offer", "the timer") {
        $0.isRunning && $0.status?.timer != nil
      }
      let timer = try #require(node.status?.timer)
      let left = timer.remaining(at: node.status?.time ?? 0)
      #expect(left.shortText.hasPrefix(remaining), "\(left)")
    }
  }

  @Test("An overdue timer fires when its node starts")
  func overdue() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let file = try tool.directory.write(Self.topology().yaml, to: "offers.yaml")
    try await tool.run("up", "--wait", file, code: 0)
    try await tool.run("send", "offer", #"{"open":{"key":"","limit":1500}}"#, code: 0)
    let why = try await tool.run("why", "offer", code: 0)
    #expect(why.output.contains("after 1.5 s: idle in "), "\(why)")
    try await tool.run("down", code: 0)
    let journal = try await tool.run("journal", "offer", "--topology", "offers", code: 0)
    #expect(journal.output.contains("due at"), "\(journal)")
    try await tool.run("up", "--wait", file, code: 0)
    try await tool.run("wait", "offer=idle", "--timeout", "60s", code: 0)
    try await tool.run("down", code: 0)
  }

  @Test("A timer that kills its node three times becomes a dead letter and fires again when resent")
  func poison() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let net = directory.path + "/net"
    let topology = Self.topology(parameters: ["net": .string(net)])
    try await withTopology(topology, options: .crashing("offer")) { topology in
      try await topology.send("offer", Offer.Event.doom(key: ""))
      let node = try await topology.expectStatus(
        of: "offer", "a dead letter, or one crash too many", within: .seconds(60)
      ) { $0.isRunning && $0.status?.deadLetters == 1 || $0.incarnation > 8 }
      #expect(node.incarnation == 4)
      let deadLetter = try #require(node.status?.recentDeadLetters.first)
      #expect(deadLetter.pipe == "timer doomed")
      #expect(deadLetter.sequence == 1)
      #expect(deadLetter.reason.contains(" 3 times"))
      #expect(node.status?.timer == nil)
      // The timer stays parked in the next process.
      try await topology.kill("offer")
      try await topology.expectStatus(of: "offer", "the next process") {
        $0.isRunning && $0.incarnation == 5 && $0.status?.state == "doomed"
      }
      close(Glibc.open(net, O_WRONLY | O_CREAT, 0o600))
      #expect(try await topology.client.resend(deadLetter: deadLetter.id, of: "offer") == .done)
      try await topology.expect("offer", Offer.State.idle(expired: 1))
      #expect(try await topology.status("offer").status?.deadLetters == 0)
    }
  }
}

@Suite("Timers of participants", .timed)
struct ParticipantTimerTests {
  private static func topology(_ failpoints: String? = nil) -> Topology {
    let quick = RestartPolicy(backoff: Backoff(initial: .milliseconds(10)))
    return Topology(
      name: "pair", program: "TestNodes",
      environment: failpoints.map { ["PIPERUNTIME_FAILPOINTS": $0] } ?? [:],
      nodes: [
        .machine("Offer", name: "left", restart: quick),
        .machine("Offer", name: "right", restart: quick),
      ],
      composites: [
        CompositeSpecification(
          name: "both", components: ["left", "right"], synchronize: ["open", "accept"])
      ],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))
  }

  private static func synchronize(_ event: Offer.Event, _ topology: TopologyHarness) async throws {
    let outcome = try await topology.client.synchronize(
      "both", event, mode: .await(.seconds(60)), timeout: .seconds(60))
    #expect(outcome.isCommitted, "\(outcome)")
  }

  @Test("A synchronized event starts and cancels the timers of its participants")
  func synchronized() async throws {
    try await withTopology(Self.topology()) { topology in
      try await Self.synchronize(Offer.Event.open(key: "", limit: 300), topology)
      try await Self.synchronize(Offer.Event.accept(key: ""), topology)
      try await Self.synchronize(Offer.Event.open(key: "", limit: 600), topology)
      try await topology.kill("left")
      for node in ["left", "right"] {
        try await topology.expect(node, Offer.State.idle(expired: 1))
        #expect(try await topology.status(node).status?.version == 4)
      }
    }
  }

  @Test("A timer of a prepared participant waits for the outcome of the synchronized event")
  func prepared() async throws {
    try await withTopology(Self.topology("both:commit.before=stop@2/1")) { topology in
      try await Self.synchronize(Offer.Event.open(key: "", limit: 1_500), topology)
      let accepted = Task { try await Self.synchronize(Offer.Event.accept(key: ""), topology) }
      try await topology.expectLog("both", contains: "failpoint commit.before: stop")
      // The timers are overdue by half a second.
      try await topology.expectStatus(of: "left", "an overdue timer") { node in
        guard let status = node.status, let timer = status.timer, let time = status.time else {
          return false
        }
        return time > timer.due + 500_000_000
          || status.state != ["open": ["limit": 1500, "expired": 0]]
      }
      try await topology.resume("both")
      try await accepted.value
      for node in ["left", "right"] {
        try await topology.expect(node, Offer.State.idle(expired: 0))
        #expect(try await topology.status(node).status?.version == 2)
      }
    }
  }
}

@Suite("Timers of instances", .timed)
struct InstanceTimerTests {
  private static func topology(
    _ failpoints: String? = nil, resident: Int? = nil, durability: Durability = .process
  ) -> Topology {
    let quick = RestartPolicy(
      maximumRestarts: 1_000, window: .seconds(1),
      backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))
    return Topology(
      name: "offers", program: "TestNodes",
      environment: failpoints.map { ["PIPERUNTIME_FAILPOINTS": $0] } ?? [:],
      nodes: [
        .machine(
          "Offer", name: "offers", restart: quick, durability: durability, key: "key",
          maximumResidentInstances: resident)
      ],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  private static func expectExpired(_ count: Int, _ topology: TopologyHarness) async throws {
    for key in 0..<count {
      try await topology.expect("offers[k\(key)]", Offer.State.idle(expired: 1))
    }
  }

  @Test(
    "Each instance has its own timer, with any durability",
    arguments: [Durability.volatile, .process])
  func separate(durability: Durability) async throws {
    try await withTopology(Self.topology(durability: durability)) { topology in
      try await topology.send("offers", Offer.Event.open(key: "late", limit: 3_600_000))
      try await topology.send("offers", Offer.Event.open(key: "left", limit: 300))
      try await topology.send("offers", Offer.Event.accept(key: "left"))
      for key in 0..<20 {
        try await topology.send("offers", Offer.Event.open(key: "k\(key)", limit: 600 - 20 * key))
      }
      try await Self.expectExpired(20, topology)
      try await topology.expect("offers[left]", Offer.State.idle(expired: 0))
      // 20 instances have taken two steps each, one instance two steps, and one instance one step.
      try await topology.expectStatus(of: "offers", "the steps of all") {
        $0.status?.version == 43 && $0.status?.timer?.after == "1 h"
      }
    }
  }

  @Test("The timers of evicted instances fire once, even if the node is killed")
  func evicted() async throws {
    try await withTopology(Self.topology(resident: 2)) { topology in
      for key in 0..<20 {
        try await topology.send("offers", Offer.Event.open(key: "k\(key)", limit: 3_000))
      }
      try await topology.kill("offers")
      try await Self.expectExpired(20, topology)
      try await topology.kill("offers")
      try await topology.expectStatus(of: "offers", "the next process") {
        $0.isRunning && $0.incarnation == 3 && $0.status?.version == 40
          && $0.status?.timer == nil
      }
    }
  }

  @Test(
    "An instance's timer fires once, even if the node crashes before or after recording the firing",
    arguments: ["step.after", "record.after"])
  func crashes(place: String) async throws {
    try await withTopology(Self.topology("\(place)=crash@3/1")) { topology in
      try await topology.send("offers", Offer.Event.open(key: "k0", limit: 300))
      try await Self.expectExpired(1, topology)
      try await topology.expectLog("offers", contains: "failpoint \(place): crash")
      try await topology.expectStatus(of: "offers", "two steps") { $0.status?.version == 2 }
    }
  }

  @Test("'check' reports a timer in a final state")
  func final() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    var topology = Self.topology()
    topology.nodes[0].finalStates = ["idle", "open"]
    let file = try tool.directory.write(topology.yaml, to: "offers.yaml")
    let result = try await tool.run("check", file, code: 2)
    #expect(result.error.contains("has a timer in state 'open'"), "\(result)")
    #expect(!result.error.contains("in state 'idle'"), "\(result)")
  }

  @Test(
    "A timer of an instance that kills its node becomes a dead letter; other instances continue")
  func poison() async throws {
    try await withTopology(Self.topology(), options: .crashing("offers")) { topology in
      try await topology.send("offers", Offer.Event.doom(key: "bad"))
      let node = try await topology.expectStatus(
        of: "offers", "a dead letter, or one crash too many", within: .seconds(60)
      ) { $0.isRunning && $0.status?.deadLetters == 1 || $0.incarnation > 8 }
      #expect(node.incarnation == 4)
      #expect(node.status?.recentDeadLetters.first?.pipe == "timer doomed of instance 1")
      try await topology.send("offers", Offer.Event.open(key: "k0", limit: 100))
      try await Self.expectExpired(1, topology)
      try await topology.send("offers", Offer.Event.accept(key: "bad"))
      try await topology.expect("offers[bad]", Offer.State.idle(expired: 0))
    }
  }
}
