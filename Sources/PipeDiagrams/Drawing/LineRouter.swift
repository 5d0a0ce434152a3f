import PipeSupport

/// Finds routes for lines between boxes, cell by cell. A route goes around boxes, and crosses other
/// lines only at right angles.
///
/// The total number of visited cells is limited. When the limit is reached, the remaining lines get
/// no route.
struct LineRouter {
  /// The contents of a cell.
  private struct Cell: OptionSet {
    let rawValue: UInt8
    /// The cell belongs to a box, to a frame's title, or to a text.
    static let blocked = Cell(rawValue: 1)
    static let horizontal = Cell(rawValue: 2)
    static let vertical = Cell(rawValue: 4)
    /// The cell is next to a box. Only lines that end at the box should use the cell.
    static let border = Cell(rawValue: 8)
  }

  /// The four directions of a line, as steps in columns and rows.
  private static let directions = [(1, 0), (0, 1), (-1, 0), (0, -1)]
  /// The maximum number of visits in all searches. A search can visit a cell once for each
  /// direction.
  private static let maximumVisitCount = 6_000_000
  /// The maximum size of a drawing whose lines get routes. Unit: cells.
  private static let maximumCellCount = 4_000_000
  private static let turnCost = 5
  private static let crossingCost = 4
  private static let borderCost = 3
  /// The width to which a text is cut if there is too little space along the line. Unit: columns.
  static let maximumTextWidth = 28

  private let width: Int
  private let height: Int
  private var cells: [Cell]
  private var costsByPlace: [Int32]
  private var originsByPlace: [Int32]
  /// For each place, the number of the last search that has set the place's cost.
  ///
  /// A place is a cell together with a direction; its index is `4 * cell + direction`.
  private var visitRoundsByPlace: [Int32]
  private var currentRound: Int32 = 0
  private var visitedCount = 0

  static func route(_ layout: inout Layout, _ direction: Layout.Direction) {
    let graph = layout.graph
    layout.routes = Array(repeating: [], count: graph.edges.count)
    layout.labels = Array(repeating: nil, count: graph.edges.count)
    guard layout.width * layout.height <= maximumCellCount, !graph.edges.isEmpty else { return }
    var router = LineRouter(layout)
    let places = Dictionary(
      graph.nodes.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { first, _ in first })
    func boxes(_ edge: Graph.Edge) -> (Layout.Rectangle, Layout.Rectangle)? {
      guard let source = places[edge.source], let target = places[edge.target] else { return nil }
      return (layout.boxes[source], layout.boxes[target])
    }
    func length(_ edge: Graph.Edge) -> Int {
      boxes(edge).map { abs($0.x - $1.x) + abs($0.y - $1.y) } ?? 0
    }
    // Short lines are routed first, because they have the fewest possible routes.
    let order = graph.edges.indices.map { (length(graph.edges[$0]), $0) }.sorted { $0 < $1 }
    for (_, edge) in order {
      guard let (source, target) = boxes(graph.edges[edge]) else { continue }
      layout.routes[edge] = router.findRoute(from: source, to: target, direction)
      layout.labels[edge] = router.placeText(graph.edges[edge].labels, layout.routes[edge])
    }
  }

  private init(_ layout: Layout) {
    width = layout.width
    height = layout.height
    cells = Array(repeating: [], count: width * height)
    costsByPlace = Array(repeating: 0, count: 4 * width * height)
    originsByPlace = costsByPlace
    visitRoundsByPlace = costsByPlace
    for box in layout.boxes {
      fill(.init(x: box.x - 1, y: box.y - 1, width: box.width + 2, height: box.height + 2), .border)
    }
    for box in layout.boxes { fill(box, .blocked) }
    for (frame, cluster) in zip(layout.frames, layout.graph.clusters) {
      let texts = Graph.texts(cluster.lines, cluster.marks)
      let columns = (texts.map(\.displayWidth).max() ?? 0) + 2
      fill(
        .init(x: frame.x + 1, y: frame.y + 1, width: columns, height: texts.count), .blocked)
      // A line may cross the border of a frame, but must not run along the border.
      for y in [frame.y, frame.endY - 1] {
        fill(.init(x: frame.x, y: y, width: frame.width, height: 1), .horizontal)
      }
      for x in [frame.x, frame.endX - 1] {
        fill(.init(x: x, y: frame.y, width: 1, height: frame.height), .vertical)
      }
    }
  }

  private mutating func fill(_ area: Layout.Rectangle, _ cell: Cell) {
    for y in max(0, area.y)..<max(0, min(height, area.endY)) {
      for x in max(0, area.x)..<max(0, min(width, area.endX)) {
        cells[y * width + x].formUnion(cell)
      }
    }
  }

