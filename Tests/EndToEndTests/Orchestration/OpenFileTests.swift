import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The limit of open files", .timed)
struct OpenFileTests {
  private static let crowd =
    "topology: crowd\nprogram: TestNodes\nnodes:\n"
    + (1...20).map { "  n\($0): { machine: Button }\n" }.joined()

  @Test(
    "A start raises the limit of open files if allowed, and otherwise names the required limit",
    arguments: [("-S", 0), ("-H", 1)])
  func limit(which: String, code: Int32) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.crowd, to: "crowd.yaml")
      let command = "ulimit -Sn 64; ulimit \(which)n 64; exec \"$0\" up --wait crowd.yaml"
      let up = try await tool.result(
        of: try tool.start(program: "/bin/bash", ["-c", command, CommandLineTool.orchestrator]),
        within: .seconds(60))
      #expect(up.code == code, "\(up)")
      if code == 0 {
        try await tool.run("down", within: .seconds(60), code: 0)
      } else {
        #expect(
          up.error
            == "orchestrator: error: the orchestrator of 20 nodes requires up to 184 open files, "
            + "and the hard limit of this user is 64; raise the hard limit ('ulimit -Hn 184', or "
            + "'nofile' in limits.conf(5))\n")
      }
      #expect(tool.directory.processes.isEmpty)
    }
  }
}
