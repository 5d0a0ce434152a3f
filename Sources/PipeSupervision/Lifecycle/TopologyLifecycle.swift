import PipeMachines
import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire

/// The supervision of a topology as a state machine without side effects. The state machine
/// contains the lifecycles of the nodes, and controls the start barrier, the order of starting and
/// stopping, and the end of the run.
///
/// The transitions are in `TopologyLifecycle+StateMachine.swift`. Changes of the topology file
/// during the run are in `TopologyLifecycle+Change.swift`. The states that nodes wait for, and
/// embedded coordinators, are below.
package struct TopologyLifecycle: Sendable {
  package typealias Instant = NodeLifecycle.Instant
  package typealias Outcome = TopologyOutcome

  /// A node and the settings for its supervision.
  package struct Member: Hashable, Sendable {
    package var name: String
    /// Whether a failure of the node stops the topology.
    package var isRequired: Bool
    /// Whether the node is only an observer. No node waits for an observer at the start, and
    /// observers stop after all other nodes.
    package var isObserver: Bool
    /// The nodes that must be running before this node runs, and the states that they must have
    /// been in.
    package var dependencies: [NodeDependency]
    /// The nodes that receive events from this node. When a changed topology file is applied, this
    /// node stops before its receivers, so that they still accept the events that are in flight.
    package var receivers: [String]
    /// The carrier node of an embedded coordinator; `nil` if the node has a process of its own.
    package var carrier: String?
    /// Whether the node runs on a different host than the supervisor.
    package var isRemote: Bool
    package var restart: RestartPolicy
    package var timeouts: Timeouts
    /// The signal that requests the process to stop.
    package var stopSignal: Signal

    package init(
      _ name: String, isRequired: Bool = false, isObserver: Bool = false,
      dependencies: [NodeDependency] = [], receivers: [String] = [], carrier: String? = nil,
      isRemote: Bool = false, restart: RestartPolicy = RestartPolicy(),
      timeouts: Timeouts = Timeouts(), stopSignal: Signal = .terminate
    ) {
      self.name = name
      self.isRequired = isRequired
      self.isObserver = isObserver
      self.dependencies = dependencies
      self.receivers = receivers
      self.carrier = carrier
      self.isRemote = isRemote
      self.restart = restart
      self.timeouts = timeouts
      self.stopSignal = stopSignal
    }
  }

  package enum State: Hashable, Sendable {
    case idle
    /// The start barrier is closed: no node runs until all nodes are ready.
    case starting
    /// The barrier is open: a node that becomes ready runs when its dependencies are running.
    case running
    /// Some nodes stop, for example because a new topology file changes or removes them. The other
    /// nodes continue.
    case changing(ChangeProgress)
    /// The nodes stop in waves. Wave number `wave` is stopping now.
    case stopping(Outcome, wave: Int)
    case finished(Outcome)
  }

  package enum Input: Hashable, Sendable {
    case start
    /// An input from the process of a node, or a request about one node.
    case node(String, NodeLifecycle.Input)
    /// A running node was observed in a state.
    case stateObserved(node: String, state: JSONValue)
    /// Apply a new topology file. Ignored while another change is in progress or the topology is
    /// stopping.
    case change(Change)
    /// The attempt to change the journals has ended with this outcome.
    case moved(MoveOutcome)
    /// Stop these nodes gracefully, and keep them stopped. Ignored unless the topology is starting
    /// or running.
    case stopNodes([String])
    /// Stop the topology gracefully. If the outcome has an exit code other than 0, the run has
    /// failed.
    case stop(Outcome)
    /// Kill all processes now.
    case kill(Outcome)
    case tick
  }

  /// The outcome of changing journals: of moving instances among shards, of deleting states, or of
  /// copying or restoring the journal of an upgraded node.
  package enum MoveOutcome: Hashable, Sendable {
    case complete
    /// No journal was changed, for this reason.
    case refused(String)
    /// Some journals may have been changed, for example because only some instances were moved. The
    /// nodes must not start before the change is complete.
    case incomplete(String)
  }

  package enum Action: Hashable, Sendable {
    case node(String, NodeLifecycle.Action)
    case report(TopologyReport)
    /// All nodes that had to stop have ended: change the journals, for example by moving instances
    /// among shards, and answer with ``Input/moved(_:)``.
    case moveInstances
    /// All nodes that had to stop have ended, and the new topology file takes effect now.
    case switchedOver
    /// No process is left, and none will be started.
    case finished(Outcome)
  }

  package internal(set) var state: State = .idle
  package internal(set) var members: [Member]
  package internal(set) var plan: StartPlan
  var nodes: [String: NodeLifecycle]
  /// The processes that are adopted at the start.
  let survivors: [String: NodeLifecycle.Survivor]
  /// The nodes that start only on request, and not together with the other nodes.
  let heldNodes: Set<String>
  /// Whether the result of the start was reported.
  var hasReportedRunning = false
  /// For each ready node that cannot run without a request: the dependency that keeps it from
  /// running.
  package internal(set) var blockers: [String: NodeReport.Blocker] = [:]
  /// For each other ready node that is not running: the dependency that keeps it from running and
  /// that may still be met without a request.
  package internal(set) var pendingDependencies: [String: NodeReport.Blocker] = [:]
  /// For each node: its dependencies whose required states were entered.
  var metConditions: [String: Set<NodeDependency>] = [:]
  /// For each carrier node that waits until its embedded coordinators have ended: the input that
  /// the carrier node then receives.
  var heldInputs: [String: NodeLifecycle.Input] = [:]
  /// The nodes that did not stop gracefully while the topology was stopping.
  var stopFailures: [(node: String, reason: String)] = []
  /// The number of changes that were completed or given up.
  package internal(set) var endedChangeCount = 0
  /// The reason why the last change was given up; `nil` if it has taken effect.
  package internal(set) var changeProblem: String?
  /// The nodes that did not stop gracefully during the last change.
  package internal(set) var changeFailures: [(node: String, reason: String)] = []

  /// - Parameters:
  ///   - incarnations: For each node, the highest incarnation in former runs.
  ///   - survivors: The processes of a former supervisor that are adopted.
  ///   - held: The nodes that start only on request, and not together with the other nodes. If such
  ///     a node has a live process, the process is adopted.
  ///   - seed: The seed for the jitter of the pauses before restarts.
  package init(
    _ members: [Member], incarnations: [String: Int] = [:],
    survivors: [String: NodeLifecycle.Survivor] = [:], held: Set<String> = [], seed: UInt64 = 0
  ) {
    self.members = members
    self.survivors = survivors
    self.heldNodes = held
    plan = StartPlan(members)
    var seeds = SplitMix64(seed: seed)
    nodes = [:]
    for member in members where nodes[member.name] == nil {
      nodes[member.name] = NodeLifecycle(
        restart: member.restart, timeouts: member.timeouts, stopSignal: member.stopSignal,
        incarnation: incarnations[member.name] ?? 0, seed: seeds.next(),
        isEmbedded: member.carrier != nil, isRemote: member.isRemote)
    }
  }

  /// Returns the lifecycle of a node, for reading.
  package subscript(name: String) -> NodeLifecycle? { nodes[name] }

  /// The instant at which the next `tick` must be handled; `nil` if there is no deadline.
  package var nextDeadline: Instant? { nodes.values.compactMap(\.nextDeadline).min() }
}

