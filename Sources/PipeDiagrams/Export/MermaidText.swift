import PipeSupport

/// A graph as a Mermaid flowchart. Source: https://mermaid.js.org/syntax/flowchart.html.
///
/// The export is a flowchart, because Mermaid's state diagrams have no dotted lines.
package struct MermaidText {
  private let graph: Graph
  /// A short name for each box and frame. Mermaid cannot mistake a short name for a keyword.
  private let namesByID: [String: String]

  package init(_ graph: Graph) {
    self.graph = graph.drawableGraph
    namesByID = self.graph.shortNames
  }

  package var text: String {
    var lines = ["flowchart TD"]
    lines += graph.notes.map { "  %% \($0)" }
    lines += contents(of: nil, "  ") + graph.edges.map(line)
    for mark in Graph.Mark.allCases {
      let marked = graph.nodes.filter { $0.marks.contains(mark) }.compactMap { namesByID[$0.id] }
      guard !marked.isEmpty, let style = Self.style(of: mark) else { continue }
      lines.append("  classDef \(mark)Mark \(style)")
      lines.append("  class \(marked.joined(separator: ",")) \(mark)Mark")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private func contents(of cluster: String?, _ indent: String) -> [String] {
    graph.nodes.filter { $0.cluster == cluster }.map { indent + box(of: $0) }
      + graph.clusters.filter { $0.parent == cluster }.flatMap { inner in
        ["\(indent)subgraph \(namesByID[inner.id] ?? "")[\(Self.quoted(inner.lines))]"]
          + contents(of: inner.id, indent + "  ") + ["\(indent)end"]
      }
  }

  private func box(of node: Graph.Node) -> String {
    let text = Self.quoted(node.lines + (node.markText.map { ["(\($0))"] } ?? []))
    let (open, close) =
      switch node.kind {
      case .state, .product: ("(", ")")
      case .monitor: (">", "]")
      case .composite: ("{{", "}}")
      case .constant: ("[[", "]]")
      case .machine, .unknown: ("[", "]")
      }
    return (namesByID[node.id] ?? "") + open + text + close
  }

  private func line(of edge: Graph.Edge) -> String {
    let arrow =
      switch edge.kind {
      case .part: "-.-"
      case .watch: "-.->"
      case .transition, .pipe: edge.isCertain ? "-->" : "-.->"
      }
    let label = edge.labels.isEmpty ? "" : "|\(Self.quoted(edge.labels))|"
    return "  \(namesByID[edge.source] ?? "") \(arrow)\(label) \(namesByID[edge.target] ?? "")"
  }

  private static func style(of mark: Graph.Mark) -> String? {
    switch mark {
    case .initial: "stroke-width:2px"
    case .final: "stroke-width:2px,stroke-dasharray:8 2"
    case .current: "stroke-width:5px"
    case .unreached, .down: "stroke-dasharray:2 2"
    }
  }

  /// Returns lines of text in quotes. Mermaid's markup characters are replaced by entities.
  static func quoted(_ lines: [String]) -> String {
    let escaped = lines.map { line in
      line.printable.replacing("#", with: "#35;").replacing("\"", with: "#quot;")
        .replacing("<", with: "#lt;").replacing(">", with: "#gt;").replacing("`", with: "#96;")
    }
    return "\"" + escaped.joined(separator: "<br>") + "\""
  }
}

extension Graph {
  /// A short name for each box and frame: `n1`, `c1`.
  var shortNames: [String: String] {
    var names: [String: String] = [:]
    for (number, node) in nodes.enumerated() { names[node.id] = "n\(number + 1)" }
    for (number, cluster) in clusters.enumerated() { names[cluster.id] = "c\(number + 1)" }
    return names
  }
}