  // MARK: Routes of lines

  /// Returns the cells beside a box, without the cells at the box's corners. Each cell has the
  /// direction that leads away from the box, and the cost of a line that begins or ends in the
  /// cell.
  private static func sides(
    _ box: Layout.Rectangle, _ direction: Layout.Direction
  ) -> [(point: Layout.Point, direction: Int, cost: Int)] {
    var sides: [(Layout.Point, Int, Int)] = []
    // The sides that face the other rows have the lower cost.
    let (acrossCost, alongCost) = direction == .down ? (2, 0) : (0, 4)
    for x in (box.x + 1)..<max(box.x + 1, box.endX - 1) {
      let offCenterCost = abs(2 * x + 1 - box.x - box.endX) / 4
      sides.append((.init(x, box.endY), 1, offCenterCost + alongCost))
      sides.append((.init(x, box.y - 1), 3, offCenterCost + alongCost))
    }
    for y in (box.y + 1)..<max(box.y + 1, box.endY - 1) {
      let offCenterCost = direction == .down ? 0 : abs(2 * y + 1 - box.y - box.endY)
      sides.append((.init(box.endX, y), 0, offCenterCost + acrossCost))
      sides.append((.init(box.x - 1, y), 2, offCenterCost + acrossCost))
    }
    return sides
  }

  /// Finds the cheapest route by an A* search.
  private mutating func findRoute(
    from source: Layout.Rectangle, to target: Layout.Rectangle, _ direction: Layout.Direction
  ) -> [Layout.Point] {
    currentRound += 1
    var ends: [Int: Int] = [:]
    for side in Self.sides(target, direction) where isInside(side.point.x, side.point.y) {
      // At its end, the line moves towards the box, so the direction is reversed.
      ends[(side.point.y * width + side.point.x) * 4 + (side.direction + 2) % 4] = side.cost
    }
    var queue = CostQueue()
    func remainingDistance(_ x: Int, _ y: Int) -> Int {
      max(0, max(target.x - 1 - x, x - target.endX))
        + max(0, max(target.y - 1 - y, y - target.endY))
    }
    for side in Self.sides(source, direction) {
      let (x, y) = (side.point.x, side.point.y)
      guard isInside(x, y), cells[y * width + x].subtracting(.border).isEmpty else { continue }
      // A line that leaves its box towards later rows is cheaper, because most targets are in later
      // rows.
      let cost = side.cost + (side.direction == (direction == .down ? 1 : 0) ? 0 : 4)
      let place = (y * width + x) * 4 + side.direction
      recordCost(place, cost, -1)
      queue.insert(place, cost + remainingDistance(x, y))
    }
    while let (place, _) = queue.popFirst() {
      if costsByPlace[place] < 0 { continue }
      visitedCount += 1
      guard visitedCount < Self.maximumVisitCount else { return [] }
      if ends[place] != nil { return markRoute(place) }
      let cost = Int(costsByPlace[place])
      // A negative cost marks this cell and direction as done. The queue may still contain older
      // entries for this cell and direction, which are ignored.
      costsByPlace[place] = -1 - costsByPlace[place]
      let (cell, direction) = (place / 4, place % 4)
      let (x, y) = (cell % width, cell / width)
      let isCrossing = !cells[cell].isDisjoint(with: [.horizontal, .vertical])
      for turn in 0..<4 where turn != (direction + 2) % 4 {
        // A line must not turn in a cell in which it crosses another line.
        if isCrossing, turn != direction { continue }
        let (dx, dy) = Self.directions[turn]
        guard isInside(x + dx, y + dy) else { continue }
        let next = (y + dy) * width + x + dx
        let found = cells[next]
        let sameDirection: Cell = dx == 0 ? .vertical : .horizontal
        if found.contains(.blocked) || found.contains(sameDirection) { continue }
        let nextPlace = next * 4 + turn
        let nextCost =
          cost + 1 + (turn == direction ? 0 : Self.turnCost)
          + (found.isDisjoint(with: [.horizontal, .vertical]) ? 0 : Self.crossingCost)
          + (found.contains(.border) ? Self.borderCost : 0)
        // A line must not end in a cell that another line uses.
        if ends[nextPlace] != nil, !found.subtracting(.border).isEmpty { continue }
        if visitRoundsByPlace[nextPlace] == currentRound {
          let knownCost = Int(costsByPlace[nextPlace])
          if knownCost < 0 || knownCost <= nextCost { continue }
        }
        recordCost(nextPlace, nextCost, place)
        queue.insert(nextPlace, nextCost + remainingDistance(x + dx, y + dy))
      }
    }
    return []
  }

  private func isInside(_ x: Int, _ y: Int) -> Bool {
    x >= 0 && y >= 0 && x < width && y < height
  }

