import PipeMachines
import PipeSupport

/// A diagram before it is drawn: boxes, lines between them, and frames around boxes.
///
/// It is the only input of the exports to other tools and of the drawings.
package struct Graph: Hashable, Sendable {
  /// The meaning of a box.
  package enum NodeKind: String, Hashable, Sendable, CaseIterable {
    /// A state of a machine.
    case state
    /// The unknown target of a transition.
    case unknown
    /// A node with a machine.
    case machine
    /// A node whose state never changes.
    case constant
    /// A composite that shares nodes with other composites, and so cannot be a frame.
    case composite
    case monitor
    /// A state of a whole topology.
    case product
  }

  /// A mark that a box shows in addition to its text. No mark is shown by color alone.
  package enum Mark: String, Hashable, Sendable, CaseIterable {
    case initial
    /// No line leaves the box.
    case final
    case current
    /// The search did not reach the state with the values that it tried.
    case unreached
    /// The process of the node does not run.
    case down
  }

  /// A box.
  package struct Node: Hashable, Sendable {
    /// The identifier, unique among nodes and clusters.
    package var id: String
    package var kind: NodeKind
    /// The text of the box, starting with the name.
    package var lines: [String]
    package var marks: Set<Mark>
    /// The enclosing frame.
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

  /// The meaning of a line.
  package enum EdgeKind: String, Hashable, Sendable, CaseIterable {
    case transition, pipe
    /// From a composite to a node that takes part in its synchronized events.
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
    /// Whether the line is certain; uncertain lines are dotted.
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
    /// The identifier, unique among nodes and clusters.
    package var id: String
    /// The text at the top of the frame, starting with the name.
    package var lines: [String]
    package var marks: Set<Mark>
    /// The enclosing frame.
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
  /// Notes for the reader of the diagram, in sentences.
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

  /// The number of columns at which a line of text is cut. A state may have a size of 1 MiB.
  package static let textLimit = 60
  /// The maximum number of text lines in a box, or at a line between boxes.
  package static let lineLimit = 12
}

extension Graph {
  /// The graph, ready to be drawn.
  ///
  /// Lines of the same kind between the same boxes are merged, with all their labels. Texts are cut
  /// and have no control characters. Lines without a known source or target are left out.
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
    // Cut first: measuring 1 MiB of text character by character would take long.
    let cut = shown.map { line in
      let start = String(line.unicodeScalars.prefix(4 * textLimit))
      return start.printable.cut(to: textLimit)
    }
    return lines.count > lineLimit ? cut + ["… \(lines.count - shown.count) more"] : cut
  }
}

extension Graph.Node {
  /// The marks in words, for formats that cannot show them as borders.
  package var markText: String? { Graph.text(of: marks) }
}

extension Graph {
  /// Returns the marks in words: `start, now`; `nil` if there are none.
  static func text(of marks: Set<Mark>) -> String? {
    let words = Mark.allCases.filter(marks.contains).map(\.word)
    return words.isEmpty ? nil : words.joined(separator: ", ")
  }
}

extension Graph.Mark {
  /// The mark as shown to people.
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
  /// The graph as JSON, with full texts.
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

/// The output format of a graph.
package enum GraphFormat: String, Hashable, Sendable, CaseIterable {
  case ascii, dot, mermaid, plantuml, svg, json

  /// Returns the graph in this format, with a line break at its end.
  ///
  /// - Note: `svg` uses the layout of this module; use ``DotText`` for the layout of Graphviz.
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
