import PipeSupport

/// Where the boxes, frames and lines of a graph are, in cells: a cell has room for one letter.
///
/// Boxes come in rows, in the order in which lines lead from one to the next. No two boxes overlap, nor two
/// frames of which none is in the other, nor a frame and a box that is not in it.
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

    /// The column behind it.
    package var endX: Int { x + width }
    /// The row below it.
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

  /// A text at a line.
  package struct Label: Hashable, Sendable {
    /// Its first letter.
    package var place: Point
    package var lines: [String]
  }

  /// What is drawn, of which the parts are here by their places.
  package let graph: Graph
  package internal(set) var boxes: [Rectangle] = []
  package internal(set) var frames: [Rectangle] = []
  /// Of each line the cells in which it begins, turns and ends, beside the boxes; none where it found no way.
  package internal(set) var routes: [[Point]] = []
  /// Of each line its text, where there is room for it.
  package internal(set) var labels: [Label?] = []
  package internal(set) var width = 0
  package internal(set) var height = 0

  /// - Parameters:
  ///   - graph: Any; it is made drawable.
  ///   - rowWidth: What the boxes of a row take before the rest is put into another row. Unit: cells.
  package init(_ graph: Graph, rowWidth: Int = 110) {
    self.graph = graph.drawable
    BlockLayout(self.graph, width: rowWidth).place(in: &self)
    LineRouter.route(&self)
    crop()
  }

  /// Takes away what is empty at the sides.
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

  /// The lines that are not told in full: those without a way, or whose text found no room or was cut.
  package var untold: [Int] {
    graph.edges.indices.filter {
      routes[$0].isEmpty
        || !graph.edges[$0].labels.isEmpty
          && labels[$0]?.lines.joined(separator: ", ") != Self.text(of: graph.edges[$0])
    }
  }

  /// The text of a line, in one line.
  static func text(of edge: Graph.Edge) -> String { edge.labels.joined(separator: ", ") }
}

extension Graph {
  /// What stands in a box: its lines, and its marks in words.
  static func texts(_ lines: [String], _ marks: Set<Mark>) -> [String] {
    lines + (text(of: marks).map { ["(\($0))"] } ?? [])
  }
}