  private mutating func recordCost(_ place: Int, _ cost: Int, _ origin: Int) {
    visitRoundsByPlace[place] = currentRound
    costsByPlace[place] = Int32(cost)
    originsByPlace[place] = Int32(origin)
  }

  /// Marks the cells of a route, which other lines can then cross only at right angles, and returns
  /// the corners.
  /// - Parameter end: The last place of the route.
  private mutating func markRoute(_ end: Int) -> [Layout.Point] {
    var places = [end]
    while let last = places.last, originsByPlace[last] >= 0 {
      places.append(Int(originsByPlace[last]))
    }
    places.reverse()
    var points: [Layout.Point] = []
    for (index, place) in places.enumerated() {
      let (cell, direction) = (place / 4, place % 4)
      let nextDirection = index + 1 < places.count ? places[index + 1] % 4 : direction
      let isEnd = index == 0 || index + 1 == places.count
      if isEnd || nextDirection != direction {
        points.append(.init(cell % width, cell / width))
        cells[cell].formUnion([.horizontal, .vertical])
      } else {
        cells[cell].formUnion(direction % 2 == 0 ? .horizontal : .vertical)
      }
    }
    return points
  }

  // MARK: Texts of lines

  /// Finds space for the text of a line: on a horizontal part of the line, or beside a vertical
  /// part.
  private mutating func placeText(
    _ labels: [String], _ route: [Layout.Point]
  ) -> Layout.Label? {
    guard !labels.isEmpty, !route.isEmpty else { return nil }
    let text = labels.joined(separator: ", ")
    var forms = [[text]]
    if labels.count > 1 { forms.append(labels) }
    if text.displayWidth > Self.maximumTextWidth {
      forms.append([text.cut(to: Self.maximumTextWidth)])
    }
    for lines in forms {
      let columns = lines.map(\.displayWidth).max() ?? 0
      guard let place = findSpace(columns, lines.count, route) else { continue }
      // Blocks the cells between the text and its line. Another line through these cells would seem
      // to belong to the text.
      let isOnLine = cells[place.y * width + place.x].contains(.horizontal)
      let gap = isOnLine ? 0 : 1
      fill(
        .init(x: place.x - gap, y: place.y, width: columns + 2 * gap, height: lines.count),
        .blocked)
      return Layout.Label(position: place, lines: lines)
    }
    return nil
  }

  private func findSpace(_ columns: Int, _ rows: Int, _ route: [Layout.Point]) -> Layout.Point? {
    let parts = Array(zip(route, route.dropFirst()))
    let horizontalParts = parts.filter { $0.y == $1.y }.sorted {
      abs($0.0.x - $0.1.x) > abs($1.0.x - $1.1.x)
    }
    for (from, to) in horizontalParts where rows == 1 && abs(from.x - to.x) >= columns + 3 {
      let first = min(from.x, to.x) + 2
      for x in first...(max(from.x, to.x) - 1 - columns) {
        let isFree = (x..<(x + columns)).allSatisfy { cells[from.y * width + $0] == .horizontal }
        if isFree { return .init(x, from.y) }
      }
    }
    for (from, to) in parts where from.x == to.x {
      let first = min(from.y, to.y)
      let last = max(from.y, to.y) - rows + 1
      guard last >= first else { continue }
      // Prefers positions that are not next to boxes.
      for y in Array((first + 1)..<max(first + 1, last)) + [last, first] {
        for x in [from.x + 2, from.x - 1 - columns] where isFree(x, y, columns, rows, of: from.x) {
          return .init(x, y)
        }
      }
    }
    return nil
  }

  /// Returns whether an area and the cells at its left and right are free. The text's own line, in
  /// the column `line`, may be in these cells.
  private func isFree(_ x: Int, _ y: Int, _ columns: Int, _ rows: Int, of line: Int) -> Bool {
    (y..<(y + rows)).allSatisfy { y in
      (x - 1..<(x + columns + 1)).allSatisfy {
        isInside($0, y) && ($0 == line || cells[y * width + $0].subtracting(.border).isEmpty)
      }
    }
  }
}

/// A priority queue of places, ordered by cost.
private struct CostQueue {
  private var buckets: [[Int]] = []
  private var firstBucket = 0

  mutating func insert(_ place: Int, _ cost: Int) {
    while buckets.count <= cost { buckets.append([]) }
    buckets[cost].append(place)
    firstBucket = min(firstBucket, cost)
  }

  mutating func popFirst() -> (place: Int, cost: Int)? {
    while firstBucket < buckets.count {
      if let place = buckets[firstBucket].popLast() { return (place, firstBucket) }
      firstBucket += 1
    }
    return nil
  }
}
