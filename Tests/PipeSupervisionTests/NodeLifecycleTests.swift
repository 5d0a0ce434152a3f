import Glibc
import PipeClient
import PipeSupervision
import PipeSupport
import PipeSystem
import PipeTopology
import Testing

/// A lifecycle with a clock of its own, which starts at 0 and moves only on request.
struct SimulatedNode {
  var lifecycle: NodeLifecycle
  let origin = SuspendingClock().now
  var time: Duration = .zero

  init(
    restart: RestartPolicy = RestartPolicy(), timeouts: Timeouts = Timeouts(),
    stopSignal: Signal = .terminate, incarnation: Int = 0, seed: UInt64 = 0,
    isEmbedded: Bool = false,
    isRemote: Bool = false
  ) {
    lifecycle = NodeLifecycle(
      restart: restart, timeouts: timeouts, stopSignal: stopSignal, incarnation: incarnation,
      seed: seed, isEmbedded: isEmbedded, isRemote: isRemote)
  }

  /// Handles the inputs at the current time, and returns the actions except reports.
  @discardableResult
  mutating func take(_ inputs: NodeLifecycle.Input...) -> [NodeLifecycle.Action] {
    inputs.flatMap { lifecycle.handle($0, at: origin + time) }.filter {
      if case .report = $0 { false } else { true }
    }
  }

  /// Moves the clock to the next deadline and ticks.
  @discardableResult
  mutating func tick() -> [NodeLifecycle.Action] {
    guard let deadline = lifecycle.nextDeadline else { return [] }
    time = max(time, deadline - origin)
    return take(.tick)
  }

  mutating func run() {
    take(.start, .spawned(pid: 7), .hello(failure: nil), .ready, .startBarrierOpened)
  }
  var state: NodeLifecycle.State { lifecycle.state }
  var failure: String? { if case .failed(let reason) = state { reason } else { nil } }
}

@Suite("The lifecycle of a node")
struct NodeLifecycleTests {
  @Test("A node is spawned and configured, and starts only on its start message")
  func start() {
    var node = SimulatedNode()
    #expect(node.take(.start) == [.spawn(incarnation: 1)])
    #expect(node.take(.spawned(pid: 7)) == [])
    #expect(node.take(.startBarrierOpened) == [])
    #expect(node.take(.hello(failure: nil)) == [.sendConfigure])
    #expect(node.take(.ready) == [])
    #expect(node.state == .ready)
    #expect(node.take(.startBarrierOpened) == [.sendStart])
    #expect(node.state == .running)
    #expect(node.take(.start, .startBarrierOpened, .hello(failure: nil)) == [])
    #expect(node.take(.ready) == [.sendStart], "it has not heard the word")
  }

  @Test("A stop sends a message, then SIGTERM, then SIGKILL, and causes no restart")
  func stop() {
    var node = SimulatedNode(restart: RestartPolicy(.always))
    node.run()
    #expect(node.take(.stopRequested) == [.sendStop])
    #expect(node.tick() == [.kill(.terminate)])
    #expect(node.time == .milliseconds(2500))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(5))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.take(.exited(.signalled(number: SIGKILL))) == [.nodeStopped])
    #expect(node.state == .stopped(.requested))
    #expect(node.lifecycle.nextDeadline == nil)
  }

