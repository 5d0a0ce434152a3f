import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The command line of a node program", .timed)
struct NodeCommandTests {
  private static let whole = [
    "run", "--topology", "t", "--node", "n", "--machine", "M", "--control", "ipc:///c", "--inbox",
    "ipc:///i", "--feed", "ipc:///f",
  ]

  private func run(_ arguments: [String]) async throws -> CommandLineTool.Result {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = try tool.start(
      program: CommandLineTool.products + "/nodes", arguments, in: nil)
    return try await tool.result(of: program)
  }

  @Test(
    "An invalid command line of a node program exits 2 with an error that says what to do",
    arguments: [
      ([], "\(UsageError.missingVerb(of: "nodes"))"),
      (["monitr"], "\(UsageError.unknownVerb("monitr", suggestion: "monitor", of: "nodes"))"),
      (["run"], "\(UsageError.missingOption("--topology", of: "nodes run"))"),
      (
        ["run", "--nod", "n"],
        "\(UsageError.unknownOption("--nod", suggestion: "--node", of: "nodes run"))"
      ),
      (
        ["run", "--topology"],
        "\(UsageError.missingValue(option: "--topology", placeholder: "NAME"))"
      ),
      (whole + ["--parameters", "{"], "invalid value '{' for --parameters: expected JSON"),
      (whole + ["--incarnation", "x"], "invalid value 'x' for --incarnation: "),
      (
        whole + ["--journal", "/j", "--durability", "none"],
        "invalid value 'none' for --durability: "
      ),
      (
        ["describe", "--parameters", "{}"],
        "\(UsageError.missingOption("--machine", of: "nodes describe"))"
      ),
      (["monitor"], "\(UsageError.missingPositional("MONITOR", of: "nodes monitor"))"),
      (["monitor", "StateLgo"], "this program has no monitor 'StateLgo'; it has "),
    ])
  func problems(arguments: [String], message: String) async throws {
    let result = try await run(arguments)
    #expect(result.code == 2, "\(result)")
    #expect(result.error.hasPrefix("nodes: error: \(message)"), "\(result)")
    #expect(result.output == "")
  }

  @Test("A node program that is run manually says that the orchestrator starts nodes")
  func byHand() async throws {
    #expect(try await run(["run"]).error.contains("Start nodes with 'orchestrator run FILE'."))
  }

  @Test(
    "Every verb of a node program has a help page",
    arguments: ["list", "describe", "monitor", "view", "run"])
  func help(verb: String) async throws {
    #expect(try await run(["--help"]).output.contains("\n  \(verb) "))
    let result = try await run([verb, "--help"])
    #expect(result.code == 0, "\(result)")
    #expect(result.output.hasPrefix("Usage: nodes \(verb) [OPTIONS]"), "\(result)")
  }
}
