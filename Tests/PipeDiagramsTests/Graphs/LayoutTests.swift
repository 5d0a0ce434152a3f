import PipeDiagrams
import PipeSupport
import TestSupport
import Testing

@Suite("The layout of a graph")
struct LayoutTests {
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
    arguments: UInt64(1)...200, Layout.Direction.allCases)
  func noOverlap(seed: UInt64, direction: Layout.Direction) {
    let size = Int(seed % 20) + 1
    let graph = Self.random(size, edges: size * 2, clusters: Int(seed % 5), seed: seed)
    let layout = Layout(graph, direction, rowLength: direction == .down ? 110 : 44)
    #expect(LayoutGeometry.errors(of: layout) == [])
    #expect(layout.routes.count { $0.isEmpty } == 0)
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
    #expect(LayoutGeometry.errors(of: layout) == [])
    #expect(layout.routes.count == layout.graph.edges.count)
    // Every edge that is not drawn is listed in words.
    let missing = layout.routes.indices.filter { layout.routes[$0].isEmpty }
    #expect(Set(missing).isSubset(of: layout.incompleteEdges))
  }

  @Test("Empty graphs, single nodes, cyclic frames and edges to missing nodes are laid out")
  func odd() {
    #expect(LayoutGeometry.errors(of: Layout(Graph(title: ""))) == [])
    #expect(
      LayoutGeometry.errors(of: Layout(Graph(title: "", nodes: [Graph.Node("a", .state)]))) == [])
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

  @Test("A state of 1 MiB and a box with many lines are cut")
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

  @Test(
    "In a graph without cycles, all edges point in the chosen direction",
    arguments: Layout.Direction.allCases)
  func direction(_ direction: Layout.Direction) {
    var graph = Graph(title: "")
    graph.nodes = ["a", "b", "c"].map { Graph.Node($0, .state) }
    graph.edges = [Graph.Edge("a", "b", .pipe), Graph.Edge("b", "c", .pipe)]
    let boxes = Layout(graph, direction).boxes
    let rows = direction == .down ? boxes.map(\.y) : boxes.map(\.x)
    #expect(rows == rows.sorted() && Set(rows).count == 3)
  }

  @Test("A small graph is drawn within the given columns", arguments: [60, 80, 120])
  func columns(columns: Int) {
    var graph = Graph(title: "wide")
    graph.nodes = (0..<12).map { Graph.Node("node \($0)", .machine) }
    graph.edges = (1..<12).map { Graph.Edge("node 0", "node \($0)", .pipe) }
    let lines = AsciiDrawing(graph, columns: columns).text.split(separator: "\n")
    #expect(lines.allSatisfy { $0.displayWidth <= columns })
    #expect(LayoutGeometry.errors(of: Layout(graph, rowLength: columns)) == [])
  }
}
