import PipeSupport

/// Computes the positions of boxes and frames. The contents of a frame are laid out first. Then the
/// whole frame is placed like a box.
struct BlockLayout {
  private let graph: Graph
  /// For each box, the index of the innermost frame around the box; `nil` if there is none.
  ///
  /// In the same way, `frameOfCluster` contains the frame around each frame. If frames contain each
  /// other in a cycle, the cycle is cut.
  private let frameOfNode: [Int?]
  private let frameOfCluster: [Int?]

  private let direction: Layout.Direction
  /// The number of lines that end at each box, by the identifier of the box.
  private let lineCounts: [String: Int]
  /// The maximum length of a row of boxes: a width if lines lead down, a height if lines lead
  /// right.
  ///
  /// Boxes that do not fit go to another row. Unit: cells.
  private let lengthLimit: Int
  /// The space to add between boxes, for their lines. Unit: cells.
  private let extraSpace: Int
  /// The horizontal space (`columnGap`) or the minimum vertical space (`rowGap`) between two boxes
  /// of a row. Unit: cells.
  private static let (columnGap, rowGap) = (8, 2)
  private static let margin = 2
  /// The space that is reserved for labels at the left and the right of the drawing. Unused space
  /// is removed afterwards. Unit: cells.
  private static let sideMargin = LineRouter.maximumTextWidth + 4

  /// An item to place: a box, or a frame with its contents.
  private enum LayoutItem {
    case node(Int)
    case cluster(Int, Block)
  }

  /// A line between two items, with the number of its labels.
  private typealias Line = (source: Int, target: Int, labelCount: Int)

  /// Items with their positions.
  private struct Block {
    var boxes: [(node: Int, at: Layout.Rectangle)] = []
    var frames: [(cluster: Int, at: Layout.Rectangle)] = []
    var width = 0
    var height = 0
  }

