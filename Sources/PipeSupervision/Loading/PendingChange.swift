import PipeSystem
import PipeTopology
import PipeWire

/// A launch plan for a new topology file, with the changes that the plan makes.
struct PendingPlan {
  let number: UInt64
  let plan: LaunchPlan
  let change: TopologyChange
  /// The changes of names in journals.
  let renames: JournalRenames
  /// The moves of instances that the plan may need.
  let moves: ShardMoves
  /// The states that the plan loses.
  var losses: AcceptedLosses
  /// The node after whose upgrade the program upgrades pause; `nil` if they do not pause.
  var pauseNode: String?
  /// The nodes whose processes are replaced after the plan has taken effect, one by one.
  var upgraded: Set<String> = []
}

/// The progress of applying a new topology file. First, the orchestrator loads the file and shows
/// its changes to a client. Then the client requests to apply the file. The file takes effect once
/// all nodes that the change stops have ended.
struct PendingChange {
  private var shownPlan: PendingPlan?
  private var requestedPlan: PendingPlan?
  private var isLoading = false
  private var lastNumber: UInt64 = 0

  /// Begins to load a new topology file.
  /// - Returns: `false` if another file is being loaded, since only one file can be loaded at a
  ///   time.
  mutating func beginLoading() -> Bool {
    guard !isLoading else { return false }
    isLoading = true
    return true
  }

  mutating func endLoading() { isLoading = false }

  /// Stores a plan that is shown to a client.
  /// - Parameter isDryRun: If `true`, the plan is not stored, and the client cannot request to
  ///   apply it.
  /// - Returns: The number by which the client can request to apply the plan.
  mutating func show(_ planned: PendingPlan, isDryRun: Bool) -> UInt64 {
    lastNumber += 1
    if !isDryRun {
      shownPlan = PendingPlan(
        number: lastNumber, plan: planned.plan, change: planned.change, renames: planned.renames,
        moves: planned.moves,
        losses: planned.losses, pauseNode: planned.pauseNode)
    }
    return lastNumber
  }

  /// The renames, the moves and the losses of the requested plan.
  var journalChanges: (renames: JournalRenames, moves: ShardMoves, losses: AcceptedLosses)? {
    requestedPlan.map { ($0.renames, $0.moves, $0.losses) }
  }

  /// Returns the plan that a client requests to apply.
  /// - Parameter change: Returns the changes that a plan makes now.
  /// - Returns: The plan with this number, if its changes are still the changes that were shown;
  ///   otherwise `nil`.
  mutating func requestPlan(
    for number: UInt64, _ change: (LaunchPlan) -> TopologyChange
  ) -> PendingPlan? {
    guard let shownPlan, shownPlan.number == number, change(shownPlan.plan) == shownPlan.change
    else { return nil }
    self.shownPlan = nil
    requestedPlan = shownPlan
    return shownPlan
  }

  /// Sets the nodes of the requested plan whose processes are replaced later.
  mutating func set(upgraded: Set<String>) { requestedPlan?.upgraded = upgraded }

  /// Removes and returns the requested plan. Call this when all nodes that the plan changes have
  /// ended.
  mutating func takeRequestedPlan() -> PendingPlan? {
    defer { requestedPlan = nil }
    return requestedPlan
  }
}

extension LoadedTopology {
  /// Reads and checks the topology file and the deployment file of a requested change.
  /// - Parameters:
  ///   - name: A name that replaces the name in the file.
  ///   - deployment: The path of the deployment file; `nil` if all nodes run on one host.
  /// - Throws: `TopologyErrors` with the errors of both files.
  static func load(
    for request: ChangeRequest, name: String?, by deployment: String?
  ) throws(TopologyErrors) -> LoadedTopology {
    guard let deployment else {
      return try load(.file(request.file), name: name, variables: request.variables)
    }
    let examined = try DeploymentFile.examine(.file(deployment), environment: request.variables)
    var loaded = try load(
      .file(request.file), name: name, variables: request.variables, in: examined)
    var found = examined.diagnostics
    // If the system does not list its addresses, the check is omitted. A node that cannot bind its
    // address then reports the error.
    if let interfaces = try? InterfaceAddress.ofThisMachine() {
      found += DeploymentChecker.check(examined, for: [loaded.topology], interfaces: interfaces)
    }
    if found.hasErrors { throw TopologyErrors(found) }
    loaded.warnings += found.without(warnings: examined.deployment.silence)
    return loaded
  }
}

