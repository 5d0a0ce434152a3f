import PipeModelChecker
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("Scenarios that cover all transitions", .timed)
struct ScenarioCoverTests {
  /// Writes scenarios that cover all transitions of a topology.
  /// - Returns: The paths of the scenarios, and the summary of the search.
  private static func cover(
    _ tool: CommandLineTool, _ file: String, into directory: String = "cover"
  ) async throws -> (files: [String], summary: JSONValue) {
    let program = try tool.start(["check", "--explore", "--cover", directory, "-o", "json", file])
    let result = try await tool.result(of: program, within: .seconds(120))
    guard case .array(let records) = try JSONValue(parsing: result.output.utf8),
      let summary = records.first
    else {
      Issue.record("\(result)")
      return ([], .null)
    }
    guard case .array(let files)? = summary["cover"]?["scenarios"] else { return ([], summary) }
    return (files.compactMap(\.string), summary)
  }

  /// Replays scenarios, and returns the coverage of their topology.
  private static func coverage(
    _ tool: CommandLineTool, _ files: [String], _ options: [String] = []
  ) async throws -> JSONValue {
    let program = try tool.start(["test", "--coverage", "coverage.json"] + options + files)
    let result = try await tool.result(of: program, within: .seconds(180))
    #expect(result.code == 0, "\(options) \(result)")
    let text = FileSystem.text(of: tool.directory.path + "/coverage.json") ?? ""
    guard case .array(let records) = try JSONValue(parsing: text.utf8), records.count == 1 else {
      Issue.record("\(text)")
      return .null
    }
    return records[0]
  }

  /// Expects that the scenarios of a topology pass in one process and on real processes, and cover
  /// in both cases everything that the search has found.
  /// - Returns: The number of covered transitions.
  @discardableResult
  private static func expectCover(_ tool: CommandLineTool, _ file: String) async throws -> Int {
    let (files, summary) = try await cover(tool, file)
    let count = summary["cover"]?["transitions"]?.integer ?? 0
    guard !files.isEmpty else {
      #expect(count == 0, "\(summary.text)")
      return 0
    }
    let inProcess = try await coverage(tool, files, ["--in-process"])
    #expect(inProcess["missing"] == [], "\(inProcess.text)")
    #expect(inProcess["unexpected"] == [], "\(inProcess.text)")
    #expect(inProcess["transitions"] == ["covered": .integer(count), "reachable": .integer(count)])
    #expect(inProcess["synchronized"]?["covered"] == summary["cover"]?["synchronized"])
    guard summary["cover"]?["inProcessOnly"] == 0 else { return Int(count) }
    let gated = try await coverage(tool, files)
    #expect(gated == inProcess)
    return Int(count)
  }

  @Test(
    "The scenarios of shipped topologies pass, and cover every transition",
    arguments: [
      "elevator", "kettles", "lift", "payment", "philosophers", "quiz", "shop", "vending-machine",
    ])
  func shipped(name: String) async throws {
    try await CommandLineTool.launching { tool in
      let file = FileSystem.absolutePath("topologies/\(name).yaml")
      let count = try await Self.expectCover(tool, file)
      #expect(count > 0)
    }
  }

  @Test("The scenarios of random topologies pass, and cover every transition")
  func random() async throws {
    try await CommandLineTool.launching { tool in
      let program = try BinaryLocator.find("TestNodes")
      var count = 0
      for seed in UInt64(0)..<6 {
        var generator = SplitMix64(seed: seed)
        let plan = RamblingPlan(using: &generator)
        let topology = plan.topology(name: "plan\(seed)", program: program, durability: .process)
        let file = try tool.directory.write(topology.yaml, to: "plan\(seed).yaml")
        count += try await Self.expectCover(tool, file)
        FileSystem.removeTree(tool.directory.path + "/cover")
      }
      #expect(count > 20)
    }
  }

