import PipeTransport
import PipeWire

/// What a coordinator reads of the nodes of its composites: their states, from wherever they are.
final class PeerFeeds {
  private let watch: FeedWatch
  private let log: NodeLog
  /// Those whose feeds may be on other hosts.
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
      if let place = services.feed(of: component) { try watch.connect(to: place) }
    }
    services.neighbours?.tell(self)
  }

  /// Asks for a node's last state once more, and takes it whatever was told before.
  func askAgain(_ node: String) { watch.askAgain(node) }

  func close() {
    peers = []
    watch.close()
  }
}

extension PeerFeeds: TalksWithPeers {
  func part(from peer: String, at places: PeerPlaces) {
    if peers.contains(peer) { watch.disconnect(places.feed.endpoint) }
  }

  func meet(_ peer: String, at places: PeerPlaces) {
    guard peers.contains(peer) else { return }
    do {
      try watch.connect(to: places.feed)
    } catch {
      log.warning("the states of '\(peer)' are not heard: \(error)")
    }
  }
}

extension NodeServices {
  /// Where a participant takes messages: within this process, if it lives there; `nil` while that is not known.
  func inbox(of component: CoordinatorPlan.Component) -> PeerPlace? {
    if let host, host.name == component.name { return PeerPlace(host.inbox) }
    guard let neighbours else { return PeerPlace(component.inbox) }
    return neighbours.places(of: component.name)?.inbox
  }

  /// Where a node tells its states: within this process, if it lives there and the contexts are one; `nil` while
  /// that is not known.
  func feed(of component: CoordinatorPlan.Component) -> PeerPlace? {
    if let host, isWithin(component) { return PeerPlace(host.feed) }
    guard let neighbours else { return PeerPlace(component.feed) }
    return neighbours.places(of: component.name)?.feed
  }

  /// Whether a node's feed is where its neighbours say.
  func isOffHost(_ component: CoordinatorPlan.Component) -> Bool {
    neighbours != nil && !isWithin(component)
  }

  private func isWithin(_ component: CoordinatorPlan.Component) -> Bool {
    host?.name == component.name && host?.context === context
  }
}