/// An event in the life of a topology, for progress lines and logs.
package enum TopologyReport: Hashable, Sendable, CustomStringConvertible {
  /// The number of nodes in each state after a start.
  package struct StartCounts: Hashable, Sendable, Codable {
    package var running = 0
    package var completed = 0
    package var failed = 0
    /// The number of nodes that wait for a node that will not run without a request.
    package var waiting = 0
    package var stopped = 0

    package init() {}

    /// Whether the start was successful: no node has failed, and no node waits for a node that is
    /// not running.
    package var isComplete: Bool { failed == 0 && waiting == 0 }

    /// A text such as `1 of 3 nodes failed, 1 of 3 nodes waits for other nodes`; `nil` if
    /// ``isComplete``.
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
  /// A new topology file is being applied.
  case changing
  /// States were deleted, or instances were moved among shards.
  case moved(String)
  /// The start barrier has opened.
  case allReady(nodes: Int)
  /// No node is still starting.
  case running(StartCounts)
  case stopping(reason: String?)
  case finished(TopologyLifecycle.Outcome)

  package var description: String {
    switch self {
    case .starting(let count): "starting \(nodeCountText(count))"
    case .changing: "changing"
    case .moved(let text): text
    case .allReady(let count): "\(nodeCountText(count)) ready"
    case .running(let started):
      "\(nodeCountText(started.running)) running" + (started.shortfall.map { "; \($0)" } ?? "")
    case .stopping(let reason): "stopping" + (reason.map { ": \($0)" } ?? "")
    case .finished(let outcome): "stopped" + (outcome.reason.map { ": \($0)" } ?? "")
    }
  }

  private func nodeCountText(_ count: Int) -> String { count == 1 ? "1 node" : "\(count) nodes" }
}

// The states that nodes wait for before they run.
//
// The condition of a waiting node is met when the other node enters the required state after the
// start of the waiting node. The condition stays met when the other node leaves the state, until
// the waiting node has ended. A waiting node that is restarted after a failure does not wait again.
extension TopologyLifecycle {
  /// The nodes whose states other nodes wait for.
  package var awaitedNodes: Set<String> { Set(unmetConditions.map(\.dependency.node)) }

  /// Whether another node waits for this state of a node.
  package func isAwaited(_ state: JSONValue, of name: String) -> Bool {
    unmetConditions.contains { $0.dependency.isMet(by: state, of: name) }
  }

  /// Records a state of a node. Returns whether another node was waiting for this state.
  mutating func recordState(_ state: JSONValue, of name: String) -> Bool {
    let met = unmetConditions.filter { $0.dependency.isMet(by: state, of: name) }
    for (dependent, dependency) in met { metConditions[dependent, default: []].insert(dependency) }
    return !met.isEmpty
  }

  /// Forgets the met conditions of nodes that have ended. For a running node, such as an adopted
  /// node, records all conditions as met.
  mutating func updateMetConditions() {
    for member in members where member.awaitsStates {
      switch nodes[member.name]?.state {
      case .running: metConditions[member.name] = Set(member.dependencies)
      case .idle, .stopped, .failed, nil: metConditions[member.name] = nil
      case .awaitingCarrier, .adopting, .starting, .configuring, .ready, .lost, .stopping,
        .backingOff:
        break
      }
    }
  }

  /// Returns the state that a dependency must still enter before a node runs; `nil` if the node
  /// does not wait for a state of this dependency.
  func unmetState(_ dependency: NodeDependency, of name: String) -> StateCondition? {
    metConditions[name]?.contains(dependency) == true ? nil : dependency.state
  }

  /// Returns the dependency that keeps a node from running and that may still be met without a
  /// request. The dependency is a node that has not been in the required state, or that itself
  /// waits for a state.
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
    var openConditions: [(dependent: String, dependency: NodeDependency)] = []
    for member in members where member.awaitsStates {
      // A node that has ended does not wait for anything.
      guard nodes[member.name]?.state.hasEnded == false else { continue }
      for dependency in member.dependencies where unmetState(dependency, of: member.name) != nil {
        openConditions.append((member.name, dependency))
      }
    }
    return openConditions
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

/// Embedded coordinators run in the processes of carrier nodes. A carrier node stops gracefully
/// only after its embedded coordinators have ended. The coordinators start again in the next
/// process of the carrier node.
extension TopologyLifecycle {
  func carrier(of name: String) -> String? { members.first { $0.name == name }?.carrier }

  private func embeddedNodes(of name: String) -> [String] {
    members.filter { $0.carrier == name }.map(\.name)
  }

  private func hasEmbeddedNodes(_ name: String) -> Bool {
    embeddedNodes(of: name).contains { nodes[$0]?.state.hasProcess == true }
  }

  /// Holds back a request to stop or restart a carrier node until its embedded coordinators have
  /// ended.
  /// - Returns: Whether the input was held, or has changed an input that is already held.
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
    case .start, .adopt, .answered, .spawned, .spawnFailed, .hello, .ready, .failureReported,
      .startBarrierOpened,
      .heartbeat, .waitedForProcessor, .exited, .unattached, .present, .staleIncarnation,
      .killRequested,
      .carrierStarted,
      .carrierStopping,
      .carrierEnded, .tick:
      return false
    }
  }

  /// Notifies embedded coordinators that the process of their carrier node has started or ended.
  mutating func notifyEmbeddedNodes(of name: String, at now: Instant, into actions: inout [Action])
  {
    let isOpen = nodes[name]?.state.canCarryEmbeddedNodes == true
    for embeddedNode in embeddedNodes(of: name) {
      pass(isOpen ? .carrierStarted : .carrierEnded, to: embeddedNode, at: now, into: &actions)
    }
  }

  /// Passes held inputs to carrier nodes whose embedded coordinators have ended.
  mutating func releaseHeldInputs(at now: Instant, into actions: inout [Action]) {
    for (name, input) in heldInputs {
      let isOpen = nodes[name]?.state.canCarryEmbeddedNodes == true
      if isOpen, hasEmbeddedNodes(name) { continue }
      // A nested call may already have passed this input.
      guard heldInputs.removeValue(forKey: name) != nil else { continue }
      pass(input, to: name, at: now, into: &actions)
    }
  }

  /// Returns the reason why an embedded coordinator cannot start: its carrier node has ended, and
  /// starts only on request. Returns `nil` otherwise.
  func carrierBlocker(of name: String) -> NodeReport.Blocker? {
    guard let carrier = carrier(of: name) else { return nil }
    return switch nodes[carrier]?.state {
    case .failed: .init(carrier, .failed, isCarrier: true)
    case .idle, .stopped(.requested): .init(carrier, .stopped, isCarrier: true)
    case .stopped(.completed): .init(carrier, .completed, isCarrier: true)
    case .awaitingCarrier, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff, nil:
      nil
    }
  }
}
