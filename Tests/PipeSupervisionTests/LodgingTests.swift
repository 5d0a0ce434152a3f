import Glibc
import PipeClient
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire
import Testing

private typealias Member = TopologyLifecycle.Member

@Suite("Coordinators embedded in other nodes' processes")
struct LodgingTests {
  private let members = [Member("door"), Member("motor"), Member("lift", carrier: "motor")]

  private func running() -> SimulatedTopology {
    var topology = SimulatedTopology(members)
    topology.take(.start)
    #expect(topology.lifecycle.state == .running)
    topology.log = []
    return topology
  }

  @Test(
    "An embedded coordinator starts after its carrier's hello, before the start barrier opens")
  func start() {
    var topology = SimulatedTopology(members, stubborn: ["motor"])
    topology.take(.start)
    #expect(topology.log == ["spawn door", "spawn motor"])
    #expect(topology.lifecycle["lift"]?.state == .awaitingCarrier)
    topology.stubborn = []
    topology.say("motor", .hello(failure: nil))
    #expect(
      topology.log == [
        "spawn door", "spawn motor", "spawn lift", "go door", "go motor", "go lift",
      ])
    #expect(topology.lifecycle.state == .running)
  }

  @Test("If a carrier node fails to start, only its coordinator waits, and reports the carrier")
  func failingHost() {
    var topology = SimulatedTopology(members, stubborn: ["motor"])
    topology.take(.start)
    topology.say("motor", .hello(failure: "its journal is damaged"))
    #expect(topology.lifecycle["motor"]?.state == .failed(reason: "its journal is damaged"))
    #expect(topology.log.contains("go door"))
    let blocker = NodeReport.Blocker("motor", .failed, isCarrier: true)
    #expect(topology.lifecycle.blockers["lift"] == blocker)
    #expect(
      topology.problems.contains(
        "lift: waits for carrier node 'motor', which has failed"))
    topology.take(.stop(.stopped))
    #expect(topology.outcome != nil && topology.alive.isEmpty)
  }

  @Test(
    "A carrier node ends after its embedded coordinator, and both start again together",
    arguments: [false, true])
  func carrierStopping(restarts: Bool) {
    var topology = running()
    topology.say("motor", restarts ? .restartRequested : .stopRequested)
    #expect(topology.log.prefix(2) == ["stop lift", "stop motor"])
    if !restarts {
      #expect(topology.lifecycle["lift"]?.state == .awaitingCarrier)
      #expect(topology.lifecycle["motor"]?.state == .stopped(.requested))
      #expect(
        topology.lifecycle.blockers["lift"] == .init("motor", .stopped, isCarrier: true))
      topology.say("motor", .start)
    }
    #expect(topology.log.dropFirst(2) == ["spawn motor", "go motor", "spawn lift", "go lift"])
    #expect(topology.lifecycle["lift"]?.incarnation == 2)
  }

  @Test("An embedded coordinator that does not stop in time is killed together with its carrier")
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
    #expect(topology.lifecycle["lift"]?.state == .awaitingCarrier)
  }

  @Test("If a carrier is too old to embed a coordinator, the coordinator's failure reason says so")
  func oldHost() {
    var node = SimulatedNode(restart: RestartPolicy(.never), isEmbedded: true)
    node.take(.carrierStarted, .start, .spawned(pid: 7))
    #expect(node.tick() == [.kill(.kill)])
    node.take(.exited(.signalled(number: SIGKILL)))
    #expect(node.failure?.contains("version of PipeRuntime without embedded coordinators") == true)
  }

  @Test("A manually stopped coordinator stays stopped when its carrier restarts")
  func heldLodger() {
    var topology = running()
    topology.say("lift", .stopRequested)
    topology.say("motor", .restartRequested)
    #expect(topology.log == ["stop lift", "stop motor", "spawn motor", "go motor"])
    #expect(topology.lifecycle["lift"]?.state == .stopped(.requested))
    topology.say("lift", .start)
    #expect(topology.lifecycle["lift"]?.state == .running)
  }

  @Test("A start request while a carrier stops turns the stop into a restart")
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

  @Test("If a carrier is killed, carrier and coordinator back off, and the carrier starts first")
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

  @Test("A coordinator that ends because of its carrier's signal does not count as completed")
  func goodbye() {
    var topology = running()
    topology.exit("lift", .exited(code: 0))
    #expect(topology.lifecycle["lift"]?.state.hasEnded == false)
    topology.exit("motor", .exited(code: 0))
    topology.tick()
    #expect(topology.lifecycle["lift"]?.state == .awaitingCarrier)
    topology.exit("door", .exited(code: 0))
    // No process is left, so the topology has ended.
    #expect(topology.outcome?.exitCode == 0)
    #expect(topology.alive.isEmpty)
  }

  @Test("A stop ends all nodes in the order of their dependencies")
  func down() {
    var topology = SimulatedTopology([
      Member("door", dependencies: ["motor"]), Member("motor"), Member("lift", carrier: "motor"),
    ])
    topology.take(.start)
    topology.log = []
    topology.take(.stop(.stopped))
    #expect(topology.log == ["stop door", "stop lift", "stop motor"])
    #expect(topology.outcome == .stopped)
  }

  @Test("A change of the topology file moves a coordinator out of its carrier, or between carriers")
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
    // The coordinator does not depend on the motor any more.
    topology.log = []
    topology.say("motor", .restartRequested)
    #expect(topology.log == ["stop motor", "spawn motor", "go motor"])
    change(Member("lift", carrier: "door"))
    #expect(topology.log == ["stop lift", "new file", "spawn lift", "go lift"])
    change(Member("lift", carrier: "door"), replaced: ["door"])
    #expect(
      topology.log == [
        "stop lift", "stop door", "new file", "spawn door", "go door", "spawn lift", "go lift",
      ])
    #expect(topology.lifecycle.state == .running)
  }

  @Test("The plan of a change shows coordinators that restart with their carrier or are moved")
  func plan() {
    func subject(_ name: String, host: String? = nil, _ argument: String = "1")
      -> TopologyChange.Subject
    {
      .init(
        Member(name, carrier: host),
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
      restart.entries == [
        .init("door", .unchanged), .init("motor", .restarts(.launch(.hosted))),
        .init("lift", .restarts(.host("motor"))),
      ])
    let out = TopologyChange(from: now, to: [now[0], now[1], subject("lift")], states: states)
    #expect(out.entries.last?.fate == .restarts(.launch(.host(wanted: nil))))
    let moved = TopologyChange(
      from: now, to: [now[0], now[1], subject("lift", host: "door")], states: states)
    #expect(moved.entries.last?.fate == .restarts(.launch(.host(wanted: "door"))))
    var stopped = states
    stopped["lift"] = .stopped(.requested)
    let held = TopologyChange(
      from: now, to: [now[0], subject("motor", "2"), now[2]], states: stopped)
    #expect(held.replacedNodes == ["motor"])
  }
}
