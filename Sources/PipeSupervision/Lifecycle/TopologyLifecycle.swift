import PipeMachines
import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire

/// The supervision of a whole topology as a pure state machine over its nodes' lifecycles: the start
/// barrier, the order of going and stopping, and how the run ends.
///
/// The transitions are in `TopologyLifecycle+StateMachine.swift`, the states that nodes wait for in
/// `TopologyLifecycle+Conditions.swift`, those that live in the processes of others in
/// `TopologyLifecycle+Lodging.swift`, and a change of the file while it runs in
/// `TopologyLifecycle+Change.swift`.
package struct TopologyLifecycle: Sendable {
  package typealias Instant = NodeLifecycle.Instant
  package typealias Outcome = TopologyOutcome

  /// A node and what its supervision depends on.
  package struct Member: Hashable, Sendable {
    package var name: String
    /// Whether its failure takes the topology down.
    package var isRequired: Bool
    /// Whether it only watches: nobody waits for it at the start, and it stops after the others.
    package var isObserver: Bool
    /// The nodes that run before this one goes, and the states that they have been in.
    package var dependencies: [NodeDependency]
    /// The nodes that it hands events to. In a change of the file it ends before them, so that they
    /// still take what is under way.
    package var receivers: [String]
    /// The node in whose process it lives; `nil` where it has one of its own.
    package var host: String?
    /// Whether it runs on another host than the supervisor.
    package var isRemote: Bool
    package var restart: RestartPolicy
    package var timeouts: Timeouts
    /// The signal that asks its process to stop.
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
    /// Nobody goes before all are ready.
    case starting
    /// The barrier is open; a node that becomes ready goes after its dependencies.
    case running
    /// Some nodes end, those that a new file changes or has no more, say; the others go on.
    case changing(Changing)
    /// Wave after wave, from `wave` on.
    case stopping(Outcome, wave: Int)
    case finished(Outcome)
  }

  package enum Input: Hashable, Sendable {
    case start
    /// What a node's process, or somebody about one node, said.
    case node(String, NodeLifecycle.Input)
    /// A node that runs was seen in a state.
    case seen(String, in: JSONValue)
    /// Go over to a new file. Means nothing where another change is under way, or all goes down.
    case change(Change)
    /// End these nodes in order, and keep them stopped. Means nothing where it cannot be done now.
    case end([String])
    /// Stop in order. An outcome with another exit code than 0 is a failure of the run.
    case stop(Outcome)
    /// Kill everything now.
    case kill(Outcome)
    case tick
  }

  package enum Action: Hashable, Sendable {
    case node(String, NodeLifecycle.Action)
    case report(TopologyReport)
    /// Those have ended that are to end: from here on the new file is in force.
    case changedOver
    /// No process is left and none will come.
    case finished(Outcome)
  }

  package internal(set) var state: State = .idle
  package internal(set) var members: [Member]
  package internal(set) var plan: StartPlan
  var nodes: [String: NodeLifecycle]
  /// The processes to take over at the start.
  let survivors: [String: NodeLifecycle.Survivor]
  /// The nodes that are not started with the others.
  let held: Set<String>
  /// Whether it was reported how the start went.
  var hasReportedRunning = false
  /// By node that is ready: what keeps it from going that nobody is about to change.
  package internal(set) var obstacles: [String: NodeReport.Obstacle] = [:]
  /// By node that is ready and has no obstacle: what keeps it from going that may come by itself.
  package internal(set) var expectations: [String: NodeReport.Obstacle] = [:]
  /// By node: of the states that it waits for, those that others have been in.
  var metConditions: [String: Set<NodeDependency>] = [:]
  /// By host: what it is to be handed when its lodgers have left.
  var departures: [String: NodeLifecycle.Input] = [:]
  /// What did not end in order, on the way down.
  var stopProblems: [(node: String, reason: String)] = []
  /// How many new files have come into force.
  package internal(set) var changes = 0
  /// What did not end in order in the last change.
  package internal(set) var changeProblems: [(node: String, reason: String)] = []

  /// - Parameters:
  ///   - incarnations: The starts of each node so far, where a former run left them.
  ///   - survivors: The processes of nodes that a former supervisor started and that are adopted.
  ///   - held: The nodes that are not started with the others, but when somebody asks for it. Those
  ///     that live on are adopted all the same.
  ///   - seed: Decides the jitter of the pauses before restarts.
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
        isLodger: member.host != nil, isRemote: member.isRemote)
    }
  }

  /// A node's lifecycle, to read.
  package subscript(name: String) -> NodeLifecycle? { nodes[name] }

  /// When `tick` is due next.
  package var nextDeadline: Instant? { nodes.values.compactMap(\.nextDeadline).min() }
}

