import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Repeated verbs, and verbs that apply to all nodes", .timed)
struct RepeatedVerbTests {
  private static let file = """
    topology: ward
    program: TestNodes
    nodes:
      a: { machine: Button }
      b: { machine: Button }
      c: { machine: Button }
    """

  @Test("A second 'up' of an unchanged file exits 0 and starts stopped nodes")
  func up() async throws {
    try await DetachedTopology.with(Self.file) { ward in
      let before = try await ward.pids()
      try await ward.run("stop", "c")
      for options in [["-d"], ["--wait"], []] {
        let again = try await ward.run(["up", "ward.yaml"] + options)
        #expect(
          again.output.hasPrefix("ward: ") && again.output.contains(", orchestrator pid "),
          "\(again)")
      }
      let after = try await ward.directory()
      #expect(after.nodes.allSatisfy { $0.isRunning })
      #expect(after[node: "a"]?.pid == before["a"])
      try ward.write(Self.file.replacing("c:", with: "d:"))
      let changed = try await ward.run("up", "-d", "ward.yaml", code: 1)
      #expect(changed.error.contains("'orchestrator apply'"), "\(changed)")
      #expect(try await ward.directory()[node: "d"] == nil)
    }
  }

  @Test("'restart' without node names restarts all nodes that are not stopped")
  func restart() async throws {
    try await DetachedTopology.with(Self.file) { ward in
      let before = try await ward.pids()
      try await ward.run("stop", "c")
      let restart = try await ward.run("restart")
      #expect(restart.output.hasPrefix("a: running, pid "), "\(restart)")
      let after = try await ward.directory()
      for name in ["a", "b"] {
        #expect(after[node: name]?.isRunning == true && after[node: name]?.pid != before[name])
      }
      #expect(after[node: "c"]?.phase == "stopped")
    }
  }

  @Test("'send NODE -' reads an event from standard input, even an event too long for an argument")
  func send() async throws {
    let yaml = "topology: ward\nprogram: TestNodes\nnodes:\n  blob: { machine: Blob }\n"
    try await DetachedTopology.with(yaml) { ward in
      let text = String(repeating: "x", count: 200_000)
      try ward.tool.directory.write("{\"take\":{\"text\":\"\(text)\"}}\n", to: "event.json")
      let sent = try await ward.tool.end(
        of: ward.tool.start(
          program: "/bin/sh",
          ["-c", "exec \(CommandLineTool.orchestrator) send blob - -o json < event.json"]),
        within: .seconds(60))
      #expect(sent.output.contains("\"outcome\":\"accepted\""), "\(sent.error)")
    }
  }
}
