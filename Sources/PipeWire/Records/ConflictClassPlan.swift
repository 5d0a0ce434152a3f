import PipeMachines
import PipeSupport

/// Composites that share participants. They run in one process, with one coordinator.
///
/// The plan has everything that this process must know about the topology. It is sent as JSON.
package struct ConflictClassPlan: Hashable, Codable, Sendable {
  /// The name of the coordinator: the name of the first composite in the file.
  package var name: String
  /// The carrier node, whose process runs the coordinator; `nil` if the coordinator has its own process.
  package var host: String?
  /// The executable that runs the coordinator, as the topology names it.
  package var program: String
  /// The durability of the coordinator's records, which matches the durability of its
  /// participants' states.
  package var durability: Durability
  /// The composites, in the order of the file.
  package var composites: [CompositePlan]
  /// Every node of the composites, in the order of the file.
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

  /// Every node that takes part in a synchronized event, sorted. The coordinator locks these nodes.
  package var participants: [String] {
    Set(composites.flatMap(\.vectors).flatMap(\.participants)).sorted()
  }

  /// Returns the events that a node takes only through composites, each with the composites to ask.
  package func synchronizedEvents(of node: String) -> [String: [String]] {
    var events: [String: [String]] = [:]
    for vector in Set(composites.flatMap(\.vectors)) where vector.participants.contains(node) {
      events[vector.event, default: []].append(vector.composite)
    }
    return events.mapValues { $0.sorted() }
  }

  /// The composite with a name, or `nil`.
  package subscript(composite: String) -> CompositePlan? {
    composites.first { $0.name == composite }
  }
}

/// One composite of a conflict class.
package struct CompositePlan: Hashable, Codable, Sendable {
  /// The composite's name.
  package var name: String
  /// The components as the file lists them: nodes or other composites.
  package var components: [String]
  /// The composite's nodes, in the order of the parts of its state.
  package var nodes: [String]
  /// The vectors that clients can request, one for each event, by the name of the event. A vector
  /// of a nested composite has the name of that composite.
  package var vectors: [SyncVector]
  /// The descriptions of these events, in the same order.
  package var events: [CaseDescription]
  /// The events of its nodes that clients cannot request from the composite, with the reason as a sentence.
  package var refusals: [String: String]
  /// The events among ``refusals`` that exactly one node takes, on its own, with that node. Such an
  /// event sent to the composite goes to the node.
  package var own: [String: String]
  /// The time limits of participants' asynchronous transitions, by event. Unit: milliseconds.
  package var limits: [String: Int64]?
  /// The composite state that represents the composite; `nil` for the tuple of its nodes' states.
  package var projection: String?

  package init(
    name: String, components: [String], nodes: [String], vectors: [SyncVector],
    events: [CaseDescription], refusals: [String: String] = [:], own: [String: String] = [:],
    limits: [String: Int64]? = nil,
    projection: String? = nil
  ) {
    self.name = name
    self.own = own
    self.components = components
    self.nodes = nodes
    self.vectors = vectors
    self.events = events
    self.refusals = refusals
    self.limits = limits
    self.projection = projection
  }

  /// Returns the vector of an event; `nil` if clients cannot request the event.
  package func vector(of event: String) -> SyncVector? { vectors.first { $0.event == event } }

  /// Returns the time limit of asynchronous transitions on an event.
  func evaluationLimit(of event: String) -> Duration { .milliseconds(limits?[event] ?? 0) }

  /// Returns the reason why clients cannot request an event from the composite, as a sentence.
  package func refusal(of event: String) -> String {
    refusals[event]
      ?? "composite '\(name)' has no event '\(event)'"
      + Suggestion.among(vectors.map(\.event), like: event, verb: "it synchronizes")
  }
}

/// One node of a composite.
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

/// The configuration of a coordinator: the composites of its class, and the endpoints of their nodes.
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
  /// The composites that receive from pipes, by the names of the pipes.
  package var pipes: [String: String]
  /// The nodes that report their steps through pipes, by the names of the pipes: the nodes of
  /// composites with outbound pipes.
  package var steps: [String: String]?

  package init(
    _ conflictClass: ConflictClassPlan, components: [Component], pipes: [String: String] = [:],
    steps: [String: String]? = nil
  ) {
    self.steps = steps
    self.conflictClass = conflictClass
    self.components = components
    self.pipes = pipes
  }
}