/// What happened to a topology, for progress lines and logs.
package enum TopologyReport: Hashable, Sendable, CustomStringConvertible {
  /// How many nodes a start has brought where.
  package struct Started: Hashable, Sendable, Codable {
    package var running = 0
    package var completed = 0
    package var failed = 0
    /// Those that depend on a node that has ended.
    package var waiting = 0
    package var stopped = 0

    package init() {}

    /// Whether no node has failed, and none waits for one that does not run.
    package var isComplete: Bool { failed == 0 && waiting == 0 }

    /// `1 of 3 nodes failed, 1 waits for others`; `nil` where it is complete.
    package var shortfall: String? {
      guard !isComplete else { return nil }
      let all = running + completed + failed + waiting + stopped
      let nodes = all == 1 ? "1 node" : "\(all) nodes"
      return [
        failed > 0 ? "\(failed) of \(nodes) failed" : nil,
        waiting > 0 ? "\(waiting) of \(nodes) \(waiting == 1 ? "waits" : "wait") for others" : nil,
      ].compactMap { $0 }.joined(separator: ", ")
    }
  }

  case starting(nodes: Int)
  /// A new file is gone over to.
  case changing
  /// The barrier opened.
  case allReady(nodes: Int)
  /// No node is still on its way up.
  case running(Started)
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

/// Nodes that live in the processes of others, their hosts: a host's process ends in order only when its
/// lodgers have left it, and they come back with the next one.
extension TopologyLifecycle {
  func host(of name: String) -> String? { members.first { $0.name == name }?.host }

  private func lodgers(of name: String) -> [String] {
    members.filter { $0.host == name }.map(\.name)
  }

  private func isLivedIn(_ name: String) -> Bool {
    lodgers(of: name).contains { nodes[$0]?.state.hasProcess == true }
  }

  /// Keeps an order to end from a host until its lodgers have left.
  /// - Returns: Whether it was kept, or has changed what is kept.
  mutating func holdsBack(
    _ input: NodeLifecycle.Input, from name: String, at now: Instant,
    into actions: inout [Action]
  ) -> Bool {
    switch input {
    case .start where departures[name] == .stopRequested:
      departures[name] = .restartRequested
      return true
    case .stopRequested, .restartRequested:
      guard nodes[name]?.state.isOpenToLodgers == true, isLivedIn(name) else { return false }
      departures[name] = input
      for lodger in lodgers(of: name) {
        pass(.hostLeaves, to: lodger, at: now, into: &actions)
      }
      return true
    case .start, .adopt, .answered, .spawned, .spawnFailed, .hello, .ready, .complained, .go,
      .heartbeat, .queued, .exited, .unattached, .present, .outnumbered, .killRequested, .hostCame,
      .hostLeaves,
      .hostWent, .tick:
      return false
    }
  }

  /// Tells a host's lodgers that it has come, or gone.
  mutating func tellLodgers(of name: String, at now: Instant, into actions: inout [Action]) {
    let isOpen = nodes[name]?.state.isOpenToLodgers == true
    for lodger in lodgers(of: name) {
      pass(isOpen ? .hostCame : .hostWent, to: lodger, at: now, into: &actions)
    }
  }

  /// Hands hosts what was kept from them, where nobody is left whom it waits for.
  mutating func letDepart(at now: Instant, into actions: inout [Action]) {
    for (name, input) in departures {
      let isOpen = nodes[name]?.state.isOpenToLodgers == true
      if isOpen, isLivedIn(name) { continue }
      // Handed on by one who was told meanwhile.
      guard departures.removeValue(forKey: name) != nil else { continue }
      pass(input, to: name, at: now, into: &actions)
    }
  }

  /// What becomes of a node that waits for its host, where nobody is about to start that.
  func hostObstacle(of name: String) -> NodeReport.Obstacle? {
    guard let host = host(of: name) else { return nil }
    return switch nodes[host]?.state {
    case .failed: .init(host, .failed, isHost: true)
    case .idle, .stopped(.requested): .init(host, .stopped, isHost: true)
    case .stopped(.completed): .init(host, .completed, isHost: true)
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff, nil:
      nil
    }
  }
}
