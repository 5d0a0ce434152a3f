import PipeSupport

/// A graph drawn with ASCII characters, for a terminal or an email.
package struct AsciiDrawing {
  private let layout: Layout

  /// The maximum number of nodes of a small graph. For a small graph, several layouts are tried, to
  /// find a layout that fits the width.
  private static let maximumSmallNodeCount = 60

  /// - Parameter columns: The width of the terminal; `nil` for no limit. A small graph is laid out
  ///   so that it fits this width, if possible.
  package init(_ graph: Graph, columns: Int? = nil) {
    let first = Layout(graph)
    guard let columns, first.width > columns, graph.nodes.count <= Self.maximumSmallNodeCount else {
      layout = first
      return
    }
    layout =
      [columns, columns * 2 / 3, columns / 3].map { Layout(graph, rowLength: $0) }
      .first { $0.width <= columns } ?? first
  }

  package var text: String {
    var canvas = Canvas(width: layout.width, height: layout.height)
    let graph = layout.graph
    for (frame, cluster) in zip(layout.frames, graph.clusters) {
      let edgeCharacter: Character = cluster.marks.contains(.down) ? "." : "-"
      canvas.draw(
        frame, horizontal: edgeCharacter, vertical: edgeCharacter == "." ? ":" : "|", corner: ".")
      canvas.write(Graph.texts(cluster.lines, cluster.marks), frame.x + 2, frame.y + 1)
    }
    for index in graph.edges.indices { draw(index, on: &canvas) }
    for (box, node) in zip(layout.boxes, graph.nodes) { draw(node, box, on: &canvas) }
    for label in layout.labels.compactMap(\.self) {
      canvas.write(label.lines, label.position.x, label.position.y)
    }
    let lines =
      [graph.title] + canvas.lines + connectionLines + graph.notes.flatMap { ["", "note: \($0)"] }
    return lines.joined(separator: "\n") + "\n"
  }

  private func draw(_ node: Graph.Node, _ box: Layout.Rectangle, on canvas: inout Canvas) {
    let isFaint = !node.marks.isDisjoint(with: [.unreached, .down])
    let strokes: (Character, Character, Character) =
      if node.marks.contains(.current) {
        ("#", "#", "#")
      } else if node.kind == .unknown {
        (" ", " ", " ")
      } else if isFaint {
        (".", ":", ".")
      } else if node.marks.contains(.final) {
        ("=", "|", "+")
      } else {
        ("-", "|", "+")
      }
    canvas.draw(box, horizontal: strokes.0, vertical: strokes.1, corner: strokes.2)
    canvas.write(Graph.texts(node.lines, node.marks), box.x + 2, box.y + 1)
  }

  private func draw(_ index: Int, on canvas: inout Canvas) {
    let route = layout.routes[index]
    guard let first = route.first, let last = route.last else { return }
    let edge = layout.graph.edges[index]
    let isDotted = !edge.isCertain || edge.kind == .part || edge.kind == .watch
    for (from, to) in zip(route, route.dropFirst()) {
      if from.y == to.y {
        for x in min(from.x, to.x)...max(from.x, to.x) {
          canvas.cross(x, from.y, isDotted ? "." : "-")
        }
      } else {
        for y in min(from.y, to.y)...max(from.y, to.y) {
          canvas.cross(from.x, y, isDotted ? ":" : "|")
        }
      }
    }
    for corner in route.dropFirst().dropLast() { canvas.set(corner.x, corner.y, "+") }
    if route.count == 1 { canvas.set(first.x, first.y, isDotted ? ":" : "|") }
    guard edge.kind != .part else { return }
    canvas.set(last.x, last.y, arrowhead(at: last, of: edge))
  }

  /// Returns the arrowhead at the end of a line, pointing at the target box.
  private func arrowhead(at end: Layout.Point, of edge: Graph.Edge) -> Character {
    guard let target = layout.graph.nodes.firstIndex(where: { $0.id == edge.target }) else {
      return "*"
    }
    let box = layout.boxes[target]
    if end.y < box.y { return "v" }
    if end.y >= box.endY { return "^" }
    return end.x < box.x ? ">" : "<"
  }

  /// A list of the connections that the drawing does not show in full, as lines of text.
  private var connectionLines: [String] {
    let lines = layout.incompleteEdges.map { index in
      let edge = layout.graph.edges[index]
      let arrow = edge.kind == .part ? ".." : edge.isCertain && edge.kind != .watch ? "->" : "..>"
      let text = edge.labels.isEmpty ? "" : ": \(Layout.text(of: edge))"
      return "  \(edge.source.printable) \(arrow) \(edge.target.printable)\(text)"
    }
    return lines.isEmpty ? [] : ["", "connections in full:"] + lines
  }
}

/// A grid of characters.
private struct Canvas {
  private var cells: [[Character?]]

  init(width: Int, height: Int) {
    cells = Array(repeating: Array(repeating: " ", count: width), count: height)
  }

  mutating func set(_ x: Int, _ y: Int, _ letter: Character?) {
    guard cells.indices.contains(y), cells[y].indices.contains(x) else { return }
    cells[y][x] = letter
  }

  /// Draws one cell of a line. If another line is already in the cell, draws a crossing.
  mutating func cross(_ x: Int, _ y: Int, _ letter: Character) {
    guard cells.indices.contains(y), cells[y].indices.contains(x) else { return }
    let existing = cells[y][x]
    set(x, y, existing == " " || existing == letter ? letter : "+")
  }

  mutating func draw(
    _ box: Layout.Rectangle, horizontal: Character, vertical: Character, corner: Character
  ) {
    for x in box.x..<box.endX {
      set(x, box.y, horizontal)
      set(x, box.endY - 1, horizontal)
    }
    for y in box.y..<box.endY {
      set(box.x, y, vertical)
      set(box.endX - 1, y, vertical)
    }
    for x in [box.x, box.endX - 1] {
      set(x, box.y, corner)
      set(x, box.endY - 1, corner)
    }
  }

  /// Writes lines of text, starting at a position. A wide character fills two columns.
  mutating func write(_ lines: [String], _ x: Int, _ y: Int) {
    for (row, line) in lines.enumerated() {
      var column = x
      for letter in line {
        let width = letter.displayWidth
        guard width > 0 else { continue }
        set(column, y + row, letter)
        if width == 2 { set(column + 1, y + row, nil) }
        column += width
      }
    }
  }

  /// The rows of the grid, without spaces at their ends, and without empty rows at the bottom.
  var lines: [String] {
    var lines = cells.map { row in
      var line = String(row.compactMap(\.self))
      while line.last == " " { line.removeLast() }
      return line
    }
    while lines.last?.isEmpty == true { lines.removeLast() }
    return lines
  }
}
