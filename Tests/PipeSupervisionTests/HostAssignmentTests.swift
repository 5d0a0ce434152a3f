import PipeSupervision
import PipeTopology
import Testing

@Suite("The assignment of nodes to hosts")
struct HostAssignmentTests {
  private func hosts() throws -> HostAssignment {
    let text = """
      topology: t
      program: nodes
      nodes:
        a: { machine: M, place: front, on_host_loss: move, durability: none }
        b: { machine: M, place: front, on_host_loss: move, durability: none }
        c: { machine: M, place: front, on_host_loss: move, durability: none }
        d: { machine: M, place: front }
        e: { machine: M }
      """
    let topology = try TopologyReader.read(text: text.utf8, file: "test.yaml").topology
    let deployment = Deployment(
      engine: .slurm,
      places: [Placement(name: "front", hosts: ["h1", "h2"], spare: ["h3", "h4"])])
    return HostAssignment(topology, by: deployment)
  }

  private func next(_ hosts: HostAssignment) -> [String?] {
    ["a", "b", "c", "d", "e"].map(hosts.nextHost)
  }

  @Test("The nodes of a place are assigned to its hosts in turn, and stay on these hosts")
  func dealt() throws {
    let hosts = try hosts()
    #expect(["a", "b", "c", "d", "e"].map(hosts.host) == ["h1", "h2", "h1", "h2", nil])
    #expect(next(hosts) == ["h1", "h2", "h1", "h2", nil])
    #expect(hosts.mayMove("a") && !hosts.mayMove("d") && !hosts.mayMove("e"))
    // The hosts to which a former orchestrator may have moved the nodes.
    #expect(["h1", "h2", "h3", "h4", "h5"].filter { hosts.mayRun("a", on: $0) }.count == 4)
    #expect(["h1", "h2", "h3", "h4", "h5"].filter { hosts.mayRun("d", on: $0) } == ["h1", "h2"])
    #expect(!hosts.mayRun("e", on: "h1"))
  }

  @Test("Movable nodes go to the host with the fewest nodes, and to spare hosts first")
  func moved() throws {
    var hosts = try hosts()
    hosts.markLost("h1")
    #expect(next(hosts) == ["h3", "h2", "h3", "h2", nil])
    hosts.move("a", to: "h3")
    #expect(next(hosts) == ["h3", "h2", "h4", "h2", nil])
    hosts.move("c", to: "h4")
    hosts.markLost("h4")
    hosts.markLost("h3")
    #expect(next(hosts) == ["h2", "h2", "h2", "h2", nil])
    // A node that must wait has no next host, nor has any node if no host answers.
    hosts.markLost("h2")
    #expect(next(hosts) == [nil, nil, nil, nil, nil])
    hosts.markReachable("h1")
    #expect(next(hosts) == ["h1", "h1", "h1", nil, nil])
    #expect(hosts.lostHosts == ["h2", "h3", "h4"])
  }
}
