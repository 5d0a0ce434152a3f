import PipeRuntime

/// All states of a small topology, and the steps between them, as a drawing of Graphviz or Mermaid.
package enum GraphDrawing: String, CaseIterable {
  case dot
  case mermaid = "mmd"

  /// The form that a file of this name has.
  package init?(path: String) {
    guard let dot = path.lastIndex(of: "."),
      let form = GraphDrawing(rawValue: String(path[path.index(after: dot)...]))
    else { return nil }
    self = form
  }

  package func text(_ graph: ExploredGraph) -> String {
    let lines =
      switch self {
      case .dot: dot(graph)
      case .mermaid: mermaid(graph)
      }
    return lines.joined(separator: "\n") + "\n"
  }

  private func dot(_ graph: ExploredGraph) -> [String] {
    func quoted(_ lines: [String]) -> String {
      "\""
        + lines.map { $0.printable.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") }
        .joined(separator: "\\n") + "\""
    }
    return ["digraph states {", "  node [shape=box]"]
      + graph.states.enumerated().map { number, lines in
        "  s\(number) [label=\(quoted(lines))\(number == 0 ? ", style=bold" : "")]"
      }
      + graph.steps.map { "  s\($0.source) -> s\($0.target) [label=\(quoted([$0.label]))]" } + ["}"]
  }

  private func mermaid(_ graph: ExploredGraph) -> [String] {
    func quoted(_ lines: [String]) -> String {
      "\"" + lines.map { $0.printable.replacing("\"", with: "#quot;") }.joined(separator: "<br>")
        + "\""
    }
    return ["flowchart TD"]
      + graph.states.enumerated().map { "  s\($0)[\(quoted($1))]" }
      + graph.steps.map { "  s\($0.source) -->|\(quoted([$0.label]))| s\($0.target)" }
  }
}
