import PipeMachines
import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire

/// The supervision of a whole topology as a pure state machine over the lifecycles of its nodes: the
/// start barrier, the order of starting and stopping, and the end of the run.
///
/// The transitions are in `TopologyLifecycle+StateMachine.swift`, and a change of the file during the
/// run is in `TopologyLifecycle+Change.swift`. The states that nodes wait for, and embedded
/// coordinators, are below.
package struct TopologyLifecycle: Sendable {
  package typealias Instant = NodeLifecycle.Instant
  package typealias Outcome = TopologyOutcome

  /// A node and the settings for its supervision.
  package struct Member: Hashable, Sendable {
    package var name: String
    /// Whether a failure of the node stops the topology.
    package var isRequired: Bool
    /// Whether the node only observes: no node waits for it at the start, and it stops after the others.
    package var isObserver: Bool
    /// The nodes that must run before this node does, and the states that they must have been in.
    package var dependencies: [NodeDependency]
    /// The nodes that receive events from this node. When a file is changed, the node stops before
    /// them, so that they still accept the events that are in flight.
    package var receivers: [String]
    /// The carrier node of an embedded coordinator; `nil` for a node with a process of its own.
    package var host: String?
    /// Whether the node runs on another host than the supervisor.
    package var isRemote: Bool
    package var restart: RestartPolicy
    package var timeouts: Timeouts
    /// The signal that requests the process to stop.
    package var stopSignal: Signal

    package init(
      _ name: String, isRequired: Bool = false, isObserver: Bool = false,
      dependencies: [NodeDependency] = [], receivers: [String] = [], host: String? = nil,
      isRemote: Bool = false, restart: RestartPolicy = RestartPolicy(),
      timeouts: Timeouts = Timeouts(), stopSignal: Signal = .terminate
    ) {
      self.name = name
      self.isRequired = isRequired
      self.isObserver = isObserver
      self.dependencies = dependencies
      self.receivers = receivers
      self.host = host
      self.isRemote = isRemote
      self.restart = restart
      self.timeouts = timeouts
      self.stopSignal = stopSignal
    }
  }

  package enum State: Hashable, Sendable {
    case idle
    /// The start barrier is closed: no node runs before all are ready.
    case starting
    /// The barrier is open; a node that becomes ready runs after its dependencies.
    case running
    /// Some nodes stop, for example because a new file changes or removes them; the others continue.
    case changing(ChangeProgress)
    /// The nodes stop wave after wave, starting at `wave`.
    case stopping(Outcome, wave: Int)
    case finished(Outcome)
  }

  package enum Input: Hashable, Sendable {
    case start
    /// An input from the process of a node, or a request about one node.
    case node(String, NodeLifecycle.Input)
    /// A running node was observed in a state.
    case seen(String, in: JSONValue)
    /// Apply a new file. Ignored while another change is in progress or the topology is stopping.
    case change(Change)
    /// Stop these nodes in order, and keep them stopped. Ignored if that is impossible now.
    case end([String])
    /// Stop the topology in order. An outcome with an exit code other than 0 is a failure of the run.
    case stop(Outcome)
    /// Kill all processes now.
    case kill(Outcome)
    case tick
  }

  package enum Action: Hashable, Sendable {
    case node(String, NodeLifecycle.Action)
    case report(TopologyReport)
    /// All nodes that had to stop have ended: the new file takes effect now.
    case switchedOver
    /// No process is left, and none will start.
    case finished(Outcome)
  }

  package internal(set) var state: State = .idle
  package internal(set) var members: [Member]
  package internal(set) var plan: StartPlan
  var nodes: [String: NodeLifecycle]
  /// The processes to adopt at the start.
  let survivors: [String: NodeLifecycle.Survivor]
  /// The nodes that do not start together with the others.
  let held: Set<String>
  /// Whether the result of the start was reported.
  var hasReportedRunning = false
  /// By ready node: the obstacle that keeps it from running and does not go away without a request.
  package internal(set) var blockers: [String: NodeReport.Blocker] = [:]
  /// By ready node without an obstacle: the dependency that keeps it from running and may still be met
  /// by itself.
  package internal(set) var pendingDependencies: [String: NodeReport.Blocker] = [:]
  /// By node: the required states that other nodes have been in.
  var metConditions: [String: Set<NodeDependency>] = [:]
  /// By carrier node: the input that it receives when its embedded coordinators have ended.
  var heldInputs: [String: NodeLifecycle.Input] = [:]
  /// The nodes that did not end in order while the topology was stopping.
  var stopFailures: [(node: String, reason: String)] = []
  /// The number of new files that have taken effect.
  package internal(set) var changes = 0
  /// The nodes that did not end in order during the last change.
  package internal(set) var changeFailures: [(node: String, reason: String)] = []

  /// - Parameters:
  ///   - incarnations: The number of starts of each node so far, from former runs.
  ///   - survivors: The processes of a former supervisor that are adopted.
  ///   - held: The nodes that do not start together with the others, but only on request. Their living
  ///     processes are adopted all the same.
  ///   - seed: The seed for the jitter of the pauses before restarts.
  package init(
    _ members: [Member], incarnations: [String: Int] = [:],
    survivors: [String: NodeLifecycle.Survivor] = [:], held: Set<String> = [], seed: UInt64 = 0
  ) {
    self.members = members
    self.survivors = survivors
    self.held = held
    plan = StartPlan(members)
    var seeds = SplitMix64(seed: seed)
    nodes = [:]
    for member in members where nodes[member.name] == nil {
      nodes[member.name] = NodeLifecycle(
        restart: member.restart, timeouts: member.timeouts, stopSignal: member.stopSignal,
        incarnation: incarnations[member.name] ?? 0, seed: seeds.next(),
        isEmbedded: member.host != nil, isRemote: member.isRemote)
    }
  }

  /// Returns the lifecycle of a node, for reading.
  package subscript(name: String) -> NodeLifecycle? { nodes[name] }

  /// When `tick` is due next.
  package var nextDeadline: Instant? { nodes.values.compactMap(\.nextDeadline).min() }
}

