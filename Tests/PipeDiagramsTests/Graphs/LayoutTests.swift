import PipeDiagrams
import PipeSupport
import Testing

@Suite("The layout of a graph")
struct LayoutTests {
  /// Returns the errors of a layout.
  static func problems(_ layout: Layout) -> [String] {
    var problems: [String] = []
    let graph = layout.graph
    let whole = Layout.Rectangle(x: 0, y: 0, width: layout.width, height: layout.height)
    for first in layout.boxes.indices {
      if !whole.contains(layout.boxes[first]) { problems.append("box \(first) is outside") }
      for second in layout.boxes.indices
      where first < second && layout.boxes[first].overlaps(layout.boxes[second]) {
        problems.append("boxes \(first) and \(second) overlap")
      }
    }
    for (number, frame) in zip(layout.frames.indices, layout.frames) {
      let cluster = graph.clusters[number].id
      for (box, node) in zip(layout.boxes, graph.nodes) {
        let isIn = ancestors(of: node.cluster, graph).contains(cluster)
        if isIn != frame.contains(box) { problems.append("\(node.id) is wrongly in \(cluster)") }
        if !isIn, frame.overlaps(box) { problems.append("\(node.id) overlaps \(cluster)") }
      }
      for other in layout.frames.indices where other != number {
        let otherID = graph.clusters[other].id
        let isNested =
          ancestors(of: cluster, graph).contains(otherID)
          || ancestors(of: otherID, graph).contains(cluster)
        if !isNested, frame.overlaps(layout.frames[other]) {
          problems.append("\(cluster) overlaps \(otherID)")
        }
      }
    }
    for label in layout.labels.compactMap(\.self) {
      let area = Layout.Rectangle(
        x: label.place.x, y: label.place.y, width: label.lines.map(\.displayWidth).max() ?? 0,
        height: label.lines.count)
      if layout.boxes.contains(where: { $0.overlaps(area) }) {
        problems.append("text '\(label.lines)' is in a box")
      }
    }
    return problems + lineProblems(layout)
  }

