import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The search of a topology from the command line", .timed)
struct ExploreVerbTests {
  /// A topology that halts: `left` takes one step alone, and afterwards the nodes wait for an event
  /// that `left` never accepts.
  private static let halting = """
    topology: halting
    program: TestNodes
    nodes:
      left: { machine: Automaton, parameters: { steps: ["0 x 1"] } }
      right: { machine: Automaton, parameters: { steps: ["0 sync 1", "1 sync 0"] } }
    composites:
      pair: { components: [left, right], synchronize: { sync: [left, right] } }
    explore:
      from_outside: { left: [x] }
    """

  private func tool(_ text: String, at file: String = "halting.yaml") throws -> CommandLineTool {
    let tool = try CommandLineTool()
    try tool.directory.write(text, to: file)
    return tool
  }

  @Test("A search of topologies/lift.yaml is exact and has no findings")
  func lift() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await tool.run(
      "check", "--explore", "--no-reduction", "topologies/lift.yaml", "-o", "json", in: nil,
      within: .seconds(120))
    #expect(result.code == 0, "\(result)")
    let found = try JSONValue(parsing: result.output.utf8)
    guard case .array(let files) = found, let file = files.first else {
      Issue.record("\(result)")
      return
    }
    #expect(file["verdict"] == "exact")
    #expect(file["findings"] == [])
    #expect(file["states"] == 75)
    #expect(file["steps"] == 210)
    #expect(file["search"] == "full")
  }

  @Test(
    "A deadlock is reported with the steps to it, and written as a scenario that 'test' replays")
  func deadlock() async throws {
    let tool = try tool(Self.halting)
    defer { tool.remove() }
    let result = try await tool.run(
      "check", "--explore", "--out", "found", "halting.yaml", within: .seconds(60))
    #expect(result.code == 1, "\(result)")
    #expect(result.output.contains("halting.yaml:1:1: error: deadlock: "), "\(result)")
    #expect(result.output.contains("1  left  x      outside  left: at(place: \"1\")"), "\(result)")
    let again = try await tool.run(
      "test", "--in-process", "found/halting-deadlock-1.yaml", within: .seconds(60))
    #expect(again.code == 0, "\(again)")
    #expect(again.output == "found/halting-deadlock-1.yaml: ok: 1 step\n")
  }

  @Test(
    "A scenario step that does not fit the topology is reported at its line",
    arguments: [
      ("{ at: left, takes: y }", "4:5", "'left' refuses event 'y' in state 'at(place: \"0\")'"),
      ("{ at: lefd, takes: x }", "4:11", Suggestion.hint("left")),
      (
        "{ at: left, takes: x, expect: { left: { at: { place: '2' } } } }", "4:43",
        "is in state 'at(place: \"1\")', expected 'at(place: \"2\")'"
      ),
      ("{ at: left, takes: x, refused: guard }", "4:36", "should be refused by any node (guard)"),
      ("{ at: left, takes: x, from: { pipe: p } }", "4:33", "the topology has no pipe 'p'"),
      (
        "{ at: left, takes: x, from: { effect: e } }", "4:33",
        "effect 'e' of node 'left' is not running"
      ),
      ("{ crash: left }", "4:5", "a replay in one process runs no nodes"),
    ])
  func otherwise(step: String, place: String, message: String) async throws {
    let tool = try tool(Self.halting)
    defer { tool.remove() }
    try tool.directory.write(
      "scenario: s\ntopology: halting.yaml\nsteps:\n  - \(step)\n", to: "s.yaml")
    let result = try await tool.run("test", "--in-process", "s.yaml", within: .seconds(60))
    #expect(result.code == 1, "\(result)")
    #expect(result.error.contains("s.yaml:\(place): error: "), "\(result)")
    #expect(result.error.contains(message), "\(result)")
  }

  /// Returns a topology of independent nodes, whose product is large.
  private static func independent(_ count: Int) -> String {
    let nodes = (0..<count).map { "a\($0)" }
    return "topology: independent\nprogram: TestNodes\nnodes:\n"
      + nodes.map {
        "  \($0): { machine: Automaton, parameters: { steps: [\"0 x 1\", \"1 y 2\", \"2 z 3\", \"3 x 0\"] } }\n"
      }.joined() + "explore:\n  from_outside: {"
      + nodes.map { " \($0): [x, y, z]" }.joined(separator: ",") + " }\n  properties:\n"
      + "    apart: { never: { a0: { at: { place: '1' } }, a1: { at: { place: '2' } } } }\n"
      + "    known: { never: { a0: { at: { place: '9' } } } }\n"
      + "    back: { always_possible: { a0: { at: { place: '0' } } } }\n"
  }

  @Test("With '--property', the exit code depends on the named properties alone")
  func gate() async throws {
    let tool = try tool(Self.independent(5), at: "many.yaml")
    defer { tool.remove() }
    for (options, code, text) in [
      (["--property", "known"], 0, "exact: all reachable states were searched"),
      (["--property", "back"], 0, "reduced search"),
      (["--property", "known", "--property", "back"], 0, "reduced search"),
      (["--property", "known", "--no-reduction"], 0, "full search: 1024 states"),
      (
        ["--property", "apart", "--property", "known"], 1, "the search ended at the first violation"
      ),
      (["--property", "apart", "--property", "known", "--all"], 1, "exact: 1 finding"),
      (["--property", "known", "--node-states", "2"], 6, "has more than 2 states"),
    ] as [([String], Int32, String)] {
      let program = try tool.start(["check", "--explore", "many.yaml"] + options)
      let result = try await tool.result(of: program, within: .seconds(60))
      #expect(result.code == code, "\(options): \(result)")
      #expect(result.output.contains(text), "\(options): \(result)")
    }
  }

  /// Returns the depths in the progress lines of a search, such as `105 states, …, depth 1, 10 MiB`.
  private static func depths(in progress: String) -> [Int] {
    progress.split(separator: ", depth ").dropFirst().compactMap {
      Int($0.prefix { $0.isNumber })
    }
  }

  @Test(
    "An interrupted search reports what it has found",
    arguments: [Signal.interrupt, .terminate])
  func interrupted(_ signal: Signal) async throws {
    let tool = try tool(Self.independent(13), at: "many.yaml")
    defer { tool.remove() }
    let program = try tool.start([
      "check", "--explore", "--no-reduction", "--memory", "16000", "many.yaml",
    ])
    // The property 'apart' is violated within three steps.
    let isDeepEnough: Bool? = try await poll(within: .seconds(60)) {
      Self.depths(in: program.errorText).contains { $0 > 3 } ? true : nil
    }
    #expect(isDeepEnough == true, "\(program.errorText)")
    program.signal(signal)
    let result = try await tool.result(of: program, within: .seconds(60))
    #expect(result.code == 1, "\(result)")
    #expect(result.output.contains("property 'apart' is violated"), "\(result)")
    #expect(result.output.contains("incomplete: 1 finding"), "\(result)")
    #expect(result.output.contains("the search was stopped"), "\(result)")
  }

  @Test("SARIF output has the fields that its consumers require")
  func sarif() async throws {
    let tool = try tool(Self.halting)
    defer { tool.remove() }
    let result = try await tool.run(
      "check", "--explore", "halting.yaml", "-o", "sarif", within: .seconds(60))
    #expect(result.code == 1, "\(result)")
    let log = try JSONValue(parsing: result.output.utf8)
    #expect(log["version"] == "2.1.0")
    guard case .array(let runs)? = log["runs"], let run = runs.first,
      case .array(let results)? = run["results"]
    else {
      Issue.record("\(result)")
      return
    }
    #expect(run["tool"]?["driver"]?["name"] == "orchestrator")
    let deadlock = try #require(results.first { $0["ruleId"] == "deadlock" })
    #expect(deadlock["level"] == "error")
    #expect(deadlock["message"]?["text"]?.string?.hasPrefix("deadlock") == true)
    guard case .array(let places)? = deadlock["locations"],
      let place = places.first?["physicalLocation"]
    else {
      Issue.record("\(result)")
      return
    }
    #expect(place["artifactLocation"]?["uri"] == "halting.yaml")
    #expect(place["region"]?["startLine"] == 1)
  }

  @Test("A topology's state space is drawn as a graph and exported as a model for SPIN")
  func drawn() async throws {
    let tool = try tool(Self.halting)
    defer { tool.remove() }
    for (file, first) in [("s.dot", "digraph states {"), ("s.mmd", "flowchart TD")] {
      _ = try await tool.run(
        "check", "--explore", "--graph", file, "halting.yaml", within: .seconds(60))
      let drawing = try #require(FileSystem.text(of: tool.directory.path + "/" + file))
      #expect(drawing.hasPrefix(first))
      #expect(drawing.contains("left: x (outside)"))
    }
    let exported = try await tool.run("export", "promela", "halting.yaml", within: .seconds(60))
    #expect(exported.code == 0, "\(exported)")
    #expect(exported.output.contains("active proctype product()"))
    #expect(exported.output.contains("byte c0_left = 0;"))
  }

  @Test(
    "A search refuses invalid combinations of options",
    arguments: [
      ("check --time 1s halting.yaml", "--time requires --explore"),
      ("check --no-reduction halting.yaml", "--no-reduction requires --explore"),
      ("check --explore --all halting.yaml", "--all requires --property"),
      (
        "check --explore --file-only halting.yaml",
        "\(UsageError.conflict("--explore", "--file-only"))"
      ),
      (
        "check --explore --property nope halting.yaml",
        "no such property 'nope' in halting.yaml; it has none"
      ),
      ("check --explore --graph s.png halting.yaml", "must end in .dot"),
      ("test halting.yaml", "the scenario: unknown key 'program'"),
      ("test --in-process halting.yaml", "the scenario: unknown key 'program'"),
      ("export promila halting.yaml", Suggestion.hint("promela")),
    ])
  func refused(arguments: String, message: String) async throws {
    let tool = try tool(Self.halting)
    defer { tool.remove() }
    let program = try tool.start(arguments.split(separator: " ").map(String.init))
    let result = try await tool.result(of: program, within: .seconds(60))
    #expect(result.code == 2, "\(result)")
    #expect(result.error.contains(message), "\(result)")
  }

  @Test("A search that reaches its time limit has a separate verdict and exit code")
  func incomplete() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await tool.run(
      "check", "--explore", "--time", "1ms", "topologies/relay.yaml", in: nil,
      within: .seconds(60))
    #expect(result.code == 6, "\(result)")
    #expect(result.output.contains("incomplete: no findings before the search ended"))
    #expect(result.output.contains("raise '--time'"))
  }
}
