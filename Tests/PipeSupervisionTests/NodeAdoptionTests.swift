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

  @Test("one that runs goes on as the same process and the same incarnation, and is watched")
  func runs() {
    var node = adopting()
    #expect(node.take(.answered(.running)) == [])
    #expect(node.state == .running)
    #expect(node.lifecycle.pid == 7 && node.lifecycle.incarnation == 4)
    #expect(node.lifecycle.restarts == 0)
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(5))
  }

  @Test("one that was configured and never started goes at the word")
  func ready() {
    var node = adopting()
    #expect(node.take(.answered(.ready)) == [])
    #expect(node.take(.go) == [.sendStart])
    #expect(node.state == .running)
  }

  @Test("one that was never configured is, as a fresh one")
  func fresh() {
    var node = adopting()
    #expect(node.take(.hello(problem: nil)) == [.sendConfigure])
    #expect(node.take(.ready, .go) == [.sendStart])
  }

  @Test("the next start has a number that was never given before", arguments: [(4, 4), (4, 9)])
  func numbers(incarnation: Int, counted: Int) {
    var node = adopting(incarnation: incarnation, counted: counted)
    node.take(.answered(.running), .exited(.untold(saidGoodbye: false)))
    #expect(node.tick() == [.spawn(incarnation: counted + 1)])
  }

  @Test("a silent one is terminated, then killed, and replaced only once it is gone")
  func silent() {
    var node = adopting(timeouts: Timeouts(start: .seconds(3)))
    #expect(node.tick() == [.kill(.terminate)])
    #expect(node.time == .seconds(3))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.take(.answered(.running)) == [])
    #expect(node.take(.exited(.untold(saidGoodbye: false))) == [.spawn(incarnation: 5)])
    #expect(node.lifecycle.restarts == 0)
  }

  @Test("one that is not what is wanted is terminated and replaced")
  func differs() {
    var node = adopting()
    #expect(node.take(.answered(.differs(reason: "another machine"))) == [.kill(.terminate)])
    #expect(node.take(.exited(.exited(code: 0))) == [.spawn(incarnation: 5)])
  }

  @Test("one that is about to end is replaced when it has, and killed where it does not")
  func ending() {
    var node = adopting()
    #expect(node.take(.answered(.ending)) == [])
    var stuck = node
    #expect(node.take(.exited(.exited(code: 0))) == [.spawn(incarnation: 5)])
    #expect(stuck.tick() == [.kill(.terminate)])
    #expect(stuck.tick() == [.kill(.kill)])
  }

  @Test(
    "one that never answered had said hello to another: its next process may be slow, or fail, once"
  )
  func slowNext() {
    var ended = adopting(timeouts: Timeouts(start: .seconds(3)))
    #expect(ended.take(.exited(.untold(saidGoodbye: false))) == [.spawn(incarnation: 5)])
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
    "an end of which the exit code is not known is a failure, unless the node said goodbye",
    arguments: [(true, "completed"), (false, "backing off")])
  func unknownExit(saidGoodbye: Bool, state: String) {
    var node = adopting()
    node.take(.answered(.running), .exited(.untold(saidGoodbye: saidGoodbye)))
    #expect(node.state.name == state)
    #expect(ProcessExit.untold(saidGoodbye: saidGoodbye).description.contains("not known"))
  }

  @Test("a topology adopts what lives, starts what does not, and opens the barrier for all")
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

  @Test("a stop while it is being adopted is a signal, and nobody is started for it")
  func stop() {
    var topology = SimulatedTopology(
      [.init("a")], survivors: ["a": .init(pid: 7, incarnation: 2)])
    topology.take(.start)
    topology.take(.stop(.stopped))
    #expect(topology.log == ["greet a", "kill a SIGTERM"])
    #expect(topology.outcome == .stopped)
  }
}
