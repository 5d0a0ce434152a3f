/// What a new file changes in a topology that runs, node by node; a pure value.
package struct TopologyChange: Codable, Hashable, Sendable {
  /// A node as it was started, or as a file wants it.
  package struct Subject: Hashable, Sendable {
    package var member: TopologyLifecycle.Member
    package var launch: ProcessRecord.Launch
    /// The nodes that a monitor watches.
    package var watched: Set<String>

    package init(
      _ member: TopologyLifecycle.Member, launch: ProcessRecord.Launch, watched: Set<String> = []
    ) {
      self.member = member
      self.launch = launch
      self.watched = watched
    }
  }

  /// What differs that the process itself does not see.
  package enum Aspect: String, Codable, Hashable, Sendable, CaseIterable {
    case restart = "restart policy"
    case timeouts
    case required
    case dependencies = "depends_on"
  }

  /// Why a node gets another process.
  package enum Reason: Codable, Hashable, Sendable {
    case launch(ProcessRecord.Difference)
    /// A monitor is to watch other nodes.
    case watched
    /// It has failed, and may do better under another supervision.
    case supervision([Aspect])
  }

  /// What becomes of a node.
  package enum Fate: Codable, Hashable, Sendable {
    case starts
    case stops
    case restarts(Reason)
    /// It had failed, or ended by itself.
    case startsAgain(Reason)
    /// It was stopped by hand, and so its next process is another one only when it is started by hand.
    case staysStopped(Reason)
    /// Only its supervision differs.
    case takenOver([Aspect])
    case unchanged
  }

  /// A node and what becomes of it.
  package struct Entry: Codable, Hashable, Sendable {
    package var node: String
    package var fate: Fate

    package init(_ node: String, _ fate: Fate) {
      self.node = node
      self.fate = fate
    }
  }

  /// The nodes in the order of the new file, and then those that it has no more.
  package let entries: [Entry]

  /// - Parameter states: Where the present nodes are in their lives.
  package init(
    from present: [Subject], to wanted: [Subject], states: [String: NodeLifecycle.State]
  ) {
    let known = Dictionary(present.map { ($0.member.name, $0) }) { first, _ in first }
    let names = Set(wanted.map(\.member.name))
    entries =
      wanted.map { subject in
        let name = subject.member.name
        guard let former = known[name] else { return Entry(name, .starts) }
        return Entry(name, Self.fate(of: former, to: subject, in: states[name] ?? .idle))
      }
      + present.map(\.member.name).filter { !names.contains($0) }.map { Entry($0, .stops) }
  }

  private static func fate(
    of former: Subject, to subject: Subject, in state: NodeLifecycle.State
  ) -> Fate {
    let aspects = aspects(from: former.member, to: subject.member)
    guard let reason = reason(from: former, to: subject) else {
      if aspects.isEmpty { return .unchanged }
      if case .failed = state { return .startsAgain(.supervision(aspects)) }
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

  private static func aspects(
    from former: TopologyLifecycle.Member, to member: TopologyLifecycle.Member
  ) -> [Aspect] {
    Aspect.allCases.filter { aspect in
      switch aspect {
      case .restart: former.restart != member.restart
      case .timeouts: former.timeouts != member.timeouts
      case .required: former.isRequired != member.isRequired
      case .dependencies: Set(former.dependencies) != Set(member.dependencies)
      }
    }
  }

  /// Whether no node differs.
  package var isEmpty: Bool { entries.allSatisfy { $0.fate == .unchanged } }

  /// Those whose next process is another one than their last.
  package var replaced: Set<String> {
    Set(
      entries.filter { entry in
        switch entry.fate {
        case .restarts, .startsAgain, .staysStopped: true
        case .starts, .stops, .takenOver, .unchanged: false
        }
      }.map(\.node))
  }

  /// Those that are started, in the order of the new file.
  package var started: [String] {
    entries.filter { entry in
      switch entry.fate {
      case .starts, .restarts, .startsAgain: true
      case .stops, .staysStopped, .takenOver, .unchanged: false
      }
    }.map(\.node)
  }
}
