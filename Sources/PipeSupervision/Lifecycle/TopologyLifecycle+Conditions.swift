import PipeMachines
import PipeTopology

// The states that nodes wait for before they go.
//
// A state counts from when the node that waits for it was started on, also where it has been left
// again. It counts until that node has ended: what is started again without being asked for, or is
// restarted, does not wait for it again.
extension TopologyLifecycle {
  /// The nodes of whose states somebody waits for one.
  package var awaitedNodes: Set<String> { Set(openConditions.map(\.dependency.node)) }

  /// Whether somebody waits for this state of a node.
  package func isAwaited(_ state: JSONValue, of name: String) -> Bool {
    openConditions.contains { $0.dependency.isMet(by: state, of: name) }
  }

  /// Takes a state that a node was seen in. Returns whether somebody has waited for it.
  mutating func note(_ state: JSONValue, of name: String) -> Bool {
    let met = openConditions.filter { $0.dependency.isMet(by: state, of: name) }
    for (dependent, dependency) in met { metConditions[dependent, default: []].insert(dependency) }
    return !met.isEmpty
  }

  /// Forgets what nodes that have ended had waited for. One that runs does not wait for anything,
  /// whoever let it go.
  mutating func updateMetConditions() {
    for member in members where member.awaitsStates {
      switch nodes[member.name]?.state {
      case .running: metConditions[member.name] = Set(member.dependencies)
      case .idle, .stopped, .failed, nil: metConditions[member.name] = nil
      case .awaitingHost, .adopting, .starting, .configuring, .ready, .lost, .stopping, .backingOff:
        break
      }
    }
  }

  /// The state that a node still waits for, of one that it depends on.
  func openState(_ dependency: NodeDependency, of name: String) -> StateCondition? {
    metConditions[name]?.contains(dependency) == true ? nil : dependency.state
  }

  /// What keeps a node from going that may come by itself: a state, or a node that waits for one.
  func expectation(of name: String) -> NodeReport.Obstacle? {
    for dependency in dependencies(of: name) {
      if let state = openState(dependency, of: name) {
        return .init(dependency.node, .underway, state: state)
      }
      if expectations[dependency.node] != nil { return .init(dependency.node, .underway) }
    }
    return nil
  }

  private var openConditions: [(dependent: String, dependency: NodeDependency)] {
    switch state {
    case .idle, .stopping, .finished: return []
    case .starting, .running, .changing: break
    }
    var open: [(dependent: String, dependency: NodeDependency)] = []
    for member in members where member.awaitsStates {
      // Who has ended waits for nothing.
      guard nodes[member.name]?.state.hasEnded == false else { continue }
      for dependency in member.dependencies where openState(dependency, of: member.name) != nil {
        open.append((member.name, dependency))
      }
    }
    return open
  }
}

extension TopologyLifecycle.Member {
  fileprivate var awaitsStates: Bool { dependencies.contains { $0.state != nil } }
}

extension NodeDependency {
  fileprivate func isMet(by state: JSONValue, of name: String) -> Bool {
    name == node && self.state?.matches(state) == true
  }
}
