import PipeSupport

/// How the nodes of a topology are wired, and how they are now where it runs.
package struct Wiring: Hashable, Sendable {
  /// How a node, or a composite, is now.
  package struct Condition: Hashable, Sendable {
    /// Its state for a person, or why there is none.
    package var text: String
    package var isRunning: Bool

    package init(text: String, isRunning: Bool) {
      self.text = text
      self.isRunning = isRunning
    }
  }

  package struct Node: Hashable, Sendable {
    package var name: String
    /// The machine, by its registered name.
    package var machine: String?
    /// The state of a constant, as a person reads it.
    package var constant: String?
    package var now: Condition?

    package init(
      name: String, machine: String?, constant: String? = nil, now: Condition? = nil
    ) {
      self.name = name
      self.machine = machine
      self.constant = constant
      self.now = now
    }
  }

  package struct Pipe: Hashable, Sendable {
    package var name: String
    package var from: String
    package var to: String
    /// What puts events in, and what they are there: `arrivals → updates`, `closed → start`.
    package var label: String
    /// Events that are under way, and that may be.
    package var fill: Fill?

    package init(
      name: String, from: String, to: String, label: String, fill: Fill? = nil
    ) {
      self.name = name
      self.from = from
      self.to = to
      self.label = label
      self.fill = fill
    }
  }

  package struct Fill: Hashable, Sendable {
    package var waiting: Int
    package var capacity: Int

    package init(waiting: Int, capacity: Int) {
      self.waiting = waiting
      self.capacity = capacity
    }
  }

  package struct Composite: Hashable, Sendable {
    package var name: String
    /// Its nodes, those of composites within it included.
    package var nodes: [String]
    /// What they take together: each event with who does.
    package var events: [(name: String, participants: [String])]
    package var now: Condition?

    package init(
      name: String, nodes: [String], events: [(name: String, participants: [String])],
      now: Condition? = nil
    ) {
      self.name = name
      self.nodes = nodes
      self.events = events
      self.now = now
    }
  }

  package struct Monitor: Hashable, Sendable {
    package var name: String
    /// The nodes that it watches; `nil` watches all.
    package var watched: [String]?
    package var now: Condition?

    package init(name: String, watched: [String]?, now: Condition? = nil) {
      self.name = name
      self.watched = watched
      self.now = now
    }
  }

  package var topology: String
  package var nodes: [Node]
  package var pipes: [Pipe]
  package var composites: [Composite]
  package var monitors: [Monitor]

  package init(
    topology: String, nodes: [Node] = [], pipes: [Pipe] = [], composites: [Composite] = [],
    monitors: [Monitor] = []
  ) {
    self.topology = topology
    self.nodes = nodes
    self.pipes = pipes
    self.composites = composites
    self.monitors = monitors
  }
}

extension Wiring.Composite {
  package static func == (left: Self, right: Self) -> Bool {
    left.name == right.name && left.nodes == right.nodes && left.now == right.now
      && left.events.elementsEqual(right.events) { $0 == $1 }
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