extension TopologyChange {
  /// The properties of a node that a change compares. The node has been started, or is in a new
  /// topology file.
  package struct Subject: Hashable, Sendable {
    package var member: TopologyLifecycle.Member
    package var launch: ProcessRecord.Launch
    /// The nodes that a monitor watches.
    package var watchedNodes: Set<String>
    /// The retention of the node's log.
    package var logs: LogRetention
    /// Whether the process can open additional pipes while it runs.
    package var opensPipes: Bool

    package init(
      _ member: TopologyLifecycle.Member, launch: ProcessRecord.Launch, watched: Set<String> = [],
      logs: LogRetention = LogRetention(), opensPipes: Bool = false
    ) {
      self.member = member
      self.launch = launch
      self.watchedNodes = watched
      self.logs = logs
      self.opensPipes = opensPipes
    }
  }

  /// Compares the present nodes with the nodes of a new topology file.
  /// - Parameter states: The lifecycle states of the present nodes.
  package init(
    from present: [Subject], to wanted: [Subject], states: [String: NodeLifecycle.State]
  ) {
    let known = Dictionary(present.map { ($0.member.name, $0) }) { first, _ in first }
    let names = Set(wanted.map(\.member.name))
    var entries = wanted.map { subject in
      let name = subject.member.name
      guard let former = known[name] else { return Entry(name, .starts) }
      return Entry(name, Self.fate(of: former, to: subject, in: states[name] ?? .idle))
    }
    let restarting = Set(entries.filter { $0.fate.endsProcess }.map(\.node))
    for (index, subject) in wanted.enumerated() {
      guard let host = subject.member.carrier, restarting.contains(host),
        states[subject.member.name]?.hasProcess == true, !entries[index].fate.endsProcess
      else { continue }
      entries[index].fate = .restarts(.host(host))
    }
    self.init(
      entries: entries
        + present.map(\.member.name).filter { !names.contains($0) }.map { Entry($0, .stops) })
  }

  private static func fate(
    of former: Subject, to subject: Subject, in state: NodeLifecycle.State
  ) -> Fate {
    let isExtended =
      state == .running && former.opensPipes
      && former.launch.differsOnlyInAddedPipes(from: subject.launch)
    let aspects = aspects(from: former, to: subject) + (isExtended ? [.outs] : [])
    guard let reason = isExtended ? nil : reason(from: former, to: subject) else {
      if aspects.isEmpty { return .unchanged }
      if case .failed = state, aspects != [.logs] { return .startsAgain(.supervision(aspects)) }
      return .updatedInPlace(aspects)
    }
    if state.isStoppedOnRequest { return .staysStopped(reason) }
    return state.hasEnded ? .startsAgain(reason) : .restarts(reason)
  }

  private static func reason(from former: Subject, to subject: Subject) -> Reason? {
    if let difference = former.launch.difference(from: subject.launch) {
      return .launch(difference)
    }
    return former.watchedNodes == subject.watchedNodes ? nil : .watched
  }

  private static func aspects(from former: Subject, to subject: Subject) -> [Aspect] {
    let (logs, former, member) = (former.logs, former.member, subject.member)
    return Aspect.allCases.filter { aspect in
      switch aspect {
      case .restart: former.restart != member.restart
      case .timeouts:
        former.timeouts != member.timeouts || former.stopSignal != member.stopSignal
      case .required: former.isRequired != member.isRequired
      case .dependencies: Set(former.dependencies) != Set(member.dependencies)
      case .logs: logs != subject.logs
      case .outs: false
      }
    }
  }
}

extension TopologyChange.Fate {
  /// Whether the change ends a running process of the node.
  fileprivate var endsProcess: Bool {
    switch self {
    case .restarts, .stops: true
    case .starts, .startsAgain, .staysStopped, .updatedInPlace, .unchanged: false
    }
  }
}