  @Test(
    "The restart policy decides what happens after a running node has ended",
    arguments: [
      (.never, .exited(code: 0), "completed"), (.never, .exited(code: 1), "failed"),
      (.onFailure, .exited(code: 0), "completed"), (.onFailure, .exited(code: 1), "backing off"),
      (.onFailure, .signalled(number: 9), "backing off"),
      (.always, .exited(code: 0), "backing off"),
      (.always, .signalled(number: 11), "backing off"),
    ] as [(RestartPolicy.Mode, ProcessExit, String)])
  func policy(policy: RestartPolicy.Mode, exit: ProcessExit, state: String) {
    var node = SimulatedNode(restart: RestartPolicy(policy))
    node.run()
    node.take(.exited(exit))
    #expect(node.state.name == state)
    if state == "backing off" { #expect(node.tick() == [.spawn(incarnation: 2)]) }
  }

  @Test("Restarts back off, and a node fails if its restarts within the window exceed the maximum")
  func restartLimit() {
    var node = SimulatedNode(
      restart: RestartPolicy(maximumRestarts: 3, backoff: Backoff(jitter: 0)))
    node.run()
    for pause in [200, 400, 800] {
      let before = node.time
      #expect(node.take(.exited(.exited(code: 3))) == [])
      node.tick()
      #expect(node.time - before == .milliseconds(pause))
      node.take(.spawned(pid: 7), .hello(failure: nil), .ready, .startBarrierOpened)
    }
    let reason = "exit code 3; given up after 3 restarts within 1 min"
    #expect(node.take(.exited(.exited(code: 3))) == [.nodeFailed(reason: reason)])
    #expect(node.failure == reason)
    #expect(node.lifecycle.restarts == 3)
  }

  /// Returns the pauses before the first restarts.
  private func pauses(seed: UInt64, jitter: Double) -> [Duration] {
    var node = SimulatedNode(
      restart: RestartPolicy(backoff: Backoff(jitter: jitter)), seed: seed)
    node.run()
    return (0..<4).map { _ in
      let before = node.time
      node.take(.exited(.exited(code: 3)))
      node.tick()
      defer { node.take(.spawned(pid: 7), .hello(failure: nil), .ready, .startBarrierOpened) }
      return node.time - before
    }
  }

  @Test("Jitter shortens each pause by at most the jitter fraction, differently for each seed")
  func jitter() {
    let whole = [200, 400, 800, 1600].map { Duration.milliseconds($0) }
    #expect(pauses(seed: 1, jitter: 0) == whole)
    let some = pauses(seed: 1, jitter: 0.5)
    #expect(zip(some, whole).allSatisfy { $0 < $1 && $0 >= $1 / 2 }, "\(some)")
    #expect(pauses(seed: 1, jitter: 0.5) == some)
    #expect(pauses(seed: 2, jitter: 0.5) != some)
  }

  @Test("Restarts before the current window do not count towards the limit")
  func restartWindow() {
    var node = SimulatedNode(restart: RestartPolicy(maximumRestarts: 1, window: .seconds(60)))
    node.run()
    for _ in 0..<5 {
      node.take(.exited(.exited(code: 1)))
      node.tick()
      node.take(.spawned(pid: 7), .hello(failure: nil), .ready, .startBarrierOpened)
      node.time += .seconds(61)
    }
    #expect(node.state == .running)
  }

  @Test("A node does not count as silent while it waits for a processor")
  func queued() {
    var node = SimulatedNode()
    node.run()
    node.time = .seconds(4)
    node.take(.heartbeat)
    node.time = .seconds(8)
    #expect(node.lifecycle.isAwaited(at: node.origin + node.time))
    node.take(.waitedForProcessor(.seconds(3)))
    // The extension reaches at most to the current time, from which the next timeout counts.
    node.take(.waitedForProcessor(.seconds(30)))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(13))
  }

  @Test("A node's deadlines are extended by the time that it waits for a processor")
  func queuedWhileAwaited() {
    var node = SimulatedNode()
    node.take(.start)
    node.take(.spawned(pid: 10))
    node.take(.waitedForProcessor(.seconds(7)))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(17))

