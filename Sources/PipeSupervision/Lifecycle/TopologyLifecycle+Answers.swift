import PipeWire

/// A client's request to start, stop or restart nodes.
struct LifecycleRequest {
  private let nodes: [(name: String, incarnation: Int)]
  private let input: NodeLifecycle.Input

  /// - Parameter lifecycle: The state of the topology before the nodes receive the input.
  init(_ nodes: [String], _ input: NodeLifecycle.Input, in lifecycle: TopologyLifecycle) {
    self.nodes = nodes.map { ($0, lifecycle[$0]?.incarnation ?? 0) }
    self.input = input
  }

  /// Returns the answer to the client; `nil` while the outcome is not known.
  /// - Parameter success: The answer if all nodes succeed.
  func answer(in lifecycle: TopologyLifecycle, _ success: ControlAnswer) -> ControlAnswer? {
    for (name, incarnation) in nodes {
      guard let now = lifecycle[name] else { continue }
      if input != .stopRequested {
        if case .failed(let reason) = now.state {
          return .failed("node '\(name)' failed: \(reason)")
        }
        if let blocker = lifecycle.blockers[name] {
          return .failed("node '\(name)' waits for \(blocker); start '\(blocker.node)', too")
        }
      }
      if !hasReachedGoal(now, since: incarnation) { return nil }
    }
    guard input != .start else { return success }
    return lifecycle.stopFailure(of: nodes.map(\.name)).map(ControlAnswer.failed) ?? success
  }

  private func hasReachedGoal(_ node: NodeLifecycle, since incarnation: Int) -> Bool {
    switch input {
    case .stopRequested: node.state.hasEnded
    case .restartRequested: node.state == .running && node.incarnation > incarnation
    default: node.state == .running
    }
  }
}

extension TopologyLifecycle {
  static let changeInProgress =
    "another change is in progress; try again when that change has completed"

  /// Returns the reason why the topology can neither apply a topology file nor stop nodes now;
  /// `nil` if there is none.
  func changeBlocker(of topology: String) -> String? {
    switch state {
    case .starting, .running: nil
    case .changing: Self.changeInProgress
    case .idle: "topology '\(topology)' has not started yet"
    case .stopping, .finished:
      "topology '\(topology)' is stopping; run 'orchestrator up' to start the topology again"
    }
  }

  /// The nodes that have failed and are not restarted any more, with their reasons, in the order of
  /// the topology file.
  var failedNodes: [(node: String, reason: String)] {
    members.compactMap { member in
      guard case .failed(let reason)? = nodes[member.name]?.state else { return nil }
      return (member.name, reason)
    }
  }

  /// Returns a text with the first failed node, its failure reason, and the number of other failed
  /// nodes. Returns `nil` if no node has failed.
  static func failureText(_ failed: [(node: String, reason: String)]) -> String? {
    guard let first = failed.first else { return nil }
    let others = failed.count - 1
    return "node '\(first.node)' failed: \(first.reason)"
      + (others == 0 ? "" : "; \(others) other node\(others == 1 ? "" : "s") failed, too")
  }

  /// Returns a text about the first of these nodes that did not stop gracefully; `nil` if all of
  /// them stopped gracefully.
  func stopFailure(of nodes: [String]) -> String? {
    for node in nodes {
      guard let problem = self[node]?.stopFailure else { continue }
      return
        "node '\(node)' \(NodeReport.ungracefulStop(reason: problem)); check 'orchestrator logs "
        + "\(node)'"
    }
    return nil
  }

  /// Returns the answer to a client that requested a change; `nil` while the outcome is not known.
  /// - Parameters:
  ///   - number: The value of ``endedChangeCount`` after the change was completed or given up.
  ///   - started: The nodes that the change starts.
  package func answer(toChange number: Int, starting started: [String]) -> ControlAnswer? {
    switch state {
    case .idle, .changing: return nil
    case .stopping(let outcome, _), .finished(let outcome):
      return .failed("the topology is stopping" + (outcome.reason.map { ": \($0)" } ?? ""))
    case .starting, .running: break
    }
    guard endedChangeCount == number else {
      return .failed("another change was applied before all nodes of this change were running")
    }
    if let changeProblem { return .failed(changeProblem) }
    var isComplete = true
    for name in started {
      guard let node = self[name] else { continue }
      if case .failed(let reason) = node.state {
        return .failed("node '\(name)' failed: \(reason); the file was applied to all other nodes")
      }
      if let blocker = blockers[name] {
        return .failed(
          "node '\(name)' waits for \(blocker); the file was applied to all other nodes")
      }
      if node.state != .running, !node.state.hasEnded { isComplete = false }
    }
    guard isComplete else { return nil }
    guard let problem = changeFailures.first else { return .done }
    return .failed(
      "node '\(problem.node)' \(NodeReport.ungracefulStop(reason: problem.reason)); check 'orchestrator logs "
        + "\(problem.node)'; the file was applied to all nodes")
  }
}

extension TopologyLifecycle.State {
  /// Whether no process is left, and none will be started.
  var isFinished: Bool { if case .finished = self { true } else { false } }

  /// The state in one word, for tables.
  var name: String {
    switch self {
    case .idle: "idle"
    case .starting: "starting"
    case .running: "running"
    case .changing: "changing"
    case .stopping: "stopping"
    case .finished: "finished"
    }
  }
}

extension NodeLifecycle.State {
  /// Whether the node's process publishes the states of its machine.
  var hasFeed: Bool {
    switch self {
    case .configuring, .ready, .running: true
    case .lost(let was): was.hasFeed
    case .idle, .awaitingCarrier, .adopting, .starting, .stopping, .backingOff, .stopped, .failed:
      false
    }
  }
}
