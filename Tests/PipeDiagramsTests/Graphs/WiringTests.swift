import PipeDiagrams
import Testing

@Suite("The wiring of a topology as a graph")
struct WiringTests {
  private static func wiring(_ composites: [Wiring.Composite]) -> Wiring {
    Wiring(
      topology: "t", nodes: ["a", "b", "c", "d"].map { Wiring.Node(name: $0, machine: "M") },
      composites: composites)
  }

  @Test("A composite within another composite is a frame within that composite's frame")
  func nested() {
    let graph = Self.wiring([
      .init(name: "outer", nodes: ["a", "b", "c"], events: [("e", ["a", "b", "c"])]),
      .init(name: "inner", nodes: ["a", "b"], events: [("f", ["a", "b"]), ("g", ["a"])]),
    ]).graph
    #expect(graph.clusters.map(\.id) == ["composite:outer", "composite:inner"])
    #expect(graph.clusters.map(\.parent) == [nil, "composite:outer"])
    #expect(graph.clusters[1].lines == ["inner", "together: f", "g: a"])
    #expect(
      graph.nodes.map(\.cluster) == ["composite:inner", "composite:inner", "composite:outer", nil])
  }

  @Test("Composites that share some of their nodes are boxes with lines to the nodes")
  func overlapping() {
    let graph = Self.wiring([
      .init(name: "left", nodes: ["a", "b"], events: [("e", ["a", "b"])]),
      .init(name: "right", nodes: ["b", "c"], events: [("f", ["b", "c"])]),
    ]).graph
    #expect(graph.clusters.isEmpty)
    #expect(graph.nodes.filter { $0.kind == .composite }.map(\.id) == ["left", "right"])
    let parts = graph.edges.filter { $0.kind == .part }
    #expect(
      parts.map { "\($0.source) \($0.target)" } == ["left a", "left b", "right b", "right c"])
  }

  @Test("A composite's frame has a box for the composite's outgoing pipe")
  func pipeOfComposite() {
    var wiring = Self.wiring([.init(name: "pair", nodes: ["a", "b"], events: [("e", ["a", "b"])])])
    wiring.pipes = [.init(name: "p", from: "pair", to: "c", label: "x → y")]
    let graph = wiring.graph
    #expect(graph.nodes.last?.cluster == "composite:pair")
    #expect(graph.edges.map { "\($0.source) \($0.target)" } == ["pair c"])
    #expect(graph.drawableGraph.edges.count == 1)
  }

  @Test("Current states are shown in the boxes, and nodes that do not run are marked")
  func currentCondition() {
    var wiring = Self.wiring([.init(name: "pair", nodes: ["a", "b"], events: [])])
    wiring.nodes[0].currentCondition = .init(text: "open", isRunning: true)
    wiring.nodes[1].currentCondition = .init(text: "backing off", isRunning: false)
    wiring.composites[0].currentCondition = .init(text: "(open, ?)", isRunning: true)
    wiring.pipes = [
      .init(name: "p", from: "a", to: "b", label: "x", fill: .init(waiting: 2, capacity: 9))
    ]
    let graph = wiring.graph
    #expect(graph.nodes[0].lines == ["a", "M", "= open"])
    #expect(graph.nodes[1].marks == [.down])
    #expect(graph.clusters[0].lines == ["pair", "= (open, ?)"])
    #expect(graph.edges.map(\.labels) == [["x  2/9"]])
  }
}
