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
