import PipeSupport

/// The positions of a graph's boxes, frames and lines. Unit: cells; a cell is as large as one
/// character.
///
/// Boxes are arranged in rows that follow the direction of the lines. Boxes do not overlap each
/// other. A frame overlaps only the boxes and frames that it contains, and the frames that contain
/// it.
package struct Layout: Hashable, Sendable {
  package struct Point: Hashable, Sendable {
    package var x: Int
    package var y: Int

    package init(_ x: Int, _ y: Int) {
      self.x = x
      self.y = y
    }
  }

  package struct Rectangle: Hashable, Sendable {
    package var x: Int
    package var y: Int
    package var width: Int
    package var height: Int

    package init(x: Int, y: Int, width: Int, height: Int) {
      self.x = x
      self.y = y
      self.width = width
      self.height = height
    }

    /// The first column to the right of the rectangle.
    package var endX: Int { x + width }
    /// The first row below the rectangle.
    package var endY: Int { y + height }

    package func overlaps(_ other: Rectangle) -> Bool {
      x < other.endX && other.x < endX && y < other.endY && other.y < endY
    }

    package func contains(_ other: Rectangle) -> Bool {
      x <= other.x && other.endX <= endX && y <= other.y && other.endY <= endY
    }

    mutating func move(_ dx: Int, _ dy: Int) {
      x += dx
      y += dy
    }
  }

  /// The text of a line between boxes.
  package struct Label: Hashable, Sendable {
    /// The position of the first character.
    package var position: Point
    package var lines: [String]
  }

  /// The graph. The arrays below have the same order as the graph's nodes, clusters and edges.
  package private(set) var graph: Graph
  package internal(set) var boxes: [Rectangle] = []
  package internal(set) var frames: [Rectangle] = []
  /// For each line, the cells in which the line begins, turns and ends. The first and the last cell
  /// are next to the boxes. Empty if no route was found for the line.
  package internal(set) var routes: [[Point]] = []
  /// For each line, its text and the position of the text; `nil` if the line has no text, or there
  /// is no space for the text.
  package internal(set) var labels: [Label?] = []
  package internal(set) var width = 0
  package internal(set) var height = 0

  /// The spaces to add between boxes. They are tried one after the other, until all lines have a
  /// route.
  private static let extraSpaces = [0, 4, 12]
  /// The maximum number of lines in a graph for which more than one of ``extraSpaces`` is tried.
  private static let maximumRetriedLineCount = 150

  /// The direction of most lines.
  package enum Direction: String, Hashable, Sendable, CaseIterable { case down, right }

  /// - Parameters:
  ///   - graph: Any graph. The layout uses ``Graph/drawableGraph``.
  ///   - direction: The direction of most lines.
  ///   - rowLength: The maximum length of a row of boxes, across the direction of the lines. Boxes
  ///     that do not fit go to another row. Unit: cells.
  package init(_ graph: Graph, _ direction: Direction = .down, rowLength: Int = 110) {
    self.graph = graph.drawableGraph
    var best = self
    var fewest = Int.max
    for extraSpace in Self.extraSpaces {
      BlockLayout(self.graph, direction, length: rowLength, extraSpace: extraSpace)
        .place(in: &self)
      LineRouter.route(&self, direction)
      let missing = routes.count { $0.isEmpty }
      if missing < fewest { (best, fewest) = (self, missing) }
      if missing == 0 || self.graph.edges.count > Self.maximumRetriedLineCount { break }
    }
    self = best
    crop()
  }

  /// Removes empty space at the left and right.
  private mutating func crop() {
    let texts = labels.compactMap(\.self).map { label in
      Rectangle(
        x: label.position.x, y: label.position.y, width: label.lines.map(\.displayWidth).max() ?? 0,
        height: label.lines.count)
    }
    let points = routes.joined().map { Rectangle(x: $0.x, y: $0.y, width: 1, height: 1) }
    let all = boxes + frames + texts + points
    let (dx, dy) = (1 - (all.map(\.x).min() ?? 0), 1 - (all.map(\.y).min() ?? 0))
    width = (all.map(\.endX).max() ?? 0) + dx + 1
    height = (all.map(\.endY).max() ?? 0) + dy + 1
    for index in boxes.indices { boxes[index].move(dx, dy) }
    for index in frames.indices { frames[index].move(dx, dy) }
    for index in routes.indices {
      routes[index] = routes[index].map { Point($0.x + dx, $0.y + dy) }
    }
    for index in labels.indices {
      labels[index]?.position.x += dx
      labels[index]?.position.y += dy
    }
  }

  /// Returns the corners of a line, which begins and ends at the borders of its boxes. A line
  /// without a route is straight. Unit: half cells.
  package func line(_ index: Int) -> [Point] {
    let edge = graph.edges[index]
    guard let source = graph.nodes.firstIndex(where: { $0.id == edge.source }),
      let target = graph.nodes.firstIndex(where: { $0.id == edge.target })
    else { return [] }
    let (from, to) = (boxes[source], boxes[target])
    if let first = routes[index].first, let last = routes[index].last {
      return [Self.border(of: from, at: first)] + routes[index].map(Self.center)
        + [Self.border(of: to, at: last)]
    }
    guard source != target else { return [] }
    let end = Point(to.x + to.width / 2, from.y < to.y ? to.y - 1 : to.endY)
    return [
      Self.center(.init(from.x + from.width / 2, from.y + from.height / 2)), Self.center(end),
      Self.border(of: to, at: end),
    ]
  }

  private static func center(_ cell: Point) -> Point { Point(2 * cell.x + 1, 2 * cell.y + 1) }

  /// Returns the point on a box's border that is nearest to a cell. The cell is beside the box.
  private static func border(of box: Rectangle, at cell: Point) -> Point {
    let center = center(cell)
    if cell.y < box.y { return Point(center.x, 2 * box.y) }
    if cell.y >= box.endY { return Point(center.x, 2 * box.endY) }
    return Point(2 * (cell.x < box.x ? box.x : box.endX), center.y)
  }

  /// The indices of the lines that the drawing does not show in full: the line has no route, or its
  /// text is missing or cut.
  package var incompleteEdges: [Int] {
    graph.edges.indices.filter {
      routes[$0].isEmpty
        || !graph.edges[$0].labels.isEmpty
          && labels[$0]?.lines.joined(separator: ", ") != Self.text(of: graph.edges[$0])
    }
  }

  /// Returns the labels of a line as one text.
  static func text(of edge: Graph.Edge) -> String { edge.labels.joined(separator: ", ") }
}

extension Graph {
  /// Returns the lines of text in a box, with its marks as words.
  static func texts(_ lines: [String], _ marks: Set<Mark>) -> [String] {
    lines + (text(of: marks).map { ["(\($0))"] } ?? [])
  }
}
