import PipeClient
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire
import Testing

private typealias Member = TopologyLifecycle.Member
private typealias Subject = TopologyChange.Subject

@Suite("The changes of a new file, by node")
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
  private let other = RestartPolicy(max: 7)

  @Test("Equal files change nothing")
  func equal() {
    let subjects = [subject("a"), subject("b", dependencies: ["a"])]
    let change = TopologyChange(from: subjects, to: subjects, states: ["a": up, "b": up])
    #expect(change.isEmpty && change.replaced.isEmpty && change.started.isEmpty)
    #expect(change.summary == "nothing to change")
    #expect(change.lines.isEmpty)
  }

  @Test("Each node has its change, and the plan shows all except unchanged nodes")
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
      change.lines == [
        "+ lamp     starts",
        "~ door     restarts: its machine, parameters or durability were changed",
        "= motor    restart policy differs, updated without a restart",
        "~ audit    restarts: the watched nodes were changed",
        "- counter  stops",
      ])
    #expect(change.replaced == ["door", "audit"])
    #expect(change.started == ["lamp", "door", "audit"])
    #expect(try JSONValue(encoding: change).decode(TopologyChange.self) == change)
  }

  @Test(
    "A changed node that ended by itself is started, and one stopped manually is not",
    arguments: [
      (.failed(reason: "x"), "~ a  starts again: its program is now '/bin/cat'"),
      (.stopped(.completed), "~ a  starts again: its program is now '/bin/cat'"),
      (
        .stopped(.requested),
        "= a  stays stopped until started manually: its program is now '/bin/cat'"
      ),
      (.idle, "= a  stays stopped until started manually: its program is now '/bin/cat'"),
      (.running, "~ a  restarts: its program is now '/bin/cat'"),
    ] as [(NodeLifecycle.State, String)])
  func notRunning(state: NodeLifecycle.State, line: String) {
    var wanted = subject("a")
    wanted.launch.program = "/bin/cat"
    let change = TopologyChange(from: [subject("a")], to: [wanted], states: ["a": state])
    #expect(change.lines == [line])
    #expect(change.replaced == ["a"])
    #expect(change.started == (state.isHeld ? [] : ["a"]))
  }

  @Test("A failed node is started again even if only its supervision has changed")
  func failed() {
    var wanted = subject("a", restart: other)
    wanted.member.timeouts = Timeouts(start: .seconds(77))
    for (state, line) in [
      (.failed(reason: "x"), "~ a  starts again: restart policy and timeouts differ"),
      (up, "= a  restart policy and timeouts differ, updated without a restart"),
    ] as [(NodeLifecycle.State, String)] {
      let change = TopologyChange(from: [subject("a")], to: [wanted], states: ["a": state])
      #expect(change.lines == [line])
    }
  }

  @Test("The order of dependencies is no difference, and other dependencies are one")
  func dependencies() {
    let from = [subject("a", dependencies: ["b", "c"])]
    let reordered = TopologyChange(
      from: from, to: [subject("a", dependencies: ["c", "b"])], states: ["a": up])
    #expect(reordered.isEmpty)
    let fewer = TopologyChange(
      from: from, to: [subject("a", dependencies: ["b"])], states: ["a": up])
    #expect(fewer.lines == ["= a  depends_on differs, updated without a restart"])
  }
}

@Suite("A topology that changes to a new file")
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

  @Test("Removed and replaced nodes end in order, then added and replaced nodes start in order")
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
    #expect(topology.lifecycle.changes == 1)
    #expect(topology.reports.first == .changing)
    var started = TopologyReport.StartCounts()
    started.running = 4
    #expect(topology.reports.last == .running(started))
    topology.log = []
    topology.take(.stop(.stopped))
    #expect(topology.log == ["stop a", "stop b", "stop d", "stop e"])
  }

  @Test("A sender ends before its receiver, unless the receiver depends on it")
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

  @Test("Changed supervision applies at once and changes no process")
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

  @Test("A changed node that was stopped manually stays stopped, and one that ended is started")
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
    #expect(topology.lifecycle.changes == 1)
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

  @Test("A node that does not end in order is reported for this change only")
  func endsBadly() {
    var topology = running(chain, stubborn: ["d"])
    topology.take(change(chain, replaced: ["d"]))
    topology.stubborn = []
    topology.exit("d", .exited(code: 3))
    #expect(topology.lifecycle.changeFailures.map(\.node) == ["d"])
    #expect(topology.lifecycle.changeFailures.map(\.reason) == ["exit code 3"])
    #expect(topology.problems == ["d: did not stop gracefully: exit code 3"])
    topology.take(change(chain, replaced: ["a"]))
    #expect(topology.lifecycle.changeFailures.isEmpty)
  }
}
