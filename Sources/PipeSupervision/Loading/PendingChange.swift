import PipeSystem
import PipeTopology
import PipeWire

/// A plan for a new file, and the changes that it makes.
struct PendingPlan {
  let number: UInt64
  let plan: LaunchPlan
  let change: TopologyChange
}

/// The progress of a new file: the orchestrator loads it and shows its changes to a client, the client
/// requests to apply it, and the file takes effect once all nodes that it changes have ended.
struct PendingChange {
  private var shown: PendingPlan?
  private var requestedPlan: PendingPlan?
  private var isLoading = false
  private var lastNumber: UInt64 = 0

  /// Begins to load a file that is to be applied.
  /// - Returns: Whether the file may be loaded: only one file is loaded at a time.
  mutating func beginLoading() -> Bool {
    guard !isLoading else { return false }
    isLoading = true
    return true
  }

  mutating func endLoading() { isLoading = false }

  /// Keeps a plan that was shown to a client.
  /// - Parameter isDryRun: Whether the client cannot request to apply it.
  /// - Returns: The number by which the client can request it.
  mutating func show(_ plan: LaunchPlan, _ change: TopologyChange, isDryRun: Bool) -> UInt64 {
    lastNumber += 1
    if !isDryRun { shown = PendingPlan(number: lastNumber, plan: plan, change: change) }
    return lastNumber
  }

  /// Returns the plan that a client requests to apply.
  /// - Parameter change: Returns the changes that a plan makes now.
  /// - Returns: The plan with this number, if its changes are still the same as when it was shown.
  mutating func requestPlan(
    for number: UInt64, _ change: (LaunchPlan) -> TopologyChange
  ) -> PendingPlan? {
    guard let shown, shown.number == number, change(shown.plan) == shown.change else { return nil }
    self.shown = nil
    requestedPlan = shown
    return shown
  }

  /// Takes the requested plan, once all nodes that it changes have ended.
  mutating func takeRequestedPlan() -> PendingPlan? {
    defer { requestedPlan = nil }
    return requestedPlan
  }
}

extension LoadedTopology {
  /// Reads and checks the files of a change.
  /// - Parameters:
  ///   - name: A name that replaces the name in the file.
  ///   - deployment: The path of the deployment file; `nil` if all nodes run on one host.
  /// - Throws: `TopologyErrors` with the errors of either file.
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
    // If the system does not list its addresses, a node that cannot bind reports the error.
    if let interfaces = try? InterfaceAddress.ofThisMachine() {
      found += DeploymentChecker.check(examined, for: [loaded.topology], interfaces: interfaces)
    }
    if found.hasErrors { throw TopologyErrors(found) }
    loaded.warnings += found.without(warnings: examined.deployment.silence)
    return loaded
  }
}

extension TopologyChange {
  /// A started node, or a node that a file specifies.
  package struct Subject: Hashable, Sendable {
    package var member: TopologyLifecycle.Member
    package var launch: ProcessRecord.Launch
    /// The nodes that a monitor watches.
    package var watched: Set<String>
    /// The retention of the node's log.
    package var logs: LogRetention
    /// Whether the process can open more pipes while it runs.
    package var opensPipes: Bool

    package init(
      _ member: TopologyLifecycle.Member, launch: ProcessRecord.Launch, watched: Set<String> = [],
      logs: LogRetention = LogRetention(), opensPipes: Bool = false
    ) {
      self.member = member
      self.launch = launch
      self.watched = watched
      self.logs = logs
      self.opensPipes = opensPipes
    }
  }

  /// Compares the present nodes with the wanted ones.
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
      guard let host = subject.member.host, restarting.contains(host),
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
      state == .running && former.opensPipes && former.launch.isExtended(by: subject.launch)
    let aspects = aspects(from: former, to: subject) + (isExtended ? [.outs] : [])
    guard let reason = isExtended ? nil : reason(from: former, to: subject) else {
      if aspects.isEmpty { return .unchanged }
      if case .failed = state, aspects != [.logs] { return .startsAgain(.supervision(aspects)) }
      return .updatedInPlace(aspects)
    }
    if state.isHeld { return .staysStopped(reason) }
    return state.hasEnded ? .startsAgain(reason) : .restarts(reason)
  }

  private static func reason(from former: Subject, to subject: Subject) -> Reason? {
    if let difference = former.launch.difference(from: subject.launch) {
      return .launch(difference)
    }
    return former.watched == subject.watched ? nil : .watched
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
