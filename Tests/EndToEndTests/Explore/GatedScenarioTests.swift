import PipeModelChecker
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("Scenarios on real processes", .timed)
struct GatedScenarioTests {
  /// Writes scenarios that lead to the reachable states of a topology: the counterexamples of
  /// properties that forbid a state of a node.
  /// - Returns: The paths of the scenarios. At most `count`, spread over all.
  private static func writeScenarios(
    of file: String, count: Int, into directory: TestDirectory
  ) async throws -> [String] {
    let loaded = try LoadedTopology.load(.file(file))
    let topology = loaded.topology
    var section = try #require(topology.explore)
    section.allow = []
    section.properties = []
    for node in topology.nodes where !section.unevaluatedNodes.contains(node.name) {
      for state in loaded.descriptions[node.name]?.states ?? [] {
        section.properties.append(
          ExploredProperty(
            name: "\(node.name)-\(state.name)", demand: .never,
            states: StateCombination([node.name: StateCondition(.string(state.name))])))
      }
    }
    var settings = ExplorationSettings()
    settings.threadCount = 1
    settings.timeLimit = .seconds(5)
    let report = try await TopologyExplorer(loaded, section, settings).explore()
    let scenarios = report.findings.compactMap(\.scenario)
    let step = max(1, (scenarios.count + count - 1) / count)
    return try scenarios.indices.filter { $0 % step == 0 }.map { index in
      var scenario = scenarios[index]
      scenario.topology = FileSystem.absolutePath(file)
      scenario.name = "\(topology.name)-\(index)"
      return try directory.write(scenario.yaml, to: scenario.name + ".scenario.yaml")
    }
  }

  @Test(
    "Counterexamples of shipped topologies end in the same state on real processes",
    arguments: [
      "elevator": 6, "lift": 6, "movies": 3, "payment": 6, "philosophers": 4, "quiz": 6,
      "vending-machine": 4,
    ])
  func shipped(name: String, count: Int) async throws {
    try await CommandLineTool.launching { tool in
      let files = try await Self.writeScenarios(
        of: "topologies/\(name).yaml", count: count, into: tool.directory)
      #expect(files.count > 1)
      for mode in [["--in-process"], []] {
        let program = try tool.start(["test"] + mode + files)
        let result = try await tool.result(of: program, within: .seconds(120))
        #expect(result.code == 0, "\(mode) \(result)")
        #expect(result.output.split(separator: "\n").count == files.count, "\(result)")
      }
    }
  }

  @Test(
    "Counterexamples of random topologies end in the same state on real processes",
    arguments: [Durability.process, .volatile])
  func random(durability: Durability) async throws {
    try await CommandLineTool.launching { tool in
      let program = try BinaryLocator.find("TestNodes")
      var count = 0
      for seed in UInt64(0)..<8 {
        var generator = SplitMix64(seed: seed)
        let plan = RamblingPlan(using: &generator)
        let topology = plan.topology(name: "plan\(seed)", program: program, durability: durability)
        let file = try tool.directory.write(topology.yaml, to: "plan\(seed).yaml")
        let files = try await Self.writeScenarios(of: file, count: 2, into: tool.directory)
        count += files.count
        guard !files.isEmpty else { continue }
        let result = try await tool.result(
          of: try tool.start(["test"] + files), within: .seconds(120))
        #expect(result.code == 0, "seed \(seed): \(result)\n\(topology.yaml)")
      }
      #expect(count > 4)
    }
  }

