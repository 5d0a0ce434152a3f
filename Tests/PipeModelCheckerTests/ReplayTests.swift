import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite("Replays of written scenarios", .stallLimit(.seconds(120)))
struct ReplayTests {
  /// Explores a topology, and replays each scenario as written to a file.
  /// - Returns: The findings that the scenarios show.
  @discardableResult
  private static func replayAll(of path: String, _ context: String = "") async throws -> Set<String>
  {
    let loaded = try LoadedTopology.load(.file(path))
    var settings = ExplorationSettings()
    settings.threadCount = 1
    let report = try await TopologyExplorer(loaded, loaded.topology.explore, settings).explore()
    var shown: Set<String> = []
    // There may be many findings of a kind. The selected ones are spread over them.
    let written = report.findings.filter { $0.scenario != nil }
    for finding in written.indices.filter({ $0 % max(1, written.count / 4) == 0 }).map({
      written[$0]
    }) {
      guard var scenario = finding.scenario else { continue }
      scenario.name = "written"
      let text = Array(scenario.yaml.utf8)
      do {
        let read = try ScenarioFile.read(text: text, file: "written.yaml").scenario
        var replay = try ScenarioReplay(loaded)
        try replay.run(read)
      } catch {
        Issue.record("\(finding.code): \(error)\n\(scenario.yaml)\(context)")
      }
      shown.insert(finding.code.rawValue)
    }
    return shown
  }

  private static func replayAll(ofTopology text: String) async throws -> Set<String> {
    let path = "/tmp/replayed-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    try FileSystem.replace(path, with: ("topology: replayed\nprogram: TestNodes\n" + text).utf8)
    return try await replayAll(of: path, "\n" + text)
  }