  private static func automaton(_ name: String, _ steps: String...) -> String {
    "  \(name): { machine: Automaton, parameters: { steps: "
      + "[\(steps.map { "\"\($0)\"" }.joined(separator: ", "))] } }\n"
  }

  private static let two =
    "topology: pair\nprogram: TestNodes\nnodes:\n"
    + automaton("a", "0 x sending", "sending x 1", "1 x sending")
    + automaton("b", "0 z 1", "1 y 2", "2 z ignore", "2 x stay.0") + "pipes:\n"
    + "  - { from: a, when: sending, to: b, send: y, capacity: 2, on_refused: "

  private static let both =
    "topology: pair\nprogram: TestNodes\nnodes:\n" + automaton("l", "0 sync 1", "1 x 0")
    + automaton("r", "0 sync ignore", "0 y sending", "sending sync 0")
    + "composites:\n  both: { components: [l, r], synchronize: { sync: [l, r] } }\n"
    + "explore: { from_outside: { both: [sync], l: [x], r: [y] } }\n"

  /// The node 'b' ignores the event 'y' of the pipe in one of its states.
  private static let ignoring =
    "topology: pair\nprogram: TestNodes\nnodes:\n"
    + automaton("a", "0 x sending", "sending x 1", "1 x sending")
    + automaton("b", "0 z 1", "0 y ignore", "1 y sending", "sending x 0")
    + "pipes:\n  - { from: a, when: sending, to: b, send: y, capacity: 2 }\n"
    + "explore: { from_outside: { a: [x], b: [z, x] } }\n"

  @Test(
    "Refused, postponed, ignored and synchronized events are covered in the same way",
    arguments: [
      (two + "record }\nexplore: { from_outside: { a: [x], b: [z, x] } }\n", 5),
      (two + "ignore }\nexplore: { from_outside: { a: [x], b: [z, x] } }\n", 5),
      (two + "postpone }\nexplore: { from_outside: { a: [x], b: [z, x] } }\n", 5),
      (ignoring, 5), (both, 5),
    ])
  func policies(topology: String, count: Int) async throws {
    try await CommandLineTool.launching { tool in
      let file = try tool.directory.write(topology, to: "pair.yaml")
      let found = try await Self.expectCover(tool, file)
      #expect(found == count)
    }
  }

  /// A machine whose first event decides between two states without a way back.
  private static let fork =
    "topology: pair\nprogram: TestNodes\nnodes:\n" + automaton("n", "0 x sending", "0 y 1")

  @Test("Transitions that exclude each other are in several scenarios")
  func excluding() async throws {
    try await CommandLineTool.launching { tool in
      let file = try tool.directory.write(
        Self.fork + "explore: { from_outside: { n: [x, y] } }\n", to: "pair.yaml")
      let text = try await tool.run(
        "check", "--explore", "--cover", "cover", "pair.yaml", within: .seconds(60))
      #expect(
        text.output.contains("  cover: 2 scenarios cover everything reachable: 2 transitions\n"),
        "\(text)")
      #expect(text.output.contains("  written to cover/pair-cover-2.yaml\n"), "\(text)")
      let count = try await Self.expectCover(tool, file)
      #expect(count == 2)
    }
  }

  @Test(
    "Options that exclude each other are refused before the search",
    arguments: [
      (["check", "--explore", "--cover", "c", "--hash"], "--hash"),
      (["check", "--explore", "--cover", "c", "--property", "p"], "--property"),
      (["check", "--cover", "c"], "--cover requires --explore"),
      (["test", "--time", "1s"], "--time requires --coverage"),
    ])
  func usage(arguments: [String], message: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await tool.result(
      of: tool.start(arguments + ["pair.yaml"]), within: .seconds(60))
    #expect(result.code == 2, "\(result)")
    #expect(result.error.contains(message), "\(result)")
    #expect(!FileSystem.exists(tool.directory.path + "/c"))
  }

  @Test("Two searches write the same scenarios")
  func deterministic() async throws {
    try await CommandLineTool.launching { tool in
      let file = FileSystem.absolutePath("topologies/quiz.yaml")
      let (first, _) = try await Self.cover(tool, file, into: "one")
      let (second, _) = try await Self.cover(tool, file, into: "two")
      #expect(first.count == second.count && !first.isEmpty)
      for (first, second) in zip(first, second) {
        #expect(
          FileSystem.text(of: tool.directory.path + "/" + first)
            == FileSystem.text(of: tool.directory.path + "/" + second))
      }
    }
  }

  @Test("Scenarios of nodes with a 'key' and nodes under 'any' are reported as not gateable")
  func notGateable() async throws {
    try await CommandLineTool.launching { tool in
      let keyed =
        "topology: pair\nprogram: TestNodes\nnodes:\n"
        + "  n: { machine: KeyedAutomaton, key: id, parameters: { steps: [\"0 x 1\"] } }\n"
        + "explore: { from_outside: { n: [x] } }\n"
      try tool.directory.write(keyed, to: "pair.yaml")
      let result = try await tool.run(
        "check", "--explore", "--cover", "cover", "pair.yaml", within: .seconds(60))
      #expect(result.output.contains("1 of 1 can be replayed only with"), "\(result)")
      #expect(result.output.contains("node 'n' has a 'key'"), "\(result)")
      let any = Self.fork.replacing("  n:", with: "  m: { machine: Automaton }\n  n:")
      try tool.directory.write(
        any + "explore: { any: [m], from_outside: { n: [x] } }\n", to: "pair.yaml")
      let partial = try await tool.run(
        "check", "--explore", "--cover", "cover", "pair.yaml", within: .seconds(60))
      #expect(
        partial.output.contains("1 scenario covers everything reachable: 1 transition\n"),
        "\(partial)")
      #expect(partial.output.contains("not covered: the nodes under 'any': 'm'"), "\(partial)")
    }
  }

  @Test("The coverage names the transitions that no scenario takes, and those without a search")
  func missing() async throws {
    try await CommandLineTool.launching { tool in
      let topology =
        Self.two.replacing("2 x stay.0", with: "0 x stay.0")
        + "record }\nexplore: { from_outside: { a: [x], b: [z] } }\n"
      try tool.directory.write(topology, to: "pair.yaml")
      try tool.directory.write(
        "scenario: s\ntopology: pair.yaml\nsteps:\n  - { at: a, takes: x }\n"
          + "  - { at: b, takes: x }\n  - { at: b, takes: y, refused: noTransition }\n",
        to: "s.yaml")
      for options in [["--in-process"], []] {
        let result = try await tool.result(
          of: tool.start(["test", "--coverage", "c.json"] + options + ["s.yaml"]),
          within: .seconds(60))
        #expect(result.code == 0, "\(result)")
        #expect(
          result.output == """
            s.yaml: ok: 3 steps
            pair: 1 of 4 transitions are covered
              not covered: a: sending on x -> at
              not covered: b: at on y -> at
              not covered: b: at on z -> at
              covered, but not found by the search: b: at on x -> at

            """, "\(options)")
      }
      let incomplete = try await tool.result(
        of: tool.start(
          ["test", "--in-process", "--coverage", "c.json", "--time", "0s", "s.yaml"]),
        within: .seconds(60))
      #expect(
        incomplete.output.contains("  incomplete: further transitions may be reachable: "),
        "\(incomplete)")
    }
  }
}
