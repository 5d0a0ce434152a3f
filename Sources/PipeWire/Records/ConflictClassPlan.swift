import PipeMachines
import PipeSupport

/// The plan of a conflict class: composites that share participants, and therefore have one
/// coordinator.
///
/// The plan contains everything that the coordinator must know about the topology. The orchestrator
/// sends the plan as JSON.
package struct ConflictClassPlan: Hashable, Codable, Sendable {
  /// The coordinator's name, which is the name of the first of its composites in the topology file.
  package var name: String
  /// The carrier node, in whose process the coordinator runs; `nil` if the coordinator has its own
  /// process.
  package var host: String?
  /// The executable that runs the coordinator, as written in the topology file.
  package var program: String
  /// The durability of the coordinator's journal, which matches the durability of the participants.
  package var durability: Durability
  /// The composites, in the order of the topology file.
  package var composites: [CompositePlan]
  /// All nodes of the composites, in the order of the topology file.
  package var components: [ComponentPlan]

  package init(
    name: String, host: String? = nil, program: String, durability: Durability,
    composites: [CompositePlan], components: [ComponentPlan]
  ) {
    self.host = host
    self.name = name
    self.program = program
    self.durability = durability
    self.composites = composites
    self.components = components
  }

  /// The names of all nodes that take part in synchronized events, sorted. The coordinator locks
  /// these nodes.
  package var participants: [String] {
    Set(composites.flatMap(\.vectors).flatMap(\.participants)).sorted()
  }

  /// Returns the events that a node accepts only together with other nodes, each with the
  /// composites that synchronize the event.
  package func synchronizedEvents(of node: String) -> [String: [String]] {
    var events: [String: [String]] = [:]
    for vector in Set(composites.flatMap(\.vectors)) where vector.participants.contains(node) {
      events[vector.event, default: []].append(vector.composite)
    }
    return events.mapValues { $0.sorted() }
  }

  /// The composite with this name; `nil` if there is none.
  package subscript(composite: String) -> CompositePlan? {
    composites.first { $0.name == composite }
  }
}

/// The plan of one composite in a conflict class.
package struct CompositePlan: Hashable, Codable, Sendable {
  /// The composite's name.
  package var name: String
  /// The components in the order of the topology file: nodes or other composites.
  package var components: [String]
  /// The composite's nodes. The composite's state lists their states in the same order.
  package var nodes: [String]
  /// The synchronization vectors of the events that clients can request, sorted by event. A vector
  /// lists the participants of one event. For an event of a nested composite, the vector names that
  /// composite.
  package var vectors: [SyncVector]
  /// The description of each vector's event, in the order of ``vectors``.
  package var events: [CaseDescription]
  /// The events that the composite's nodes accept, but that clients cannot request from the
  /// composite. Each event has the reason as a sentence.
  package var refusalReasonsByEvent: [String: String]
  /// The events in ``refusalReasonsByEvent`` that exactly one node accepts, each with that node. If such an
  /// event is sent to the composite, the node receives it.
  package var nodesByOwnEvent: [String: String]
  /// The time limits of participants' asynchronous transitions, by event. Unit: milliseconds.
  package var evaluationLimitsByEvent: [String: Int64]?
  /// The registered name of the composite's projection; `nil` if the composite's state is the tuple
  /// of its nodes' states.
  package var projection: String?
  /// The event field that contains the key of the participating instances; `nil` if the
  /// participants are nodes without instances.
  package var key: String?

  private enum CodingKeys: String, CodingKey {
    case name, components, nodes, vectors, events, projection, key
    case refusalReasonsByEvent = "refusals"
    case nodesByOwnEvent = "own"
    case evaluationLimitsByEvent = "limits"
  }

  package init(
    name: String, components: [String], nodes: [String], vectors: [SyncVector],
    events: [CaseDescription], refusalReasonsByEvent: [String: String] = [:],
    nodesByOwnEvent: [String: String] = [:],
    evaluationLimitsByEvent: [String: Int64]? = nil,
    projection: String? = nil, key: String? = nil
  ) {
    self.name = name
    self.key = key
    self.nodesByOwnEvent = nodesByOwnEvent
    self.components = components
    self.nodes = nodes
    self.vectors = vectors
    self.events = events
    self.refusalReasonsByEvent = refusalReasonsByEvent
    self.evaluationLimitsByEvent = evaluationLimitsByEvent
    self.projection = projection
  }

  /// Returns the vector of an event; `nil` if clients cannot request the event.
  package func vector(of event: String) -> SyncVector? { vectors.first { $0.event == event } }

  /// Returns the time limit of participants' asynchronous transitions on an event; zero if there is
  /// none.
  func evaluationLimit(of event: String) -> Duration {
    .milliseconds(evaluationLimitsByEvent?[event] ?? 0)
  }

  /// Returns the reason why clients cannot request an event from the composite, as a sentence.
  package func refusal(of event: String) -> String {
    refusalReasonsByEvent[event]
      ?? "composite '\(name)' has no event '\(event)'"
      + Suggestion.among(vectors.map(\.event), like: event, verb: "it synchronizes")
  }
}

/// The plan of one node of a composite.
package struct ComponentPlan: Hashable, Codable, Sendable {
  /// The node's name.
  package var node: String
  /// The registered name of the node's machine.
  package var machine: String
  /// The node's initial state.
  package var initial: JSONValue

  package init(node: String, machine: String, initial: JSONValue) {
    self.node = node
    self.machine = machine
    self.initial = initial
  }
}

/// The configuration of a coordinator: its composites, and the endpoints of their nodes.
package struct CoordinatorPlan: Codable, Hashable, Sendable {
  /// The endpoints of a node of the composites.
  package struct Component: Codable, Hashable, Sendable {
    package var name: String
    package var inbox: String
    package var feed: String

    package init(name: String, inbox: String, feed: String) {
      self.name = name
      self.inbox = inbox
      self.feed = feed
    }
  }

  package var conflictClass: ConflictClassPlan
  package var components: [Component]
  /// The composites that receive events from pipes, by the pipe's name.
  package var compositesByPipe: [String: String]
  /// The nodes that report their steps to the coordinator, by the name of the pipe that carries the
  /// reports. Only nodes of composites with outbound pipes report their steps.
  package var reportingNodesByPipe: [String: String]?

  private enum CodingKeys: String, CodingKey {
    case conflictClass, components
    case compositesByPipe = "pipes"
    case reportingNodesByPipe = "steps"
  }

  package init(
    _ conflictClass: ConflictClassPlan, components: [Component],
    compositesByPipe: [String: String] = [:],
    reportingNodesByPipe: [String: String]? = nil
  ) {
    self.reportingNodesByPipe = reportingNodesByPipe
    self.conflictClass = conflictClass
    self.components = components
    self.compositesByPipe = compositesByPipe
  }
}
