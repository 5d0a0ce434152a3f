import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Participants with asynchronous transitions", .timed)
struct AsynchronousParticipantTests {
  private static func check(_ text: String) async throws -> CommandLineTool.Result {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(text, to: "t.yaml")
    return try await tool.run("check", "t.yaml")
  }

  @Test(
    "A model or feature that does not declare 'selfContained' cannot be a participant",
    arguments: ["KettleModel", "KettleNode"])
  func never(machine: String) async throws {
    let result = try await Self.check(
      """
      topology: t
      program: nodes
      nodes:
        one: { machine: KettleMachine }
        two: { machine: \(machine) }
      composites:
        both: { components: [one, two], synchronize: { switchOn: [one, two] } }
      """)
    #expect(result.code == 2, "\(result)")
    #expect(result.error.contains("t.yaml:7:66: error: "), "\(result)")
    #expect(
      result.error.contains(
        "composite 'both', event 'switchOn': participant 'two' has an asynchronous transition, as "
          + "models, features and closures with 'await' have; the transition would run before "
          + "the other participants have accepted the event, so the event is never accepted"),
      "\(result)")
    #expect(
      result.error.contains(
        "'static var selfContained: SelfContainedEvents<Event> { .all(within: .seconds(1)) }'"),
      "\(result)")
    #expect(result.error.contains("[asynchronous-participant]"), "\(result)")
  }

  @Test("A partly asynchronous participant causes a warning, and refuses asynchronous transitions")
  func sometimes() async throws {
    let text = """
      topology: t
      program: TestNodes
      nodes:
        one: { machine: Waverer }
        two: { machine: Waverer }
      composites:
        both: { components: [one, two], synchronize: [go] }
      """
    let checked = try await Self.check(text)
    #expect(checked.code == 0, "\(checked)")
    #expect(checked.error.contains("warning: composite 'both', event 'go'"), "\(checked)")
    #expect(checked.error.contains("in some states"), "\(checked)")
    try await withTopology(yaml: text) { topology in
      let first = try await topology.client.synchronize("both", Waverer.Event.go)
      #expect(first.isCommitted)
      let second = try await topology.client.synchronize("both", Waverer.Event.go)
      guard case .refused(let withheld) = second else {
        Issue.record("\(second)")
        return
      }
      #expect(!withheld.isEmpty && withheld.allSatisfy { $0.reason == .asynchronous })
      let tool = CommandLineTool(beside: topology)
      let sent = try await tool.run("send", "both", "go", code: 1)
      #expect(sent.error.contains("asynchronous, so the node cannot promise the event"), "\(sent)")
      let why = try await tool.run("why", "both", "go", code: 4)
      #expect(why.output.contains("use a synchronous transition"), "\(why)")
    }
  }
}
