import PipeClient
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire
import Testing

private typealias Member = TopologyLifecycle.Member
private typealias Subject = TopologyChange.Subject

@Suite("The changes that a new topology file causes at each node")
struct TopologyChangeTests {
  private func subject(
    _ name: String, parameters: String = "1", dependencies: [NodeDependency] = [],
    restart: RestartPolicy = RestartPolicy(), watched: Set<String> = []
  ) -> Subject {
    Subject(
      Member(name, dependencies: dependencies, restart: restart),
      launch: .init(
        program: "/bin/sh", arguments: [name, parameters], environment: [:],
        configuration: NodeConfiguration()),
      watched: watched)
  }

  private let up = NodeLifecycle.State.running
  private let other = RestartPolicy(maximumRestarts: 7)

  @Test("A topology file that is equal to the current file changes nothing")
  func equal() {
    let subjects = [subject("a"), subject("b", dependencies: ["a"])]
    let change = TopologyChange(from: subjects, to: subjects, states: ["a": up, "b": up])
    #expect(change.isEmpty && change.replacedNodes.isEmpty && change.startedNodes.isEmpty)
    #expect(change.summary == "nothing to change")
    #expect(change.entryLines.isEmpty)
  }

  @Test("The plan shows the change of each node, except for unchanged nodes")
  func fates() throws {
    let change = TopologyChange(
      from: [
        subject("door"), subject("motor"), subject("counter"), subject("display"),
        subject("screen"), subject("audit", watched: ["door"]),
      ],
      to: [
        subject("lamp"), subject("door", parameters: "2"), subject("motor", restart: other),
        subject("display"), subject("screen"), subject("audit", watched: ["lamp"]),
      ],
      states: [
        "door": up, "motor": up, "counter": up, "display": up, "screen": up, "audit": up,
      ])
    #expect(
      change.summary == "1 node added, 1 removed, 2 restarted, 1 updated, 2 unchanged")
    #expect(
      change.entryLines == [
        "+ lamp     starts",
        "~ door     restarts: its machine, parameters, durability or journal limits were changed",
        "= motor    restart policy differs, updated without a restart",
        "~ audit    restarts: the watched nodes were changed",
        "- counter  stops",
      ])
    #expect(change.replacedNodes == ["door", "audit"])
    #expect(change.startedNodes == ["lamp", "door", "audit"])
    #expect(try JSONValue(encoding: change).decode(TopologyChange.self) == change)
  }

  private static let program = TopologyChange.Reason.launch(.program(wanted: "/bin/cat"))

  @Test(
    "A changed node is started if it had ended by itself, and not if it was stopped manually",
    arguments: [
      (.failed(reason: "x"), .startsAgain(program)), (.stopped(.completed), .startsAgain(program)),
      (.stopped(.requested), .staysStopped(program)), (.idle, .staysStopped(program)),
      (.running, .restarts(program)),
    ] as [(NodeLifecycle.State, TopologyChange.Fate)])
  func notRunning(state: NodeLifecycle.State, fate: TopologyChange.Fate) {
    var wanted = subject("a")
    wanted.launch.program = "/bin/cat"
    let change = TopologyChange(from: [subject("a")], to: [wanted], states: ["a": state])
    #expect(change.entries == [.init("a", fate)])
    #expect(change.replacedNodes == ["a"])
    #expect(change.startedNodes == (state.isStoppedOnRequest ? [] : ["a"]))
  }

  @Test("A failed node is started again even if only its supervision settings have changed")
  func failed() {
    var wanted = subject("a", restart: other)
    wanted.member.timeouts = Timeouts(start: .seconds(77))
    for (state, fate) in [
      (.failed(reason: "x"), .startsAgain(.supervision([.restart, .timeouts]))),
      (up, .updatedInPlace([.restart, .timeouts])),
    ] as [(NodeLifecycle.State, TopologyChange.Fate)] {
      let change = TopologyChange(from: [subject("a")], to: [wanted], states: ["a": state])
      #expect(change.entries == [.init("a", fate)])
    }
  }

  @Test("A node has changed if its dependencies differ, but not if only their order differs")
  func dependencies() {
    let from = [subject("a", dependencies: ["b", "c"])]
    let reordered = TopologyChange(
      from: from, to: [subject("a", dependencies: ["c", "b"])], states: ["a": up])
    #expect(reordered.isEmpty)
    let fewer = TopologyChange(
      from: from, to: [subject("a", dependencies: ["b"])], states: ["a": up])
    #expect(fewer.entries == [.init("a", .updatedInPlace([.dependencies]))])
  }
}

