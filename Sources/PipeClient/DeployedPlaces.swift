import PipeTransport
import PipeWire

/// Where the nodes of a topology are that are bound for other hosts, as the orchestrator has told last.
///
/// Each process of a node has another endpoint and another key; what is asked for is the name that stays.
struct DeployedPlaces {
  /// An endpoint that has changed.
  struct Change: Hashable {
    /// See ``NodeInformation/inboxName`` and ``NodeInformation/feedName``.
    let name: String
    let former: String?
  }

  private struct Place: Hashable {
    var endpoint: String
    var key: PublicKey
  }

  private var places: [String: Place] = [:]

  /// Takes what a directory tells. A node that is not there has the place where it was.
  mutating func take(_ nodes: [NodeInformation]) -> [Change] {
    var changes: [Change] = []
    for node in nodes where node.process != nil {
      guard let key = node.key.flatMap({ PublicKey($0) }), !node.inbox.isEmpty else { continue }
      for (name, endpoint) in [(node.inboxName, node.inbox), (node.feedName, node.feed)] {
        let place = Place(endpoint: endpoint, key: key)
        guard places[name] != place else { continue }
        changes.append(Change(name: name, former: places[name]?.endpoint))
        places[name] = place
      }
    }
    return changes
  }

  /// The place of an inbox or a feed; `nil` where it is not known yet.
  func place(of name: String, own: CurveKeyPair) -> PeerPlace? {
    places[name].map { PeerPlace($0.endpoint, key: $0.key, own: own) }
  }

  /// Whether it is the name of one that is bound for other hosts, and no endpoint on this one.
  static func isName(_ name: String) -> Bool { !name.contains("://") }
}
