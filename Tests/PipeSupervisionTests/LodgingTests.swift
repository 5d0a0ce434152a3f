import Glibc
import PipeClient
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire
import Testing

private typealias Member = TopologyLifecycle.Member

@Suite("Nodes that live in the processes of others")
struct LodgingTests {
  private let members = [Member("door"), Member("motor"), Member("lift", host: "motor")]

  private func running() -> SimulatedTopology {
    var topology = SimulatedTopology(members)
    topology.take(.start)
    #expect(topology.lifecycle.state == .running)
    topology.log = []
    return topology
  }

  @Test("a lodger is spawned when its host has said hello, and the barrier waits for it")
  func start() {
    var topology = SimulatedTopology(members, stubborn: ["motor"])
    topology.take(.start)
    #expect(topology.log == ["spawn door", "spawn motor"])
    #expect(topology.lifecycle["lift"]?.state == .awaitingHost)
    topology.stubborn = []
    topology.say("motor", .hello(problem: nil))
    #expect(
      topology.log == [
        "spawn door", "spawn motor", "spawn lift", "go door", "go motor", "go lift",
      ])
    #expect(topology.lifecycle.state == .running)
  }

  @Test("a host that fails at its start holds nobody up, and its lodger says for whom it waits")
  func failingHost() {
    var topology = SimulatedTopology(members, stubborn: ["motor"])
    topology.take(.start)
    topology.say("motor", .hello(problem: "its journal is damaged"))
    #expect(topology.lifecycle["motor"]?.state == .failed(reason: "its journal is damaged"))
    #expect(topology.log.contains("go door"))
    let obstacle = NodeReport.Obstacle("motor", .failed, isHost: true)
    #expect(topology.lifecycle.obstacles["lift"] == obstacle)
    #expect(
      topology.problems.contains(
        "lift: waits for carrier node 'motor', which has failed"))
    topology.take(.stop(.stopped))
    #expect(topology.outcome != nil && topology.alive.isEmpty)
  }

  @Test(
    "a host that is stopped or restarted ends behind its lodger, which comes back with it",
    arguments: [false, true])
  func hostLeaves(restarts: Bool) {
    var topology = running()
    topology.say("motor", restarts ? .restartRequested : .stopRequested)
    #expect(topology.log.prefix(2) == ["stop lift", "stop motor"])
    if !restarts {
      #expect(topology.lifecycle["lift"]?.state == .awaitingHost)
      #expect(topology.lifecycle["motor"]?.state == .stopped(.requested))
      #expect(
        topology.lifecycle.obstacles["lift"] == .init("motor", .stopped, isHost: true))
      topology.say("motor", .start)
    }
    #expect(topology.log.dropFirst(2) == ["spawn motor", "go motor", "spawn lift", "go lift"])
    #expect(topology.lifecycle["lift"]?.incarnation == 2)
  }

  @Test("a lodger that does not leave in time is killed, and with it its host")
  func stubbornLodger() {
    var topology = running()
    topology.stubborn = ["lift"]
    topology.say("motor", .stopRequested)
    #expect(topology.log == ["stop lift"])
    topology.tick()
    #expect(topology.log == ["stop lift", "kill lift SIGTERM"])
    topology.tick()
    #expect(topology.log.last == "kill lift SIGKILL")
    #expect(topology.lifecycle["motor"]?.state == .stopped(.requested))
    #expect(topology.lifecycle["lift"]?.state == .awaitingHost)
  }

  @Test("a host that does not take its lodger in, since it is too old, say, is told so")
  func oldHost() {
    var node = SimulatedNode(restart: RestartPolicy(.never), isLodger: true)
    node.take(.hostCame, .start, .spawned(pid: 7))
    #expect(node.tick() == [.kill(.kill)])
    node.take(.exited(.signalled(number: SIGKILL)))
    #expect(node.failure?.contains("version of PipeRuntime without embedded coordinators") == true)
  }

  @Test("a lodger that was stopped by hand stays so when its host restarts")
  func heldLodger() {
    var topology = running()
    topology.say("lift", .stopRequested)
    topology.say("motor", .restartRequested)
    #expect(topology.log == ["stop lift", "stop motor", "spawn motor", "go motor"])
    #expect(topology.lifecycle["lift"]?.state == .stopped(.requested))
    topology.say("lift", .start)
    #expect(topology.lifecycle["lift"]?.state == .running)
  }

  @Test("a start that comes while a host waits for its lodger makes a restart of the stop")
  func startMeanwhile() {
    var topology = running()
    topology.stubborn = ["lift"]
    topology.say("motor", .stopRequested)
    topology.say("motor", .start)
    topology.stubborn = []
    topology.exit("lift", .exited(code: 0))
    #expect(topology.log.contains("spawn motor"))
    #expect(topology.lifecycle["lift"]?.state == .running)
  }

  @Test("when the process is killed, both back off, and the lodger waits for its host")
  func crash() {
    var topology = running()
    topology.exit("motor", .signalled(number: SIGKILL))
    topology.exit("lift", .signalled(number: SIGKILL))
    #expect(topology.log.isEmpty)
    topology.tick()
    #expect(topology.log == ["spawn motor", "go motor", "spawn lift", "go lift"])
    #expect(topology.lifecycle["lift"]?.restarts == 1)
    #expect(topology.lifecycle["motor"]?.restarts == 1)
  }

  @Test("a lodger that says goodbye unasked, as its host ends by a signal, is not done")
  func goodbye() {
    var topology = running()
    topology.exit("lift", .exited(code: 0))
    #expect(topology.lifecycle["lift"]?.state.hasEnded == false)
    topology.exit("motor", .exited(code: 0))
    topology.tick()
    #expect(topology.lifecycle["lift"]?.state == .awaitingHost)
    topology.exit("door", .exited(code: 0))
    // Nothing is left that could do anything.
    #expect(topology.outcome?.exitCode == 0)
    #expect(topology.alive.isEmpty)
  }

  @Test("all stop in order, whatever depends on whom")
  func down() {
    var topology = SimulatedTopology([
      Member("door", dependencies: ["motor"]), Member("motor"), Member("lift", host: "motor"),
    ])
    topology.take(.start)
    topology.log = []
    topology.take(.stop(.stopped))
    #expect(topology.log == ["stop door", "stop lift", "stop motor"])
    #expect(topology.outcome == .stopped)
  }

  @Test("a new file moves a lodger into a process of its own, and into another one's")
  func moves() {
    var topology = running()
    func change(_ lift: Member, replaced: Set<String> = ["lift"]) {
      topology.log = []
      topology.take(
        .change(
          .init(members: [Member("door"), Member("motor"), lift], replaced: replaced, seed: 1)))
    }
    change(Member("lift"))
    #expect(topology.log == ["stop lift", "new file", "spawn lift", "go lift"])
    // It does not follow the motor any more.
    topology.log = []
    topology.say("motor", .restartRequested)
    #expect(topology.log == ["stop motor", "spawn motor", "go motor"])
    change(Member("lift", host: "door"))
    #expect(topology.log == ["stop lift", "new file", "spawn lift", "go lift"])
    change(Member("lift", host: "door"), replaced: ["door"])
    #expect(
      topology.log == [
        "stop lift", "stop door", "new file", "spawn door", "go door", "spawn lift", "go lift",
      ])
    #expect(topology.lifecycle.state == .running)
  }

  @Test("the plan tells that a lodger restarts with its host, and where it is to live")
  func plan() {
    func subject(_ name: String, host: String? = nil, _ argument: String = "1")
      -> TopologyChange.Subject
    {
      .init(
        Member(name, host: host),
        launch: .init(
          program: "/bin/sh", arguments: [argument], environment: [:],
          configuration: NodeConfiguration(), host: host))
    }
    let states: [String: NodeLifecycle.State] = [
      "door": .running, "motor": .running, "lift": .running,
    ]
    let now = [subject("door"), subject("motor"), subject("lift", host: "motor")]
    let restart = TopologyChange(
      from: now, to: [now[0], subject("motor", "2"), now[2]], states: states)
    #expect(
      restart.lines == [
        "~ motor  restarts: what it hosts, or a parameter of it, was changed",
        "~ lift   restarts: it lives within 'motor', which does",
      ])
    let out = TopologyChange(from: now, to: [now[0], now[1], subject("lift")], states: states)
    #expect(out.lines == ["~ lift  restarts: it is to have a process of its own now"])
    let moved = TopologyChange(
      from: now, to: [now[0], now[1], subject("lift", host: "door")], states: states)
    #expect(moved.lines == ["~ lift  restarts: it is to live within 'door' now"])
    var stopped = states
    stopped["lift"] = .stopped(.requested)
    let held = TopologyChange(
      from: now, to: [now[0], subject("motor", "2"), now[2]], states: stopped)
    #expect(held.replaced == ["motor"])
  }
}