@Suite("A running topology that changes to a new file")
struct TopologyLifecycleChangeTests {
  private let chain = [
    Member("a", dependencies: ["b"]), Member("b", dependencies: ["c"]), Member("c"), Member("d"),
  ]

  private func running(
    _ members: [Member], stubborn: Set<String> = []
  ) -> SimulatedTopology {
    var topology = SimulatedTopology(members)
    topology.take(.start)
    topology.log = []
    topology.reports = []
    topology.stubborn = stubborn
    return topology
  }

  private func change(
    _ members: [Member], replaced: Set<String> = [], incarnations: [String: Int] = [:]
  ) -> TopologyLifecycle.Input {
    .change(.init(members: members, replaced: replaced, incarnations: incarnations))
  }

  @Test("Removed and replaced nodes end before added and replaced nodes start")
  func order() {
    var topology = running(chain)
    let members = [
      Member("a", dependencies: ["b"]), Member("b", dependencies: ["e"]), Member("d"), Member("e"),
    ]
    topology.take(change(members, replaced: ["a", "b"], incarnations: ["e": 4]))
    #expect(
      topology.log == [
        "stop a", "stop b", "stop c", "new file", "spawn a", "spawn b", "spawn e", "go e", "go b",
        "go a",
      ])
    #expect(topology.lifecycle.state == .running)
    #expect(topology.lifecycle.members == members)
    #expect(topology.lifecycle["c"] == nil)
    #expect(topology.lifecycle["d"]?.incarnation == 1)
    #expect(topology.lifecycle["e"]?.incarnation == 5)
    #expect(topology.lifecycle.endedChangeCount == 1)
    #expect(topology.reports.first == .changing)
    var started = TopologyReport.StartCounts()
    started.running = 4
    #expect(topology.reports.last == .running(started))
    topology.log = []
    topology.take(.stop(.stopped))
    #expect(topology.log == ["stop a", "stop b", "stop d", "stop e"])
  }

  private let shards = [
    Member("sender", receivers: ["s.0", "s.1"]), Member("s.0", receivers: ["sink"]), Member("s.1"),
    Member("sink", receivers: ["s.0", "s.1"]),
  ]

  /// A change from two shards to one.
  private var merged: TopologyLifecycle.Input {
    .change(
      .init(
        members: [
          Member("sender", receivers: ["s"]), Member("s", receivers: ["sink"]),
          Member("sink", receivers: ["s"]),
        ],
        replaced: ["sender", "sink"], shards: ["s.0", "s.1"]))
  }

  @Test("Shards end before their senders, and instances move when all of these nodes have ended")
  func shardsFirst() {
    var topology = running(shards)
    topology.take(merged)
    #expect(topology.log.prefix(2) == ["stop s.0", "stop s.1"])
    #expect(topology.log.dropFirst(2).sorted() == ["move instances", "stop sender", "stop sink"])
    #expect(topology.log.last == "move instances")
    topology.log = []
    topology.take(.moved(.complete))
    #expect(topology.log.first == "new file")
    #expect(
      topology.log.filter { $0.hasPrefix("spawn") } == ["spawn sender", "spawn s", "spawn sink"])
    #expect(topology.lifecycle.answer(toChange: 1, starting: ["sender", "s", "sink"]) == .done)
    topology.log = []
    topology.take(.moved(.refused("late")))
    #expect(topology.log.isEmpty)
  }

  @Test("All nodes start again as before if instances cannot be moved")
  func movesFail() throws {
    var topology = running(shards)
    topology.take(merged)
    topology.log = []
    topology.take(.moved(.refused("an event is not delivered")))
    #expect(
      topology.log.filter { $0.hasPrefix("spawn") } == [
        "spawn sender", "spawn s.0", "spawn s.1", "spawn sink",
      ])
    #expect(topology.lifecycle.members.map(\.name) == shards.map(\.name))
    guard case .failed(let reason)? = topology.lifecycle.answer(toChange: 1, starting: []) else {
      Issue.record("the change was not answered with a failure")
      return
    }
    #expect(reason.hasPrefix("an event is not delivered; nothing was changed"))
  }

  @Test("While a move of instances is incomplete, none of the moved nodes starts")
  func moveIncomplete() throws {
    var topology = running(shards)
    topology.take(merged)
    topology.log = []
    topology.take(.moved(.incomplete("the disk is full")))
    #expect(!topology.log.contains { $0.hasPrefix("spawn") })
    guard case .failed(let reason)? = topology.lifecycle.answer(toChange: 1, starting: []) else {
      Issue.record("the change was not answered with a failure")
      return
    }
    #expect(reason.contains("the disk is full; the stopped nodes stay stopped"))
  }

  @Test(
    "A renamed member starts after the names in the journals have changed, unless it was stopped",
    arguments: [(false, 3, 4), (true, 3, 3), (false, 0, 2)])
  func renamed(isHeld: Bool, recordedIncarnation: Int, incarnation: Int) {
    var topology = running([Member("a"), Member("b")])
    if isHeld { topology.say("a", .stopRequested) }
    topology.log = []
    topology.take(
      .change(
        .init(
          members: [Member("n"), Member("b")], replaced: ["b"],
          incarnations: ["n": recordedIncarnation],
          formerNames: ["n": "a"], changesJournals: true)))
    #expect(topology.log.last == "move instances")
    topology.log = []
    topology.take(.moved(.complete))
    #expect(
      topology.log.filter { $0.hasPrefix("spawn") }
        == (isHeld ? ["spawn b"] : ["spawn n", "spawn b"])
    )
    #expect(topology.lifecycle["a"] == nil)
    // The member `a` may have been restarted after the incarnations were read.
    #expect(topology.lifecycle["n"]?.incarnation == incarnation)
    #expect(topology.lifecycle["n"]?.state.isStoppedOnRequest == isHeld)
    #expect(topology.lifecycle.answer(toChange: 1, starting: ["n", "b"]) == .done)
  }

  @Test("A sender ends before its receiver, unless the receiver depends on the sender")
  func sendersFirst() {
    let pipeline = [
      Member("sink"), Member("relay", receivers: ["sink"]), Member("source", receivers: ["relay"]),
    ]
    var topology = running(pipeline, stubborn: ["relay"])
    topology.take(change([Member("other")]))
    #expect(topology.log == ["stop source", "stop relay"])
    topology.exit("relay", .exited(code: 0))
    #expect(topology.log.dropFirst(2).prefix(2) == ["stop sink", "new file"])

    var dependent = running([
      Member("sink", dependencies: ["source"]), Member("source", receivers: ["sink"]),
    ])
    dependent.take(change([Member("other")]))
    #expect(dependent.log.prefix(3) == ["stop sink", "stop source", "new file"])
  }

  @Test("Changed supervision settings apply at once, without a restart")
  func supervision() {
    var topology = running(chain)
    var members = chain
    members[3].restart = RestartPolicy(.never)
    members[3].isRequired = true
    topology.take(change(members))
    #expect(topology.log == ["new file"])
    topology.exit("d", .exited(code: 1))
    #expect(topology.outcome?.exitCode == 1)
  }

  @Test("Other nodes continue during a change, even if they crash and restart")
  func others() {
    var topology = running(chain, stubborn: ["d"])
    topology.take(change(Array(chain.prefix(3))))
    #expect(topology.log == ["stop d"])
    topology.exit("b", .signalled(number: 9))
    for _ in 0..<10 where topology.lifecycle["b"]?.state != .running { topology.tick() }
    #expect(topology.log.filter { $0.hasSuffix(" b") } == ["spawn b", "go b"])
    topology.exit("d", .exited(code: 0))
    #expect(topology.log.last == "new file")
    #expect(topology.lifecycle.state == .running)
  }

  @Test("A changed node stays stopped if it was stopped manually, and starts if it had ended")
  func notRunning() {
    var topology = running(chain)
    topology.say("d", .stopRequested)
    topology.exit("a", .exited(code: 0))
    topology.log = []
    topology.take(change(chain, replaced: ["a", "d"]))
    #expect(topology.log == ["new file", "spawn a", "go a"])
    #expect(topology.lifecycle["d"]?.state == .stopped(.requested))
    topology.say("d", .start)
    #expect(topology.log.suffix(2) == ["spawn d", "go d"])
  }

  @Test("A node that ends for a change cannot be started manually before the change is complete")
  func startsMeanwhile() {
    var topology = running(chain, stubborn: ["b"])
    topology.take(change(chain, replaced: ["a", "b"]))
    #expect(topology.log == ["stop a", "stop b"])
    #expect(topology.lifecycle.isReturning("a") && !topology.lifecycle.isReturning("c"))
    // One node has ended, and the other is ending.
    for name in ["a", "b"] { topology.say(name, .start, .restartRequested) }
    #expect(topology.log == ["stop a", "stop b"])
    topology.stubborn = []
    topology.exit("b", .exited(code: 0))
    #expect(topology.log.dropFirst(2) == ["new file", "spawn a", "spawn b", "go b", "go a"])
    #expect(!topology.lifecycle.isReturning("a"))
  }

  @Test("A stop or a kill during a change stops the whole topology")
  func stop() {
    for input in [TopologyLifecycle.Input.stop(.stopped), .kill(.forced)] {
      var topology = running(chain, stubborn: ["d"])
      topology.take(change(chain, replaced: ["d"]))
      topology.take(input)
      while topology.outcome == nil { topology.tick() }
      #expect(topology.alive.isEmpty)
      #expect(!topology.log.contains("new file"))
    }
  }

  @Test("A second change is ignored during a change or while the topology stops")
  func second() {
    var topology = running(chain, stubborn: ["d"])
    topology.take(change(chain, replaced: ["d"]))
    let before = topology.log
    topology.take(change([]))
    #expect(topology.log == before)
    topology.exit("d", .exited(code: 0))
    #expect(topology.lifecycle.members == chain)
    topology.take(.stop(.stopped))
    topology.take(change([]))
    #expect(topology.lifecycle.endedChangeCount == 1)
  }

  @Test("A change before the start barrier opens makes the barrier wait for the new file's nodes")
  func beforeBarrier() {
    var topology = SimulatedTopology(chain, stubborn: ["d"])
    topology.take(.start)
    topology.log = []
    topology.take(change(Array(chain.prefix(3)) + [Member("e")]))
    #expect(topology.log == ["kill d SIGTERM"])
    topology.exit("d", .signalled(number: 15))
    #expect(
      topology.log.dropFirst() == ["new file", "spawn e", "go c", "go e", "go b", "go a"])
  }

  @Test("A node that does not end gracefully is reported for the current change only")
  func endsBadly() {
    var topology = running(chain, stubborn: ["d"])
    topology.take(change(chain, replaced: ["d"]))
    topology.stubborn = []
    topology.exit("d", .exited(code: 3))
    #expect(topology.lifecycle.changeFailures.map(\.node) == ["d"])
    #expect(topology.lifecycle.changeFailures.map(\.reason) == ["exit code 3"])
    #expect(topology.problems == ["d: \(NodeReport.ungracefulStop(reason: "exit code 3"))"])
    topology.take(change(chain, replaced: ["a"]))
    #expect(topology.lifecycle.changeFailures.isEmpty)
  }
}
