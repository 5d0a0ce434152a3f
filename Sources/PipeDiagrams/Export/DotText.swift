import PipeSupport

/// A graph in the DOT language of Graphviz. Source: https://graphviz.org/doc/info/lang.html.
package struct DotText {
  private let graph: Graph
  private let isPlain: Bool

  /// - Parameter isPlain: Whether to omit frames, and to draw straight lines. Graphviz is slow when
  ///   it draws large graphs with frames and curved lines.
  package init(_ graph: Graph, isPlain: Bool = false) {
    self.graph = graph.drawableGraph
    self.isPlain = isPlain
  }

  package var text: String {
    var lines = ["digraph \(Self.quoted([graph.title])) {"]
    lines += [
      "  graph [fontname=\"sans-serif\"\(isPlain ? ", splines=line, nslimit=2" : "")]",
      "  node [shape=box, fontname=\"sans-serif\"]", "  edge [fontname=\"sans-serif\"]",
    ]
    lines += isPlain ? graph.nodes.map { line(of: $0, "  ") } : contents(of: nil, "  ")
    lines += graph.edges.map(line)
    if !graph.notes.isEmpty {
      lines.append("  label=\(Self.quoted(graph.notes, end: "\\l")); labeljust=l")
    }
    return (lines + ["}"]).joined(separator: "\n") + "\n"
  }

  /// Returns the DOT lines for the boxes and frames within a frame.
  private func contents(of cluster: String?, _ indent: String) -> [String] {
    graph.nodes.filter { $0.cluster == cluster }.map { line(of: $0, indent) }
      + graph.clusters.filter { $0.parent == cluster }.flatMap { inner in
        [
          "\(indent)subgraph \(Self.quoted(["cluster_" + inner.id])) {",
          "\(indent)  label=\(Self.quoted(Self.labelLines(inner.lines, inner.marks)))",
        ] + contents(of: inner.id, indent + "  ") + ["\(indent)}"]
      }
  }

  private func line(of node: Graph.Node, _ indent: String) -> String {
    var attributes = ["label=\(Self.quoted(Self.labelLines(node.lines, node.marks)))"]
    var styles: [String] = []
    if node.kind == .state || node.kind == .product { styles.append("rounded") }
    switch node.kind {
    case .monitor: attributes.append("shape=note")
    case .composite: attributes.append("shape=hexagon")
    case .constant: attributes.append("shape=octagon")
    case .unknown: attributes.append("shape=plaintext")
    case .state, .machine, .product: break
    }
    if node.marks.contains(.initial) { styles.append("bold") }
    if node.marks.contains(.current) { attributes.append("penwidth=4") }
    if node.marks.contains(.final) { attributes.append("peripheries=2") }
    if node.marks.contains(.unreached) || node.marks.contains(.down) { styles.append("dotted") }
    if !styles.isEmpty { attributes.append("style=\"\(styles.joined(separator: ","))\"") }
    return "\(indent)\(Self.quoted([node.id])) [\(attributes.joined(separator: ", "))]"
  }

  private func line(of edge: Graph.Edge) -> String {
    var attributes: [String] = []
    if !edge.labels.isEmpty { attributes.append("label=\(Self.quoted(edge.labels))") }
    switch edge.kind {
    case .part: attributes += ["style=dashed", "dir=none"]
    case .watch: attributes += ["style=dashed", "arrowhead=vee"]
    case .transition, .pipe: if !edge.isCertain { attributes.append("style=dotted") }
    }
    let list = attributes.isEmpty ? "" : " [\(attributes.joined(separator: ", "))]"
    return "  \(Self.quoted([edge.source])) -> \(Self.quoted([edge.target]))\(list)"
  }

  private static func labelLines(_ lines: [String], _ marks: Set<Graph.Mark>) -> [String] {
    lines + (Graph.text(of: marks).map { ["(\($0))"] } ?? [])
  }

  /// Returns lines of text as a quoted DOT string.
  /// - Parameter end: The escape sequence at the end of each line: `\n` for centered lines, `\l`
  ///   for lines that are aligned to the left.
  static func quoted(_ lines: [String], end: String = "\\n") -> String {
    let escaped = lines.map {
      // Graphviz decodes HTML entities in labels, so `&` is escaped, too.
      $0.printable.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        .replacing("&", with: "&amp;")
    }
    return "\"" + escaped.joined(separator: end) + (end == "\\l" ? end : "") + "\""
  }
}
