import PipeSupport

/// A graph as an SVG drawing, with the layout of this module. Source: https://www.w3.org/TR/SVG2.
///
/// The drawing has no external references. Colors are attributes of the shapes, because every
/// renderer supports attributes. In renderers that support media queries, the drawing follows the
/// reader's choice of dark or light mode.
package struct SVGDrawing {
  private let layout: Layout

  /// The size of a cell. Unit: pixels.
  private static let (column, row) = (8, 16)
  /// The colors in light mode.
  private static let (ink, paper) = ("#111", "#fff")

  package init(_ graph: Graph) { layout = Layout(graph) }

  package var text: String {
    let graph = layout.graph
    let texts = layout.incompleteEdges.map(Self.sentence(graph)) + graph.notes
    let columns = max(layout.width, (texts.map(\.displayWidth).max() ?? 0) + 4)
    let (width, height) = (
      columns * Self.column, (layout.height + texts.count + 1) * Self.row
    )
    var lines = [
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\(width)\" height=\"\(height)\" "
        + "viewBox=\"0 0 \(width) \(height)\" role=\"img\" font-family=\"monospace\" font-size=\"13\">",
      "<title>\(Self.escaped(graph.title))</title>", Self.style,
      "<rect class=\"paper\" fill=\"\(Self.paper)\" width=\"\(width)\" height=\"\(height)\"/>",
    ]
    lines += zip(layout.frames, graph.clusters).flatMap { frame, cluster in
      [Self.box(frame, "frame", cluster.marks)]
        + Self.texts(Graph.texts(cluster.lines, cluster.marks), frame.x + 2, frame.y + 1)
    }
    lines += graph.edges.indices.flatMap(lineElements)
    lines += zip(layout.boxes, graph.nodes).flatMap { box, node in draw(node, box) }
    lines += layout.labels.compactMap(\.self).flatMap {
      Self.texts($0.lines, $0.position.x, $0.position.y, hides: true)
    }
    lines += Self.texts(texts, 2, layout.height)
    return (lines + ["</svg>"]).joined(separator: "\n") + "\n"
  }

  /// A style sheet for dark mode. Its rules override the attributes of the shapes.
  private static let style = """
    <style>
    svg { color-scheme: light dark }
    @media (prefers-color-scheme: dark) {
    .paper { fill: #111 } .box, .frame, .line { stroke: #eee } .box { fill: #111 } .inner { fill: none }
    .unknown { stroke: none } .head, text { fill: #eee }
    }
    </style>
    """

  private func draw(_ node: Graph.Node, _ box: Layout.Rectangle) -> [String] {
    var lines = [Self.box(box, "box", node.marks, node.kind)]
    if node.marks.contains(.final) {
      lines.append(Self.box(box, "box inner", [], node.kind, inset: 4))
    }
    return lines + Self.texts(Graph.texts(node.lines, node.marks), box.x + 2, box.y + 1)
  }

  /// Returns the SVG elements of a line. A line without a route is behind the other lines.
  private func lineElements(_ index: Int) -> [String] {
    let edge = layout.graph.edges[index]
    let points = layout.line(index).map {
      Layout.Point($0.x * Self.column / 2, $0.y * Self.row / 2)
    }
    guard !points.isEmpty else { return [] }
    let list = points.map { "\($0.x),\($0.y)" }.joined(separator: " ")
    let line =
      "<polyline class=\"line\" fill=\"none\" \(Self.stroke(1.5, dashes: Self.dashes(of: edge))) "
      + "points=\"\(list)\"/>"
    guard edge.kind != .part, points.count > 1 else { return [line] }
    return [line, Self.arrowhead(points[points.count - 2], points[points.count - 1])]
  }

  private static func arrowhead(_ from: Layout.Point, _ tip: Layout.Point) -> String {
    let (dx, dy) = ((tip.x - from.x).signum(), (tip.y - from.y).signum())
    let (x, y) = (tip.x - 9 * dx, tip.y - 9 * dy)
    return
      "<path class=\"head\" fill=\"\(ink)\" d=\"M\(tip.x),\(tip.y) L\(x - 4 * dy),\(y + 4 * dx) "
      + "L\(x + 4 * dy),\(y - 4 * dx) Z\"/>"
  }

  private static func box(
    _ box: Layout.Rectangle, _ names: String, _ marks: Set<Graph.Mark>,
    _ kind: Graph.NodeKind? = nil,
    inset: Int = 0
  ) -> String {
    let round = kind == .state || kind == .product ? 10 : kind == .composite ? 24 : 2
    // A frame, which has no kind, and the second border of a box have no fill, so that they do not
    // hide the shapes behind them.
    let fill = kind == nil || inset > 0 ? "none" : paper
    let stroke =
      kind == .unknown
      ? "stroke=\"none\"" : stroke(width(of: marks), dashes: dashes(of: marks, kind))
    let names = names + (kind == .unknown ? " unknown" : "")
    return "<rect class=\"\(names)\" fill=\"\(fill)\" \(stroke) "
      + "x=\"\(box.x * column + inset)\" y=\"\(box.y * row + inset)\" "
      + "width=\"\(box.width * column - 2 * inset)\" height=\"\(box.height * row - 2 * inset)\" "
      + "rx=\"\(round)\"/>"
  }

  private static func stroke(_ width: Double, dashes: String?) -> String {
    "stroke=\"\(ink)\" stroke-width=\"\(width)\""
      + (dashes.map { " stroke-dasharray=\"\($0)\"" } ?? "")
  }

  private static func width(of marks: Set<Graph.Mark>) -> Double {
    marks.contains(.current) ? 5 : marks.contains(.initial) ? 3 : 1.5
  }

  private static func dashes(of marks: Set<Graph.Mark>, _ kind: Graph.NodeKind?) -> String? {
    !marks.isDisjoint(with: [.unreached, .down]) ? "2 4" : kind == nil ? "8 3" : nil
  }

  private static func dashes(of edge: Graph.Edge) -> String? {
    switch edge.kind {
    case .part, .watch: "6 4"
    case .transition, .pipe: edge.isCertain ? nil : "2 4"
    }
  }

  /// - Parameter hides: Whether the background of the text hides the shapes behind it.
  private static func texts(_ lines: [String], _ x: Int, _ y: Int, hides: Bool = false) -> [String]
  {
    lines.enumerated().flatMap { place, line in
      let (left, top, width) = (x * column, (y + place) * row, line.displayWidth * column)
      let background =
        "<rect class=\"paper\" fill=\"\(paper)\" x=\"\(left)\" y=\"\(top)\" width=\"\(width)\" "
        + "height=\"\(row)\"/>"
      return (hides ? [background] : []) + [
        "<text fill=\"\(ink)\" xml:space=\"preserve\" x=\"\(left)\" y=\"\(top + 12)\" "
          + "textLength=\"\(width)\">\(escaped(line))</text>"
      ]
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
