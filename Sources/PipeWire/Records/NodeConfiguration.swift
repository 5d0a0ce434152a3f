import PipeMachines

/// The pipes and synchronized events of one node. The orchestrator sends the configuration to the
/// node in `configure`.
package struct NodeConfiguration: Codable, Hashable, Sendable {
  /// The sending end of one of the node's pipes.
  package struct Out: Codable, Hashable, Sendable {
    /// The pipe's name, unique in the topology.
    package var name: String
    /// The out-port whose events the pipe carries; `nil` if `rule` or `steps` is set.
    package var port: String?
    /// The rule that sends an event on entering a state; `nil` if `port` or `steps` is set.
    package var rule: Rule?
    /// The content of the step reports that the pipe carries to a coordinator; `nil` if the pipe
    /// carries events.
    package var steps: Steps?
    /// The receiving node. If the pipe's receiver is a composite, this is the composite's
    /// coordinator.
    package var receiver: String
    /// The endpoint of the receiver's inbox.
    package var endpoint: String
    /// The pipe's capacity. Unit: events.
    package var capacity: Int
    /// Whether the node records events before it sends them.
    package var isDurable: Bool
    /// The keys whose events the pipe carries; `nil` if the pipe carries all events.
    package var route: Route?
    /// The schema version of the sent events, which are events of the receiver; `nil` for schema
    /// version 1.
    package var schema: Int?

    package init(
      name: String, port: String? = nil, rule: Rule? = nil, steps: Steps? = nil, receiver: String,
      endpoint: String, capacity: Int, isDurable: Bool, route: Route? = nil, schema: Int? = nil
    ) {
      self.schema = schema
      self.route = route
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

  /// The part of a pipe of the topology file that carries events to one shard of the receiver.
  package struct Route: Codable, Hashable, Sendable {
    /// The name of the pipe in the topology file.
    package var pipe: String
    /// The name of the event field that contains the key.
    package var key: String
    /// The receiving shard.
    package var shard: NodeShard

    package init(pipe: String, key: String, shard: NodeShard) {
      self.pipe = pipe
      self.key = key
      self.shard = shard
    }
  }

  /// The content of a node's step reports to the coordinator of composites with outbound pipes.
  package enum Steps: String, Codable, Hashable, Sendable {
    /// The states only.
    case states
    /// The states, and the transactions of this coordinator that caused the states.
    case transactions
  }

  /// A rule of a pipe: the sender sends the event `send` each time it enters the state `when`. For
  /// a composite, `states` replaces `when`: the rule applies when the composite's nodes enter these
  /// states.
  package struct Rule: Codable, Hashable, Sendable {
    package var when: String?
    package var send: JSONValue
    /// The composite that the rule applies to; set only in the configuration of a coordinator.
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

  /// The receiving end of one of the node's pipes.
  package struct In: Codable, Hashable, Sendable {
    package var name: String
    package var capacity: Int
    package var onRefused: RefusalPolicy
    /// Whether the node records applied events before it acknowledges them.
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

  /// The synchronized events that a node takes part in.
  package struct Participant: Codable, Hashable, Sendable {
    /// The node that coordinates the events.
    package var coordinator: String
    /// The events that the node accepts only together with other nodes, each with the composites
    /// that synchronize the event.
    package var events: [String: [String]]

    package init(coordinator: String, events: [String: [String]]) {
      self.coordinator = coordinator
      self.events = events
    }
  }

  package var outs: [Out]
  package var ins: [In]
  /// The synchronized events of the node; `nil` if there are none.
  package var participant: Participant?
  /// The plan of a coordinator; `nil` for all other nodes.
  package var plan: CoordinatorPlan?
  /// The directory of the recorded run, in which the node logs its steps; `nil` if the run is not
  /// recorded.
  package var run: String?
  /// Whether the node is gated: it takes only the steps that a client requests. `nil` for `false`.
  package var isGated: Bool?

  private enum CodingKeys: String, CodingKey {
    case outs, ins, plan, run
    case isGated = "gated"
    case participant = "participation"
  }

  package init(
    outs: [Out] = [], ins: [In] = [], participant: Participant? = nil,
    plan: CoordinatorPlan? = nil, run: String? = nil, isGated: Bool? = nil
  ) {
    self.isGated = isGated
    self.run = run
    self.outs = outs
    self.ins = ins
    self.participant = participant
    self.plan = plan
  }
}

/// The failures that a node's state survives. Source: docs/JOURNAL.md.
public enum Durability: String, CaseIterable, Codable, Hashable, Sendable {
  /// No failure. The loss of the state in a crash is reported. Written as `none` in topology files.
  case volatile = "none"
  /// The end or crash of any process, at any time.
  case process
  /// A loss of power.
  case power

  /// The default durability of a node.
  public static let standard = Durability.process
}

extension Durability: Comparable {
  /// Whether the left durability survives fewer kinds of failures than the right durability.
  public static func < (left: Durability, right: Durability) -> Bool {
    allCases.firstIndex(of: left)! < allCases.firstIndex(of: right)!
  }
}

/// How a receiver handles an event that it refuses.
public enum RefusalPolicy: String, CaseIterable, Codable, Hashable, Sendable {
  /// The receiver counts the event and keeps it as a dead letter.
  case record
  /// The receiver counts the event and drops it, if its state has no transition for the event or a
  /// guard refuses the event. Otherwise, for example if the machine's function throws, the event
  /// becomes a dead letter.
  case ignore
  /// The receiver keeps the event at its position, and offers it again after the next state change.
  case postpone
  /// The receiver becomes a failed node.
  case fail
}

/// The endpoints at which a node receives events and publishes its states.
package struct NodeEndpoints: Codable, Hashable, Sendable {
  package var inbox: String
  package var feed: String

  package init(inbox: String, feed: String) {
    self.inbox = inbox
    self.feed = feed
  }
}

/// The body of `peers`: the peer list of a node that accepts connections from other hosts.
///
/// The frame's `sequence` is the number of the list. A node ignores a list whose number is not
/// greater than the number of its current list. Each list is complete, so a lost list does no harm
/// once the next list arrives.
package struct PeerList: Codable, Hashable, Sendable {
  /// A process that the node communicates with, in its current incarnation. Only existing processes
  /// are listed.
  package struct Peer: Codable, Hashable, Sendable {
    package var name: String
    package var incarnation: UInt64
    package var endpoints: NodeEndpoints
    /// The public key of the peer.
    package var key: String
    /// The routing ids that the peer may use at this node's inbox, such as `pipe/ORDERS` or
    /// `sync/LIFT`.
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
  /// The public keys of clients. A client may use any routing id except the names of pipes,
  /// coordinators, nodes and agents.
  package var clients: [String]

  package init(peers: [Peer], clients: [String]) {
    self.peers = peers
    self.clients = clients
  }
}
