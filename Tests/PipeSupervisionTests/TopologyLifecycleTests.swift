import Glibc
import PipeClient
import PipeSupervision
import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire
import Testing

/// A topology whose processes react to messages at once, unless they are in `stubborn`.
struct SimulatedTopology {
  var lifecycle: TopologyLifecycle
  /// The actions in order: `spawn door`, `go door`, `stop door`, `kill door SIGKILL`.
  var log: [String] = []
  /// Nodes whose processes neither say hello nor stop.
  var stubborn: Set<String>
  var alive: Set<String> = []
  let origin = SuspendingClock().now
  var time: Duration = .zero
  var outcome: TopologyLifecycle.Outcome?
  /// The reports of errors of nodes, and the reports of the topology.
  var problems: [String] = []
  var reports: [TopologyReport] = []

  init(
    _ members: [TopologyLifecycle.Member], stubborn: Set<String> = [],
    survivors: [String: NodeLifecycle.Survivor] = [:], incarnations: [String: Int] = [:],
    held: Set<String> = []
  ) {
    // Without jitter, nodes that back off together restart together.
    let members = members.map { member in
      var member = member
      member.restart.backoff.jitter = 0
      return member
    }
    lifecycle = TopologyLifecycle(
      members, incarnations: incarnations, survivors: survivors, held: held)
    alive = Set(survivors.keys)
    self.stubborn = stubborn
  }

  mutating func take(_ input: TopologyLifecycle.Input) {
    for action in lifecycle.handle(input, at: origin + time) {
      switch action {
      case .node(let name, let action): perform(action, on: name)
      case .report(let report): reports.append(report)
      case .moveInstances: log.append("move instances")
      case .switchedOver: log.append("new file")
      case .finished(let outcome): self.outcome = outcome
      }
    }
  }

  mutating func tick() {
    guard let deadline = lifecycle.nextDeadline else { return }
    time = max(time, deadline - origin)
    for name in alive.subtracting(stubborn) { say(name, .heartbeat) }
    take(.tick)
  }

  mutating func say(_ name: String, _ inputs: NodeLifecycle.Input...) {
    for input in inputs { take(.node(name, input)) }
  }

  mutating func exit(_ name: String, _ exit: ProcessExit) {
    guard alive.remove(name) != nil else { return }
    take(.node(name, .exited(exit)))
  }

  private mutating func perform(_ action: NodeLifecycle.Action, on name: String) {
    switch action {
    case .spawn:
      log.append("spawn \(name)")
      alive.insert(name)
      say(name, .spawned(pid: 7))
      if !stubborn.contains(name) { say(name, .hello(failure: nil)) }
    case .greet: log.append("greet \(name)")
    case .sendConfigure: say(name, .ready)
    case .sendStart: log.append("go \(name)")
    case .sendStop:
      log.append("stop \(name)")
      if !stubborn.contains(name) { exit(name, .exited(code: 0)) }
    case .kill(let signal):
      log.append("kill \(name) \(signal)")
      let host = lifecycle.members.first { $0.name == name }?.carrier
      if signal == .kill, let host {
        // Both nodes share a process.
        exit(host, .signalled(number: signal.number))
      }
      if signal == .kill || !stubborn.contains(name) {
        exit(name, .signalled(number: signal.number))
      }
    case .report(let report): if report.isProblem { problems.append("\(name): \(report)") }
    case .checkLiveness, .nodeFailed, .nodeStopped: break
    }
  }
}

private typealias Member = TopologyLifecycle.Member

@Suite("The lifecycle of a topology")
struct TopologyLifecycleTests {
  private let chain = [
    Member("a", dependencies: ["b"]), Member("b", dependencies: ["c"]), Member("c"),
  ]

  /// The chain whose last node is not restarted when it fails.
  private var brittleChain: [Member] {
    chain.dropLast() + [Member("c", restart: RestartPolicy(.never))]
  }

  @Test("All nodes are spawned at once, start after their dependencies, and stop before them")
  func order() {
    var topology = SimulatedTopology(chain)
    topology.take(.start)
    #expect(topology.log == ["spawn a", "spawn b", "spawn c", "go c", "go b", "go a"])
    #expect(topology.lifecycle.state == .running)
    topology.log = []
    topology.take(.stop(.stopped))
    #expect(topology.log == ["stop a", "stop b", "stop c"])
    #expect(topology.outcome == .stopped)
    #expect(topology.alive.isEmpty)
  }

