import PipeClient
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire
import Testing

private typealias Member = TopologyLifecycle.Member

/// Two nodes, where `guest` waits for `door` to be closed.
private let pair = [
  Member(
    "guest", dependencies: [.init("door", .state("closed"))],
    restart: RestartPolicy(maximumRestarts: 1)),
  Member("door"),
]

@Suite("Nodes that wait for a state")
struct StateDependencyTests {

  /// Returns the nodes that were started, in order.
  private func gone(_ topology: SimulatedTopology) -> [String] {
    topology.log.filter { $0.hasPrefix("go ") }.map { String($0.dropFirst(3)) }
  }

  private func started(_ members: [TopologyLifecycle.Member]) -> SimulatedTopology {
    var topology = SimulatedTopology(members)
    topology.take(.start)
    return topology
  }

  @Test(
    "A node waits until its dependency is in the required state, and stops before the dependency")
  func goes() {
    var topology = started(pair)
    #expect(gone(topology) == ["door"])
    topology.take(.stateObserved(node: "door", state: ["open": ["persons": 3]]))
    topology.take(.stateObserved(node: "another", state: "closed"))
    #expect(gone(topology) == ["door"])
    topology.take(.stateObserved(node: "door", state: "closed"))
    #expect(gone(topology) == ["door", "guest"])
    topology.log = []
    topology.take(.stop(.stopped))
    #expect(topology.log == ["stop guest", "stop door"])
    #expect(topology.outcome == .stopped)
  }

  @Test(
    "A label matches a case with any values, and given values or fields match only equal values",
    arguments: [
      ("open", nil, ["open": ["persons": 3]], true), ("open", nil, "closed", false),
      (["open": ["persons": 3]], nil, ["open": ["persons": 3]], true),
      (["open": ["persons": 3]], nil, ["open": ["persons": 2]], false),
      (["count": 3], ["count", "note"], ["count": 3, "note": "x"], true),
      (["count": 3], ["count", "note"], ["count": 2, "note": "x"], false),
    ] as [(JSONValue, [String]?, JSONValue, Bool)])
  func matches(wanted: JSONValue, fields: [String]?, state: JSONValue, isMet: Bool) {
    var condition = StateCondition(wanted)
    condition.fields = fields
    var topology = started([
      Member("guest", dependencies: [.init("door", .state(condition))]), Member("door"),
    ])
    #expect(topology.lifecycle.isAwaited(state, of: "door") == isMet)
    topology.take(.stateObserved(node: "door", state: state))
    #expect(gone(topology).contains("guest") == isMet)
  }

  @Test("A required state counts as reached even if the dependency has left the state again")
  func passing() {
    var topology = SimulatedTopology(
      pair + [
        Member(
          "late", dependencies: [.init("door", .state("closed")), .init("lamp", .state("lit"))]),
        Member("lamp"),
      ])
    topology.take(.start)
    topology.stubborn = ["guest"]
    topology.exit("guest", .signalled(number: 9))
    topology.take(.stateObserved(node: "door", state: "closed"))
    topology.take(.stateObserved(node: "door", state: "open"))
    topology.take(.stateObserved(node: "lamp", state: "lit"))
    #expect(gone(topology) == ["door", "lamp", "late"])
    topology.tick()
    topology.say("guest", .hello(failure: nil))
    #expect(gone(topology) == ["door", "lamp", "late", "guest"])
  }

