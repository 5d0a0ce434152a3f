import PipeModelChecker
import PipeDiagrams
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite("The wiring of a topology file", .stallLimit(.seconds(60)))
struct FileWiringTests {
  private static func wiring(_ file: String) throws -> Wiring {
    Wiring(try LoadedTopology.load(.file("topologies/\(file).yaml")))
  }

  @Test("An elevator's pipes show what sends events and which events they are")
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

  @Test("A lift's synchronized events are in a frame, and philosophers' shared forks are not")
  func composites() throws {
    let lift = try Self.wiring("lift").graph
    #expect(lift.clusters.map(\.lines) == [["lift", "together: emergencyStop, go, open, reset"]])
    let table = try Self.wiring("philosophers").graph
    #expect(table.clusters.isEmpty)
    #expect(table.edges.count { $0.kind == .part } == 15)
  }

  @Test("A running topology adds states and pipe contents to its wiring")
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
    let fills = wiring.pipes.compactMap { pipe in pipe.fill.map { (pipe.name, $0) } }
    #expect(fills.map(\.0) == ["door.arrivals->display.updates"])
    #expect(fills.map(\.1) == [.init(waiting: 8, capacity: 1024)])
  }
}
