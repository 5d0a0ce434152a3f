import PipeClient
import PipeSupervision
import PipeSystem
import Testing

@Suite("The lifecycle of a node on another host")
struct RemoteLifecycleTests {
  private func running() -> SimulatedNode {
    var node = SimulatedNode(isRemote: true)
    node.run()
    return node
  }

  private func lost() -> SimulatedNode {
    var node = running()
    node.tick()
    return node
  }

  @Test("where nothing is heard of it, its host is asked, and nothing is started in its place")
  func silence() {
    var node = running()
    #expect(node.tick() == [.findOut])
    #expect(node.state == .lost(was: .running) && node.state.hasProcess)
    #expect(node.lifecycle.nextDeadline == nil)
    node.time += .seconds(3_600)
    #expect(node.take(.tick, .start, .go, .spawned(pid: 8), .queued(.seconds(1))) == [])
    #expect(node.state == .lost(was: .running) && node.lifecycle.pid == 7)
  }

  @Test(
    "once it is heard again, it goes on where it was",
    arguments: [
      NodeLifecycle.Input.heartbeat, .hello(problem: nil), .answered(.running),
    ])
  func found(sign: NodeLifecycle.Input) {
    var node = lost()
    node.time += .seconds(30)
    #expect(node.take(sign) == [])
    #expect(node.state == .running && node.lifecycle.incarnation == 1)
    // And it has its whole time again.
    #expect(node.take(.tick) == [] && node.state == .running)
    #expect(node.tick() == [.findOut])
  }

  @Test("one that was lost in its start has its time anew")
  func start() {
    var node = SimulatedNode(isRemote: true)
    node.take(.start, .spawned(pid: 7))
    #expect(node.take(.unattached(reason: "x")) == [.findOut])
    node.time += .seconds(60)
    #expect(node.take(.hello(problem: nil)) == [.sendConfigure])
    #expect(node.take(.tick) == [])
    #expect(node.take(.ready, .go) == [.sendStart] && node.state == .running)
  }

  @Test(
    "one that does not say hello in time is killed, and tried again: its host may have been slow")
  func late() {
    var node = SimulatedNode(isRemote: true)
    node.take(.start, .spawned(pid: 7))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.take(.exited(.signalled(number: 9))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
  }

  @Test("where its host has it and it says nothing, it is killed, and started again at its end")
  func hung() {
    var node = lost()
    #expect(node.take(.present) == [.kill(.kill)])
    #expect(node.take(.present, .heartbeat) == [])
    #expect(node.take(.exited(.signalled(number: 9))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
  }

  @Test("that its host has it means nothing while it is heard")
  func present() {
    var node = running()
    #expect(node.take(.present) == [] && node.state == .running)
  }

  @Test("where its end is certain, it is started again")
  func end() {
    var node = lost()
    #expect(node.take(.exited(.unseen(isCertain: true))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
  }

  @Test("while it is heard, it does not matter that what started it is gone")
  func unattached() {
    var node = running()
    #expect(node.take(.unattached(reason: "x")) == [.findOut])
    #expect(node.state == .running)
    #expect(node.tick() == [.findOut] && node.state == .lost(was: .running))
  }

  @Test("one that is lost is asked to stop, signalled and killed, and its end waited for")
  func stop() {
    var node = lost()
    #expect(node.take(.stopRequested) == [.sendStop])
    #expect(node.tick() == [.kill(.terminate)])
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.take(.exited(.unseen(isCertain: false))) == [.nodeStopped])
    #expect(node.lifecycle.stopProblem?.contains("has not confirmed the end") == true)
  }

  @Test("a restart of one that is lost waits for its end")
  func restart() {
    var node = lost()
    #expect(node.take(.restartRequested) == [.sendStop])
    for _ in 0..<5 { #expect(!node.tick().contains(.spawn(incarnation: 2))) }
    #expect(node.take(.exited(.unseen(isCertain: true))) == [.spawn(incarnation: 2)])
  }

  @Test("one that is gone before it said hello is tried again: what ran it may have gone, too")
  func goneInStart() {
    var node = SimulatedNode(isRemote: true)
    node.take(.start, .spawned(pid: 7))
    #expect(node.take(.exited(.unseen(isCertain: true))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
    // A process that ended by itself counts as a restart of its policy.
    #expect(node.take(.spawned(pid: 8), .exited(.exited(code: 1))) == [])
    #expect(node.tick() == [.spawn(incarnation: 3)])
  }

  @Test("one that is to be taken over and does not answer is lost, and taken over when it is heard")
  func silentWhileAdopted() {
    var node = SimulatedNode(isRemote: true)
    #expect(node.take(.adopt(.init(pid: 0, incarnation: 3))) == [.greet])
    #expect(node.tick() == [.findOut])
    #expect(node.state.isAdopting && node.state.hasProcess)
    #expect(node.take(.answered(.running)) == [])
    #expect(node.state == .running && node.lifecycle.incarnation == 3 && !node.state.isAdopting)
    // Or it has ended meanwhile.
    var gone = SimulatedNode(isRemote: true)
    gone.take(.adopt(.init(pid: 0, incarnation: 3)))
    gone.tick()
    #expect(gone.take(.exited(.unseen(isCertain: true))) == [.spawn(incarnation: 4)])
  }

  @Test("a start that waits, and each later one, has a number above those that are known elsewhere")
  func outnumbered() {
    var node = SimulatedNode(isRemote: true)
    #expect(node.take(.start) == [.spawn(incarnation: 1)])
    #expect(node.take(.outnumbered(by: 7)) == [.spawn(incarnation: 8)])
    #expect(node.take(.outnumbered(by: 3)) == [])
    // Once it is started, its number stays.
    node.take(.spawned(pid: 7))
    #expect(node.take(.outnumbered(by: 11)) == [] && node.lifecycle.incarnation == 8)
    #expect(node.take(.exited(.signalled(number: 9))) == [])
    #expect(node.tick() == [.spawn(incarnation: 12)])
  }

  @Test("on this host, silence is a hang as ever")
  func here() {
    var node = SimulatedNode()
    node.run()
    #expect(node.tick() == [.kill(.kill)])
  }
}
