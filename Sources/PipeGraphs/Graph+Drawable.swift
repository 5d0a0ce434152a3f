import PipeSupport

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
