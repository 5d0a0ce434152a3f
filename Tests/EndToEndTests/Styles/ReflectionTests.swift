import PipeMachines
import PipeRuntimeTestKit
import TestSupport
import TestTraits
import Testing

// An optimized program ignores the variable. With such a program these tests pass without
// reflection.
@Suite("Programs that read enums by reflection", .timed)
struct ReflectionTests {
  @Test("A topology delivers its events even if the memory layout of values is unknown")
  func pipes() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment[TypeReading.variable] = "mirror"
      try await tool.run("up", "--wait", "\(packageRoot)/topologies/relay.yaml", code: 0)
      try await tool.run("send", "n1", #"{"token":{"n":7}}"#, code: 0)
      try await tool.run(
        "wait", "--timeout", "20s", #"tally={"counted":{"count":1,"last":7}}"#, code: 0)
      try await tool.run("down", code: 0)
    }
  }

  @Test("The model checker finds the same states even if the memory layout of values is unknown")
  func exploration() async throws {
    let file = "\(packageRoot)/topologies/lift.yaml"
    try await CommandLineTool.launching { tool in
      let expected = try await tool.run("check", "--explore", "-o", "json", file, code: 0)
      var tool = tool
      tool.environment[TypeReading.variable] = "mirror"
      let found = try await tool.run("check", "--explore", "-o", "json", file, code: 0)
      #expect(try states(expected.output)?.integer == 75)
      #expect(try states(found.output)?.integer == 75)
    }
  }

  @Test("A node starts even if the lists of enum cases cannot be read")
  func unlisted() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment[TypeReading.variable] = "mirror-only"
      let described = try await tool.end(
        of: tool.start(
          program: "\(CommandLineTool.products)/nodes", ["describe", "--machine", "LiftDoor"]),
        within: .seconds(20), code: 0)
      #expect(described.output.contains(#""machine":"LiftDoor""#))
    }
  }

  private func states(_ report: String) throws -> JSONValue? {
    guard case .array(let files) = try JSONValue(parsing: report.utf8) else { return nil }
    return files.first?["states"]
  }
}