/// An event in the life of a topology, for progress lines and logs.
package enum TopologyReport: Hashable, Sendable, CustomStringConvertible {
  /// The number of nodes in each state after a start.
  package struct StartCounts: Hashable, Sendable, Codable {
    package var running = 0
    package var completed = 0
    package var failed = 0
    /// The number of nodes that depend on a node that has ended.
    package var waiting = 0
    package var stopped = 0

    package init() {}

    /// Whether no node has failed, and none waits for a node that does not run.
    package var isComplete: Bool { failed == 0 && waiting == 0 }

    /// A text such as `1 of 3 nodes failed, 1 of 3 nodes waits for other nodes`; `nil` if the start is complete.
    package var shortfall: String? {
      guard !isComplete else { return nil }
      let all = running + completed + failed + waiting + stopped
      let nodes = all == 1 ? "1 node" : "\(all) nodes"
      return [
        failed > 0 ? "\(failed) of \(nodes) failed" : nil,
        waiting > 0
          ? "\(waiting) of \(nodes) \(waiting == 1 ? "waits" : "wait") for other nodes" : nil,
      ].compactMap { $0 }.joined(separator: ", ")
    }
  }

  case starting(nodes: Int)
  /// The topology is applying a new file.
  case changing
  /// The start barrier has opened.
  case allReady(nodes: Int)
  /// No node is still starting.
  case running(StartCounts)
  case stopping(reason: String?)
  case finished(TopologyLifecycle.Outcome)

  package var description: String {
    switch self {
    case .starting(let count): "starting \(nodes(count))"
    case .changing: "changing"
    case .allReady(let count): "\(nodes(count)) ready"
    case .running(let started):
      "\(nodes(started.running)) running" + (started.shortfall.map { "; \($0)" } ?? "")
    case .stopping(let reason): "stopping" + (reason.map { ": \($0)" } ?? "")
    case .finished(let outcome): "stopped" + (outcome.reason.map { ": \($0)" } ?? "")
    }
  }

  private func nodes(_ count: Int) -> String { count == 1 ? "1 node" : "\(count) nodes" }
}

// The states that nodes wait for before they run.
//
// A state counts if it was entered after the waiting node was started, even if it has been left since.
// It counts until the waiting node has ended. An automatic or requested restart does not wait again.
extension TopologyLifecycle {
  /// The nodes with a state that other nodes wait for.
  package var awaitedNodes: Set<String> { Set(unmetConditions.map(\.dependency.node)) }

  /// Whether another node waits for this state of a node.
  package func isAwaited(_ state: JSONValue, of name: String) -> Bool {
    unmetConditions.contains { $0.dependency.isMet(by: state, of: name) }
  }

  /// Records a state of a node. Returns whether another node has waited for it.
  mutating func note(_ state: JSONValue, of name: String) -> Bool {
    let met = unmetConditions.filter { $0.dependency.isMet(by: state, of: name) }
    for (dependent, dependency) in met { metConditions[dependent, default: []].insert(dependency) }
    return !met.isEmpty
  }

