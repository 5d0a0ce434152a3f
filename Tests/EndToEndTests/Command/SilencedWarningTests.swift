import PipeRuntime
import TestTraits
import Testing

@Suite("Silenced warnings of 'check'", .timed)
struct SilencedWarningTests {
  private static let topology = """
    topology: ward
    program: TestNodes
    silence: [self-pipe, plain-dollar, unreachable-limit]
    environment: { A: $HOME, B: $USER }
    nodes:
      button: { machine: Button, place: here }
    pipes:
      - { from: button, when: pressed, to: button, send: press }
    """
  private static let deployment = """
    places: { here: { address: 127.0.0.1 }, there: { address: 127.0.0.1 } }
    silence: [unused-place]
    """

  @Test(
    "'check' prints the number of silenced warnings by code, for the topology and the deployment")
  func counts() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.topology, to: "ward.yaml")
      try tool.directory.write(Self.deployment, to: "lab.yaml")
      let shown = try await tool.run("check", "ward.yaml", "--deployment", "lab.yaml", code: 0)
      let silenced = "3 warnings are silenced by the file: 2 plain-dollar, 1 self-pipe\n"
      #expect(
        shown.output
          == "ward.yaml: ok: 1 node, 1 pipe\nward.yaml: \(silenced)"
          + "lab.yaml: ok: engine local, 2 places\n"
          + "lab.yaml: 1 warning is silenced by the file: 1 unused-place\n", "\(shown)")
      #expect(shown.error == "")
      let json = try await tool.run(
        "check", "ward.yaml", "--deployment", "lab.yaml", "-o", "jsonl", code: 0)
      let records = try json.output.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
      #expect(
        records.map { $0["silenced"] } == [
          ["plain-dollar": 2, "self-pipe": 1], ["unused-place": 1],
        ])
      #expect(records.map { $0["diagnostics"] } == [[], []])
      let fileOnly = try await tool.run("check", "--file-only", "ward.yaml", code: 0)
      #expect(fileOnly.output.hasSuffix("\nward.yaml: \(silenced)"), "\(fileOnly)")
      let explored = try await tool.run(
        "check", "--explore", "ward.yaml", "--property", "no", code: 2)
      #expect(explored.error.contains("ward.yaml: \(silenced)"), "\(explored)")
    }
  }

  @Test("'apply' omits a deployment's silenced warnings and shows all other warnings")
  func applied() async throws {
    let other = Self.topology.replacing("self-pipe, ", with: "")
    try await CommandLineTool.launching { tool in
      try tool.directory.write(other, to: "ward.yaml")
      try tool.directory.write(Self.deployment, to: "lab.yaml")
      try await tool.run(
        "up", "--wait", "ward.yaml", "--deployment", "lab.yaml", within: .seconds(60), code: 0)
      let apply = try await tool.run("apply", "ward.yaml", within: .seconds(60), code: 0)
      #expect(apply.error.contains("[self-pipe]"), "\(apply)")
      #expect(
        !apply.error.contains("[unused-place]") && !apply.error.contains("[plain-dollar]"),
        "\(apply)")
      try await tool.run("down", within: .seconds(60), code: 0)
    }
  }
}
