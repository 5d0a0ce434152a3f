import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The topologies that are shipped, searched as their sections say", .timed)
struct ShippedSearchTests {
  /// What is found, as it should be: the washing machine tells that it has finished before it has begun, and
  /// people are faster than what they look at.
  private static let found: [String: Set<String>] = [
    "topologies/navigation.yaml": ["dead-letter", "full-pipes"],
    "topologies/quiz.yaml": ["dead-letter", "full-pipes"],
    "topologies/washing-machine.yaml": ["dead-letter"],
    "topologies/washing-machine-reduced.yaml": ["dead-letter"],
  ]

  @Test(
    "each has a section, and is searched to the end, with every value declared; nothing else is found"
  )
  func all() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let files = FileSystem.entries(of: "topologies").filter { $0.hasSuffix(".yaml") }.sorted()
      .map { "topologies/" + $0 }
    #expect(files.count > 12)
    for file in files {
      let text = try #require(FileSystem.text(of: file))
      #expect(text.contains("\nexplore:\n"), "\(file)")
    }
    let program = try tool.start(["check", "--explore", "-o", "json"] + files, in: nil)
    let result = try await tool.result(of: program, within: .seconds(300))
    #expect(result.code == 1, "\(result)")
    guard case .array(let explored) = try JSONValue(parsing: result.output.utf8) else {
      Issue.record("\(result)")
      return
    }
    #expect(explored.count == files.count)
    for file in explored {
      let name = file["file"]?.string ?? ""
      #expect(file["verdict"] == "exact", "\(file.text)")
      guard case .array(let findings)? = file["findings"] else { continue }
      let errors = findings.filter { $0["severity"] != "warning" }.compactMap { $0["code"]?.string }
      #expect(Set(errors) == Self.found[name] ?? [], "\(file.text)")
    }
  }
}
