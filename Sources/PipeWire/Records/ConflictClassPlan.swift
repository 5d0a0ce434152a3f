import PipeMachines
import PipeSupport

/// Composites that share participants: they run in one process, with one coordinator.
///
/// All that this process needs to know of the topology; it travels there as JSON.
package struct ConflictClassPlan: Hashable, Codable, Sendable {
  /// The name of the coordinator: that of the first composite in the file.
  package var name: String
  /// The node in whose process it lives; `nil` where it has one of its own.
  package var host: String?
  /// The executable that hosts it, as the topology names it.
  package var program: String
  /// What its records survive: as much as the states of its participants do.
  package var durability: Durability
  /// The composites, in the order of the file.
  package var composites: [CompositePlan]
  /// Every node that one of the composites consists of, in the order of the file.
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

  /// Every node that takes part in a synchronized event, sorted: the coordinator locks these.
  package var participants: [String] {
    Set(composites.flatMap(\.vectors).flatMap(\.participants)).sorted()
  }

  /// The events that a node takes only through composites, each with the composites to ask.
  package func synchronizedEvents(of node: String) -> [String: [String]] {
    var events: [String: [String]] = [:]
    for vector in Set(composites.flatMap(\.vectors)) where vector.participants.contains(node) {
      events[vector.event, default: []].append(vector.composite)
    }
    return events.mapValues { $0.sorted() }
  }

  /// The composite of a name, or `nil`.
  package subscript(composite: String) -> CompositePlan? {
    composites.first { $0.name == composite }
  }
}

/// One composite of a conflict class.
package struct CompositePlan: Hashable, Codable, Sendable {
  /// The name.
  package var name: String
  /// Its components as the file lists them: nodes, or other composites.
  package var components: [String]
  /// The nodes that it consists of, in the order of its state's parts.
  package var nodes: [String]
  /// The vectors that it can be asked for, one for each event, by the name of the event. A vector of
  /// a composite inside it has that one's name.
  package var vectors: [SyncVector]
  /// What those events carry, in the same order.
  package var events: [CaseDescription]
  /// Events of its nodes that it cannot be asked for, and why, in a sentence.
  package var refusals: [String: String]
  /// Of those the ones that one node alone takes, and does so by itself: what is sent to the composite
  /// goes there.
  package var own: [String: String]
  /// How long the asynchronous transitions of participants may take, by event. Unit: milliseconds.
  package var limits: [String: Int64]?
  /// The composite state that it is shown as; `nil` for the tuple of its nodes' states.
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

  /// Who takes an event together; `nil` where it cannot be asked for.
  package func vector(of event: String) -> SyncVector? { vectors.first { $0.event == event } }

  /// How long asynchronous transitions on an event may take.
  func evaluationLimit(of event: String) -> Duration { .milliseconds(limits?[event] ?? 0) }

  /// Why the composite cannot be asked for an event, in a sentence.
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
  /// Its machine, by its registered name.
  package var machine: String
  /// The state that it starts in.
  package var initial: JSONValue

  package init(node: String, machine: String, initial: JSONValue) {
    self.node = node
    self.machine = machine
    self.initial = initial
  }
}

/// What a coordinator is to know: the composites of its class, and where their nodes are.
package struct CoordinatorPlan: Codable, Hashable, Sendable {
  /// Where a node of the composites is.
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
  /// The composites that pipes lead to, by the names of the pipes.
  package var pipes: [String: String]
  /// The nodes whose steps come through pipes, by the names of the pipes: those of the composites that
  /// pipes lead from.
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
