import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("What fuzzing has found and kept", .timed)
struct FuzzCorpusTests {
  @Test("every input of the corpus is read or refused, and keeps what is promised")
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