  @Test("No node starts before all nodes are ready")
  func barrier() {
    var topology = SimulatedTopology([Member("a"), Member("b")], stubborn: ["b"])
    topology.take(.start)
    #expect(!topology.log.contains("go a"))
    topology.say("b", .hello(failure: nil))
    #expect(topology.log.suffix(2) == ["go a", "go b"])
  }

  @Test("A node that fails before the start barrier stops the start only if the node is required")
  func failureAtStart() {
    let never = RestartPolicy(.never)
    var optional = SimulatedTopology(
      [Member("a"), Member("b", restart: never)], stubborn: ["b"])
    optional.take(.start)
    optional.exit("b", .exited(code: 1))
    #expect(optional.log.last == "go a")
    var required = SimulatedTopology(
      [Member("a"), Member("b", isRequired: true, restart: never)], stubborn: ["b"])
    required.take(.start)
    required.exit("b", .exited(code: 1))
    #expect(required.log.suffix(1) == ["stop a"])
    #expect(required.outcome?.exitCode == 1)
    #expect(
      required.outcome?.reason?.hasPrefix("required node 'b' failed: the process ended") == true)
  }

  @Test("A required node that fails stops the topology gracefully, with exit code 1")
  func requiredFails() {
    let restart = RestartPolicy(maximumRestarts: 0)
    var topology = SimulatedTopology(
      chain + [Member("d", isRequired: true, restart: restart)])
    topology.take(.start)
    topology.log = []
    topology.exit("d", .exited(code: 3))
    #expect(topology.log == ["stop a", "stop b", "stop c"])
    #expect(
      topology.outcome
        == TopologyLifecycle.Outcome(
          exitCode: 1, reason: "required node 'd' failed: exit code 3"))
  }

  @Test("A dependent waits for its dependency's restart without affecting other nodes")
  func restart() {
    var topology = SimulatedTopology(chain)
    topology.take(.start)
    topology.log = []
    topology.exit("c", .signalled(number: 9))
    topology.exit("b", .signalled(number: 9))
    topology.tick()
    #expect(topology.log == ["spawn b", "spawn c", "go c", "go b"])
  }

  @Test(
    "A node that does not stop is terminated, then killed, and the next wave waits until it ends")
  func stubbornStop() {
    var topology = SimulatedTopology(chain)
    topology.take(.start)
    topology.stubborn = ["a"]
    topology.log = []
    topology.take(.stop(.stopped))
    #expect(topology.log == ["stop a"])
    topology.tick()
    #expect(topology.log == ["stop a", "kill a SIGTERM"])
    while topology.outcome == nil { topology.tick() }
    #expect(topology.log.suffix(3) == ["kill a SIGKILL", "stop b", "stop c"])
    #expect(
      topology.outcome
        == TopologyLifecycle.Outcome(
          exitCode: 1,
          reason: "node 'a' "
            + "\(NodeReport.ungracefulStop(reason: "\(MissedDeadline.stop(within: .seconds(5)))"))")
    )
    #expect(topology.alive.isEmpty)
  }

  @Test("A forced stop kills all processes at once, even during an orderly stop")
  func forced() {
    var topology = SimulatedTopology(chain)
    topology.take(.start)
    topology.stubborn = ["a", "b", "c"]
    topology.take(.stop(.stopped))
    topology.log = []
    topology.take(.kill(.forced))
    #expect(topology.log == ["kill a SIGKILL", "kill b SIGKILL", "kill c SIGKILL"])
    #expect(topology.outcome == .forced)
  }

  @Test("No node is restarted while the topology stops")
  func noRestartWhileStopping() {
    var topology = SimulatedTopology([Member("a", dependencies: ["b"]), Member("b")])
    topology.take(.start)
    topology.stubborn = ["a"]
    topology.take(.stop(.stopped))
    topology.log = []
    topology.exit("b", .signalled(number: 11))
    topology.say("b", .start, .restartRequested)
    topology.exit("a", .exited(code: 0))
    #expect(topology.log.isEmpty)
    #expect(
      topology.outcome
        == TopologyLifecycle.Outcome(
          exitCode: 1,
          reason: "node 'b' \(NodeReport.ungracefulStop(reason: "killed by SIGSEGV"))"))
  }

  @Test(
    "If a node does not end gracefully during a stop, the node is reported, and the run fails",
    arguments: [
      (.exited(code: 0), nil),
      (.exited(code: 3), "exit code 3"),
      (.signalled(number: SIGABRT), "killed by SIGABRT"),
      (.signalled(number: SIGTERM), "killed by SIGTERM"),
      (.unreported(saidGoodbye: false), nil),
    ] as [(ProcessExit, String?)])
  func endsBadly(exit: ProcessExit, reason: String?) {
    var topology = SimulatedTopology([Member("a"), Member("b")])
    topology.take(.start)
    topology.stubborn = ["a", "b"]
    topology.take(.stop(.stopped))
    topology.exit("a", exit)
    topology.exit("b", exit)
    #expect(
      topology.outcome
        == reason.map {
          TopologyLifecycle.Outcome(
            exitCode: 1,
            reason:
              "node 'a' did not stop gracefully: \($0); 1 other node did not stop gracefully either"
          )
        } ?? .stopped)
    #expect(
      topology.problems
        == (reason.map { reason in
          ["a", "b"].map { "\($0): \(NodeReport.ungracefulStop(reason: reason))" }
        } ?? []))
  }

  @Test("An error of a manual stop or restart is reported once and kept until the next stop")
  func endsBadlyByHand() {
    var topology = SimulatedTopology([Member("a")])
    topology.take(.start)
    for input in [NodeLifecycle.Input.stopRequested, .restartRequested] {
      topology.say("a", .start)
      topology.problems = []
      topology.stubborn = ["a"]
      topology.say("a", input)
      topology.stubborn = []
      topology.exit("a", .signalled(number: SIGABRT))
      #expect(topology.lifecycle["a"]?.stopFailure == "killed by SIGABRT")
      #expect(topology.problems == ["a: \(NodeReport.ungracefulStop(reason: "killed by SIGABRT"))"])
    }
    topology.say("a", .stopRequested)
    #expect(topology.lifecycle["a"]?.stopFailure == nil)
    topology.take(.stop(.stopped))
    #expect(topology.outcome == .stopped)
  }

  @Test("A forced kill does not count as an error of the stop")
  func forcedIsAsAsked() {
    var topology = SimulatedTopology([Member("a")])
    topology.take(.start)
    topology.stubborn = ["a"]
    topology.say("a", .stopRequested, .killRequested)
    #expect(topology.lifecycle["a"]?.stopFailure == nil)
    #expect(topology.problems == ["a: killed: forced"])
  }

  @Test(
    "A node with a failed dependency names the dependency, and waits until the dependency runs")
  func failedDependency() {
    var topology = SimulatedTopology(brittleChain + [Member("d")], stubborn: ["c"])
    topology.take(.start)
    topology.exit("c", .exited(code: 1))
    #expect(topology.log.filter { $0.hasPrefix("go") } == ["go d"])
    #expect(
      topology.problems.suffix(2) == [
        "b: waits for dependency 'c', which has failed",
        "a: waits for dependency 'b', which is waiting, too",
      ])
    var started = TopologyReport.StartCounts()
    (started.running, started.failed, started.waiting) = (1, 1, 2)
    #expect(topology.reports.contains(.running(started)))
    #expect(started.shortfall == "1 of 4 nodes failed, 2 of 4 nodes wait for other nodes")
    topology.stubborn = []
    topology.log = []
    topology.say("c", .start)
    #expect(topology.log == ["spawn c", "go c", "go b", "go a"])
    topology.take(.stop(.stopped))
    #expect(topology.outcome == .stopped)
  }

  @Test("A node waits for a dependency that was stopped manually")
  func stoppedDependency() {
    var topology = SimulatedTopology([Member("a", dependencies: ["b"]), Member("b")])
    topology.take(.start)
    topology.say("b", .stopRequested)
    topology.say("a", .restartRequested)
    #expect(topology.log.suffix(1) == ["spawn a"])
    #expect(topology.problems == ["a: waits for dependency 'b', which is stopped"])
    #expect(topology.outcome == nil)
    topology.say("b", .start)
    #expect(topology.log.suffix(2) == ["go b", "go a"])
  }

  @Test("A node starts if its dependency has completed")
  func completedDependency() {
    var topology = SimulatedTopology([Member("a", dependencies: ["b"]), Member("b")])
    topology.take(.start)
    topology.exit("b", .exited(code: 0))
    topology.log = []
    topology.say("a", .restartRequested)
    #expect(topology.log.suffix(1) == ["go a"])
  }

  @Test("A topology has failed if each of its nodes has ended or waits for a failed node")
  func allWait() {
    var topology = SimulatedTopology(brittleChain, stubborn: ["c"])
    topology.take(.start)
    topology.exit("c", .exited(code: 1))
    #expect(topology.outcome?.exitCode == 1)
    #expect(topology.outcome?.reason == "every node has ended, or is waiting for a failed node")
    #expect(topology.alive.isEmpty)
  }

  @Test("A topology ends if it is stopped before any node is ready")
  func stopWhileStarting() {
    var topology = SimulatedTopology(chain, stubborn: ["a"])
    topology.take(.start)
    topology.take(.stop(.stopped))
    while topology.outcome == nil { topology.tick() }
    #expect(topology.alive.isEmpty)
  }

  @Test("A topology ends when all its nodes end by themselves, not when they are stopped manually")
  func ends() {
    var byThemselves = SimulatedTopology([Member("a"), Member("b")])
    byThemselves.take(.start)
    byThemselves.exit("a", .exited(code: 0))
    #expect(byThemselves.outcome == nil)
    byThemselves.exit("b", .exited(code: 0))
    #expect(byThemselves.outcome?.exitCode == 0)

    var byHand = SimulatedTopology([Member("a")])
    byHand.take(.start)
    byHand.say("a", .stopRequested)
    #expect(byHand.outcome == nil)
    byHand.say("a", .start)
    #expect(byHand.log.last == "go a")
  }

  @Test("A topology has failed if all its nodes have failed")
  func allFailed() {
    var topology = SimulatedTopology([Member("a", restart: RestartPolicy(.never))])
    topology.take(.start)
    topology.exit("a", .exited(code: 1))
    #expect(topology.outcome?.exitCode == 1)
  }
}

