import PipeClient
import PipeSupervision
import PipeTopology
import PipeWire
import Testing

private typealias Member = TopologyLifecycle.Member

@Suite("Observers of a topology")
struct ObserverTests {
  private let members = [
    Member("a", dependencies: ["b"]), Member("b"), Member("audit", isObserver: true),
  ]

  /// Returns the index of a line in the log.
  private func place(_ line: String, in topology: SimulatedTopology) -> Int {
    topology.log.firstIndex(of: line) ?? -1
  }

  @Test("An observer starts when it is ready, before the start barrier opens")
  func start() {
    var topology = SimulatedTopology(members, stubborn: ["b"])
    topology.take(.start)
    #expect(topology.log.contains("go audit"))
    #expect(!topology.log.contains("go a"))
    topology.say("b", .hello(failure: nil))
    #expect(topology.log.suffix(2) == ["go b", "go a"])
  }

  @Test("An observer that never becomes ready delays no node")
  func silent() {
    var topology = SimulatedTopology(members, stubborn: ["audit"])
    topology.take(.start)
    #expect(topology.log.contains("go a"))
    #expect(topology.lifecycle.state == .running)
  }

  @Test("An observer stops after all the nodes it watches")
  func stop() {
    var topology = SimulatedTopology(members)
    topology.take(.start)
    topology.take(.stop(.stopped))
    #expect(topology.log.suffix(3) == ["stop a", "stop b", "stop audit"])
    #expect(topology.outcome == .stopped)
  }

  @Test("An observer is stopped when all the nodes it watches have ended, so the topology can end")
  func ended() {
    var topology = SimulatedTopology(members)
    topology.take(.start)
    topology.exit("a", .exited(code: 0))
    #expect(topology.outcome == nil)
    topology.exit("b", .exited(code: 0))
    #expect(topology.log.last == "stop audit")
    #expect(topology.outcome?.exitCode == 0)
  }

  @Test("An observer that ends by itself does not affect the nodes")
  func leaves() {
    var topology = SimulatedTopology(members)
    topology.take(.start)
    topology.exit("audit", .exited(code: 0))
    #expect(topology.outcome == nil)
    #expect(topology.lifecycle.state == .running)
    #expect(topology.lifecycle["a"]?.state == .running)
  }
}
