import PipeMachines

/// The wiring of one node, sent to it by the orchestrator in `configure`.
package struct NodeConfiguration: Codable, Hashable, Sendable {
  /// The sending end of a pipe.
  package struct Out: Codable, Hashable, Sendable {
    /// The pipe's name, unique in the topology.
    package var name: String
    /// The out-port in code that feeds the pipe, or `nil` if `rule` does.
    package var port: String?
    /// The state rule that feeds the pipe.
    package var rule: Rule?
    /// The content of the step reports that the pipe sends to a coordinator; `nil` if the pipe is not
    /// for steps.
    package var steps: Steps?
    /// The node that receives; the coordinator, if the receiver is a composite.
    package var receiver: String
    /// The inbox of the receiver.
    package var endpoint: String
    /// The pipe's capacity. Unit: events.
    package var capacity: Int
    /// Whether the node records events before it sends them.
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

  /// The content of a node's step reports to the coordinator of composites with outbound pipes.
  package enum Steps: String, Codable, Hashable, Sendable {
    /// The states.
    case states
    /// The states, and the transactions of this coordinator that caused them.
    case transactions
  }

  /// A rule that sends `send` on each entry into `when`, or of a composite into these states of its nodes.
  package struct Rule: Codable, Hashable, Sendable {
    package var when: String?
    package var send: JSONValue
    /// The composite whose state the rule is about. For coordinators only.
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

  /// A node's part in synchronized events.
  package struct Participant: Codable, Hashable, Sendable {
    /// The node that coordinates the events.
    package var coordinator: String
    /// The events that the node takes only together with other nodes, each with the composites that
    /// synchronize it.
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
  /// The plan of a coordinator.
  package var plan: CoordinatorPlan?

  // `participation` is the name on the wire.
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

/// The failures that a state survives. Source: docs/JOURNAL.md.
public enum Durability: String, CaseIterable, Codable, Hashable, Sendable {
  /// No failure; a loss at a crash is reported. Spelled `none` in a file.
  case volatile = "none"
  /// The end of any process, at any instant.
  case process
  /// A loss of power.
  case power

  /// The default durability of a node.
  public static let standard = Durability.process
}

extension Durability: Comparable {
  /// Whether the left durability survives less than the right one.
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
  /// The event keeps its position and waits until the receiver's state changes.
  case postpone
  /// The receiver fails.
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

/// The body of `peers`: the peer list of a node that is bound for other hosts.
///
/// The frame's `sequence` is the number of the list. A node ignores a list whose number is not
/// above the last one. Each list is complete: if one is lost, the next list corrects everything.
package struct PeerList: Codable, Hashable, Sendable {
  /// Another process in its current incarnation. The list contains only processes that exist.
  package struct Peer: Codable, Hashable, Sendable {
    package var name: String
    package var incarnation: UInt64
    package var endpoints: NodeEndpoints
    /// The public key of the peer's sockets and connections.
    package var key: String
    /// The routing ids that the peer may use at this node's inbox: `pipe/ORDERS`, `sync/LIFT`.
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
  /// The public keys of clients, which may use any routing id that belongs to no pipe, coordinator or node.
  package var clients: [String]

  package init(peers: [Peer], clients: [String]) {
    self.peers = peers
    self.clients = clients
  }
}
