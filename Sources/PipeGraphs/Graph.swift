/// A picture before it is drawn: boxes, lines between them, and frames around boxes.
///
/// Whoever draws it, as text of another tool or on a screen, reads this alone.
package struct Graph: Hashable, Sendable {
  /// What a box stands for.
  package enum NodeKind: String, Hashable, Sendable, CaseIterable {
    /// A state of a machine.
    case state
    /// Where a transition leads of which it is not known.
    case unknown
    /// A node with a machine.
    case machine
    /// A node whose state never changes.
    case constant
    /// A composite that shares nodes with others, and so is no frame.
    case composite
    case monitor
    /// A state of a whole topology.
    case product
  }

  /// What is to be seen of a box beside its text. Colour never says it alone.
  package enum Mark: String, Hashable, Sendable, CaseIterable {
    case initial
    /// Nothing leads out of it.
    case final
    case current
    /// It was not met: nothing that was tried leads there.
    case unreached
    /// Its process does not run.
    case down
  }

  /// A box.
  package struct Node: Hashable, Sendable {
    /// Unique among nodes and clusters.
    package var id: String
    package var kind: NodeKind
    /// What stands in it: the name first.
    package var lines: [String]
    package var marks: Set<Mark>
    /// The frame that it is in.
    package var cluster: String?

    package init(
      _ id: String, _ kind: NodeKind, lines: [String]? = nil, marks: Set<Mark> = [],
      cluster: String? = nil
    ) {
      self.id = id
      self.kind = kind
      self.lines = lines ?? [id]
      self.marks = marks
      self.cluster = cluster
    }
  }

  /// What a line stands for.
  package enum EdgeKind: String, Hashable, Sendable, CaseIterable {
    case transition, pipe
    /// From a composite to a node that takes part in its events.
    case part
    /// From a node to a monitor that watches it.
    case watch
  }

  /// A line from a box to a box.
  package struct Edge: Hashable, Sendable {
    package var source: String
    package var target: String
    package var kind: EdgeKind
    package var labels: [String]
    /// Whether it is known to be so; what is not certain is dotted.
    package var isCertain: Bool

    package init(
      _ source: String, _ target: String, _ kind: EdgeKind, labels: [String] = [],
      isCertain: Bool = true
    ) {
      self.source = source
      self.target = target
      self.kind = kind
      self.labels = labels
      self.isCertain = isCertain
    }
  }

  /// A frame around boxes and other frames.
  package struct Cluster: Hashable, Sendable {
    /// Unique among nodes and clusters.
    package var id: String
    /// What stands at its top: the name first.
    package var lines: [String]
    package var marks: Set<Mark>
    /// The frame that it is in.
    package var parent: String?

    package init(
      _ id: String, lines: [String]? = nil, marks: Set<Mark> = [], parent: String? = nil
    ) {
      self.id = id
      self.lines = lines ?? [id]
      self.marks = marks
      self.parent = parent
    }
  }

  package var title: String
  package var nodes: [Node]
  package var edges: [Edge]
  package var clusters: [Cluster]
  /// What is to be known about the picture, in sentences.
  package var notes: [String]

  package init(
    title: String, nodes: [Node] = [], edges: [Edge] = [], clusters: [Cluster] = [],
    notes: [String] = []
  ) {
    self.title = title
    self.nodes = nodes
    self.edges = edges
    self.clusters = clusters
    self.notes = notes
  }

  /// The columns after which a line of text is cut. A state may be a MiB.
  package static let textLimit = 60
  /// The lines of a box, or at a line between boxes, that are shown.
  package static let lineLimit = 12
}
