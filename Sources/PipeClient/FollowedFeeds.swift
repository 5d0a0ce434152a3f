import PipeTransport

/// Feeds that a client follows together.
final class FollowedFeeds {
  enum Source {
    case watch(FeedWatch)
    case reader(FeedReader)
  }

  private let source: Source
  private let names: Set<String>
  /// Whether any of them may be elsewhere later.
  let isMoving: Bool

  /// - Parameter names: Endpoints on this host, or what feeds on others are known by.
  init(_ source: Source, of names: [String]) {
    self.source = source
    self.names = Set(names)
    isMoving = names.contains(where: DeployedPlaces.isName)
  }

  func connect(to place: PeerPlace) throws(TransportError) {
    switch source {
    case .watch(let watch): try watch.connect(to: place)
    case .reader(let reader): try reader.connect(to: place)
    }
  }

  func disconnect(_ endpoint: String) {
    switch source {
    case .watch(let watch): watch.disconnect(endpoint)
    case .reader(let reader): reader.disconnect(endpoint)
    }
  }

  /// Another process of a node tells its states elsewhere.
  func move(_ name: String, from former: String?, to place: PeerPlace) {
    guard names.contains(name) else { return }
    if let former { disconnect(former) }
    // One that cannot be connected to is gone again.
    try? connect(to: place)
  }

  func close() {
    switch source {
    case .watch(let watch): watch.close()
    case .reader(let reader): reader.close()
    }
  }
}
