import PipeRuntime
import TestTraits
import Testing

@Suite("Topology files with composites", .timed)
struct CompositeFileTests {
  private func run(_ arguments: String...) async throws -> CommandLineTool.Result {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = try tool.start(arguments, in: nil)
    return try await tool.result(of: program)
  }

  @Test(
    "'describe' shows a composite's components, events and projection without a running topology")
  func describe() async throws {
    let result = try await run("describe", "--file", "topologies/lift.yaml", "lift")
    #expect(result.code == 0, "\(result)")
    #expect(
      result.output == """
        lift
          composite     program nodes
          components    door, motor
          synchronizes  emergencyStop   door, motor
                        go(floor: Int)  door, motor
                        open            door, motor
                        reset           door, motor
          passes on     close         door
                        enter         door
                        floorReached  motor
          mode          rendezvous: all or none; a client can request broadcast instead
          projection    LiftState
          coordinator   its own

        """)
    #expect(result.error == "")
  }

  @Test("'describe -o json' shows nodes and composites without a running topology")
  func describeJSON() async throws {
    let result = try await run(
      "describe", "--file", "topologies/philosophers.yaml", "-o", "json", "seat5", "fork1")
    #expect(result.code == 0, "\(result)")
    let pages = try JSONValue(parsing: result.output.utf8)
    guard case .array(let pages) = pages, pages.count == 2 else {
      Issue.record("\(result)")
      return
    }
    #expect(pages[0]["composite"] == "seat5")
    #expect(pages[0]["coordinator"] == "seat1")
    #expect(pages[0]["description"]?["nodes"] == ["philosopher5", "fork5", "fork1"])
    #expect(pages[1]["node"] == "fork1")
    #expect(pages[1]["description"]?["machine"] == "Fork")
  }

  @Test("'describe' refuses a name that the file does not define, and suggests a similar name")
  func unknownName() async throws {
    let result = try await run("describe", "--file", "topologies/lift.yaml", "lft")
    #expect(result.code != 0)
    #expect(result.output == "")
    #expect(result.error.contains("'lift'"), "\(result)")
  }

  @Test("'list' of a node program shows composite states with their component states")
  func list() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = try tool.start(program: CommandLineTool.products + "/nodes", ["list"])
    let result = try await tool.end(of: program)
    #expect(
      result.output.contains("composite LiftState of LiftDoor.State, LiftMotor.State\n"),
      "\(result)")
  }

  @Test("'check' reports the number of composites")
  func counts() async throws {
    let result = try await run("check", "topologies/philosophers.yaml")
    #expect(
      result.output == "topologies/philosophers.yaml: ok: 10 nodes, 0 pipes, 5 composites\n")
  }
}
