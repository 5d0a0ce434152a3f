import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The fuzzing corpus", .timed)
struct FuzzCorpusTests {
  @Test("Every input of the fuzzing corpus is parsed or refused without breaking an invariant")
  func corpus() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = try tool.start(
      program: CommandLineTool.products + "/Fuzz", ["Tests/Programs/Fuzz/corpus"], in: nil)
    let result = try await tool.end(of: program, within: .seconds(60))
    let topics = result.output.split(separator: "\n").map { $0.prefix { $0 != ":" } }
    #expect(topics == ["topology", "deployment", "json", "frames", "web"], "\(result)")
    #expect(!result.output.contains(": 0 inputs"), "\(result)")
  }
}