  /// Checks that no line goes through a box or along another line.
  private static func lineProblems(_ layout: Layout) -> [String] {
    var problems: [String] = []
    var taken: [Layout.Point: [(isFlat: Bool, line: Int)]] = [:]
    for (number, route) in layout.routes.enumerated() {
      for (from, to) in zip(route, route.dropFirst()) {
        guard from.x == to.x || from.y == to.y else {
          problems.append("line \(number) is slanted")
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
      if layout.boxes.contains(where: { $0.overlaps(cell) }) { problems.append("a line in a box") }
      for isFlat in [false, true] {
        let lines = Set(uses.filter { $0.isFlat == isFlat }.map(\.line))
        if lines.count > 1 { problems.append("lines \(lines.sorted()) are one at \(point)") }
      }
    }
    return problems
  }

  private static func ancestors(of cluster: String?, _ graph: Graph) -> Set<String> {
    var found: Set<String> = []
    var next = cluster
    while let name = next, found.insert(name).inserted {
      next = graph.clusters.first { $0.id == name }?.parent
    }
    return found
  }

  /// Returns a random graph with nested frames.
  static func random(_ nodes: Int, edges: Int, clusters: Int, seed: UInt64) -> Graph {
    var numbers = SplitMix64(seed: seed)
    var graph = Graph(title: "seed \(seed)")
    graph.clusters = (0..<clusters).map { number in
      Graph.Cluster(
        "c\(number)",
        parent: number > 0 && Bool.random(using: &numbers)
          ? "c\(Int.random(in: 0..<number, using: &numbers))" : nil)
    }
    graph.nodes = (0..<nodes).map { number in
      Graph.Node(
        "n\(number)", Graph.NodeKind.allCases.randomElement(using: &numbers)!,
        lines: (0...Int.random(in: 0...2, using: &numbers)).map {
          String(repeating: "x", count: 1 + $0 * Int.random(in: 1...12, using: &numbers))
        },
        marks: number == 0 ? [.initial] : [],
        cluster: clusters > 0 && Bool.random(using: &numbers)
          ? "c\(Int.random(in: 0..<clusters, using: &numbers))" : nil)
    }
    graph.edges = (0..<edges).map { number in
      Graph.Edge(
        "n\(Int.random(in: 0..<nodes, using: &numbers))",
        "n\(Int.random(in: 0..<nodes, using: &numbers))", .pipe,
        labels: Bool.random(using: &numbers) ? ["label\(number)"] : [])
    }
    return graph
  }

  @Test(
    "Boxes do not overlap, frames contain only their own nodes, and lines avoid boxes",
    arguments: UInt64(1)...40)
  func noOverlap(seed: UInt64) {
    let size = Int(seed % 20) + 1
    let graph = Self.random(size, edges: size * 2, clusters: Int(seed % 5), seed: seed)
    #expect(Self.problems(Layout(graph)) == [])
  }

  @Test("The same graph has the same layout each time")
  func isStable() {
    let graph = Self.random(20, edges: 40, clusters: 3, seed: 7)
    #expect(Layout(graph) == Layout(graph))
  }

  @Test(
    "500 nodes are laid out without an overlap, however they are connected",
    arguments: [0, 500, 2_000])
  func large(edges: Int) {
    let graph = Self.random(500, edges: edges, clusters: 10, seed: 3)
    let layout = Layout(graph)
    #expect(Self.problems(layout) == [])
    #expect(layout.routes.count == layout.graph.edges.count)
    // Every edge that is not drawn is listed in words.
    let missing = layout.routes.indices.filter { layout.routes[$0].isEmpty }
    #expect(Set(missing).isSubset(of: layout.incompleteEdges))
  }

  @Test("Empty graphs, single nodes, cyclic frames and edges to nowhere are laid out")
  func odd() {
    #expect(Self.problems(Layout(Graph(title: ""))) == [])
    #expect(Self.problems(Layout(Graph(title: "", nodes: [Graph.Node("a", .state)]))) == [])
    var circle = Graph(title: "", nodes: [Graph.Node("a", .state, cluster: "c")])
    circle.clusters = [Graph.Cluster("c", parent: "d"), Graph.Cluster("d", parent: "c")]
    circle.edges = [
      Graph.Edge("a", "a", .transition, labels: ["again"]), Graph.Edge("a", "z", .transition),
    ]
    let layout = Layout(circle)
    #expect(layout.boxes.allSatisfy { $0.width > 0 })
    #expect(layout.graph.edges.count == 1)
    #expect(!layout.routes[0].isEmpty)
  }

  @Test("A state of a MiB is cut, and so is a box with many lines")
  func long() {
    var graph = Graph(title: "long")
    graph.nodes = [
      Graph.Node("a", .state, lines: [String(repeating: "é", count: 1 << 20)]),
      Graph.Node("b", .state, lines: (0..<1_000).map(String.init)),
    ]
    let layout = Layout(graph)
    #expect(layout.width < 200)
    #expect(layout.height < 60)
    #expect(layout.graph.nodes[1].lines.last == "… 989 more")
  }

  @Test("Edges lead downward in a graph without cycles")
  func down() {
    var graph = Graph(title: "")
    graph.nodes = ["a", "b", "c"].map { Graph.Node($0, .state) }
    graph.edges = [Graph.Edge("a", "b", .pipe), Graph.Edge("b", "c", .pipe)]
    let rows = Layout(graph).boxes.map(\.y)
    #expect(rows == rows.sorted() && Set(rows).count == 3)
  }

  @Test("A small graph fits a terminal if possible", arguments: [60, 80, 120])
  func columns(columns: Int) {
    var graph = Graph(title: "wide")
    graph.nodes = (0..<12).map { Graph.Node("node \($0)", .machine) }
    graph.edges = (1..<12).map { Graph.Edge("node 0", "node \($0)", .pipe) }
    let lines = AsciiDrawing(graph, columns: columns).text.split(separator: "\n")
    #expect(lines.allSatisfy { $0.displayWidth <= columns })
    #expect(Self.problems(Layout(graph, rowWidth: columns)) == [])
  }
}
