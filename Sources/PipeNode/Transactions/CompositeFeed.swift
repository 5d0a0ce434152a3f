import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The states of the composites in a coordinator's feed, each with its time and cause.
struct CompositeFeed {
  /// The composite states of the program, by name.
  typealias Projections = [String: CompositeStates.Projection]

  /// The cause of a composite's state.
  enum Cause {
    /// A commit, with the event's name if its caller is known.
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
  ///   - commits: The commits that may not have reached all participants when the last process
  ///     ended.
  /// - Throws: ``NodeSetupError`` if a composite is shown as a state that the program does not
  ///   have.
  init(
    _ composites: [CompositePlan], projections: Projections,
    commits: [CommitRecord]
  ) throws {
    names = composites.map(\.name)
    states = CompositeStates(
      composites, projections: try Self.usedProjections(projections, by: composites))
    for commit in commits { states.restore(commit.moves) }
  }

  /// Returns the projections of the composites that are shown as a state of the program, by the
  /// names of the composites.
  /// - Throws: ``NodeSetupError`` if the program does not have such a state.
  static func usedProjections(
    _ projections: Projections, by composites: [CompositePlan]
  ) throws -> Projections {
    var usedProjections: Projections = [:]
    for composite in composites {
      guard let name = composite.projection else { continue }
      guard let projection = projections[name] else {
        throw NodeSetupError("this program has no composite state '\(name)'")
      }
      usedProjections[composite.name] = projection
    }
    return usedProjections
  }

  /// Returns the projections of composite states, by their names.
  static func projections(_ composites: [any CompositeState.Type]) -> Projections {
    func projection<State: CompositeState>(_ type: State.Type) -> CompositeStates.Projection {
      let project = type.projection
      return { try JSONValue(encoding: project(json: $0)) }
    }
    return Dictionary(composites.map { ($0.name, projection($0)) }) { first, _ in first }
  }

  // Each of these functions returns the composites that show a new state.

  /// Applies the moves of a commit, all at once.
  mutating func committed(
    _ moves: [String: ParticipantMove], _ transaction: TransactionID, event: String?
  ) -> [String] {
    show(states.committed(moves), .commit(event: event, transaction))
  }

  /// Applies a state that a component reports.
  /// - Parameter isCommitting: Whether a commit is in progress that the component takes part in.
  mutating func reported(_ change: StateChange, isCommitting: Bool) -> [String] {
    let changed = states.reported(
      change.node, incarnation: change.incarnation, version: change.version,
      state: change.state.bytes, isCommitting: isCommitting)
    return show(changed, .component(change.node))
  }

  /// Removes and returns the components whose states must be requested again.
  /// - Parameter isCommitting: Whether a commit is in progress that a component takes part in.
  mutating func takeUnconfirmed(_ isCommitting: (String) -> Bool) -> Set<String> {
    states.takeUnconfirmed(isCommitting)
  }

  private mutating func show(_ names: [String], _ cause: Cause) -> [String] {
    for name in names { shown[name] = (WallClock.nanoseconds, cause) }
    return names
  }

  // MARK: Published states

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

/// A coordinator's subscriptions to the states of its composites' nodes, on any host.
final class PeerFeeds {
  private let watch: FeedWatch
  private let log: NodeLog
  /// The nodes whose feeds may be on other hosts.
  private var peers: Set<String> = []

  init(
    of components: [CoordinatorPlan.Component], services: NodeServices, log: NodeLog,
    _ receive: @escaping (StateChange) -> Void
  ) throws(TransportError) {
    self.log = log
    watch = try FeedWatch(
      feeds: [], topic: .states(areCommitted: false), in: services.context, loop: services.loop,
      receive)
    for component in components {
      if services.isOffHost(component) { peers.insert(component.name) }
      if let endpoint = services.feed(of: component) { try watch.connect(to: endpoint) }
    }
    services.peers?.addListener(self)
  }

  /// Asks for a node's last state again, and accepts it whatever the node reported before.
  func requestLastValue(_ node: String) { watch.requestLastValue(node) }

  func close() {
    peers = []
    watch.close()
  }
}

extension PeerFeeds: PeerConnector {
  func disconnectPeer(from peer: String, at endpoints: PeerEndpoints) {
    if peers.contains(peer) { watch.disconnect(endpoints.feed.endpoint) }
  }

  func connectPeer(_ peer: String, at endpoints: PeerEndpoints) {
    guard peers.contains(peer) else { return }
    do {
      try watch.connect(to: endpoints.feed)
    } catch {
      log.warning("cannot subscribe to the states of '\(peer)': \(error)")
    }
  }
}

extension NodeServices {
  /// Returns the endpoint of a participant's inbox: within this process if the participant is the
  /// carrier node; `nil` while it is unknown.
  func inbox(of component: CoordinatorPlan.Component) -> PeerEndpoint? {
    if let carrier, carrier.name == component.name { return PeerEndpoint(carrier.inbox) }
    guard let peers else { return PeerEndpoint(component.inbox) }
    return peers.endpoints(of: component.name)?.inbox
  }

  /// Returns the endpoint of a node's feed: within this process if the node is the carrier node and
  /// shares the context; `nil` while it is unknown.
  func feed(of component: CoordinatorPlan.Component) -> PeerEndpoint? {
    if let carrier, isInProcess(component) { return PeerEndpoint(carrier.feed) }
    guard let peers else { return PeerEndpoint(component.feed) }
    return peers.endpoints(of: component.name)?.feed
  }

  /// Whether the endpoint of a node's feed comes from the peer list.
  func isOffHost(_ component: CoordinatorPlan.Component) -> Bool {
    peers != nil && !isInProcess(component)
  }

  private func isInProcess(_ component: CoordinatorPlan.Component) -> Bool {
    carrier?.name == component.name && carrier?.context === context
  }
}

/// Reports the steps of composites to subscribers.
final class CompositeStepFeed {
  /// The last shown state of a composite.
  private final class LastState {
    var version: UInt64
    /// The state as JSON.
    var state: [UInt8]

    init(_ entry: FeedEntry) { (version, state) = (entry.version, entry.state) }
  }

  private let feed: Feed
  private var composites: [String: (last: LastState, reported: RateLimitedFeed)] = [:]

  init(to feed: Feed) { self.feed = feed }

  /// Reports a new state of a composite.
  func take(_ entry: FeedEntry) {
    let name = entry.node ?? feed.node
    let existing = composites[name]
    let reported = existing?.reported ?? begin(name, entry)
    // The first state is shown, but is not a step.
    guard entry.version > 0 else { return }
    defer {
      composites[name]?.last.version = entry.version
      composites[name]?.last.state = entry.state
    }
    guard reported.begin() else { return }
    var body = feed.head(of: name, version: entry.version, index: entry.version)
    body.add("time", entry.time)
    body.add("cause", text: entry.cause)
    // States that were shown without a subscriber are not known.
    if let last = existing?.last, last.version + 1 == entry.version {
      body.add("from", json: last.state)
    }
    body.add("state", json: entry.state)
    if let transaction = entry.transaction { body.add("transaction", text: "\(transaction)") }
    reported.report(entry.version, body)
  }

  private func begin(_ name: String, _ entry: FeedEntry) -> RateLimitedFeed {
    let last = LastState(entry)
    let reported = RateLimitedFeed(.step, about: name, to: feed) { [unowned feed] skipped in
      var body = feed.head(of: name, version: last.version, index: last.version)
      body.add("skipped", skipped)
      return (last.version, body)
    }
    composites[name] = (last, reported)
    return reported
  }
}
