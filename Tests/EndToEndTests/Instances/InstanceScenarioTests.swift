import PipeModelChecker
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestTraits
import Testing

@Suite("Counterexamples of nodes with instances", .timed)
struct InstanceScenarioTests {
  /// Two instances send an event to a node that accepts only one.
  private static func file(in directory: TestDirectory) throws -> String {
    try directory.write(
      """
      topology: twice
      program: \(try BinaryLocator.find("TestNodes"))
      nodes:
        n: { machine: KeyedAutomaton, key: id, parameters: { steps: ["0 x sending"] } }
        counter: { machine: Automaton, parameters: { steps: ["0 y 1"] } }
      pipes:
        - { from: n, when: sending, to: counter, send: y }
      explore:
        from_outside: { n: [x] }
        gives: { n: { work: [] } }
        allow:
          - { finding: deadlock, reason: the automaton stops }
      """, to: "twice.yaml")
  }

  @Test("A counterexample with two instances is written as a scenario that 'test' replays")
  func replay() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    _ = try Self.file(in: tool.directory)
    let result = try await tool.run(
      "check", "--explore", "--out", "found", "twice.yaml", within: .seconds(60))
    #expect(result.code == 1, "\(result)")
    #expect(result.output.contains("for up to 2 keys of 'n'"), "\(result)")
    #expect(result.output.contains("n[a]"), "\(result)")
    let again = try await tool.run(
      "test", "--in-process", "found/twice-dead-letter-1.yaml", within: .seconds(60))
    #expect(again.code == 0, "\(again)")
  }

  @Test("The events of a counterexample cause the found states and dead letter in running nodes")
  func running() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let file = try Self.file(in: directory)
    let loaded = try LoadedTopology.load(.file(file))
    var settings = ExplorationSettings()
    settings.threadCount = 1
    let report = try await TopologyExplorer(loaded, loaded.topology.explore, settings).explore()
    let found = report.findings.first { $0.code == .deadLetter }
    let scenario = try #require(found?.scenario)
    try await withTopology(loaded.topology) { topology in
      for step in scenario.steps {
        guard case .takes(let owner, let event, .outside) = step.action else { continue }
        guard case .accepted = try await topology.send(owner, event) else {
          Issue.record("\(owner) refused \(event.text)")
          return
        }
      }
      try await topology.expectStatus(of: "counter", "the dead letter") {
        $0.status?.deadLetters == 1
      }
      try await topology.expectStatus(of: "n", "two instances") {
        $0.status?.state == ["sending": 2]
      }
    }
  }
}
