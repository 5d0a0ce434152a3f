import PipeSupport

/// Places boxes and frames. The contents of a frame are placed first; then the frame is placed like
/// a box.
struct BlockLayout {
  private let graph: Graph
  /// The frame of each box and of each frame, by number. A cycle of nested frames is cut.
  private let frameOfNode: [Int?]
  private let frameOfCluster: [Int?]

  /// The maximum width of a row; further boxes go to another row. Unit: cells.
  private let widthLimit: Int
  private static let columnGap = 8
  private static let margin = 2
  /// Space at the sides for the texts of lines; unused space is removed later.
  private static let sideMargin = LineRouter.textLimit + 4

  /// An item to place: a box, or a frame with its contents.
  private enum LayoutItem {
    case node(Int)
    case cluster(Int, Block)
  }

  /// A line between items, with the number of its texts.
  private typealias Line = (source: Int, target: Int, texts: Int)

  /// Items with their positions.
  private struct Block {
    var boxes: [(node: Int, at: Layout.Rectangle)] = []
    var frames: [(cluster: Int, at: Layout.Rectangle)] = []
    var width = 0
    var height = 0
  }

  init(_ graph: Graph, width: Int) {
    self.graph = graph
    widthLimit = width
    let numbers = Dictionary(
      graph.clusters.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { first, _ in first })
    var parents = graph.clusters.map { $0.parent.flatMap { numbers[$0] } }
    for start in parents.indices {
      var seen: Set<Int> = [start]
      var place = start
      while let parent = parents[place] {
        if !seen.insert(parent).inserted {
          parents[place] = nil
          break
        }
        place = parent
      }
    }
    frameOfCluster = parents
    frameOfNode = graph.nodes.map { $0.cluster.flatMap { numbers[$0] } }
  }

  func place(in layout: inout Layout) {
    let block = block(nil)
    let none = Layout.Rectangle(x: 0, y: 0, width: 0, height: 0)
    layout.boxes = Array(repeating: none, count: graph.nodes.count)
    layout.frames = Array(repeating: none, count: graph.clusters.count)
    for (node, at) in block.boxes { layout.boxes[node] = at }
    for (cluster, at) in block.frames { layout.frames[cluster] = at }
    for index in layout.boxes.indices { layout.boxes[index].move(Self.sideMargin, Self.margin) }
    for index in layout.frames.indices { layout.frames[index].move(Self.sideMargin, Self.margin) }
    layout.width = block.width + 2 * Self.sideMargin
    layout.height = block.height + 2 * Self.margin
  }

  /// Returns the size of a box with the given text.
  private static func size(_ texts: [String]) -> (width: Int, height: Int) {
    ((texts.map(\.displayWidth).max() ?? 0) + 4, texts.count + 2)
  }

  private func block(_ frame: Int?) -> Block {
    var layoutItems: [LayoutItem] = []
    var numbers: [Int: Int] = [:]
    for node in graph.nodes.indices where frameOfNode[node] == frame {
      numbers[node] = layoutItems.count
      layoutItems.append(.node(node))
    }
    for cluster in graph.clusters.indices where frameOfCluster[cluster] == frame {
      let inner = framed(block(cluster), cluster)
      for (node, _) in inner.boxes { numbers[node] = layoutItems.count }
      layoutItems.append(.cluster(cluster, inner))
    }
    let places = Dictionary(
      graph.nodes.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { first, _ in first })
    let lines = graph.edges.compactMap { edge -> Line? in
      guard let source = places[edge.source].flatMap({ numbers[$0] }),
        let target = places[edge.target].flatMap({ numbers[$0] }), source != target
      else { return nil }
      return (source, target, edge.labels.count)
    }
    let first = layoutItems.indices.filter {
      if case .node(let node) = layoutItems[$0] {
        graph.nodes[node].marks.contains(.initial)
      } else {
        false
      }
    }
    let rows = Rows(
      layoutItems.count, lines: lines.map { ($0.source, $0.target) }, first: first)
    return arrange(layoutItems, rows.rows, lines)
  }

