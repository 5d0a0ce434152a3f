import PipeManifests
import PipeRuntime
import Testing

@Suite("Names in a cluster")
struct ManifestNamesTests {
  @Test(
    "a process's objects have its name after the topology's, as the label of a DNS name",
    arguments: [
      ("hall", "door", "hall-door"), ("Hall.2", "Motor_2", "hall-2-motor-2"),
      ("hall_", "door-_", "hall-door"), ("hall", "2", "hall-2"),
    ])
  func names(topology: String, process: String, name: String) throws {
    #expect(try ManifestNames(topology: topology).object(of: process) == name)
  }

  @Test("a long name is cut, and its hash depends on the whole of it and on nothing else")
  func long() throws {
    let names = try ManifestNames(topology: String(repeating: "t", count: 41))
    let first = names.object(of: String(repeating: "n", count: 40) + "1")
    let second = names.object(of: String(repeating: "n", count: 40) + "2")
    #expect(first.utf8.count == 52 && second.utf8.count == 52 && first != second)
    #expect(first == String(repeating: "t", count: 41) + "-n-" + "d8c905bf")
    // The longest that is not cut.
    let short = try ManifestNames(topology: "hall").object(of: String(repeating: "n", count: 41))
    #expect(short == "hall-" + String(repeating: "n", count: 41))
  }

  @Test("a topology whose name begins with a digit is refused: no service's does")
  func digit() {
    #expect(throws: ManifestError.noServiceName("3d")) { try ManifestNames(topology: "3d") }
  }

  @Test("two names that are one in a cluster are refused, and the orchestrator's")
  func same() {
    let nodes = "topology: t\nprogram: p\nnodes:\n"
    #expect(throws: ManifestError.sameName("a_b", "A-b", name: "t-a-b")) {
      try Hall.set(
        nodes + "  a_b: { machine: M }\n  c: { machine: M }\n  A-b: { machine: M }\n",
        classes: [])
    }
    #expect(throws: ManifestError.sameName("a", "A", name: "t-a")) {
      try Hall.set(
        nodes + "  a: { machine: M }\n", classes: [Hall.plan("A", host: nil, .process)])
    }
    #expect(throws: ManifestError.orchestratorName("Orchestrator", name: "t-orchestrator")) {
      try Hall.set(nodes + "  Orchestrator: { machine: M }\n", classes: [])
    }
  }

  @Test("what lives within another process has no name of its own there")
  func within() throws {
    let set = try Hall.set(
      "topology: t\nprogram: p\nnodes:\n  a: { machine: M }\n",
      classes: [Hall.plan("A", host: "a", .process)])
    #expect(set.processes.map(\.name) == ["a"])
  }
}
