import PipeSupport

/// A graph as a picture in SVG, by the layout here. Source: https://www.w3.org/TR/SVG2.
///
/// It refers to nothing outside, and follows the reader's choice of dark or light.
package struct SVGDrawing {
  private let layout: Layout

  /// What a cell takes. Unit: pixels.
  private static let (column, row) = (8, 16)

  package init(_ graph: Graph) { layout = Layout(graph) }

  package var text: String {
    let graph = layout.graph
    let texts = layout.untold.map(Self.sentence(graph)) + graph.notes
    let columns = max(layout.width, (texts.map(\.displayWidth).max() ?? 0) + 4)
    let (width, height) = (
      columns * Self.column, (layout.height + texts.count + 1) * Self.row
    )
    var lines = [
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\(width)\" height=\"\(height)\" "
        + "viewBox=\"0 0 \(width) \(height)\" role=\"img\">",
      "<title>\(Self.escaped(graph.title))</title>", Self.style,
      "<rect class=\"paper\" width=\"\(width)\" height=\"\(height)\"/>",
    ]
    lines += zip(layout.frames, graph.clusters).flatMap { frame, cluster in
      [Self.box(frame, "frame" + Self.names(cluster.marks))]
        + Self.texts(Graph.texts(cluster.lines, cluster.marks), frame.x + 2, frame.y + 1)
    }
    lines += graph.edges.indices.flatMap(line)
    lines += zip(layout.boxes, graph.nodes).flatMap { box, node in draw(node, box) }
    lines += layout.labels.compactMap(\.self).flatMap {
      Self.texts($0.lines, $0.place.x, $0.place.y, "label")
    }
    lines += Self.texts(texts, 2, layout.height)
    return (lines + ["</svg>"]).joined(separator: "\n") + "\n"
  }

  private static let style = """
    <style>
    svg { color-scheme: light dark; --ink: #111; --paper: #fff }
    @media (prefers-color-scheme: dark) { svg { --ink: #eee; --paper: #111 } }
    .paper { fill: var(--paper) }
    .box, .frame { fill: var(--paper); stroke: var(--ink); stroke-width: 1.5 }
    .frame { fill: none; stroke-dasharray: 8 3 }
    .line { fill: none; stroke: var(--ink); stroke-width: 1.5 }
    .unsure, .unreached, .down { stroke-dasharray: 2 4 }
    .part, .watch { stroke-dasharray: 6 4 }
    .current { stroke-width: 5 }
    .initial { stroke-width: 3 }
    .unknown { stroke: none }
    .inner { fill: none }
    .head { fill: var(--ink) }
    text { font: 13px monospace; fill: var(--ink); white-space: pre }
    .label { paint-order: stroke; stroke: var(--paper); stroke-width: 5px }
    </style>
    """

  private func draw(_ node: Graph.Node, _ box: Layout.Rectangle) -> [String] {
    var lines = [Self.box(box, "box \(node.kind.rawValue)" + Self.names(node.marks), node.kind)]
    if node.marks.contains(.final) {
      lines.append(Self.box(box, "box inner", node.kind, inset: 4))
    }
    return lines + Self.texts(Graph.texts(node.lines, node.marks), box.x + 2, box.y + 1)
  }

  /// A line goes to the borders of its boxes; one that found no way there goes straight, behind the others.
  private func line(_ index: Int) -> [String] {
    let edge = layout.graph.edges[index]
    let nodes = layout.graph.nodes
    guard let source = nodes.firstIndex(where: { $0.id == edge.source }),
      let target = nodes.firstIndex(where: { $0.id == edge.target })
    else { return [] }
    let (from, to) = (layout.boxes[source], layout.boxes[target])
    var points = layout.routes[index].map(Self.center)
    if let first = layout.routes[index].first, let last = layout.routes[index].last {
      points.insert(Self.border(of: from, at: first), at: 0)
      points.append(Self.border(of: to, at: last))
    } else if source == target {
      return []
    } else {
      let end =
        Self.below(from, to)
        ? Layout.Point(to.x + to.width / 2, to.y - 1)
        : Layout.Point(to.x + to.width / 2, to.endY)
      points = [Self.center(.init(from.x + from.width / 2, from.y + from.height / 2))]
      points += [Self.center(end), Self.border(of: to, at: end)]
    }
    let kinds = "line \(edge.kind.rawValue)" + (edge.isCertain ? "" : " unsure")
    let list = points.map { "\($0.x),\($0.y)" }.joined(separator: " ")
    let line = "<polyline class=\"\(kinds)\" points=\"\(list)\"/>"
    guard edge.kind != .part, points.count > 1 else { return [line] }
    return [line, Self.head(points[points.count - 2], points[points.count - 1])]
  }

  private static func below(_ from: Layout.Rectangle, _ to: Layout.Rectangle) -> Bool {
    from.y < to.y
  }

  private static func center(_ cell: Layout.Point) -> Layout.Point {
    Layout.Point(cell.x * column + column / 2, cell.y * row + row / 2)
  }

  /// Where a box begins, seen from a cell at its side.
  private static func border(of box: Layout.Rectangle, at cell: Layout.Point) -> Layout.Point {
    let center = center(cell)
    if cell.y < box.y { return .init(center.x, box.y * row) }
    if cell.y >= box.endY { return .init(center.x, box.endY * row) }
    return .init((cell.x < box.x ? box.x : box.endX) * column, center.y)
  }

  private static func head(_ from: Layout.Point, _ tip: Layout.Point) -> String {
    let (dx, dy) = ((tip.x - from.x).signum(), (tip.y - from.y).signum())
    let (x, y) = (tip.x - 9 * dx, tip.y - 9 * dy)
    return "<path class=\"head\" d=\"M\(tip.x),\(tip.y) L\(x - 4 * dy),\(y + 4 * dx) "
      + "L\(x + 4 * dy),\(y - 4 * dx) Z\"/>"
  }

  private static func box(
    _ box: Layout.Rectangle, _ names: String, _ kind: Graph.NodeKind? = nil, inset: Int = 0
  ) -> String {
    let round = kind == .state || kind == .product ? 10 : kind == .composite ? 24 : 2
    return "<rect class=\"\(names)\" x=\"\(box.x * column + inset)\" y=\"\(box.y * row + inset)\" "
      + "width=\"\(box.width * column - 2 * inset)\" height=\"\(box.height * row - 2 * inset)\" "
      + "rx=\"\(round)\"/>"
  }

  private static func names(_ marks: Set<Graph.Mark>) -> String {
    Graph.Mark.allCases.filter(marks.contains).map { " \($0.rawValue)" }.joined()
  }

  private static func texts(_ lines: [String], _ x: Int, _ y: Int, _ name: String? = nil)
    -> [String]
  {
    lines.enumerated().map { place, line in
      let kind = name.map { " class=\"\($0)\"" } ?? ""
      return "<text\(kind) x=\"\(x * column)\" y=\"\((y + place) * row + 12)\" "
        + "textLength=\"\(line.displayWidth * column)\">\(escaped(line))</text>"
    }
  }

  private static func sentence(_ graph: Graph) -> (Int) -> String {
    { index in
      let edge = graph.edges[index]
      let text = edge.labels.isEmpty ? "" : ": \(Layout.text(of: edge))"
      return "\(edge.source.printable) → \(edge.target.printable)\(text)"
    }
  }

  private static func escaped(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
      .replacing("\"", with: "&quot;")
  }
}
