import PipeModelChecker
import PipeDiagrams
import PipeRuntime
import PipeSupervision
import TestSupport
import TestTraits
import Testing

@Suite("The wiring of a topology file", .stallLimit(.seconds(60)))
struct FileWiringTests {
  private static func wiring(_ file: String) throws -> Wiring {
    Wiring(try LoadedTopology.load(.file("topologies/\(file).yaml")))
  }

  @Test("The wiring of the elevator shows the sending states and the events of each pipe")
  func elevator() throws {
    let wiring = try Self.wiring("elevator")
    #expect(wiring.nodes.map(\.name) == ["door", "motor", "display", "passengers"])
    #expect(
      Set(wiring.pipes.map { "\($0.from) \($0.label) \($0.to)" }) == [
        "door arrivals → updates display", "door open → persons display",
        "door closed → start motor", "motor arrived → openButtonWasPressed door",
        "motor arrived → floor display", "motor arrived → arrived passengers",
        "passengers boarding → personsHaveEntered door",
        "passengers riding → closeButtonWasPressed door",
      ])
  }

  private static let shippedFiles = [
    "address", "checkout", "composite", "counter", "elevator", "example", "kettles", "lift",
    "movies-pages",
    "movies", "navigation", "orders", "payment", "philosophers", "quiz", "relay", "shop",
    "vending-machine",
    "washing-machine-reduced", "washing-machine",
  ]

  @Test(
    "No line of a shipped topology goes behind a box, and no line is missing",
    arguments: shippedFiles, Layout.Direction.allCases)
  func geometry(file: String, direction: Layout.Direction) throws {
    let layout = Layout(try Self.wiring(file).graph, direction)
    #expect(LayoutGeometry.errors(of: layout) == [])
    #expect(layout.routes.count { $0.isEmpty } == 0)
  }

  @Test("The geometry test covers all shipped topologies")
  func shippedTopologies() {
    let files = FileSystem.entryNames(of: "topologies").filter { $0.hasSuffix(".yaml") }
    #expect(files.sorted() == Self.shippedFiles.map { "\($0).yaml" }.sorted())
  }

  @Test("A graph frames the nodes of a composite, unless several composites share nodes")
  func composites() throws {
    let lift = try Self.wiring("lift").graph
    #expect(lift.clusters.map(\.lines) == [["lift", "together: emergencyStop, go, open, reset"]])
    let table = try Self.wiring("philosophers").graph
    #expect(table.clusters.isEmpty)
    #expect(table.edges.count { $0.kind == .part } == 15)
  }

  @Test("The wiring of a running topology has the nodes' states and the pipes' contents")
  func running() throws {
    var wiring = try Self.wiring("elevator")
    var door = NodeInformation(
      name: "door", kind: .machine, hosts: nil, program: "", phase: "running", isRunning: true,
      inbox: "", feed: "")
    var status = NodeStatus()
    status.state = ["open": ["persons": 2]]
    var end = NodeStatus.Pipe(
      name: "door.arrivals->display.updates", events: 12, applied: 4, waiting: 1, capacity: 1024)
    end.lost = 3
    status.outs = [end]
    door.status = status
    let motor = NodeInformation(
      name: "motor", kind: .machine, hosts: nil, program: "", phase: "backing off",
      isRunning: false, inbox: "", feed: "")
    wiring.add(
      TopologyDirectory(
        topology: "elevator", file: "", pid: 1, phase: "running", isRunning: true,
        nodes: [door, motor], pipes: []))
    #expect(wiring.nodes[0].currentCondition == .init(text: "open(persons: 2)", isRunning: true))
    #expect(wiring.nodes[1].currentCondition == .init(text: "backing off", isRunning: false))
    #expect(
      wiring.nodes[2].currentCondition
        == .init(text: "not in the running topology", isRunning: false))
    let fills = wiring.pipes.compactMap { pipe in pipe.fillLevel.map { (pipe.name, $0) } }
    #expect(fills.map(\.0) == ["door.arrivals->display.updates"])
    #expect(fills.map(\.1) == [.init(waiting: 8, capacity: 1024)])
  }
}
