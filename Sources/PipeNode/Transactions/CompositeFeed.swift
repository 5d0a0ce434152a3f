import PipeMachines
import PipeSupport
import PipeWire

/// What a coordinator's feed shows: the states of its composites, each with its time and cause.
struct CompositeFeed {
  /// By their names, the composite states of the program.
  typealias Projections = [String: CompositeStates.Projection]

  /// What has led to a state.
  enum Cause {
    /// A commit, with the event's name where its caller is known.
    case commit(event: String?, TransactionID)
    /// A component's own step.
    case component(String)

    var text: String {
      switch self {
      case .commit(let event, _): event ?? "synchronized"
      case .component(let name): name
      }
    }

    var transaction: TransactionID? {
      if case .commit(_, let transaction) = self { transaction } else { nil }
    }
  }

  private let names: [String]
  private var states: CompositeStates
  private var shown: [String: (time: Int64, cause: Cause)] = [:]

  /// - Parameters:
  ///   - commits: Those that may not have reached all participants when the last process ended.
  /// - Throws: ``NodeProblem`` where a composite is shown as a state that the program has not.
  init(
    _ composites: [CompositePlan], projections: Projections,
    commits: [CommitRecord]
  ) throws {
    names = composites.map(\.name)
    states = CompositeStates(
      composites, projections: try Self.used(projections, by: composites))
    for commit in commits { states.restore(commit.moves) }
  }

  /// By the names of the composites that are shown as a state of the program's, what makes it.
  /// - Throws: ``NodeProblem`` where the program has no such state.
  static func used(
    _ projections: Projections, by composites: [CompositePlan]
  ) throws -> Projections {
    var used: Projections = [:]
    for composite in composites {
      guard let name = composite.projection else { continue }
      guard let projection = projections[name] else {
        throw NodeProblem("this program has no composite state '\(name)'")
      }
      used[composite.name] = projection
    }
    return used
  }

  /// What composite states make of the states of components.
  static func projections(_ composites: [any CompositeState.Type]) -> Projections {
    func projection<State: CompositeState>(_ type: State.Type) -> CompositeStates.Projection {
      let project = type.projection
      return { try JSONValue(encoding: project(json: $0)) }
    }
    return Dictionary(composites.map { ($0.name, projection($0)) }) { first, _ in first }
  }

  // Each of these returns the composites that show another state now.

  /// Participants have moved, all at once.
  mutating func committed(
    _ moves: [String: ParticipantMove], _ transaction: TransactionID, event: String?
  ) -> [String] {
    show(states.committed(moves), .commit(event: event, transaction))
  }

  /// A component tells its state.
  /// - Parameter isCommitting: Whether a commit is under way that it takes part in.
  mutating func told(_ change: StateChange, isCommitting: Bool) -> [String] {
    let changed = states.told(
      change.node, incarnation: change.incarnation, version: change.version,
      state: change.state.bytes, isCommitting: isCommitting)
    return show(changed, .component(change.node))
  }

  /// Takes out the components that are to be asked for their states again.
  /// - Parameter isCommitting: Whether a commit is under way that a component takes part in.
  mutating func takeUnconfirmed(_ isCommitting: (String) -> Bool) -> Set<String> {
    states.takeUnconfirmed(isCommitting)
  }

  private mutating func show(_ names: [String], _ cause: Cause) -> [String] {
    for name in names { shown[name] = (WallClock.nanoseconds, cause) }
    return names
  }

  // MARK: What is shown

  func entry(of composite: String) -> FeedEntry? {
    guard let (time, cause) = shown[composite], let state = states.state(of: composite)
    else { return nil }
    return FeedEntry(
      node: composite, version: states.version(of: composite), time: time, cause: cause.text,
      state: state, transaction: cause.transaction)
  }

  var entries: [FeedEntry] { names.compactMap { entry(of: $0) } }

  func status(_ requests: [String: NodeStatus.Requests]) -> [NodeStatus.Composite] {
    names.map { name in
      NodeStatus.Composite(
        name: name, state: states.state(of: name).flatMap { try? JSONValue(parsing: $0) },
        version: states.version(of: name), requests: requests[name])
    }
  }
}
