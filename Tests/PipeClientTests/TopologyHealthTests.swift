import PipeClient
import PipeMachines
import PipeWire
import Testing

@Suite("The health of a topology")
struct TopologyHealthTests {
  private static let second: Int64 = 1_000_000_000
  private static let now = 1_000 * second

  /// Describes a topology: nodes in the order of the case, and pipes as `from>to`.
  struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let nodes: [NodeInformation]
    var pipes: [String] = []
    var phase = "running"
    let summary: String
    /// The severities and codes of all diagnoses, in order.
    var codes: [String] = []
    var commands: [String] = []
  }

  /// Returns a node that is in a state since 100 seconds.
  private static func node(
    _ name: String, _ phase: String = "running", kind: NodeInformation.Kind = .machine,
    full: [String] = [], doubts: [InDoubtTransaction] = [], within: String? = nil,
    reason: String? = nil, change: (inout NodeStatus) -> Void = { _ in }
  ) -> NodeInformation {
    var node = NodeInformation(
      name: name, kind: kind, hosts: "Relay", program: "nodes", phase: phase,
      isRunning: phase == "running", inbox: "\(name).in", feed: "\(name).feed")
    (node.within, node.reason, node.doubts) = (within, reason, doubts)
    var status = NodeStatus()
    (status.state, status.since, status.blocked) = ("busy", now - 100 * second, full)
    status.outs = full.map { .init(name: $0, events: 9, applied: 5, waiting: 0, capacity: 4) }
    change(&status)
    node.status = status
    return node
  }

  private static func doubt(of participant: String, _ composite: String) -> InDoubtTransaction {
    InDoubtTransaction(
      participant: participant, composite: composite, event: "release",
      transaction: TransactionID(epoch: 1, sequence: 2), since: now - 3 * second)
  }

  private static func space(used: Int64, device: UInt64) -> JournalSpace {
    let billion: Int64 = 1_000_000_000
    return JournalSpace(
      database: 1,
      disk: DiskSpace(device: device, size: 100 * billion, free: (100 - used) * billion))
  }

  private static func pipe(_ text: String) -> PipeInformation {
    let ends = text.split(separator: ">").map(String.init)
    return PipeInformation(name: text, from: ends[0], to: ends[1], capacity: 4)
  }

  static let cases: [Case] = [
    Case(testDescription: "all nodes run", nodes: [node("a"), node("b")], summary: "all well"),
    Case(
      testDescription: "a stopped node blocks a chain",
      nodes: [
        node("r1", full: ["r1>r2"]), node("r2", full: ["r2>r3"]), node("r3", "stopped"),
      ], pipes: ["r1>r2", "r2>r3"],
      summary: "Stuck: r3 is stopped → r2 is blocked (4 of 4) → r1 is blocked (4 of 4)",
      codes: ["failure notRunning"], commands: ["orchestrator start r3"]),
    Case(
      testDescription: "a node that is stopped on purpose blocks no node",
      nodes: [node("a"), node("b", "stopped")], summary: "b is stopped",
      codes: ["warning notRunning"], commands: ["orchestrator start b"]),
    Case(
      testDescription: "a failed node",
      nodes: [node("a", "failed", reason: "exited with code 1, 4 times in 10 s")],
      summary: "a has failed: exited with code 1, 4 times in 10 s",
      codes: ["failure notRunning"], commands: ["orchestrator start a"]),
    Case(
      testDescription: "a node is backing off, and its sender waits",
      nodes: [
        node("a", full: ["a>b"]), node("b", "backing off", reason: "killed by SIGKILL"),
      ], pipes: ["a>b"],
      summary: "b is backing off: killed by SIGKILL → a is blocked (4 of 4)",
      codes: ["warning notRunning"]),
    Case(
      testDescription: "a completed node is no problem", nodes: [node("a", "completed")],
      summary: "all well"),
    Case(
      testDescription: "a completed node blocks its sender",
      nodes: [node("a", full: ["a>b"]), node("b", "completed")], pipes: ["a>b"],
      summary: "Stuck: b has completed → a is blocked (4 of 4)", codes: ["failure notRunning"],
      commands: ["orchestrator start b"]),
    Case(
      testDescription: "a running receiver does not empty its pipe",
      nodes: [
        node("a", full: ["a>b"]),
        node("b") {
          $0.effects = 1
          $0.ins = [.init(name: "a>b", events: 9, applied: 5, waiting: 3, capacity: 4)]
        },
      ], pipes: ["a>b"],
      summary:
        "b has been in busy for 1 min 40 s, running 1 effect, 3 events waiting → a is blocked "
        + "(4 of 4)",
      codes: ["warning notKeepingUp", "note longEffects"]),
    Case(
      testDescription: "back-pressure while events flow is normal",
      nodes: [node("a", full: ["a>b"]), node("b") { $0.since = now - second / 2 }],
      pipes: ["a>b"], summary: "all well"),
    Case(
      testDescription: "a cycle of full pipes",
      nodes: [
        node("a", full: ["a>b"]), node("b", full: ["b>c"]), node("c", full: ["c>a"]),
        node("d", full: ["d>a"]),
      ], pipes: ["a>b", "b>c", "c>a", "d>a"],
      summary: "Stuck: the pipes of a cycle are full: a waits for b waits for c waits for a → d is "
        + "blocked (4 of 4)",
      codes: ["failure cycle"]),
    Case(
      testDescription: "a node's pipe to itself is full", nodes: [node("a", full: ["a>a"])],
      pipes: ["a>a"], summary: "Stuck: a waits for itself: its pipe to itself is full",
      codes: ["failure cycle"]),
    Case(
      testDescription: "a participant does not know the decision of a running coordinator",
      nodes: [
        node("fork2", doubts: [doubt(of: "fork2", "seat3")]), node("seat3", kind: .composite),
      ],
      summary: "Stuck: fork2 waits for seat3 (release in doubt for 3 s)",
      codes: ["failure undecided"]),
    Case(
      testDescription: "the coordinator of a participant in doubt is down",
      nodes: [
        node("a", full: ["a>fork2"]), node("fork2", doubts: [doubt(of: "fork2", "seat3")]),
        node("seat3", "failed", kind: .composite, doubts: [doubt(of: "fork2", "seat3")]),
      ], pipes: ["a>fork2"],
      summary: "Stuck: seat3 has failed → fork2 is blocked (release in doubt for 3 s) → a is "
        + "blocked (4 of 4)",
      codes: ["failure notRunning"], commands: ["orchestrator start seat3"]),
    Case(
      testDescription: "the carrier node of an embedded coordinator is down",
      nodes: [
        node("fork2", doubts: [doubt(of: "fork2", "seat3")]), node("philosopher3", "stopped"),
        node("seat3", "waiting", kind: .composite, within: "philosopher3"),
      ],
      summary: "Stuck: philosopher3 is stopped → seat3 waits → fork2 is blocked (release in doubt "
        + "for 3 s)",
      codes: ["failure notRunning"], commands: ["orchestrator start philosopher3"]),
    Case(
      testDescription: "dead letters", nodes: [node("door") { $0.deadLetters = 8 }],
      summary: "door: 8 dead letters", codes: ["warning deadLetters"],
      commands: ["orchestrator dead-letters door"]),
    Case(
      testDescription: "refused events that were not stored",
      nodes: [node("door") { ($0.deadLetters, $0.deadLettersLost) = (1, 2) }],
      summary: "door: 1 dead letter, 2 more refused events were not stored",
      codes: ["warning deadLetters"], commands: ["orchestrator dead-letters door"]),
    Case(
      testDescription: "a disk with journals is nearly full",
      nodes: [
        node("a") { $0.journal = space(used: 79, device: 1) },
        node("b") { $0.journal = space(used: 80, device: 2) },
        node("c") { $0.journal = space(used: 80, device: 2) },
        node("d", "stopped") { $0.journal = space(used: 99, device: 3) },
      ],
      summary: "d is stopped (and 1 more)",
      codes: ["warning notRunning", "warning nearlyFullDisk"],
      commands: ["orchestrator start d", "orchestrator journal --size"]),
    Case(
      testDescription: "a nearly full disk is described",
      nodes: [node("b") { $0.journal = space(used: 80, device: 2) }],
      summary: "b: the disk with its journal is 80 % full, with 20.0 GB free",
      codes: ["warning nearlyFullDisk"], commands: ["orchestrator journal --size"]),
    Case(
      testDescription: "a node that was restarted a short time ago",
      nodes: [restarted("door", 2, ago: 5)],
      summary: "all well; door was restarted 2 times, the last time 5 s ago",
      codes: ["note restarted"]),
    Case(
      testDescription: "a node that was restarted long ago",
      nodes: [restarted("door", 2, ago: 100)],
      summary: "all well"),
    Case(
      testDescription: "an effect runs for a long time", nodes: [node("a") { $0.effects = 1 }],
      summary: "all well; a has been in busy for 1 min 40 s, running 1 effect",
      codes: ["note longEffects"]),
    Case(
      testDescription: "the next timer is far ahead",
      nodes: [
        node("a") {
          $0.timer = RunningTimer(after: "2 h", due: now + 3_600 * second, target: "rinsing")
        }
      ],
      summary: "all well; a waits for a timer: after 2 h: rinsing in 1 h",
      codes: ["note distantTimer"]),
    Case(
      testDescription: "the worst problem comes first, and the others are counted",
      nodes: [
        node("door") { $0.deadLetters = 8 }, node("gate", "failed"), node("sign", "stopped"),
      ],
      summary: "gate has failed (and 2 more)",
      codes: ["failure notRunning", "warning notRunning", "warning deadLetters"],
      commands: [
        "orchestrator start gate", "orchestrator start sign", "orchestrator dead-letters door",
      ]),
    Case(
      testDescription: "the topology is starting",
      nodes: [node("a", "starting"), node("b", "idle")],
      phase: "starting", summary: "starting"),
    Case(
      testDescription: "many nodes wait for one node",
      nodes: [node("z", "stopped")] + (1...6).map { node("n\($0)", full: ["n\($0)>z"]) },
      pipes: (1...6).map { "n\($0)>z" },
      summary:
        "Stuck: z is stopped → n1 is blocked (4 of 4), n2 is blocked (4 of 4), n3 is blocked "
        + "(4 of 4) → 3 more nodes are blocked",
      codes: ["failure notRunning"], commands: ["orchestrator start z"]),
  ]

  private static func restarted(_ name: String, _ count: UInt64, ago: Int64) -> NodeInformation {
    var node = node(name)
    (node.restarts, node.startedAt) = (count, now - ago * second)
    return node
  }

  @Test("The summary names the root cause and the nodes that it blocks", arguments: cases)
  func summary(_ example: Case) {
    let directory = TopologyDirectory(
      topology: "relay", file: "relay.yaml", pid: 7, phase: example.phase, isRunning: true,
      nodes: example.nodes, pipes: example.pipes.map(Self.pipe))
    let health = TopologyHealth(directory, at: Self.now)
    #expect(health.summary == example.summary)
    #expect(health.diagnoses.map { "\($0.severity.rawValue) \($0.code)" } == example.codes)
    #expect(health.diagnoses.compactMap(\.remedy?.command) == example.commands)
  }

  @Test("The JSON of a diagnosis lists each blocked node with the node that it waits for")
  func record() {
    let example = Self.cases[1]
    let directory = TopologyDirectory(
      topology: "relay", file: "relay.yaml", pid: 7, phase: "running", isRunning: true,
      nodes: example.nodes, pipes: example.pipes.map(Self.pipe))
    let record = TopologyHealth(directory, at: Self.now).record
    #expect(record["severity"] == "failure")
    guard case .array(let diagnoses)? = record["diagnoses"] else {
      Issue.record("no diagnoses in \(record.text)")
      return
    }
    #expect(diagnoses.count == 1)
    #expect(diagnoses.first?["starts"] == "r3")
    #expect(
      diagnoses.first?["blocked"] == [
        ["node": "r2", "waitsFor": "r3", "pipe": "r2>r3", "underWay": 4, "capacity": 4],
        ["node": "r1", "waitsFor": "r2", "pipe": "r1>r2", "underWay": 4, "capacity": 4],
      ])
  }
}
