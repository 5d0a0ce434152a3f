import PipeWire

extension TopologyChange {
  /// A node as it was started, or as a file wants it.
  package struct Subject: Hashable, Sendable {
    package var member: TopologyLifecycle.Member
    package var launch: ProcessRecord.Launch
    /// The nodes that a monitor watches.
    package var watched: Set<String>
    /// How much is kept of its log.
    package var logs: LogRetention

    package init(
      _ member: TopologyLifecycle.Member, launch: ProcessRecord.Launch, watched: Set<String> = [],
      logs: LogRetention = LogRetention()
    ) {
      self.member = member
      self.launch = launch
      self.watched = watched
      self.logs = logs
    }
  }

  /// - Parameter states: Where the present nodes are in their lives.
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
    for (place, subject) in wanted.enumerated() {
      guard let host = subject.member.host, restarting.contains(host),
        states[subject.member.name]?.hasProcess == true, !entries[place].fate.endsProcess
      else { continue }
      entries[place].fate = .restarts(.host(host))
    }
    self.init(
      entries: entries
        + present.map(\.member.name).filter { !names.contains($0) }.map { Entry($0, .stops) })
  }

  private static func fate(
    of former: Subject, to subject: Subject, in state: NodeLifecycle.State
  ) -> Fate {
    let aspects = aspects(from: former, to: subject)
    guard let reason = reason(from: former, to: subject) else {
      if aspects.isEmpty { return .unchanged }
      if case .failed = state, aspects != [.logs] { return .startsAgain(.supervision(aspects)) }
      return .takenOver(aspects)
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
      }
    }
  }
}

extension TopologyChange.Fate {
  /// Whether a process of the node that runs is ended.
  fileprivate var endsProcess: Bool {
    switch self {
    case .restarts, .stops: true
    case .starts, .startsAgain, .staysStopped, .takenOver, .unchanged: false
    }
  }
}