  private func framed(_ block: Block, _ cluster: Int) -> Block {
    let texts = Graph.texts(graph.clusters[cluster].lines, graph.clusters[cluster].marks)
    let title = Self.size(texts)
    var framed = Block()
    framed.width = max(block.width + 6 + lineTextWidth(in: cluster), title.width)
    framed.height = block.height + texts.count + 5
    framed.boxes = block.boxes.map { ($0.node, moved($0.at, 3, texts.count + 3)) }
    framed.frames = block.frames.map { ($0.cluster, moved($0.at, 3, texts.count + 3)) }
    framed.frames.append(
      (cluster, .init(x: 0, y: 0, width: framed.width, height: framed.height)))
    return framed
  }

  /// Returns the width of the space beside the contents of a frame, for the texts of lines there.
  private func lineTextWidth(in cluster: Int) -> Int {
    let nodes = Set(
      graph.nodes.indices.filter { frameOfNode[$0] == cluster }.map { graph.nodes[$0].id })
    let texts = graph.edges.filter { nodes.contains($0.source) && nodes.contains($0.target) }
      .flatMap(\.labels)
    return min(LineRouter.textLimit, (texts.map(\.displayWidth).max() ?? -1) + 1)
  }

  private func arrange(
    _ layoutItems: [LayoutItem], _ rows: [[Int]], _ lines: [Line]
  ) -> Block {
    let sizes = layoutItems.map { layoutItem -> (width: Int, height: Int) in
      switch layoutItem {
      case .node(let node):
        Self.size(Graph.texts(graph.nodes[node].lines, graph.nodes[node].marks))
      case .cluster(_, let block): (block.width, block.height)
      }
    }
    let rows = rows.flatMap { split($0, sizes.map(\.width)) }
    let width = rows.map { Self.width(of: $0, sizes.map(\.width)) }.max() ?? 0
    var degree = Array(repeating: 0, count: layoutItems.count)
    var texts = degree
    for line in lines {
      degree[line.source] += 1
      degree[line.target] += 1
      texts[line.source] = max(texts[line.source], line.texts)
      texts[line.target] = max(texts[line.target], line.texts)
    }
    var result = Block()
    result.width = width
    var y = 0
    for row in rows {
      var x = (width - Self.width(of: row, sizes.map(\.width))) / 2
      let height = row.map { sizes[$0].height }.max() ?? 0
      for layoutItem in row {
        switch layoutItems[layoutItem] {
        case .node(let node):
          result.boxes.append(
            (
              node,
              .init(x: x, y: y, width: sizes[layoutItem].width, height: sizes[layoutItem].height)
            ))
        case .cluster(_, let block):
          result.boxes += block.boxes.map { ($0.node, moved($0.at, x, y)) }
          result.frames += block.frames.map { ($0.cluster, moved($0.at, x, y)) }
        }
        x += sizes[layoutItem].width + Self.columnGap
      }
      result.height = y + height
      // Space for the lines between the rows.
      y +=
        height + 3 + min(8, row.reduce(0) { $0 + degree[$1] } / 2)
        + min(4, row.map { texts[$0] }.max() ?? 0)
    }
    return result
  }

  private func moved(_ rectangle: Layout.Rectangle, _ dx: Int, _ dy: Int) -> Layout.Rectangle {
    var rectangle = rectangle
    rectangle.move(dx, dy)
    return rectangle
  }

  private static func width(of row: [Int], _ widths: [Int]) -> Int {
    row.reduce(0) { $0 + widths[$1] } + columnGap * max(0, row.count - 1)
  }

  /// Splits a row into parts that fit into the width limit, as far as possible.
  private func split(_ row: [Int], _ widths: [Int]) -> [[Int]] {
    var parts: [[Int]] = []
    var part: [Int] = []
    var width = 0
    for layoutItem in row {
      if !part.isEmpty, width + widths[layoutItem] > widthLimit {
        parts.append(part)
        part = []
        width = 0
      }
      part.append(layoutItem)
      width += widths[layoutItem] + Self.columnGap
    }
    return part.isEmpty ? parts : parts + [part]
  }
}