@Suite("The start plan")
struct StartPlanTests {
  @Test(
    "Each wave of a start depends only on earlier waves, even if dependencies have a cycle",
    arguments: [
      ([:], [["a", "b", "c", "d"]]),
      (["a": ["b"], "b": ["c"], "c": ["d"]], [["d"], ["c"], ["b"], ["a"]]),
      (["a": ["c", "d"], "b": ["c"]], [["c", "d"], ["a", "b"]]),
      (["a": ["nobody"], "b": ["a"]], [["a", "c", "d"], ["b"]]),
      (["a": ["b"], "b": ["a"]], [["c", "d"], ["a", "b"]]),
      (["a": ["a"]], [["b", "c", "d"], ["a"]]),
    ] as [([String: [String]], [[String]])])
  func waves(dependencies: [String: [String]], waves: [[String]]) {
    let plan = StartPlan(nodes: ["a", "b", "c", "d"], dependencies: dependencies)
    #expect(plan.waves == waves)
    #expect(plan.stopWaves == waves.reversed())
  }

  @Test(
    "A preferred order applies unless a dependency or a cycle contradicts it",
    arguments: [
      ([:], ["a": ["b"], "b": ["c"]], [["c", "d"], ["b"], ["a"]]),
      (["b": ["a"]], ["a": ["b"]], [["c", "d"], ["a"], ["b"]]),
      ([:], ["a": ["b"], "b": ["a"]], [["c", "d"], ["a", "b"]]),
      ([:], ["a": ["nobody"]], [["a", "b", "c", "d"]]),
      (["a": ["b"]], ["b": ["d"]], [["c", "d"], ["b"], ["a"]]),
    ] as [([String: [String]], [String: [String]], [[String]])])
  func preferences(
    dependencies: [String: [String]], preferences: [String: [String]], waves: [[String]]
  ) {
    let plan = StartPlan(
      nodes: ["a", "b", "c", "d"], dependencies: dependencies, preferences: preferences)
    #expect(plan.waves == waves)
  }
}
