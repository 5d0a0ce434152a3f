import PipeSupport

/// The positions of a graph's boxes, frames and lines. Unit: cells, each with space for one
/// character.
///
/// Boxes are arranged in rows that follow the direction of the lines. Boxes do not overlap each
/// other. A frame overlaps only the frames and boxes that it contains, or that contain it.
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

    /// The column after the rectangle.
    package var endX: Int { x + width }
    /// The row below the rectangle.
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
    package var place: Point
    package var lines: [String]
  }

  /// The graph; its parts have the same order in the following arrays.
  package let graph: Graph
  package internal(set) var boxes: [Rectangle] = []
  package internal(set) var frames: [Rectangle] = []
  /// For each line, the cells in which it begins, turns and ends, next to the boxes; empty if it
  /// has no route.
  package internal(set) var routes: [[Point]] = []
  /// For each line, its text, if there is space for it.
  package internal(set) var labels: [Label?] = []
  package internal(set) var width = 0
  package internal(set) var height = 0

  /// - Parameters:
  ///   - graph: Any graph; it is made drawable first.
  ///   - rowWidth: The maximum width of a row; further boxes go to another row. Unit: cells.
  package init(_ graph: Graph, rowWidth: Int = 110) {
    self.graph = graph.drawable
    BlockLayout(self.graph, width: rowWidth).place(in: &self)
    LineRouter.route(&self)
    crop()
  }

  /// Removes the empty space at the sides.
  private mutating func crop() {
    let texts = labels.compactMap(\.self).map { label in
      Rectangle(
        x: label.place.x, y: label.place.y, width: label.lines.map(\.displayWidth).max() ?? 0,
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
      labels[index]?.place.x += dx
      labels[index]?.place.y += dy
    }
  }

  /// The lines that the drawing does not show in full: lines without a route, and lines whose text
  /// is missing or cut.
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
  /// Returns the text of a box: its lines, and its marks in words.
  static func texts(_ lines: [String], _ marks: Set<Mark>) -> [String] {
    lines + (text(of: marks).map { ["(\($0))"] } ?? [])
  }
}
