import PipeSupport

/// A graph in the language of PlantUML. Source: https://plantuml.com/component-diagram,
/// https://plantuml.com/state-diagram.
package struct PlantUMLText {
  private let graph: Graph
  private let namesByID: [String: String]

  package init(_ graph: Graph) {
    self.graph = graph.drawableGraph
    namesByID = self.graph.shortNames
  }

  package var text: String {
    var lines = ["@startuml", "title \(Self.escaped([graph.title]))"]
    lines += contents(of: nil, "")
    lines += isChart ? chartEnds : []
    lines += graph.edges.map(line)
    lines += graph.notes.flatMap { ["legend", Self.escaped([$0]), "endlegend"] }
    return (lines + ["@enduml"]).joined(separator: "\n") + "\n"
  }

  /// Whether the graph shows states. PlantUML has a separate kind of diagram for states.
  private var isChart: Bool {
    graph.nodes.allSatisfy { [.state, .unknown, .product].contains($0.kind) }
  }

  private var chartEnds: [String] {
    graph.nodes.filter { $0.marks.contains(.initial) }.map { "[*] --> \(namesByID[$0.id] ?? "")" }
      + graph.nodes.filter { $0.marks.contains(.final) }.map { "\(namesByID[$0.id] ?? "") --> [*]" }
  }

  private func contents(of cluster: String?, _ indent: String) -> [String] {
    graph.nodes.filter { $0.cluster == cluster }.map { indent + box(of: $0) }
      + graph.clusters.filter { $0.parent == cluster }.flatMap { inner in
        [
          "\(indent)rectangle \"\(Self.escaped(inner.lines))\" as \(namesByID[inner.id] ?? "") {"
        ] + contents(of: inner.id, indent + "  ") + ["\(indent)}"]
      }
  }

  private func box(of node: Graph.Node) -> String {
    let text = Self.escaped(node.lines + (node.markText.map { ["(\($0))"] } ?? []))
    let word =
      switch node.kind {
      case .state, .unknown, .product: isChart ? "state" : "rectangle"
      case .machine: "component"
      case .constant: "card"
      case .composite: "node"
      case .monitor: "artifact"
      }
    var style = ""
    if node.marks.contains(.current) {
      style = " #line.bold"
    } else if node.marks.contains(.unreached) || node.marks.contains(.down) {
      style = " #line.dotted"
    }
    return "\(word) \"\(text)\" as \(namesByID[node.id] ?? "")\(style)"
  }

  private func line(of edge: Graph.Edge) -> String {
    let arrow =
      switch edge.kind {
      case .part: isChart ? "-[dashed]-" : ".."
      case .watch: "-[dashed]->"
      case .transition, .pipe: edge.isCertain ? "-->" : "-[dotted]->"
      }
    let label = edge.labels.isEmpty ? "" : " : " + Self.escaped(edge.labels)
    return "\(namesByID[edge.source] ?? "") \(arrow) \(namesByID[edge.target] ?? "")\(label)"
  }

  /// Returns lines of text in which markup characters, quotes and line breaks are written as
  /// character numbers.
  static func escaped(_ lines: [String]) -> String {
    lines.map { line in
      var text = ""
      for scalar in line.printable.unicodeScalars {
        if "'\"\\<>~*/_-[]{}&%$!@|#".unicodeScalars.contains(scalar) {
          // PlantUML 1.2020, which Debian installs, does not decode the numbers of these two
          // characters.
          text += scalar == "\\" ? "<U+005C>" : scalar == "$" ? "<U+0024>" : "&#\(scalar.value);"
        } else {
          text.unicodeScalars.append(scalar)
        }
      }
      return text
    }.joined(separator: "\\n")
  }
}
