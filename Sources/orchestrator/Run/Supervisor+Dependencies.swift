import PipeRuntime

/// Nodes that are started with what they depend on, and stopped with what depends on them.
extension Supervisor {
  func bringUp(
    _ names: [String], withDependencies: Bool, waits: Bool, from peer: [UInt8], id: UInt64
  ) {
    let named = names.map(plan.process)
    guard check(named, from: peer, id: id) else { return }
    if let obstacle = obstacleToChange { return answer(.failed(obstacle), to: peer, id: id) }
    let needed = withDependencies ? plan.processes(neededBy: names) : named
    // What has done what it was there for is not done again for others.
    let nodes = needed.filter {
      named.contains($0) || lifecycle[$0]?.state != .stopped(.completed)
    }
    if waits {
      return steer(
        nodes, .start, from: peer, id: id, answer: .steered(nodes: nodes)
      ) { state, _ in state == .running }
    }
    for node in nodes { handle(.node(node, .start)) }
    answer(.steered(nodes: nodes), to: peer, id: id)
  }

  /// Stops nodes after those that depend on them; all of them stay stopped.
  func bringDown(_ names: [String], from peer: [UInt8], id: UInt64) {
    guard check(names, from: peer, id: id) else { return }
    if let obstacle = obstacleToChange { return answer(.failed(obstacle), to: peer, id: id) }
    let nodes = lifecycle.members.dependents(of: names)
    let ending = nodes.filter { lifecycle[$0]?.state.hasEnded == false }
    handle(.end(nodes))
    waiting.append(
      WaitingCommand(peer: peer, id: id) { lifecycle in
        guard ending.allSatisfy({ lifecycle[$0]?.state.hasEnded ?? true }) else { return nil }
        return lifecycle.stopProblem(of: ending).map(ControlAnswer.failed) ?? .steered(nodes: nodes)
      })
    answerWaiting()
  }
}
