/// Where a node takes events and tells its states.
package struct NodeEndpoints: Codable, Hashable, Sendable {
  package var inbox: String
  package var feed: String

  package init(inbox: String, feed: String) {
    self.inbox = inbox
    self.feed = feed
  }
}

/// The body of `neighbours`: all whom a node that is bound for other hosts may talk with, and where they are.
///
/// The frame's `sequence` numbers it. One that is not above the last that came says nothing; a list is whole, so
/// that nothing is wrong for longer than until the next one where one was lost.
package struct Neighbourhood: Codable, Hashable, Sendable {
  /// Another process, as it is now: none that is not there is in the list.
  package struct Peer: Codable, Hashable, Sendable {
    package var name: String
    package var incarnation: UInt64
    package var endpoints: NodeEndpoints
    /// The public key of its sockets, and what it connects with.
    package var key: String
    /// The routing ids that it may use at this node's inbox: `pipe/ORDERS`, `sync/LIFT`.
    package var names: [String]

    package init(
      name: String, incarnation: UInt64, endpoints: NodeEndpoints, key: String, names: [String]
    ) {
      self.name = name
      self.incarnation = incarnation
      self.endpoints = endpoints
      self.key = key
      self.names = names
    }
  }

  package var peers: [Peer]
  /// The public keys of clients, who may use any routing id that belongs to no pipe, coordinator or node.
  package var clients: [String]

  package init(peers: [Peer], clients: [String]) {
    self.peers = peers
    self.clients = clients
  }
}
