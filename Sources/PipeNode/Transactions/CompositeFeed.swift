import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The states of a coordinator's composites, as published in its feed, each with its time and
/// cause.
struct CompositeFeed {
  /// The functions that compute composite states, by name.
  typealias Projections = [String: CompositeStates.Projection]

  /// The cause of a composite's state.
  enum Cause {
    /// A commit, with the name of the event; `nil` if the coordinator no longer knows the request.
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

  private let compositeNames: [String]
  private var states: CompositeStates
  private var lastChangesByComposite: [String: (time: Int64, cause: Cause)] = [:]

  /// - Parameters:
  ///   - commits: The commits that some participants may not have received when the previous
  ///     process ended.
  /// - Throws: ``NodeSetupError`` if a composite uses a composite state that the program does not
  ///   contain.
  init(
    _ composites: [CompositePlan], projections: Projections,
    commits: [CommitRecord]
  ) throws {
    compositeNames = composites.map(\.name)
    states = CompositeStates(
      composites, projections: try Self.usedProjections(projections, by: composites))
    for commit in commits { states.restore(commit.moves) }
  }

  /// Returns the projections of the composites that have a composite state, by the names of the
  /// composites.
  /// - Throws: ``NodeSetupError`` if the program does not contain one of these composite states.
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

  /// Returns the projections of composite states, by the names of the composite states.
  static func projections(_ composites: [any CompositeState.Type]) -> Projections {
    func projection<State: CompositeState>(_ type: State.Type) -> CompositeStates.Projection {
      let project = type.projection
      return { try JSONValue(encoding: project(json: $0)) }
    }
    return Dictionary(composites.map { ($0.name, projection($0)) }) { first, _ in first }
  }

  // Each of the following functions returns the composites whose published states have changed.

  /// Applies the steps of all participants of a commit at once.
  mutating func committed(
    _ moves: [String: ParticipantMove], _ transaction: TransactionID, event: String?
  ) -> [String] {
    show(states.committed(moves), .commit(event: event, transaction))
  }

  /// Applies a state that a component reports.
  /// - Parameter isCommitting: Whether the component takes part in a commit in progress.
  mutating func reported(_ change: StateChange, isCommitting: Bool) -> [String] {
    let changed = states.reported(
      change.node, incarnation: change.incarnation, version: change.version,
      state: change.state.bytes, isCommitting: isCommitting)
    return show(changed, .component(change.node))
  }

  /// Removes and returns the components whose states must be requested again. See
  /// ``CompositeStates/takeUnconfirmed(_:)``.
  /// - Parameter isCommitting: Returns whether a component takes part in a commit in progress.
  mutating func takeUnconfirmed(_ isCommitting: (String) -> Bool) -> Set<String> {
    states.takeUnconfirmed(isCommitting)
  }

  private mutating func show(_ names: [String], _ cause: Cause) -> [String] {
    for name in names { lastChangesByComposite[name] = (WallClock.nanoseconds, cause) }
    return names
  }

  // MARK: Published states

  func entry(of composite: String) -> PublishedState? {
    guard let (time, cause) = lastChangesByComposite[composite],
      let state = states.state(of: composite)
    else { return nil }
    return PublishedState(
      node: composite, version: states.version(of: composite), time: time, cause: cause.text,
      state: state, transaction: cause.transaction)
  }

  var entries: [PublishedState] { compositeNames.compactMap { entry(of: $0) } }

  func status(_ requests: [String: NodeStatus.Requests]) -> [NodeStatus.Composite] {
    compositeNames.map { name in
      NodeStatus.Composite(
        name: name, state: states.state(of: name).flatMap { try? JSONValue(parsing: $0) },
        version: states.version(of: name), requests: requests[name])
    }
  }
}

/// A coordinator's subscriptions to its components' feeds, in which the components publish their
/// states. The components can run on any host.
final class PeerFeeds {
  private let watch: FeedWatch
  private let log: NodeLog
  /// The components whose feed endpoints come from the peer list.
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

  /// Requests the current state of a node again, and accepts the answer whatever the node has
  /// reported before.
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
  /// Returns the endpoint of a component's inbox; `nil` while the endpoint is unknown. If the
  /// component is the carrier node, the endpoint is within this process.
  func inbox(of component: CoordinatorPlan.Component) -> PeerEndpoint? {
    if let carrier, carrier.name == component.name { return PeerEndpoint(carrier.inbox) }
    guard let peers else { return PeerEndpoint(component.inbox) }
    return peers.endpoints(of: component.name)?.inbox
  }

  /// Returns the endpoint of a component's feed; `nil` while the endpoint is unknown. If the
  /// component is the carrier node and shares this context, the endpoint is within this process.
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

/// Reports the steps of composites to the subscribers of a feed.
final class CompositeStepFeed {
  /// The last published state of a composite.
  private final class LastState {
    var version: UInt64
    /// The state as JSON.
    var state: [UInt8]

    init(_ entry: PublishedState) { (version, state) = (entry.version, entry.state) }
  }

  private let feed: Feed
  private var feedsByComposite: [String: (last: LastState, reported: RateLimitedFeed)] = [:]

  init(to feed: Feed) { self.feed = feed }

  /// Reports the step that led to a new state of a composite.
  func take(_ entry: PublishedState) {
    let name = entry.node ?? feed.node
    let existing = feedsByComposite[name]
    let reported = existing?.reported ?? begin(name, entry)
    // A composite publishes its first state without a step, so there is no step to report.
    guard entry.version > 0 else { return }
    defer {
      feedsByComposite[name]?.last.version = entry.version
      feedsByComposite[name]?.last.state = entry.state
    }
    guard reported.countItem() else { return }
    var body = feed.reportHead(of: name, version: entry.version, index: entry.version)
    body.add("time", entry.time)
    body.add("cause", text: entry.cause)
    // While there was no subscriber, states were not stored, so the previous state may be unknown.
    if let last = existing?.last, last.version + 1 == entry.version {
      body.add("from", json: last.state)
    }
    body.add("state", json: entry.state)
    if let transaction = entry.transaction { body.add("transaction", text: "\(transaction)") }
    reported.report(entry.version, body)
  }

  private func begin(_ name: String, _ entry: PublishedState) -> RateLimitedFeed {
    let last = LastState(entry)
    let reported = RateLimitedFeed(.step, about: name, to: feed) { [unowned feed] skipped in
      var body = feed.reportHead(of: name, version: last.version, index: last.version)
      body.add("skipped", skipped)
      return (last.version, body)
    }
    feedsByComposite[name] = (last, reported)
    return reported
  }
}
