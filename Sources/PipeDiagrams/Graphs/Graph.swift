import PipeMachines
import PipeSupport

/// A diagram before it is drawn: boxes, lines between boxes, and frames around boxes.
///
/// All drawings, and all exports to other tools, are created from this type.
package struct Graph: Hashable, Sendable {
  /// The meaning of a box.
  package enum NodeKind: String, Hashable, Sendable, CaseIterable {
    /// A state of a machine.
    case state
    /// The unknown target of transitions.
    case unknown
    /// A node with a machine.
    case machine
    /// A node whose state never changes.
    case constant
    /// A composite that cannot be drawn as a frame, because it shares nodes with other composites.
    case composite
    case monitor
    /// A combined state of all nodes of a topology.
    case product
  }

  /// A mark that a box shows in addition to its text. Colour is never the only sign of a mark.
  package enum Mark: String, Hashable, Sendable, CaseIterable {
    case initial
    /// No line leaves the box.
    case final
    case current
    /// The search for reachable states has not reached this state with the values that were tried.
    case unreached
    /// The node's process is not running.
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
    /// The identifier of the frame that contains the box; `nil` if no frame contains it.
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
    /// The line leads from a composite to a node that participates in the composite's synchronized
    /// events.
    case part
    /// The line leads from a node to a monitor that receives the node's states.
    case watch
  }

  /// A line between two boxes.
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
    /// The identifier of the frame that contains this frame; `nil` if no frame contains it.
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
  /// Notes for the diagram's reader, as sentences.
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

  /// The maximum width of a line of text. Longer lines are cut, since a state's text may be 1 MiB
  /// long. Unit: columns.
  package static let maximumTextWidth = 60
  /// The maximum number of lines of text in a box, or in the label of a line.
  package static let maximumLineCount = 12
}

extension Graph {
  /// The graph, prepared for drawing.
  ///
  /// Lines of the same kind between the same boxes are merged into one line with all their labels.
  /// Lines without a known source or target are omitted. Texts are cut, and contain no control
  /// characters.
  package var drawableGraph: Graph {
    var graph = self
    for index in graph.nodes.indices {
      graph.nodes[index].lines = Self.truncatedLines(nodes[index].lines)
    }
    for index in graph.clusters.indices {
      graph.clusters[index].lines = Self.truncatedLines(clusters[index].lines)
    }
    graph.title = title.printable
    graph.notes = notes.map(\.printable)
    var edgeIndices: [Edge: Int] = [:]
    var mergedEdges: [Edge] = []
    let known = Set(nodes.map(\.id))
    for edge in edges where known.contains(edge.source) && known.contains(edge.target) {
      var key = edge
      key.labels = []
      if let place = edgeIndices[key] {
        mergedEdges[place].labels += edge.labels.filter { !mergedEdges[place].labels.contains($0) }
      } else {
        edgeIndices[key] = mergedEdges.count
        mergedEdges.append(edge)
      }
    }
    for index in mergedEdges.indices {
      mergedEdges[index].labels = Self.truncatedLines(mergedEdges[index].labels)
    }
    graph.edges = mergedEdges
    return graph
  }

  private static func truncatedLines(_ lines: [String]) -> [String] {
    let shown = lines.prefix(
      lines.count > maximumLineCount ? maximumLineCount - 1 : maximumLineCount)
    // Cuts the text roughly before it is measured, because measuring 1 MiB of text is slow.
    let cut = shown.map { line in
      let start = String(line.unicodeScalars.prefix(4 * maximumTextWidth))
      return start.printable.cut(to: maximumTextWidth)
    }
    return lines.count > maximumLineCount ? cut + ["… \(lines.count - shown.count) more"] : cut
  }
}

extension Graph.Node {
  /// The box's marks as words, for formats that cannot draw marks as borders.
  package var markText: String? { Graph.text(of: marks) }
}

extension Graph {
  /// Returns marks as words, such as `start, now`; `nil` if there are no marks.
  static func text(of marks: Set<Mark>) -> String? {
    let words = Mark.allCases.filter(marks.contains).map(\.word)
    return words.isEmpty ? nil : words.joined(separator: ", ")
  }
}

extension Graph.Mark {
  /// The word that diagrams show for the mark.
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
  /// The graph as JSON. Texts are not cut.
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

  /// Returns a graph in this format, with a line break at the end.
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