  private static func automaton(_ name: String, _ steps: String...) -> String {
    "  \(name): { machine: Automaton, parameters: { steps: [\(steps.map { "\"\($0)\"" }.joined(separator: ", "))] } }\n"
  }

  private static let both =
    automaton("l", "0 sync 1", "1 x 0") + automaton("r", "0 sync 1", "1 y 0")
    + automaton("s", "0 x sending", "sending x stay.1") + automaton("sink", "0 z 1")
    + "composites:\n  both: { components: [l, r], synchronize: { sync: [l, r] } }\npipes:\n"

  private static let two =
    automaton("a", "0 x sending", "sending x 1", "1 x sending") + automaton("b", "0 z 1", "1 y 2")
    + "pipes:\n  - { from: a, when: sending, to: b, send: y, capacity: 2, on_refused: "

  @Test(
    "Counterexamples of refused events and of the pipes of composites end in the same state",
    arguments: [
      two + "record }\nexplore: { from_outside: { a: [x], b: [z] } }\n",
      two + "ignore }\nexplore: { from_outside: { a: [x], b: [z] } }\n",
      two + "postpone }\nexplore: { from_outside: { a: [x], b: [z] } }\n",
      two + "fail }\nexplore: { from_outside: { a: [x], b: [z] } }\n",
      both + "  - { from: s, when: sending, to: both, send: sync, name: p }\n"
        + "explore: { from_outside: { s: [x], l: [x] } }\n",
      both + "  - { from: both, when: { l: at, r: at }, to: sink, send: z, name: p }\n"
        + "explore: { from_outside: { both: [sync], l: [x], r: [y] } }\n",
    ])
  func policies(nodes: String) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(
        "topology: pair\nprogram: TestNodes\nnodes:\n" + nodes, to: "pair.yaml")
      _ = try await tool.run(
        "check", "--explore", "--out", "found", "pair.yaml", within: .seconds(60))
      let found = FileSystem.entryNames(of: tool.directory.path + "/found").sorted()
      try #require(!found.isEmpty, "no counterexamples")
      let step = max(1, found.count / 5)
      let files = found.indices.filter { $0 % step == 0 }.map { "found/" + found[$0] }
      for mode in [["--in-process"], []] {
        let result = try await tool.result(
          of: tool.start(["test"] + mode + files), within: .seconds(120))
        #expect(result.code == 0, "\(mode) \(result)")
        #expect(result.output.split(separator: "\n").count == files.count, "\(result)")
      }
    }
  }

  /// A sender with two events, and a receiver that accepts only the event `z`.
  private static let pair = """
    topology: pair
    program: TestNodes
    nodes:
      left: { machine: Automaton, parameters: { steps: ["0 x sending", "sending y 1", "1 x sending"] } }
      right: { machine: Automaton, parameters: { steps: ["0 z 1", "1 x ignore", "1 y stay.2"] } }
    pipes:
      - { from: left, when: sending, to: right, send: z, name: p, capacity: 2 }
    explore: { from_outside: { left: [x, y] } }
    """

  private static func scenario(_ steps: String...) -> String {
    "scenario: s\ntopology: pair.yaml\nsteps:\n"
      + steps.map { "  - \($0)\n" }.joined()
  }

  private func run(
    _ tool: CommandLineTool, _ scenario: String, _ options: String..., topology: String = Self.pair
  ) async throws -> CommandLineTool.Result {
    try tool.directory.write(topology, to: "pair.yaml")
    try tool.directory.write(scenario, to: "s.yaml")
    return try await tool.result(
      of: tool.start(["test"] + options + ["s.yaml"]), within: .seconds(60))
  }

  @Test(
    "A step that differs from the scenario is reported with the table of the steps",
    arguments: [
      ("{ at: right, takes: z, from: { pipe: p } }", "pipe 'p' contains no events, expected 'z'"),
      ("{ at: right, takes: z, refused: guard }", "should be refused by any node (guard)"),
      ("{ at: right, takes: y }", "event 'y' should be accepted, but 'right' refuses it"),
      ("{ at: right, timer: any }", "has no timer that can fire"),
      ("{ at: right, takes: z, from: { effect: e } }", "effect 'e' of node 'right' is not running"),
      ("{ at: rigth, takes: z }", Suggestion.hint("right")),
      (
        "{ at: right, takes: z, expect: { right: { at: { place: '2' } } } }",
        "'right' is in state 'at(place: \"1\")', expected 'at(place: \"2\")'"
      ),
    ])
  func unlike(step: String, message: String) async throws {
    try await CommandLineTool.launching { tool in
      let result = try await run(
        tool, Self.scenario("{ at: left, takes: y, refused: noTransition }", step))
      #expect(result.code == 1, "\(result)")
      #expect(result.error.contains("s.yaml:5:"), "\(result)")
      #expect(result.error.contains(message), "\(result)")
      #expect(result.error.contains("1  left takes y"), "\(result)")
      #expect(result.error.contains("[unlike-scenario]"), "\(result)")
    }
  }

  @Test("Pipes, internal transitions, ignored events and full pipes are as in one process")
  func pipes() async throws {
    try await CommandLineTool.launching { tool in
      let steps = Self.scenario(
        "{ at: left, takes: x, expect: { left: sending, right: { at: { place: '0' } } } }",
        "{ at: left, takes: y }", "{ at: left, takes: x }",
        "{ at: right, takes: z, from: { pipe: p }, expect: { right: { at: { place: '1' } } } }",
        "{ at: right, takes: x }", "{ at: right, takes: y }",
        "{ at: right, takes: z, from: { pipe: p }, refused: { right: noTransition } }",
        "{ at: left, takes: y }", "{ at: left, takes: x }",
        "{ at: left, takes: y }", "{ at: left, takes: x }")
      let end = "end: { right: { at: { place: '2' } } }\npipes: { p: [z, z] }\n"
      for options in [["--in-process"], []] {
        try tool.directory.write(Self.pair, to: "pair.yaml")
        try tool.directory.write(steps + end, to: "s.yaml")
        let result = try await tool.result(
          of: tool.start(["test"] + options + ["s.yaml"]), within: .seconds(60))
        #expect(result.code == 0, "\(options) \(result)")
      }
      let full = try await run(
        tool,
        steps.replacing("scenario: s", with: "scenario: full") + "  - { at: left, takes: y }\n")
      #expect(full.code == 1, "\(full)")
      #expect(
        full.error.contains(
          "'left' accepts no events: its outbound pipe 'p' is full with 2 events"),
        "\(full)")
    }
  }

  @Test("A crash step kills a node, which continues in its state, with the events of its pipes")
  func crash() async throws {
    try await CommandLineTool.launching { tool in
      let result = try await run(
        tool,
        Self.scenario(
          "{ at: left, takes: x }", "{ crash: right, expect: { right: { at: { place: '0' } } } }",
          "{ crash: left, expect: { left: sending } }",
          "{ at: right, takes: z, from: { pipe: p } }", "{ at: left, takes: y }",
          "{ crash: right, expect: { right: { at: { place: '1' } } } }"))
      #expect(result.code == 0, "\(result)")
      let volatile = Self.pair.replacing("name: p,", with: "name: p, durability: none,")
      let refused = try await run(tool, Self.scenario("{ crash: right }"), topology: volatile)
      #expect(refused.code == 2, "\(refused)")
      #expect(refused.error.contains("[not-gateable]"), "\(refused)")
    }
  }

  @Test("A step whose event ends the process is as in one process")
  func processEnds() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["n"]
      let topology = "topology: pair\nprogram: TestNodes\nnodes:\n  n: { machine: Fragile }\n"
      let expected = try await run(
        tool, Self.scenario("{ at: n, takes: touch }", "{ at: n, takes: trap, expect: crash }"),
        topology: topology)
      #expect(expected.code == 0, "\(expected)")
      let unexpected = try await run(
        tool, Self.scenario("{ at: n, takes: trap }"), topology: topology)
      #expect(unexpected.code == 1, "\(unexpected)")
      #expect(unexpected.error.contains("the process of node 'n' ended"), "\(unexpected)")
    }
  }

  @Test(
    "A scenario that cannot be gated is refused before the topology starts",
    arguments: [
      (
        "nodes:\n  n: { machine: KeyedAutomaton, key: id, parameters: { steps: [\"0 x 1\"] } }\n",
        "{ at: 'n[a]', takes: { x: { id: a } } }", "node 'n' has a 'key'"
      ),
      (
        "nodes:\n  l: { machine: Automaton }\n  r: { machine: Automaton }\npipes:\n"
          + "  - { from: l, when: sending, to: r, send: z, name: p }\nexplore: { any: [l] }\n",
        "{ at: l, sends: z, into: p }", "node 'l' is listed under 'any'"
      ),
      (
        "nodes:\n  l: { machine: Automaton }\n  r: { machine: Automaton }\n"
          + "  s: { machine: Automaton }\ncomposites:\n"
          + "  both: { components: [l, r], synchronize: { sync: [l, r] } }\npipes:\n"
          + "  - { from: s, when: sending, to: both, send: sync, name: p, on_refused: postpone }\n",
        "{ at: s, takes: x }", "pipe 'p' postpones the events of composite 'both'"
      ),
    ])
  func notGateable(topology: String, step: String, message: String) async throws {
    try await CommandLineTool.launching { tool in
      let result = try await run(
        tool, Self.scenario(step), topology: "topology: pair\nprogram: TestNodes\n" + topology)
      #expect(result.code == 2, "\(result)")
      #expect(result.error.contains(message), "\(result)")
      #expect(result.error.contains("[not-gateable]"), "\(result)")
    }
  }

  @Test("--repeat replays a scenario several times, and --junit writes the results")
  func reports() async throws {
    try await CommandLineTool.launching { tool in
      let passed = try await run(
        tool, Self.scenario("{ at: left, takes: x }"), "--repeat", "2", "--junit", "r.xml")
      #expect(passed.code == 0, "\(passed)")
      #expect(passed.output == "s.yaml: ok: 1 step, 2 times\n")
      let path = tool.directory.path + "/r.xml"
      #expect(FileSystem.text(of: path)?.contains(#"tests="1" failures="0""#) == true)
      let failed = try await run(
        tool, Self.scenario("{ at: left, takes: y }"), "--repeat", "2", "--junit", "r.xml")
      #expect(failed.code == 1, "\(failed)")
      let xml = try #require(FileSystem.text(of: path))
      #expect(xml.contains(#"<testcase name="s" classname="s.yaml""#), "\(xml)")
      #expect(xml.contains("<failure message=\"s.yaml:4:5: error: event 'y' should be"), "\(xml)")
    }
  }

  /// Returns the directory of the topology that a running `orchestrator test` has started, and the
  /// process that removes it.
  private func awaitTopology(of test: LaunchedProgram) async throws -> (String, pid: Int32)? {
    try await poll(within: .seconds(30)) {
      let children =
        FileSystem.text(of: "/proc/\(test.pid)/task/\(test.pid)/children")?.split(separator: " ")
        ?? []
      for child in children.compactMap({ Int32($0) }) {
        let line = FileSystem.text(of: "/proc/\(child)/cmdline") ?? ""
        let words = line.split(separator: "\0").map(String.init)
        if words.first == "/bin/sh",
          let directory = words.first(where: { $0.hasPrefix("/tmp/prs-") })
        {
          return (directory, child)
        }
      }
      return nil
    }
  }

  @Test("If 'test' is killed, its topology ends and its directory is removed")
  func killed() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.pair, to: "pair.yaml")
      try tool.directory.write(Self.scenario("{ at: left, takes: x }"), to: "s.yaml")
      let test = try tool.start(["test", "--repeat", "1000000", "s.yaml"])
      let (directory, _) = try #require(try await awaitTopology(of: test))
      test.signal(.kill)
      _ = try await test.waitForExit(within: .seconds(10))
      let isGone = try await poll(within: .seconds(30)) {
        FileSystem.exists(directory) || !TestDirectory(existing: directory).processes.isEmpty
          ? nil : true
      }
      #expect(isGone == true)
    }
  }

  /// Returns the paths of the files in a directory and its subdirectories.
  private static func files(in directory: String) -> [String] {
    FileSystem.entryNames(of: directory).flatMap { name in
      let path = directory + "/" + name
      return FileSystem.isDirectory(path) ? files(in: path) : [path]
    }
  }

  @Test("If the orchestrator of a scenario is killed, no process is left, and the next test works")
  func killedOrchestrator() async throws {
    try await CommandLineTool.launching { tool in
      let topology = """
        topology: pair
        program: TestNodes
        nodes:
          n: { machine: Automaton, parameters: { steps: ["0 x sending", "sending y 0"] } }
        """
      try tool.directory.write(topology, to: "pair.yaml")
      let step = ["{ at: n, takes: x }", "{ at: n, takes: y }"].map { "  - \($0)\n" }.joined()
      try tool.directory.write(
        "scenario: s\ntopology: pair.yaml\nsteps:\n" + String(repeating: step, count: 4_000),
        to: "s.yaml")
      let test = try tool.start(["test", "s.yaml"])
      let (directory, _) = try #require(try await awaitTopology(of: test))
      // Kills the orchestrator only when its node takes steps, which changes the node's files.
      var former: [UInt8]?
      let isKilled = try await poll(within: .seconds(60)) { () -> Bool? in
        let orchestrator = TestDirectory(existing: directory).processes.first {
          $0.command.contains(" run --plain --gated") && !$0.command.hasPrefix("/bin/sh")
        }
        let file = Self.files(in: directory).first { $0.hasSuffix(".step") }
        guard let orchestrator, let file, let contents = FileSystem.contents(of: file) else {
          return nil
        }
        defer { former = contents }
        guard let former, former != contents else { return nil }
        orchestrator.kill()
        return true
      }
      #expect(isKilled == true)
      let result = try await tool.result(of: test, within: .seconds(60))
      #expect(result.code == 1, "\(result)")
      #expect(
        result.error.contains("[orchestrator-ended]") || result.error.contains("did not start"),
        "\(result)")
      let isGone = try await poll(within: .seconds(30)) {
        FileSystem.exists(directory) || !TestDirectory(existing: directory).processes.isEmpty
          ? nil : true
      }
      #expect(isGone == true)
      try tool.directory.write(Self.scenario("{ at: n, takes: x }"), to: "s.yaml")
      let next = try await tool.result(of: tool.start(["test", "s.yaml"]), within: .seconds(60))
      #expect(next.code == 0, "\(next)")
    }
  }

  @Test("A gated node runs no effect: the scenario gives its events, also after a crash")
  func effects() async throws {
    try await CommandLineTool.launching { tool in
      let topology = """
        topology: pair
        program: TestNodes
        nodes:
          n:
            machine: Rambler
            parameters: { steps: [home x north, north soon east], works: [north hurry] }
        """
      let result = try await run(
        tool,
        Self.scenario(
          "{ at: n, takes: x, expect: { n: north } }", "{ crash: n, expect: { n: north } }",
          "{ at: n, takes: soon, from: { effect: hurry }, expect: { n: east } }"),
        topology: topology)
      #expect(result.code == 0, "\(result)")
      let ended = try await run(
        tool,
        Self.scenario(
          "{ at: n, takes: x }", "{ at: n, ends: hurry, expect: { n: north } }",
          "{ at: n, takes: soon, from: { effect: hurry } }"),
        topology: topology)
      #expect(ended.code == 1, "\(ended)")
      #expect(ended.error.contains("effect 'hurry' of node 'n' is not running"), "\(ended)")
    }
  }

  @Test("A gated node refuses the requests of other clients")
  func gatedRun() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.pair, to: "pair.yaml")
      let run = try tool.start(["run", "--plain", "--gated", "--lifeline", "pair.yaml"])
      let isRunning = try await poll(within: .seconds(30)) {
        try await tool.run("ps", "-p", "pair").output.contains("running") ? true : nil
      }
      #expect(isRunning == true)
      let sent = try await tool.run("send", "-p", "pair", "left", "x")
      #expect(sent.code != 0)
      #expect(sent.error.contains("the node is gated"), "\(sent)")
      run.closeInput()
      try await tool.end(of: run)
    }
  }
}
