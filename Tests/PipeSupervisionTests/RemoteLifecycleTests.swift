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

  @Test("A silent remote node is lost: its host is queried, and no replacement is started")
  func silence() {
    var node = running()
    #expect(node.tick() == [.checkLiveness])
    #expect(node.state == .lost(was: .running) && node.state.hasProcess)
    #expect(node.lifecycle.nextDeadline == nil)
    node.time += .seconds(3_600)
    #expect(
      node.take(
        .tick, .start, .startBarrierOpened, .spawned(pid: 8), .waitedForProcessor(.seconds(1)))
        == [])
    #expect(node.state == .lost(was: .running) && node.lifecycle.pid == 7)
  }

  @Test(
    "A lost node continues in its former state as soon as it sends a message again",
    arguments: [
      NodeLifecycle.Input.heartbeat, .hello(failure: nil), .answered(.running),
    ])
  func found(sign: NodeLifecycle.Input) {
    var node = lost()
    node.time += .seconds(30)
    #expect(node.take(sign) == [])
    #expect(node.state == .running && node.lifecycle.incarnation == 1)
    // The heartbeat timeout of the node starts again.
    #expect(node.take(.tick) == [] && node.state == .running)
    #expect(node.tick() == [.checkLiveness])
  }

  @Test("A node lost during its start gets its whole start timeout again")
  func start() {
    var node = SimulatedNode(isRemote: true)
    node.take(.start, .spawned(pid: 7))
    #expect(node.take(.unattached(reason: "x")) == [.checkLiveness])
    node.time += .seconds(60)
    #expect(node.take(.hello(failure: nil)) == [.sendConfigure])
    #expect(node.take(.tick) == [])
    #expect(node.take(.ready, .startBarrierOpened) == [.sendStart] && node.state == .running)
  }

  @Test(
    "A remote node that says no hello in time is killed and restarted")
  func late() {
    var node = SimulatedNode(isRemote: true)
    node.take(.start, .spawned(pid: 7))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.take(.exited(.signalled(number: 9))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
  }

  @Test("A lost node that still runs on its host is killed as hung, and restarted after its end")
  func hung() {
    var node = lost()
    #expect(node.take(.present) == [.kill(.kill)])
    #expect(node.take(.present, .heartbeat) == [])
    #expect(node.take(.exited(.signalled(number: 9))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
  }

  @Test("A node that sends messages stays running when its host confirms that the process runs")
  func present() {
    var node = running()
    #expect(node.take(.present) == [] && node.state == .running)
  }

  @Test("A lost node is restarted as soon as the end of its process is certain")
  func end() {
    var node = lost()
    #expect(node.take(.exited(.unobserved(isCertain: true))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
  }

  @Test("A node that sends messages stays running when its launcher is gone")
  func unattached() {
    var node = running()
    #expect(node.take(.unattached(reason: "x")) == [.checkLiveness])
    #expect(node.state == .running)
    #expect(node.tick() == [.checkLiveness] && node.state == .lost(was: .running))
  }

  @Test(
    "A lost node is stopped by message, signals and kill; the stop ends when its process has ended")
  func stop() {
    var node = lost()
    #expect(node.take(.stopRequested) == [.sendStop])
    #expect(node.tick() == [.kill(.terminate)])
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.take(.exited(.unobserved(isCertain: false))) == [.nodeStopped])
    #expect(node.lifecycle.stopFailure != nil)
  }

  @Test("The restart of a lost node waits for the end of the node's process")
  func restart() {
    var node = lost()
    #expect(node.take(.restartRequested) == [.sendStop])
    for _ in 0..<5 { #expect(!node.tick().contains(.spawn(incarnation: 2))) }
    #expect(node.take(.exited(.unobserved(isCertain: true))) == [.spawn(incarnation: 2)])
  }

  @Test("A remote node that ends before its hello is restarted, since its launcher may have failed")
  func goneInStart() {
    var node = SimulatedNode(isRemote: true)
    node.take(.start, .spawned(pid: 7))
    #expect(node.take(.exited(.unobserved(isCertain: true))) == [])
    #expect(node.tick() == [.spawn(incarnation: 2)])
    // A process that ended by itself counts as a restart of the policy.
    #expect(node.take(.spawned(pid: 8), .exited(.exited(code: 1))) == [])
    #expect(node.tick() == [.spawn(incarnation: 3)])
  }

  @Test("A node that does not answer its adoption is lost, and is adopted when it sends a message")
  func silentWhileAdopted() {
    var node = SimulatedNode(isRemote: true)
    #expect(node.take(.adopt(.init(pid: 0, incarnation: 3))) == [.greet])
    #expect(node.tick() == [.checkLiveness])
    #expect(node.state.isAdopting && node.state.hasProcess)
    #expect(node.take(.answered(.running)) == [])
    #expect(node.state == .running && node.lifecycle.incarnation == 3 && !node.state.isAdopting)
    // The node may have ended instead.
    var gone = SimulatedNode(isRemote: true)
    gone.take(.adopt(.init(pid: 0, incarnation: 3)))
    gone.tick()
    #expect(gone.take(.exited(.unobserved(isCertain: true))) == [.spawn(incarnation: 4)])
  }

  @Test("A start gets a higher incarnation number than any number that other hosts report")
  func staleIncarnation() {
    var node = SimulatedNode(isRemote: true)
    #expect(node.take(.start) == [.spawn(incarnation: 1)])
    #expect(node.take(.staleIncarnation(by: 7)) == [.spawn(incarnation: 8)])
    #expect(node.take(.staleIncarnation(by: 3)) == [])
    // Once the node has started, its number stays.
    node.take(.spawned(pid: 7))
    #expect(node.take(.staleIncarnation(by: 11)) == [] && node.lifecycle.incarnation == 8)
    #expect(node.take(.exited(.signalled(number: 9))) == [])
    #expect(node.tick() == [.spawn(incarnation: 12)])
  }

  @Test("A node on the orchestrator's host that sends no heartbeats is killed as hung")
  func here() {
    var node = SimulatedNode()
    node.run()
    #expect(node.tick() == [.kill(.kill)])
  }
}
