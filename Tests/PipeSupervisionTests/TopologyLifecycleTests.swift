import Glibc
import PipeClient
import PipeSupervision
import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire
import Testing

/// A topology whose processes do at once what they are told, unless they are in `stubborn`.
struct SimulatedTopology {
  var lifecycle: TopologyLifecycle
  /// What was done, in order: `spawn door`, `go door`, `stop door`, `kill door SIGKILL`.
  var log: [String] = []
  /// Nodes whose processes neither say hello nor stop.
  var stubborn: Set<String>
  var alive: Set<String> = []
  let origin = SuspendingClock().now
  var time: Duration = .zero
  var outcome: TopologyLifecycle.Outcome?
  /// What was told of nodes that is a problem, and of the topology.
  var problems: [String] = []
  var reports: [TopologyReport] = []

  init(
    _ members: [TopologyLifecycle.Member], stubborn: Set<String> = [],
    survivors: [String: NodeLifecycle.Survivor] = [:], incarnations: [String: Int] = [:],
    held: Set<String> = []
  ) {
    // Those that back off together come back together.
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
      case .changedOver: log.append("new file")
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
      if !stubborn.contains(name) { say(name, .hello(problem: nil)) }
    case .greet: log.append("greet \(name)")
    case .sendConfigure: say(name, .ready)
    case .sendStart: log.append("go \(name)")
    case .sendStop:
      log.append("stop \(name)")
      if !stubborn.contains(name) { exit(name, .exited(code: 0)) }
    case .kill(let signal):
      log.append("kill \(name) \(signal)")
      let host = lifecycle.members.first { $0.name == name }?.host
      if signal == .kill, let host {
        // One process.
        exit(host, .signalled(number: signal.number))
      }
      if signal == .kill || !stubborn.contains(name) {
        exit(name, .signalled(number: signal.number))
      }
    case .report(let report): if report.isProblem { problems.append("\(name): \(report)") }
    case .findOut, .nodeFailed, .nodeStopped: break
    }
  }
}

private typealias Member = TopologyLifecycle.Member

@Suite("The lifecycle of a topology")
struct TopologyLifecycleTests {
  private let chain = [
    Member("a", dependencies: ["b"]), Member("b", dependencies: ["c"]), Member("c"),
  ]

  /// The chain, whose end is not started again when it fails.
  private var brittleChain: [Member] {
    chain.dropLast() + [Member("c", restart: RestartPolicy(.never))]
  }

  @Test("all are spawned at once; they go after, and stop before, what they depend on")
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

  @Test("nobody goes before all are ready")
  func barrier() {
    var topology = SimulatedTopology([Member("a"), Member("b")], stubborn: ["b"])
    topology.take(.start)
    #expect(!topology.log.contains("go a"))
    topology.say("b", .hello(problem: nil))
    #expect(topology.log.suffix(2) == ["go a", "go b"])
  }

  @Test("a node that fails before the barrier holds it up only where it is required")
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

  @Test("a required node that fails takes the topology down in order, with exit code 1")
  func requiredFails() {
    let restart = RestartPolicy(max: 0)
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

  @Test("a dependent waits for its dependency's return and leaves the others alone")
  func restart() {
    var topology = SimulatedTopology(chain)
    topology.take(.start)
    topology.log = []
    topology.exit("c", .signalled(number: 9))
    topology.exit("b", .signalled(number: 9))
    topology.tick()
    #expect(topology.log == ["spawn b", "spawn c", "go c", "go b"])
  }

  @Test("a stubborn node is terminated, then killed; the wave behind it waits for that")
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
          reason: "node 'a' did not stop gracefully: the process did not stop within 5 s"))
    #expect(topology.alive.isEmpty)
  }

  @Test("a forced stop kills everybody at once, also in the middle of an orderly one")
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

  @Test("nothing is started again on the way down")
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
          exitCode: 1, reason: "node 'b' did not stop gracefully: killed by SIGSEGV"))
  }

  @Test(
    "a node that ends otherwise than in order while it stops is told, and makes the run a failure",
    arguments: [
      (.exited(code: 0), nil),
      (.exited(code: 3), "exit code 3"),
      (.signalled(number: SIGABRT), "killed by SIGABRT"),
      (.signalled(number: SIGTERM), "killed by SIGTERM"),
      (.untold(saidGoodbye: false), nil),
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
        == (reason.map { reason in ["a", "b"].map { "\($0): did not stop gracefully: \(reason)" } }
          ?? []))
  }

  @Test("what was wrong with a stop or a restart by hand is known until the next, and told once")
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
      #expect(topology.lifecycle["a"]?.stopProblem == "killed by SIGABRT")
      #expect(topology.problems == ["a: did not stop gracefully: killed by SIGABRT"])
    }
    topology.say("a", .stopRequested)
    #expect(topology.lifecycle["a"]?.stopProblem == nil)
    topology.take(.stop(.stopped))
    #expect(topology.outcome == .stopped)
  }

  @Test("a forced kill is no failure to stop")
  func forcedIsAsAsked() {
    var topology = SimulatedTopology([Member("a")])
    topology.take(.start)
    topology.stubborn = ["a"]
    topology.say("a", .stopRequested, .killRequested)
    #expect(topology.lifecycle["a"]?.stopProblem == nil)
    #expect(topology.problems == ["a: killed: forced"])
  }

  @Test(
    "a node whose dependency has failed waits, says for whom, and goes when that runs after all")
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
    var started = TopologyReport.Started()
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

  @Test("a node whose dependency was stopped by hand waits for it as well")
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

  @Test("a node goes although its dependency has completed what it had to do")
  func completedDependency() {
    var topology = SimulatedTopology([Member("a", dependencies: ["b"]), Member("b")])
    topology.take(.start)
    topology.exit("b", .exited(code: 0))
    topology.log = []
    topology.say("a", .restartRequested)
    #expect(topology.log.suffix(1) == ["go a"])
  }

  @Test("a topology of which all have ended or wait for one that has failed, has failed")
  func allWait() {
    var topology = SimulatedTopology(brittleChain, stubborn: ["c"])
    topology.take(.start)
    topology.exit("c", .exited(code: 1))
    #expect(topology.outcome?.exitCode == 1)
    #expect(topology.outcome?.reason == "all nodes have ended, or wait for a failed node")
    #expect(topology.alive.isEmpty)
  }

  @Test("a stop before anybody is ready ends as well")
  func stopWhileStarting() {
    var topology = SimulatedTopology(chain, stubborn: ["a"])
    topology.take(.start)
    topology.take(.stop(.stopped))
    while topology.outcome == nil { topology.tick() }
    #expect(topology.alive.isEmpty)
  }

  @Test("a topology ends when all its nodes have ended by themselves, not when stopped by hand")
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

  @Test("a topology of which every node failed has failed")
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
    "a wave needs only earlier waves, keeps the file's order, and a cycle does not hang",
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
    "what a node had better start after counts where no dependency and no circle is against it",
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
