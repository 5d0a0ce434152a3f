import PipeClient
import PipeSupervision
import PipeTopology
import PipeWire
import Testing

private typealias Member = TopologyLifecycle.Member

@Suite("Starts and stops of a part of a topology")
struct PartOfTopologyTests {
  private let chain = [
    Member("a", dependencies: ["b"]), Member("b", dependencies: ["c"]), Member("c"), Member("d"),
  ]

  @Test(
    "Dependencies and dependents of nodes are found transitively, even in a cycle",
    arguments: [
      (["a"], ["a", "b", "c"], ["a"]), (["b"], ["b", "c"], ["a", "b"]),
      (["c"], ["c"], ["a", "b", "c"]), (["d", "b"], ["b", "c", "d"], ["a", "b", "d"]),
      (["nobody"], [], []), ([], [], []),
    ] as [([String], [String], [String])])
  func closures(names: [String], dependencies: [String], dependents: [String]) {
    #expect(chain.dependencies(of: names) == dependencies)
    #expect(chain.dependents(of: names) == dependents)
    let circle = [Member("a", dependencies: ["b"]), Member("b", dependencies: ["a"])]
    #expect(circle.dependencies(of: ["a"]) == ["a", "b"])
    #expect(circle.dependents(of: ["a"]) == ["a", "b"])
  }

  @Test("Nodes outside a partial start stay stopped, delay no other node, and can be started later")
  func held() {
    var topology = SimulatedTopology(chain, held: ["a", "d"])
    topology.take(.start)
    #expect(topology.log == ["spawn b", "spawn c", "go c", "go b"])
    #expect(topology.lifecycle.state == .running)
    #expect(topology.lifecycle["a"]?.state == .stopped(.requested))
    var started = TopologyReport.StartCounts()
    (started.running, started.stopped) = (2, 2)
    #expect(topology.reports.last == .running(started))
    #expect(started.isComplete)
    topology.say("a", .start)
    #expect(topology.log.suffix(2) == ["spawn a", "go a"])
    topology.take(.stop(.stopped))
    #expect(topology.outcome == .stopped)
  }

  @Test("A node outside a partial start is adopted if it still runs")
  func heldSurvivor() {
    var topology = SimulatedTopology(
      chain, survivors: ["d": .init(pid: 9, incarnation: 3)], held: ["d"])
    topology.take(.start)
    #expect(topology.log.contains("greet d") && !topology.log.contains("spawn d"))
  }

  @Test("'down NODE' stops the node after its dependents, and other nodes continue")
  func end() {
    var topology = SimulatedTopology(chain)
    topology.take(.start)
    topology.log = []
    topology.stubborn = ["a"]
    topology.take(.stopNodes(chain.dependents(of: ["b"])))
    #expect(topology.log == ["stop a"])
    topology.exit("a", .exited(code: 0))
    #expect(topology.log == ["stop a", "stop b"])
    #expect(topology.lifecycle.state == .running)
    #expect(topology.lifecycle.endedChangeCount == 0)
    for name in ["a", "b"] { #expect(topology.lifecycle[name]?.state == .stopped(.requested)) }
    for name in ["c", "d"] { #expect(topology.lifecycle[name]?.state == .running) }
    topology.stubborn = []
    topology.log = []
    for name in chain.dependencies(of: ["a"]) { topology.say(name, .start) }
    #expect(topology.log == ["spawn a", "spawn b", "go b", "go a"])
  }

  @Test("A request to end nodes is ignored while other nodes end or the topology stops")
  func notNow() {
    var topology = SimulatedTopology(chain, stubborn: [])
    topology.take(.start)
    topology.stubborn = ["d"]
    topology.take(.stopNodes(["d"]))
    topology.log = []
    topology.take(.stopNodes(["a"]))
    #expect(topology.log.isEmpty)
    topology.exit("d", .exited(code: 0))
    topology.take(.stop(.stopped))
    topology.log = []
    topology.take(.stopNodes(["a"]))
    #expect(topology.log.isEmpty)
  }
}
