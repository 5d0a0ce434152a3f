import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("The arguments [FILE] [NODE...]", .timed)
struct FileAndNodesTests {
  @Test(
    "The first argument is the file if it looks like a path or exists",
    arguments: [
      ([], "topology.yaml", []),
      (["lift.yaml"], "lift.yaml", []),
      (["lift.yml", "door"], "lift.yml", ["door"]),
      (["lift.json", "door", "motor"], "lift.json", ["door", "motor"]),
      (["topologies/lift", "door"], "topologies/lift", ["door"]),
      (["./door"], "./door", []),
      (["door"], "topology.yaml", ["door"]),
      (["door", "motor"], "topology.yaml", ["door", "motor"]),
      (["there", "door"], "there", ["door"]),
    ] as [([String], String, [String])])
  func read(arguments: [String], file: String, nodes: [String]) throws {
    let read = try FileAndNodes(arguments) { $0 == "there" }
    #expect(read.file == file)
    #expect(read.nodes == nodes)
  }

  @Test(
    "An argument that is neither a file nor a valid node name is refused",
    arguments: [["a b"], ["x", "y/z"]])
  func wrong(arguments: [String]) {
    #expect(throws: UsageError.self) { try FileAndNodes(arguments) { _ in false } }
  }
}