  init(_ graph: Graph, _ direction: Layout.Direction, length: Int, extraSpace: Int) {
    self.graph = graph
    self.extraSpace = extraSpace
    self.direction = direction
    lengthLimit = length
    var lineCounts: [String: Int] = [:]
    for edge in graph.edges {
      lineCounts[edge.source, default: 0] += 1
      lineCounts[edge.target, default: 0] += 1
    }
    self.lineCounts = lineCounts
    let numbers = Dictionary(
      graph.clusters.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { first, _ in first })
    var parents = graph.clusters.map { $0.parent.flatMap { numbers[$0] } }
    for start in parents.indices {
      var seenNodes: Set<Int> = [start]
      var place = start
      while let parent = parents[place] {
        if !seenNodes.insert(parent).inserted {
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

  /// Returns the size of a box.
  /// - Parameters:
  ///   - texts: The lines of text in the box.
  ///   - lineCount: The number of connecting lines that end at the box.
  private static func boxSize(_ texts: [String], lineCount: Int = 0) -> (width: Int, height: Int) {
    let height = texts.count + 2
    // Each connecting line needs a cell at a side of the box. A few more cells give the router a
    // choice.
    let lineWidth = min(Graph.maximumTextWidth, (lineCount + 4) / 2 + 4 - height)
    return (max((texts.map(\.displayWidth).max() ?? 0) + 4, lineWidth), height)
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
    let topItems = layoutItems.indices.filter {
      if case .node(let node) = layoutItems[$0] {
        graph.nodes[node].marks.contains(.initial)
      } else {
        false
      }
    }
    let rows = Rows(
      itemCount: layoutItems.count, lines: lines.map { ($0.source, $0.target) }, topItems: topItems)
    return arrange(layoutItems, rows.rows, lines)
  }

  private func framed(_ block: Block, _ cluster: Int) -> Block {
    let texts = Graph.texts(graph.clusters[cluster].lines, graph.clusters[cluster].marks)
    let title = Self.boxSize(texts)
    var framed = Block()
    let margin = 3 + extraSpace / 2
    let top = texts.count + margin
    framed.width = max(block.width + 2 * margin + lineTextWidth(in: cluster), title.width)
    framed.height = block.height + top + margin - 1
    framed.boxes = block.boxes.map { ($0.node, moved($0.at, margin, top)) }
    framed.frames = block.frames.map { ($0.cluster, moved($0.at, margin, top)) }
    framed.frames.append(
      (cluster, .init(x: 0, y: 0, width: framed.width, height: framed.height)))
    return framed
  }

  /// Returns the width to reserve beside a frame's contents, for the labels of lines within the
  /// frame.
  private func lineTextWidth(in cluster: Int) -> Int {
    let nodes = Set(
      graph.nodes.indices.filter { frameOfNode[$0] == cluster }.map { graph.nodes[$0].id })
    let texts = graph.edges.filter { nodes.contains($0.source) && nodes.contains($0.target) }
      .flatMap(\.labels)
    return min(LineRouter.maximumTextWidth, (texts.map(\.displayWidth).max() ?? -1) + 1)
  }

  private func arrange(
    _ layoutItems: [LayoutItem], _ rows: [[Int]], _ lines: [Line]
  ) -> Block {
    let sizes = layoutItems.map { layoutItem -> (width: Int, height: Int) in
      switch layoutItem {
      case .node(let node):
        Self.boxSize(
          Graph.texts(graph.nodes[node].lines, graph.nodes[node].marks),
          lineCount: lineCounts[graph.nodes[node].id] ?? 0)
      case .cluster(_, let block): (block.width, block.height)
      }
    }
    let lengths = sizes.map { direction == .down ? $0.width : $0.height }
    let rows = rows.flatMap { split($0, lengths) }
    let length = rows.map { self.length(of: $0, lengths) }.max() ?? 0
    var degree = Array(repeating: 0, count: layoutItems.count)
    var texts = degree
    for line in lines {
      degree[line.source] += 1
      degree[line.target] += 1
      texts[line.source] = max(texts[line.source], line.labelCount)
      texts[line.target] = max(texts[line.target], line.labelCount)
    }
    var result = Block()
    // `along` is the position along a row, and `across` is the position across the rows.
    var across = 0
    for row in rows {
      var along = (length - self.length(of: row, lengths)) / 2
      let depth = row.map { direction == .down ? sizes[$0].height : sizes[$0].width }.max() ?? 0
      for layoutItem in row {
        let (x, y) = direction == .down ? (along, across) : (across, along)
        let (width, height) = sizes[layoutItem]
        switch layoutItems[layoutItem] {
        case .node(let node):
          result.boxes.append((node, .init(x: x, y: y, width: width, height: height)))
        case .cluster(_, let block):
          result.boxes += block.boxes.map { ($0.node, moved($0.at, x, y)) }
          result.frames += block.frames.map { ($0.cluster, moved($0.at, x, y)) }
        }
        along += lengths[layoutItem] + gap
      }
      (result.width, result.height) =
        direction == .down ? (length, across + depth) : (across + depth, length)
      // Leaves space for the lines between this row and the next row.
      let lineCount = row.reduce(0) { $0 + degree[$1] } / 2
      across += depth + extraSpace
      switch direction {
      case .down: across += 3 + min(8, lineCount) + min(4, row.map { texts[$0] }.max() ?? 0)
      case .right: across += 6 + 2 * min(8, lineCount) + (labelWidth > 0 ? labelWidth + 2 : 0)
      }
    }
    return result
  }

  /// The space between two items of a row.
  private var gap: Int {
    (direction == .down ? Self.columnGap : Self.rowGap + 1) + extraSpace
  }

  /// The width of the longest label, but at most `maximumTextWidth`, to which the router cuts
  /// labels.
  private var labelWidth: Int {
    min(LineRouter.maximumTextWidth, graph.edges.flatMap(\.labels).map(\.displayWidth).max() ?? 0)
  }

  private func moved(_ rectangle: Layout.Rectangle, _ dx: Int, _ dy: Int) -> Layout.Rectangle {
    var rectangle = rectangle
    rectangle.move(dx, dy)
    return rectangle
  }

  private func length(of row: [Int], _ lengths: [Int]) -> Int {
    row.reduce(0) { $0 + lengths[$1] } + gap * max(0, row.count - 1)
  }

  /// Splits a row into parts that fit into the limit. An item that is longer than the limit is a
  /// part by itself.
  private func split(_ row: [Int], _ lengths: [Int]) -> [[Int]] {
    var rowParts: [[Int]] = []
    var currentPart: [Int] = []
    var length = 0
    for layoutItem in row {
      if !currentPart.isEmpty, length + lengths[layoutItem] > lengthLimit {
        rowParts.append(currentPart)
        currentPart = []
        length = 0
      }
      currentPart.append(layoutItem)
      length += lengths[layoutItem] + gap
    }
    return currentPart.isEmpty ? rowParts : rowParts + [currentPart]
  }
}

/// Arranges items in rows, so that most lines lead from a row to a later row, and few lines cross.
struct Rows {
  /// For each row, the indices of its items.
  private(set) var rows: [[Int]] = []
  private let itemCount: Int
  private let connections: [(source: Int, target: Int)]
  private var targetsByItem: [[Int]]
  private var sourcesByItem: [[Int]]

  /// The number of passes that order the items within rows. Further passes would change little.
  private static let sweepCount = 4

  /// - Parameters:
  ///   - itemCount: The number of items.
  ///   - lines: The lines between items; no line connects an item to itself.
  ///   - topItems: The items to place at the top.
  init(itemCount: Int, lines: [(source: Int, target: Int)], topItems: [Int]) {
    self.itemCount = itemCount
    self.connections = lines
    targetsByItem = Array(repeating: [], count: itemCount)
    sourcesByItem = targetsByItem
    for line in lines {
      targetsByItem[line.source].append(line.target)
      sourcesByItem[line.target].append(line.source)
    }
    rank(topItems)
    for sweep in 0..<Self.sweepCount { order(down: sweep % 2 == 0) }
  }

  /// Assigns a row to each item. If a line leads from one item to another, the other item is in a
  /// lower row. Lines that close a cycle are ignored.
  private mutating func rank(_ topItems: [Int]) {
    let unconnected = (0..<itemCount).filter {
      targetsByItem[$0].isEmpty && sourcesByItem[$0].isEmpty
    }
    let startOrder =
      topItems + (0..<itemCount).filter { sourcesByItem[$0].isEmpty } + (0..<itemCount)
    var isOpen = Array(repeating: false, count: itemCount)
    var isDone = isOpen
    var next = Array(repeating: 0, count: itemCount)
    var finishedItems: [Int] = []
    var backEdges: Set<[Int]> = []
    for root in startOrder where !isDone[root] {
      var path = [root]
      isOpen[root] = true
      while let layoutItem = path.last {
        guard next[layoutItem] < targetsByItem[layoutItem].count else {
          isOpen[layoutItem] = false
          isDone[layoutItem] = true
          finishedItems.append(layoutItem)
          path.removeLast()
          continue
        }
        let target = targetsByItem[layoutItem][next[layoutItem]]
        next[layoutItem] += 1
        if isOpen[target] {
          backEdges.insert([layoutItem, target])
        } else if !isDone[target] {
          isOpen[target] = true
          path.append(target)
        }
      }
    }
    var ranks = Array(repeating: 0, count: itemCount)
    for layoutItem in finishedItems.reversed() {
      for target in targetsByItem[layoutItem] where !backEdges.contains([layoutItem, target]) {
        ranks[target] = max(ranks[target], ranks[layoutItem] + 1)
      }
    }
    let unconnectedItems = Set(unconnected)
    rows = Array(repeating: [], count: (ranks.max() ?? -1) + 1)
    for layoutItem in finishedItems.reversed() where !unconnectedItems.contains(layoutItem) {
      rows[ranks[layoutItem]].append(layoutItem)
    }
    rows = rows.filter { !$0.isEmpty }
    // The items without lines form the last row.
    if !unconnected.isEmpty { rows.append(unconnected) }
  }

  /// Orders the items of each row by the average position of their connected items.
  private mutating func order(down: Bool) {
    var places = Array(repeating: 0.0, count: itemCount)
    func recordPositions(_ row: [Int]) {
      for (place, layoutItem) in row.enumerated() {
        places[layoutItem] = (Double(place) + 0.5) / Double(row.count)
      }
    }
    rows.forEach(recordPositions)
    for index in down ? Array(rows.indices) : rows.indices.reversed() {
      let ranked = rows[index].enumerated().map { place, layoutItem -> (Double, Int, Int) in
        let adjacentItems = (down ? sourcesByItem : targetsByItem)[layoutItem]
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
