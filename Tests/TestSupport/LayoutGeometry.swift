import PipeDiagrams
import PipeSupport

/// Checks the positions in a layout.
package enum LayoutGeometry {
  /// Returns the errors of a layout.
  package static func errors(of layout: Layout) -> [String] {
    var errors: [String] = []
    let graph = layout.graph
    let whole = Layout.Rectangle(x: 0, y: 0, width: layout.width, height: layout.height)
    for first in layout.boxes.indices {
      if !whole.contains(layout.boxes[first]) { errors.append("box \(first) is outside") }
      for second in layout.boxes.indices
      where first < second && layout.boxes[first].overlaps(layout.boxes[second]) {
        errors.append("boxes \(first) and \(second) overlap")
      }
    }
    for (number, frame) in zip(layout.frames.indices, layout.frames) {
      let cluster = graph.clusters[number].id
      for (box, node) in zip(layout.boxes, graph.nodes) {
        let isIn = ancestors(of: node.cluster, graph).contains(cluster)
        if isIn != frame.contains(box) { errors.append("\(node.id) is wrongly in \(cluster)") }
        if !isIn, frame.overlaps(box) { errors.append("\(node.id) overlaps \(cluster)") }
      }
      for other in layout.frames.indices where other != number {
        let otherID = graph.clusters[other].id
        let isNested =
          ancestors(of: cluster, graph).contains(otherID)
          || ancestors(of: otherID, graph).contains(cluster)
        if !isNested, frame.overlaps(layout.frames[other]) {
          errors.append("\(cluster) overlaps \(otherID)")
        }
      }
    }
    for label in layout.labels.compactMap(\.self) {
      let area = Layout.Rectangle(
        x: label.position.x, y: label.position.y, width: label.lines.map(\.displayWidth).max() ?? 0,
        height: label.lines.count)
      if layout.boxes.contains(where: { $0.overlaps(area) }) {
        errors.append("text '\(label.lines)' is in a box")
      }
    }
    return errors + lineErrors(layout)
  }

  /// Checks that no line goes through a box or along another line.
  private static func lineErrors(_ layout: Layout) -> [String] {
    var errors: [String] = []
    var taken: [Layout.Point: [(isFlat: Bool, line: Int)]] = [:]
    for (number, route) in layout.routes.enumerated() {
      for (from, to) in zip(route, route.dropFirst()) {
        guard from.x == to.x || from.y == to.y else {
          errors.append("line \(number) is slanted")
          continue
        }
        for x in min(from.x, to.x)...max(from.x, to.x) {
          for y in min(from.y, to.y)...max(from.y, to.y) {
            taken[.init(x, y), default: []].append((from.y == to.y, number))
          }
        }
      }
    }
    for (point, uses) in taken {
      let cell = Layout.Rectangle(x: point.x, y: point.y, width: 1, height: 1)
      if layout.boxes.contains(where: { $0.overlaps(cell) }) { errors.append("a line in a box") }
      for isFlat in [false, true] {
        let lines = Set(uses.filter { $0.isFlat == isFlat }.map(\.line))
        if lines.count > 1 { errors.append("lines \(lines.sorted()) are one at \(point)") }
      }
    }
    return errors
  }

  private static func ancestors(of cluster: String?, _ graph: Graph) -> Set<String> {
    var found: Set<String> = []
    var next = cluster
    while let name = next, found.insert(name).inserted {
      next = graph.clusters.first { $0.id == name }?.parent
    }
    return found
  }
}