/// Arranges items in rows, so that most lines between them go down, and few lines cross.
struct Rows {
  /// The items of each row, by number.
  private(set) var rows: [[Int]] = []
  private let count: Int
  private let lines: [(source: Int, target: Int)]
  private var targets: [[Int]]
  private var sources: [[Int]]

  /// The number of passes that order the rows. More passes improve little.
  private static let sweeps = 4

  /// - Parameters:
  ///   - count: The number of items.
  ///   - lines: The lines between items; no line connects an item to itself.
  ///   - first: The items to place at the top.
  init(_ count: Int, lines: [(source: Int, target: Int)], first: [Int]) {
    self.count = count
    self.lines = lines
    targets = Array(repeating: [], count: count)
    sources = targets
    for line in lines {
      targets[line.source].append(line.target)
      sources[line.target].append(line.source)
    }
    rank(first)
    for sweep in 0..<Self.sweeps { order(down: sweep % 2 == 0) }
  }

  /// Assigns each item to a row after the sources of its lines, ignoring lines that close a cycle.
  private mutating func rank(_ first: [Int]) {
    let unconnected = (0..<count).filter { targets[$0].isEmpty && sources[$0].isEmpty }
    let startOrder = first + (0..<count).filter { sources[$0].isEmpty } + (0..<count)
    var isOpen = Array(repeating: false, count: count)
    var isDone = isOpen
    var next = Array(repeating: 0, count: count)
    var finished: [Int] = []
    var backEdges: Set<[Int]> = []
    for root in startOrder where !isDone[root] {
      var path = [root]
      isOpen[root] = true
      while let layoutItem = path.last {
        guard next[layoutItem] < targets[layoutItem].count else {
          isOpen[layoutItem] = false
          isDone[layoutItem] = true
          finished.append(layoutItem)
          path.removeLast()
          continue
        }
        let target = targets[layoutItem][next[layoutItem]]
        next[layoutItem] += 1
        if isOpen[target] {
          backEdges.insert([layoutItem, target])
        } else if !isDone[target] {
          isOpen[target] = true
          path.append(target)
        }
      }
    }
    var ranks = Array(repeating: 0, count: count)
    for layoutItem in finished.reversed() {
      for target in targets[layoutItem] where !backEdges.contains([layoutItem, target]) {
        ranks[target] = max(ranks[target], ranks[layoutItem] + 1)
      }
    }
    let unconnectedItems = Set(unconnected)
    rows = Array(repeating: [], count: (ranks.max() ?? -1) + 1)
    for layoutItem in finished.reversed() where !unconnectedItems.contains(layoutItem) {
      rows[ranks[layoutItem]].append(layoutItem)
    }
    rows = rows.filter { !$0.isEmpty }
    // Items without lines come last.
    if !unconnected.isEmpty { rows.append(unconnected) }
  }

  /// Orders the items of each row by the average position of their neighbors in other rows.
  private mutating func order(down: Bool) {
    var places = Array(repeating: 0.0, count: count)
    func recordPositions(_ row: [Int]) {
      for (place, layoutItem) in row.enumerated() {
        places[layoutItem] = (Double(place) + 0.5) / Double(row.count)
      }
    }
    rows.forEach(recordPositions)
    for index in down ? Array(rows.indices) : rows.indices.reversed() {
      let ranked = rows[index].enumerated().map { place, layoutItem -> (Double, Int, Int) in
        let adjacentItems = (down ? sources : targets)[layoutItem]
        guard !adjacentItems.isEmpty else { return (places[layoutItem], place, layoutItem) }
        return (
          adjacentItems.reduce(0) { $0 + places[$1] } / Double(adjacentItems.count), place,
          layoutItem
        )
      }
      rows[index] = ranked.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.2)
      recordPositions(rows[index])
    }
  }
}