  @Test("A node that waits is reported as waiting, not as an error, and the start is incomplete")
  func underway() {
    var topology = started(
      pair + [Member("friend", dependencies: ["guest"]), Member("free")])
    let pendingDependencies = topology.lifecycle.pendingDependencies.mapValues(\.description)
    #expect(
      pendingDependencies == [
        "guest": "'door' to be closed",
        "friend": "dependency 'guest', which does not run yet",
      ])
    #expect(topology.lifecycle.blockers.isEmpty && topology.problems.isEmpty)
    func isComplete() -> Bool {
      topology.reports.contains { if case .running = $0 { true } else { false } }
    }
    #expect(!isComplete())
    topology.exit("free", .exited(code: 0))
    #expect(topology.outcome == nil)
    topology.take(.stateObserved(node: "door", state: "closed"))
    #expect(isComplete())
    #expect(topology.lifecycle.pendingDependencies.isEmpty)
    #expect(gone(topology) == ["door", "free", "guest", "friend"])
  }

  @Test("Each wait is reported once, however often the dependency changes its state")
  func toldOnce() {
    var lifecycle = TopologyLifecycle(pair)
    let now = SuspendingClock().now
    var reports: [NodeReport] = []
    func take(_ input: TopologyLifecycle.Input) {
      for case .node("guest", .report(let report)) in lifecycle.handle(input, at: now) {
        if case .waiting = report { reports.append(report) }
      }
    }
    take(.start)
    for name in ["guest", "door"] {
      for input in [NodeLifecycle.Input.spawned(pid: 7), .hello(failure: nil), .ready] {
        take(.node(name, input))
      }
    }
    take(.stateObserved(node: "door", state: "open"))
    take(.node("door", .failureReported(reason: "so so")))
    #expect(reports.map(\.description) == ["waits for 'door' to be closed"])
    #expect(reports.allSatisfy { !$0.isProblem })
  }

  @Test(
    "A wait for a failed node is reported with the failure, and ends when the node has started")
  func failed() {
    let door = Member("door", restart: RestartPolicy(.never))
    var topology = SimulatedTopology(
      pair.dropLast() + [door, Member("free")], stubborn: ["door"])
    topology.take(.start)
    topology.exit("door", .exited(code: 1))
    #expect(
      topology.problems.suffix(1) == ["guest: waits for 'door' to be closed, but 'door' has failed"]
    )
    var started = TopologyReport.StartCounts()
    (started.running, started.failed, started.waiting) = (1, 1, 1)
    #expect(topology.reports.contains(.running(started)))
    topology.stubborn = []
    topology.say("door", .start)
    #expect(gone(topology) == ["free", "door"])
    #expect(topology.lifecycle.blockers.isEmpty)
    #expect(topology.lifecycle.pendingDependencies["guest"]?.reason == .underway)
    topology.take(.stateObserved(node: "door", state: "closed"))
    #expect(gone(topology) == ["free", "door", "guest"])
  }

  @Test("If a dependency stops after reaching the state, its dependent waits only for its restart")
  func stoppedAfterwards() {
    var topology = SimulatedTopology(pair)
    topology.take(.start)
    topology.stubborn = ["guest"]
    topology.exit("guest", .signalled(number: 9))
    topology.take(.stateObserved(node: "door", state: "closed"))
    topology.say("door", .stopRequested)
    topology.tick()
    topology.say("guest", .hello(failure: nil))
    #expect(
      topology.problems.suffix(1)
        == ["guest: waits for dependency 'door', which is stopped"])
    topology.say("door", .start)
    #expect(gone(topology) == ["door", "door", "guest"])
  }

  @Test("A dependency that has ended counts if it had reached the state; otherwise dependents fail")
  func completed() {
    var seen = started(pair + [Member("free")])
    seen.say("guest", .stopRequested)
    seen.stubborn = ["guest"]
    seen.say("guest", .start)
    seen.take(.stateObserved(node: "door", state: "closed"))
    seen.exit("door", .exited(code: 0))
    seen.say("guest", .hello(failure: nil))
    #expect(gone(seen) == ["door", "free", "guest"])

    var unseen = started(pair)
    unseen.exit("door", .exited(code: 0))
    #expect(unseen.problems == ["guest: waits for 'door' to be closed, but 'door' has ended"])
    #expect(unseen.outcome?.exitCode == 1)
    #expect(
      unseen.outcome?.reason == "all nodes have ended, or wait for a state of a node that has ended"
    )
    #expect(unseen.alive.isEmpty)
  }

  @Test("A node restarted by its policy or by 'restart' does not wait for the state again")
  func restarted() {
    var topology = started(pair)
    topology.take(.stateObserved(node: "door", state: "closed"))
    topology.take(.stateObserved(node: "door", state: "open"))
    topology.log = []
    topology.exit("guest", .signalled(number: 9))
    topology.tick()
    #expect(topology.log == ["spawn guest", "go guest"])
    topology.say("guest", .restartRequested)
    #expect(topology.log.suffix(3) == ["stop guest", "spawn guest", "go guest"])
    #expect(topology.lifecycle.awaitedNodes.isEmpty)
  }

  @Test(
    "A node that is started again after a stop or a failure waits for the state again",
    arguments: [true, false])
  func startedAnew(afterFailure: Bool) {
    var topology = started(pair)
    topology.take(.stateObserved(node: "door", state: "closed"))
    if afterFailure {
      topology.exit("guest", .exited(code: 1))
      topology.tick()
      topology.exit("guest", .exited(code: 1))
      #expect(topology.lifecycle["guest"]?.state.name == "failed")
    } else {
      topology.say("guest", .stopRequested)
    }
    #expect(topology.lifecycle.awaitedNodes.isEmpty)
    topology.log = []
    topology.say("guest", .start)
    #expect(topology.log == ["spawn guest"])
    #expect(topology.lifecycle.awaitedNodes == ["door"])
    topology.take(.stateObserved(node: "door", state: "closed"))
    #expect(topology.log == ["spawn guest", "go guest"])
  }

  @Test("A reached state counts even if the dependency restarts before the node starts")
  func dependencyRestarts() {
    var topology = started(pair + [Member("lamp")])
    topology.stubborn = ["guest"]
    topology.exit("guest", .signalled(number: 9))
    topology.take(.stateObserved(node: "door", state: "closed"))
    topology.exit("door", .signalled(number: 9))
    topology.tick()
    topology.say("guest", .hello(failure: nil))
    #expect(gone(topology) == ["door", "lamp", "door", "guest"])
  }

  @Test("A node adopted while it runs waits for no state, even when it restarts")
  func adoptedRunning() {
    var topology = SimulatedTopology(
      pair,
      survivors: ["guest": .init(pid: 7, incarnation: 1), "door": .init(pid: 8, incarnation: 1)])
    topology.take(.start)
    #expect(topology.lifecycle.awaitedNodes == ["door"])
    topology.say("door", .answered(.running))
    topology.say("guest", .answered(.running))
    #expect(topology.lifecycle.awaitedNodes.isEmpty)
    topology.log = []
    topology.exit("guest", .signalled(number: 9))
    topology.tick()
    #expect(topology.log == ["spawn guest", "go guest"])
  }

  @Test("A node adopted before it was started waits for the state again")
  func adoptedReady() {
    var topology = SimulatedTopology(
      pair,
      survivors: ["guest": .init(pid: 7, incarnation: 1), "door": .init(pid: 8, incarnation: 1)])
    topology.take(.start)
    topology.say("door", .answered(.running))
    topology.say("guest", .answered(.ready))
    #expect(gone(topology).isEmpty)
    #expect(topology.lifecycle.pendingDependencies["guest"]?.description == "'door' to be closed")
    topology.take(.stateObserved(node: "door", state: "closed"))
    #expect(gone(topology) == ["guest"])
  }

  @Test("States that nodes wait for are watched until the nodes start or the topology stops")
  func awaited() {
    var topology = SimulatedTopology(pair)
    #expect(topology.lifecycle.awaitedNodes.isEmpty)
    topology.take(.start)
    #expect(topology.lifecycle.awaitedNodes == ["door"])
    var stopped = topology
    stopped.stubborn = ["guest", "door"]
    stopped.take(.stop(.stopped))
    #expect(stopped.lifecycle.awaitedNodes.isEmpty)
    stopped.take(.stateObserved(node: "door", state: "closed"))
    #expect(gone(stopped) == ["door"])
    topology.take(.stateObserved(node: "door", state: "closed"))
    #expect(topology.lifecycle.awaitedNodes.isEmpty)
  }
}
