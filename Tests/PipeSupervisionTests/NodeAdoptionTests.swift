import Glibc
import PipeClient
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire
import Testing

@Suite("The adoption of a node")
struct NodeAdoptionTests {
  private func adopting(
    incarnation: Int = 4, counted: Int = 4, timeouts: Timeouts = Timeouts()
  ) -> SimulatedNode {
    var node = SimulatedNode(timeouts: timeouts, incarnation: counted)
    #expect(node.take(.adopt(.init(pid: 7, incarnation: incarnation))) == [.greet])
    return node
  }

  @Test("A running node is adopted with the same process and incarnation, and is supervised")
  func runs() {
    var node = adopting()
    #expect(node.take(.answered(.running)) == [])
    #expect(node.state == .running)
    #expect(node.lifecycle.pid == 7 && node.lifecycle.incarnation == 4)
    #expect(node.lifecycle.restarts == 0)
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(5))
  }

  @Test("A configured node that never started is started after its adoption")
  func ready() {
    var node = adopting()
    #expect(node.take(.answered(.ready)) == [])
    #expect(node.take(.startBarrierOpened) == [.sendStart])
    #expect(node.state == .running)
  }

  @Test("A node that was never configured is configured after its adoption")
  func fresh() {
    var node = adopting()
    #expect(node.take(.hello(failure: nil)) == [.sendConfigure])
    #expect(node.take(.ready, .startBarrierOpened) == [.sendStart])
  }

  @Test(
    "The next start after an adoption gets an incarnation number that was never used",
    arguments: [(4, 4), (4, 9)])
  func numbers(incarnation: Int, counted: Int) {
    var node = adopting(incarnation: incarnation, counted: counted)
    node.take(.answered(.running), .exited(.unreported(saidGoodbye: false)))
    #expect(node.tick() == [.spawn(incarnation: counted + 1)])
  }

  @Test("A silent node is terminated, then killed, and replaced after its process has ended")
  func silent() {
    var node = adopting(timeouts: Timeouts(start: .seconds(3)))
    #expect(node.tick() == [.kill(.terminate)])
    #expect(node.time == .seconds(3))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.take(.answered(.running)) == [])
    #expect(node.take(.exited(.unreported(saidGoodbye: false))) == [.spawn(incarnation: 5)])
    #expect(node.lifecycle.restarts == 0)
  }

  @Test("A node that does not match the file is terminated and replaced")
  func differs() {
    var node = adopting()
    #expect(
      node.take(.answered(.doesNotMatchPlan(reason: "another machine"))) == [.kill(.terminate)])
    #expect(node.take(.exited(.exited(code: 0))) == [.spawn(incarnation: 5)])
  }

  @Test("A node that is stopping is replaced after it has ended, and killed if it does not end")
  func ending() {
    var node = adopting()
    #expect(node.take(.answered(.ending)) == [])
    var stuck = node
    #expect(node.take(.exited(.exited(code: 0))) == [.spawn(incarnation: 5)])
    #expect(stuck.tick() == [.kill(.terminate)])
    #expect(stuck.tick() == [.kill(.kill)])
  }

  @Test(
    "A node that never answered its adoption is replaced at once, and further restarts back off"
  )
  func slowNext() {
    var ended = adopting(timeouts: Timeouts(start: .seconds(3)))
    #expect(ended.take(.exited(.unreported(saidGoodbye: false))) == [.spawn(incarnation: 5)])
    var silent = ended
    ended.take(.spawned(pid: 8), .exited(.exited(code: 1)))
    #expect(ended.state.name == "backing off")
    silent.take(.spawned(pid: 8))
    #expect(silent.tick() == [.kill(.kill)])
    silent.take(.exited(.signalled(number: SIGKILL)))
    #expect(silent.state.name == "backing off")
    #expect(silent.tick() == [.spawn(incarnation: 6)])
    silent.take(.spawnFailed(reason: "it is being replaced"))
    #expect(silent.state.name == "backing off")
  }

  @Test(
    "An exit with an unknown code is a failure, unless the node said goodbye",
    arguments: [(true, "completed"), (false, "backing off")])
  func unknownExit(saidGoodbye: Bool, state: String) {
    var node = adopting()
    node.take(.answered(.running), .exited(.unreported(saidGoodbye: saidGoodbye)))
    #expect(node.state.name == state)
    #expect(ProcessExit.unreported(saidGoodbye: saidGoodbye).description.contains("unknown"))
  }

  @Test("A topology adopts running nodes, starts the others, and opens the start barrier for all")
  func topology() {
    var topology = SimulatedTopology(
      [.init("a", dependencies: ["b"]), .init("b"), .init("c")],
      survivors: ["b": .init(pid: 7, incarnation: 2)], incarnations: ["a": 5, "b": 2])
    topology.take(.start)
    #expect(topology.log == ["spawn a", "greet b", "spawn c"])
    #expect(topology.lifecycle.state == .starting)
    topology.say("b", .answered(.running))
    #expect(topology.log.suffix(2) == ["go c", "go a"])
    #expect(topology.lifecycle["a"]?.incarnation == 6)
    #expect(topology.lifecycle["b"]?.incarnation == 2)
    #expect(topology.lifecycle["c"]?.incarnation == 1)
  }

  @Test("A stop during an adoption sends a signal and starts no process")
  func stop() {
    var topology = SimulatedTopology(
      [.init("a")], survivors: ["a": .init(pid: 7, incarnation: 2)])
    topology.take(.start)
    topology.take(.stop(.stopped))
    #expect(topology.log == ["greet a", "kill a SIGTERM"])
    #expect(topology.outcome == .stopped)
  }
}