  /// Forgets the met conditions of nodes that have ended. A running node waits for nothing, however it
  /// was started.
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

  /// Returns the state of a dependency that a node still waits for; `nil` if it waits for none.
  func unmetState(_ dependency: NodeDependency, of name: String) -> StateCondition? {
    metConditions[name]?.contains(dependency) == true ? nil : dependency.state
  }

  /// Returns the dependency that keeps a node from running and may still be met by itself: a state, or
  /// a node that waits for a state.
  func pendingDependency(of name: String) -> NodeReport.Blocker? {
    for dependency in dependencies(of: name) {
      if let state = unmetState(dependency, of: name) {
        return .init(dependency.node, .underway, state: state)
      }
      if pendingDependencies[dependency.node] != nil { return .init(dependency.node, .underway) }
    }
    return nil
  }

  private var unmetConditions: [(dependent: String, dependency: NodeDependency)] {
    switch state {
    case .idle, .stopping, .finished: return []
    case .starting, .running, .changing: break
    }
    var open: [(dependent: String, dependency: NodeDependency)] = []
    for member in members where member.awaitsStates {
      // A node that has ended waits for nothing.
      guard nodes[member.name]?.state.hasEnded == false else { continue }
      for dependency in member.dependencies where unmetState(dependency, of: member.name) != nil {
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

/// Embedded coordinators run in the processes of carrier nodes. The process of a carrier stops in order
/// only after its embedded coordinators have ended, and they start again with its next process.
extension TopologyLifecycle {
  func host(of name: String) -> String? { members.first { $0.name == name }?.host }

  private func embeddedNodes(of name: String) -> [String] {
    members.filter { $0.host == name }.map(\.name)
  }

  private func hasEmbeddedNodes(_ name: String) -> Bool {
    embeddedNodes(of: name).contains { nodes[$0]?.state.hasProcess == true }
  }

  /// Holds back a stop or restart of a carrier node until its embedded coordinators have ended.
  /// - Returns: Whether the input was held back, or has changed an input that is held back.
  mutating func holdBack(
    _ input: NodeLifecycle.Input, from name: String, at now: Instant,
    into actions: inout [Action]
  ) -> Bool {
    switch input {
    case .start where heldInputs[name] == .stopRequested:
      heldInputs[name] = .restartRequested
      return true
    case .stopRequested, .restartRequested:
      guard nodes[name]?.state.canCarryEmbeddedNodes == true, hasEmbeddedNodes(name) else {
        return false
      }
      heldInputs[name] = input
      for embeddedNode in embeddedNodes(of: name) {
        pass(.carrierStopping, to: embeddedNode, at: now, into: &actions)
      }
      return true
    case .start, .adopt, .answered, .spawned, .spawnFailed, .hello, .ready, .failureReported, .go,
      .heartbeat, .queued, .exited, .unattached, .present, .staleIncarnation, .killRequested,
      .carrierStarted,
      .carrierStopping,
      .carrierEnded, .tick:
      return false
    }
  }

  /// Notifies the embedded coordinators of a carrier node that its process has started or ended.
  mutating func notifyEmbeddedNodes(of name: String, at now: Instant, into actions: inout [Action])
  {
    let isOpen = nodes[name]?.state.canCarryEmbeddedNodes == true
    for embeddedNode in embeddedNodes(of: name) {
      pass(isOpen ? .carrierStarted : .carrierEnded, to: embeddedNode, at: now, into: &actions)
    }
  }

  /// Hands in the inputs that were held back from carrier nodes whose embedded coordinators have ended.
  mutating func releaseHeldInputs(at now: Instant, into actions: inout [Action]) {
    for (name, input) in heldInputs {
      let isOpen = nodes[name]?.state.canCarryEmbeddedNodes == true
      if isOpen, hasEmbeddedNodes(name) { continue }
      // A nested call may have handed in this input already.
      guard heldInputs.removeValue(forKey: name) != nil else { continue }
      pass(input, to: name, at: now, into: &actions)
    }
  }

  /// Returns the obstacle of an embedded coordinator whose carrier node does not start without a request.
  func carrierBlocker(of name: String) -> NodeReport.Blocker? {
    guard let host = host(of: name) else { return nil }
    return switch nodes[host]?.state {
    case .failed: .init(host, .failed, isCarrier: true)
    case .idle, .stopped(.requested): .init(host, .stopped, isCarrier: true)
    case .stopped(.completed): .init(host, .completed, isCarrier: true)
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff, nil:
      nil
    }
  }
}