    node = SimulatedNode()
    node.run()
    node.take(.stopRequested)
    node.take(.waitedForProcessor(.seconds(2)))
    #expect(node.tick() == [.kill(.terminate)])
    #expect(node.time == .seconds(4.5))
    node.take(.waitedForProcessor(.seconds(1)))
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(8))
  }

  @Test("A silent node is killed, and restarted only after its process is reaped")
  func hung() {
    var node = SimulatedNode()
    node.run()
    node.time = .seconds(4)
    node.take(.heartbeat)
    node.time = .seconds(8)
    #expect(node.take(.tick) == [])
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(9))
    #expect(node.take(.exited(.signalled(number: SIGKILL))) == [])
    #expect(node.state.name == "backing off")
    #expect(node.tick() == [.spawn(incarnation: 2)])
  }

  @Test("A supervisor that was suspended does not treat its nodes as silent")
  func lateTick() {
    var node = SimulatedNode()
    node.run()
    node.time = .seconds(60)
    #expect(node.take(.tick) == [])
    #expect(node.state == .running)
    #expect(node.tick() == [.kill(.kill)])
  }

  @Test(
    "A node that never becomes ready and is not restarted fails with a reason that has advice",
    arguments: [
      ([.exited(.exited(code: 3))], "exit code 3) before it connected; check the log of the node"),
      (
        [.exited(.exited(code: 0))],
        "check the log of the node, and that the program is a node program"
      ),
      (
        [.failureReported(reason: "no machine 'Dor'"), .exited(.exited(code: 2))],
        "no machine 'Dor'"
      ),
      ([.hello(failure: "no port 'x'"), .exited(.signalled(number: 9))], "no port 'x'"),
      ([.spawnFailed(reason: "cannot start 'x'")], "cannot start 'x'"),
    ] as [([NodeLifecycle.Input], String)])
  func neverReady(inputs: [NodeLifecycle.Input], reason: String) {
    var node = SimulatedNode(restart: RestartPolicy(.never))
    node.take(.start)
    if case .spawnFailed? = inputs.first {} else { node.take(.spawned(pid: 7)) }
    for input in inputs { node.take(input) }
    #expect(node.failure?.contains(reason) == true, "\(node.state)")
  }

  @Test(
    "A node that fails at its first start gets as many restarts as a node that has run",
    arguments: [
      [.spawned(pid: 7), .exited(.exited(code: 3))],
      [.spawned(pid: 7), .exited(.exited(code: 0))],
      [.spawnFailed(reason: "no such file")],
      [.spawned(pid: 7), .spawnFailed(reason: "no such file")],
    ] as [[NodeLifecycle.Input]])
  func failsAtFirstStart(inputs: [NodeLifecycle.Input]) {
    var node = SimulatedNode(restart: RestartPolicy(maximumRestarts: 2))
    node.take(.start)
    for start in 1...3 {
      #expect(node.lifecycle.incarnation == start)
      #expect(node.state.name == "starting")
      for input in inputs { node.take(input) }
      node.tick()
    }
    #expect(node.failure?.contains("given up after 2 restarts") == true, "\(node.state)")
  }

  @Test("A full disk does not use up a node's restarts")
  func fullDisk() {
    var node = SimulatedNode(restart: RestartPolicy(maximumRestarts: 1))
    node.run()
    for _ in 1...20 {
      node.take(.exited(.diskFull))
      #expect(node.state.name == "backing off")
      node.tick()
      node.take(.spawnFailed(reason: "no space", isDiskFull: true))
      node.tick()
      node.take(.spawned(pid: 7))
    }
    node.take(.hello(failure: nil), .ready, .startBarrierOpened)
    #expect(node.state == .running)
    node.take(.exited(.exited(code: 1)))
    #expect(node.state.name == "backing off", "the restart is still there")
  }

  @Test("A node with the policy 'never' is not restarted after a full disk")
  func fullDiskOfNever() {
    var node = SimulatedNode(restart: RestartPolicy(.never))
    node.run()
    node.take(.exited(.diskFull))
    #expect(node.state.name == "failed")
  }

  @Test("If a program cannot be executed after its process was created, the failure reason says so")
  func lateSpawnFailure() {
    var first = SimulatedNode(restart: RestartPolicy(.never))
    first.take(.start, .spawned(pid: 7))
    #expect(
      first.take(.spawnFailed(reason: "no such file")) == [.nodeFailed(reason: "no such file")])
    #expect(first.lifecycle.pid == nil)
    // If the node has run before, a new build may just be replacing its program, so the start is
    // retried.
    var later = SimulatedNode()
    later.run()
    later.take(.exited(.exited(code: 1)))
    later.tick()
    later.take(.spawned(pid: 8), .spawnFailed(reason: "no such file"))
    #expect(later.state.name == "backing off")
    #expect(later.tick() == [.spawn(incarnation: 3)])
  }

  @Test("A node fails at once if its hello reports a failure, whatever the node's restart policy")
  func cannotRun() {
    var node = SimulatedNode(restart: RestartPolicy(.always))
    node.take(.start, .spawned(pid: 7))
    #expect(node.take(.hello(failure: "its journal is damaged")) == [.kill(.kill)])
    node.take(.exited(.signalled(number: SIGKILL)))
    #expect(node.failure == "its journal is damaged")
  }

  @Test(
    "A program that never says hello is killed at the start timeout and restarted by its policy")
  func noHello() {
    var node = SimulatedNode(
      restart: RestartPolicy(maximumRestarts: 1), timeouts: Timeouts(start: .seconds(3)))
    node.take(.start)
    for _ in 1...2 {
      node.take(.spawned(pid: 7))
      let start = node.time
      #expect(node.tick() == [.kill(.kill)])
      #expect(node.time - start == .seconds(3))
      node.take(.exited(.signalled(number: SIGKILL)))
      node.tick()
    }
    #expect(node.failure?.contains("\(MissedDeadline.connection(within: .seconds(3)))") == true)
  }

  @Test("A node killed from outside before its hello is restarted")
  func killedEarly() {
    var node = SimulatedNode()
    node.take(.start, .spawned(pid: 7), .exited(.signalled(number: SIGKILL)))
    #expect(node.state.name == "backing off")
  }

  @Test("A manual restart is graceful and immediate, and does not count against the restart limit")
  func restartByHand() {
    var node = SimulatedNode(restart: RestartPolicy(.never))
    node.run()
    #expect(node.take(.restartRequested) == [.sendStop])
    #expect(node.take(.exited(.exited(code: 0))) == [.spawn(incarnation: 2)])
    #expect(node.lifecycle.restarts == 0)
  }

  @Test("A failed or stopped node can be started manually, with all its restarts available")
  func startAgain() {
    var node = SimulatedNode(restart: RestartPolicy(maximumRestarts: 0))
    node.run()
    node.take(.exited(.exited(code: 1)))
    #expect(node.failure == "exit code 1")
    #expect(node.take(.start) == [.spawn(incarnation: 2)])
  }

  @Test("A starting node has the whole stop timeout to end after its signal")
  func stopWhileStarting() {
    var node = SimulatedNode(
      timeouts: Timeouts(start: .seconds(60), stop: .seconds(4)), stopSignal: .interrupt)
    node.take(.start, .spawned(pid: 7))
    #expect(node.take(.stopRequested) == [.kill(.interrupt)])
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(4))
  }

  @Test(
    "A running node gets a stop message, then its stop signal, and is killed after its timeout"
  )
  func stopWhileRunning() {
    var node = SimulatedNode(timeouts: Timeouts(stop: .seconds(4)), stopSignal: .interrupt)
    node.run()
    #expect(node.take(.stopRequested) == [.sendStop])
    #expect(node.tick() == [.kill(.interrupt)])
    #expect(node.tick() == [.kill(.kill)])
    #expect(node.time == .seconds(4))
    node.take(.exited(.signalled(number: SIGKILL)))
    var other = SimulatedNode(timeouts: Timeouts(stop: .seconds(4)), stopSignal: .interrupt)
    other.run()
    other.take(.stopRequested)
    other.tick()
    other.take(.exited(.signalled(number: SIGINT)))
    #expect(other.lifecycle.stopFailure == nil)
  }

  @Test("A node that has not said hello is stopped by a signal")
  func stopEarly() {
    var node = SimulatedNode()
    #expect(node.take(.start, .stopRequested) == [.spawn(incarnation: 1)])
    #expect(node.take(.spawned(pid: 7)) == [.kill(.terminate)])
    #expect(node.take(.exited(.signalled(number: SIGTERM))) == [.nodeStopped])
    #expect(node.take(.start, .spawned(pid: 8), .killRequested).last == .kill(.kill))
  }

  @Test("For any inputs, a node has at most one live process, and every wait ends")
  func randomWalk() {
    var generator = SplitMix64(seed: 42)
    var spawns = 0
    for _ in 0..<500 {
      var node = SimulatedNode(
        restart: RestartPolicy(RestartPolicy.Mode.allCases.randomElement(using: &generator)!))
      var isAlive = Bool.random(using: &generator)
      if isAlive { node.take(.adopt(.init(pid: 6, incarnation: 5))) }
      var last = isAlive ? 5 : 0
      for _ in 0..<100 {
        var inputs: [NodeLifecycle.Input] = [
          .start, .hello(failure: nil), .ready, .startBarrierOpened, .heartbeat, .stopRequested,
          .answered(
            [.ready, .running, .ending, .doesNotMatchPlan(reason: "so")]
              .randomElement(using: &generator)!),
          .killRequested, .restartRequested, .tick, .failureReported(reason: "so"),
        ]
        if isAlive { inputs += [.exited(.exited(code: 0)), .exited(.signalled(number: 9))] }
        if isAlive, case .starting = node.state { inputs.append(.spawnFailed(reason: "so")) }
        node.time += .milliseconds(Int.random(in: 0...3000, using: &generator))
        let input = inputs.randomElement(using: &generator)!
        switch input {
        case .exited, .spawnFailed: isAlive = false
        default: break
        }
        for action in node.take(input) {
          guard case .spawn(let incarnation) = action else { continue }
          #expect(!isAlive)
          #expect(incarnation > last)
          last = incarnation
          isAlive = true
          spawns += 1
          node.take(.spawned(pid: 7))
        }
        #expect(isAlive == (node.lifecycle.pid != nil))
        #expect(!(node.state.hasEnded && isAlive))
        #expect(node.state.hasEnded == (node.lifecycle.nextDeadline == nil))
      }
    }
    #expect(spawns > 500)
  }
}