  private static let two =
    "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending x 1"])
    + ExplorationFixture.automaton("b", "0", ["0 z 1", "1 y 2"])

  @Test(
    "Written scenarios of a refused event can be replayed, for every value of 'on_refused'",
    arguments: ["record": "dead-letter", "fail": "fatal-refusal", "postpone": "stuck"])
  func refused(policy: String, code: String) async throws {
    let shown = try await Self.replayAll(
      ofTopology: Self.two
        + "pipes:\n  - { from: a, when: sending, to: b, send: y, on_refused: \(policy) }\n"
        + "explore: { from_outside: { a: [x] } }\n")
    #expect(shown.contains(code), "\(shown)")
  }

  private static let pair =
    "nodes:\n" + ExplorationFixture.automaton("l", "0", ["0 sync 1", "1 x 0"])
    + ExplorationFixture.automaton("r", "0", ["0 sync 1", "1 y 0"])
    + ExplorationFixture.automaton("s", "sending", ["sending x sending"])
    + ExplorationFixture.automaton("sink", "0", ["0 z 1"])
    + "composites:\n  both: { components: [l, r], synchronize: { sync: [l, r] } }\n"

  @Test("Written scenarios of a composite's refusals and rules can be replayed")
  func composites() async throws {
    let toComposite = try await Self.replayAll(
      ofTopology: Self.pair
        + "pipes:\n  - { from: s, when: sending, to: both, send: sync }\n"
        + "explore: { from_outside: { s: [x] } }\n")
    #expect(toComposite.contains("dead-letter"))
    let fromComposite = try await Self.replayAll(
      ofTopology: Self.pair
        + "pipes:\n  - { from: both, when: { l: at, r: at }, to: sink, send: z }\n"
        + "explore: { from_outside: { both: [sync] } }\n")
    #expect(fromComposite.contains("dead-letter"))
  }

  @Test("Written scenarios of an effect that produces a synchronized event can be replayed")
  func effectOfOne() async throws {
    let path = "/tmp/philosophers-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    var text = try #require(FileSystem.text(of: "topologies/philosophers.yaml"))
    if let explore = text.range(of: "\nexplore:") { text = String(text[..<explore.lowerBound]) }
    text +=
      "\nexplore: { from_outside: {}, properties: { p: { never: { philosopher1: eating } } } }\n"
    try FileSystem.replace(path, with: text.utf8)
    #expect(try await Self.replayAll(of: path) == ["violated-property"])
  }

  @Test("Written scenarios with internal transitions and ignored events can be replayed")
  func internalTransitions() async throws {
    let shown = try await Self.replayAll(
      ofTopology: "nodes:\n"
        + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending z stay.sending"])
        + ExplorationFixture.automaton("b", "0", ["0 y ignore", "0 z 1"])
        + "pipes:\n  - { from: a, when: sending, to: b, send: y }\n"
        + "explore:\n  from_outside: { a: [x, z], b: [z] }\n"
        + "  properties: { p: { never: { b: { at: { place: \"1\" } } } } }\n")
    #expect(shown.contains("violated-property"), "\(shown)")
    let composite = try await Self.replayAll(
      ofTopology: "nodes:\n"
        + ExplorationFixture.automaton("l", "0", ["0 sync stay.1", "1 x 2"])
        + ExplorationFixture.automaton("r", "0", ["0 sync ignore"])
        + ExplorationFixture.automaton("sink", "0", ["0 z 1", "1 z 2"])
        + "composites:\n  both: { components: [l, r], synchronize: { sync: [l, r] } }\n"
        + "pipes:\n  - { from: both, when: { l: at, r: at }, to: sink, send: z }\n"
        + "explore: { from_outside: { l: [x], both: [sync] } }\n")
    #expect(composite.contains("deadlock") && !composite.contains("dead-letter"), "\(composite)")
  }

  @Test("Written scenarios with a node under 'any' can be replayed")
  func any() async throws {
    let shown = try await Self.replayAll(
      ofTopology: Self.two + "pipes:\n  - { from: a, when: sending, to: b, send: y }\n"
        + "explore: { any: [a], from_outside: {} }\n")
    #expect(shown.contains("dead-letter"))
  }

  @Test("Written scenarios of a synchronized event sent to a single node can be replayed")
  func direct() async throws {
    let shown = try await Self.replayAll(
      ofTopology: """
        nodes:
          l: { machine: Rambler, parameters: { steps: [home y north] } }
          r: { machine: Rambler, parameters: { steps: [home y north] } }
          s: { machine: Rambler, parameters: { steps: [home x north], sends: [north y] } }
        composites:
          both: { components: [l, r], synchronize: { y: [l, r] } }
        pipes:
          - { from: s.out, to: l.in }
        explore:
          from_outside: { s: [x] }
          gives:
            l: { hurry: [], dawdle: [] }
            r: { hurry: [], dawdle: [] }
            s: { hurry: [], dawdle: [] }

        """)
    #expect(shown.contains("dead-letter"), "\(shown)")
  }

  @Test("Written scenarios of crashing and impure steps can be replayed")
  func odd() async throws {
    let crash = try await Self.replayAll(
      ofTopology: "nodes:\n  n: { machine: Fragile }\n"
        + "explore: { from_outside: { n: [touch, trap] }, fold: { n: { steps: 2 } }, gives: { n: { live: [] } } }\n"
    )
    #expect(crash.contains("crashing-step"))
    let impure = try await Self.replayAll(
      ofTopology:
        "nodes:\n  n: { machine: Moody }\nexplore: { from_outside: { n: [ask] }, end: { n: mood } }\n"
    )
    #expect(impure.contains("impure-step"))
  }

  @Test(
    "Written scenarios of all findings of the shipped topologies can be replayed",
    arguments: [
      "navigation", "quiz",
    ])
  func shipped(_ name: String) async throws {
    var text = try #require(FileSystem.text(of: "topologies/\(name).yaml"))
    if let allow = text.range(of: "\n  allow:") { text = String(text[..<allow.lowerBound]) + "\n" }
    let path = "topologies/replayed-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    try FileSystem.replace(path, with: text.utf8)
    #expect(try await Self.replayAll(of: path).contains("dead-letter"))
  }
}
