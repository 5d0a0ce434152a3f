import PipeMachines

/// The wiring of one node, sent to it by the orchestrator in `configure`.
package struct NodeConfiguration: Codable, Hashable, Sendable {
  /// The sending end of a pipe.
  package struct Out: Codable, Hashable, Sendable {
    /// The pipe's name, unique in the topology.
    package var name: String
    /// The out-port in code that feeds it, or `nil` where `rule` does.
    package var port: String?
    /// The state rule that feeds it.
    package var rule: Rule?
    /// Whether it takes each step of the node to a coordinator, and what of it; `nil` where it does not.
    package var steps: Steps?
    /// The node that receives; a coordinator, where that is a composite.
    package var receiver: String
    /// The inbox of the receiver.
    package var endpoint: String
    /// Unit: events.
    package var capacity: Int
    /// Whether its events are recorded before they are sent.
    package var isDurable: Bool

    package init(
      name: String, port: String? = nil, rule: Rule? = nil, steps: Steps? = nil, receiver: String,
      endpoint: String, capacity: Int, isDurable: Bool
    ) {
      self.name = name
      self.receiver = receiver
      self.steps = steps
      self.port = port
      self.rule = rule
      self.endpoint = endpoint
      self.capacity = capacity
      self.isDurable = isDurable
    }
  }

  /// What a coordinator is told of a node's steps, whose composites pipes lead from.
  package enum Steps: String, Codable, Hashable, Sendable {
    /// The states.
    case states
    /// The states, and the transactions that have led to them, which are this coordinator's.
    case transactions
  }

  /// On each entry into `when`, or of a composite into these states of its nodes, `send` goes out.
  package struct Rule: Codable, Hashable, Sendable {
    package var when: String?
    package var send: JSONValue
    /// Whose state it is, of a coordinator.
    package var composite: String?
    package var states: [String: String]?

    package init(
      when: String?, send: JSONValue, composite: String? = nil, states: [String: String]? = nil
    ) {
      self.when = when
      self.send = send
      self.composite = composite
      self.states = states
    }
  }

  /// The receiving end of a pipe.
  package struct In: Codable, Hashable, Sendable {
    package var name: String
    package var capacity: Int
    package var onRefused: RefusalPolicy
    /// Whether what is applied is recorded before it is acknowledged.
    package var isDurable: Bool

    package init(
      name: String, capacity: Int, onRefused: RefusalPolicy, isDurable: Bool
    ) {
      self.name = name
      self.capacity = capacity
      self.onRefused = onRefused
      self.isDurable = isDurable
    }
  }

  /// A node's part in synchronized events.
  package struct Participant: Codable, Hashable, Sendable {
    /// The node that coordinates them.
    package var coordinator: String
    /// The events that the node takes only together with others, each with the composites through
    /// which it does.
    package var events: [String: [String]]

    package init(coordinator: String, events: [String: [String]]) {
      self.coordinator = coordinator
      self.events = events
    }
  }

  package var outs: [Out]
  package var ins: [In]
  /// `nil` for a node that takes no synchronized events.
  package var participant: Participant?
  /// What a coordinator coordinates.
  package var plan: CoordinatorPlan?

  // `participation` is the wire's name.
  private enum CodingKeys: String, CodingKey {
    case outs, ins, plan
    case participant = "participation"
  }

  package init(
    outs: [Out] = [], ins: [In] = [], participant: Participant? = nil,
    plan: CoordinatorPlan? = nil
  ) {
    self.outs = outs
    self.ins = ins
    self.participant = participant
    self.plan = plan
  }
}

/// What a state survives. Source: DESIGN.md 3.2.
public enum Durability: String, CaseIterable, Codable, Hashable, Sendable {
  /// Nothing; a loss at a crash is reported. Spelled `none` in a file.
  case volatile = "none"
  /// The end of any process, at any instant.
  case process
  /// A loss of power.
  case power

  /// What a node has whose file says nothing.
  public static let standard = Durability.process
}

extension Durability: Comparable {
  /// Whether it survives less.
  public static func < (left: Durability, right: Durability) -> Bool {
    allCases.firstIndex(of: left)! < allCases.firstIndex(of: right)!
  }
}

/// What happens to an event that the receiver refuses.
public enum RefusalPolicy: String, CaseIterable, Codable, Hashable, Sendable {
  /// It is counted and kept as a dead letter.
  case record
  /// It waits at its place until the receiver's state changes.
  case postpone
  /// The receiver fails.
  case fail
}

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
