import PipeMachines
import PipeSupport

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

extension Graph {
  /// The graph as it can be drawn: lines of the same kind between the same boxes are one line with all their
  /// labels, texts are cut and without control characters, and what leads nowhere is left out.
  package var drawable: Graph {
    var graph = self
    for index in graph.nodes.indices { graph.nodes[index].lines = Self.cut(nodes[index].lines) }
    for index in graph.clusters.indices {
      graph.clusters[index].lines = Self.cut(clusters[index].lines)
    }
    graph.title = title.printable
    graph.notes = notes.map(\.printable)
    var places: [Edge: Int] = [:]
    var merged: [Edge] = []
    let known = Set(nodes.map(\.id))
    for edge in edges where known.contains(edge.source) && known.contains(edge.target) {
      var key = edge
      key.labels = []
      if let place = places[key] {
        merged[place].labels += edge.labels.filter { !merged[place].labels.contains($0) }
      } else {
        places[key] = merged.count
        merged.append(edge)
      }
    }
    for index in merged.indices { merged[index].labels = Self.cut(merged[index].labels) }
    graph.edges = merged
    return graph
  }

  private static func cut(_ lines: [String]) -> [String] {
    let shown = lines.prefix(lines.count > lineLimit ? lineLimit - 1 : lineLimit)
    // A text of a MiB is not measured character by character.
    let cut = shown.map { line in
      let start = String(line.unicodeScalars.prefix(4 * textLimit))
      return start.printable.cut(to: textLimit)
    }
    return lines.count > lineLimit ? cut + ["… \(lines.count - shown.count) more"] : cut
  }
}

extension Graph.Node {
  /// Its marks in words, for forms that have no borders to tell them by.
  package var markText: String? { Graph.text(of: marks) }
}

extension Graph {
  /// `initial, current`; `nil` where there is none.
  static func text(of marks: Set<Mark>) -> String? {
    let words = Mark.allCases.filter(marks.contains).map(\.word)
    return words.isEmpty ? nil : words.joined(separator: ", ")
  }
}

extension Graph.Mark {
  /// What a person reads.
  package var word: String {
    switch self {
    case .initial: "start"
    case .final: "end"
    case .current: "now"
    case .unreached: "not met"
    case .down: "down"
    }
  }
}

extension Graph {
  /// All of it, as programs read it. Nothing is cut.
  package var json: JSONValue {
    [
      "title": .string(title),
      "nodes": .array(
        nodes.map { node in
          [
            "id": .string(node.id), "kind": .string(node.kind.rawValue),
            "lines": .texts(node.lines), "marks": Self.json(node.marks),
            "cluster": .optional(node.cluster),
          ]
        }),
      "edges": .array(
        edges.map { edge in
          [
            "from": .string(edge.source), "to": .string(edge.target),
            "kind": .string(edge.kind.rawValue), "labels": .texts(edge.labels),
            "isCertain": .bool(edge.isCertain),
          ]
        }),
      "clusters": .array(
        clusters.map { cluster in
          [
            "id": .string(cluster.id), "lines": .texts(cluster.lines),
            "marks": Self.json(cluster.marks), "parent": .optional(cluster.parent),
          ]
        }),
      "notes": .texts(notes),
    ]
  }

  private static func json(_ marks: Set<Mark>) -> JSONValue {
    .texts(Mark.allCases.filter(marks.contains).map(\.rawValue))
  }
}

/// How a graph is written.
package enum GraphForm: String, Hashable, Sendable, CaseIterable {
  case ascii, dot, mermaid, plantuml, svg, json

  /// The text, with a line break at its end.
  ///
  /// - Note: `svg` is drawn by the layout here; ``DotText`` is for those who would have it drawn by Graphviz.
  package func text(_ graph: Graph) -> String {
    switch self {
    case .ascii: AsciiDrawing(graph).text
    case .dot: DotText(graph).text
    case .mermaid: MermaidText(graph).text
    case .plantuml: PlantUMLText(graph).text
    case .svg: SVGDrawing(graph).text
    case .json: graph.json.text + "\n"
    }
  }
}
