import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Searches of the shipped topologies", .timed)
struct ShippedSearchTests {
  /// Topologies whose pipes hold more than can be searched or whose machines count without limit.
  /// The verdict on each of these topologies is `sampled`.
  private static let sampled: Set = [
    "counter", "elevator", "navigation", "quiz", "relay", "washing-machine",
    "washing-machine-reduced",
  ]

  @Test(
    "Every shipped topology has an 'explore' section and is searched without unexpected findings"
  )
  func all() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let files = FileSystem.entryNames(of: "topologies").filter { $0.hasSuffix(".yaml") }
      .sorted().map { "topologies/" + $0 }
    #expect(files.count > 12)
    for file in files {
      let text = try #require(FileSystem.text(of: file))
      #expect(text.contains("\nexplore:\n"), "\(file)")
    }
    let program = try tool.start(["check", "--explore", "-o", "json"] + files, in: nil)
    let result = try await tool.result(of: program, within: .seconds(300))
    #expect(result.code == 0, "\(result)")
    guard case .array(let explored) = try JSONValue(parsing: result.output.utf8) else {
      Issue.record("\(result)")
      return
    }
    #expect(explored.count == files.count)
    for file in explored {
      let name = file["file"]?.string ?? ""
      let stem = name.dropFirst("topologies/".count).dropLast(".yaml".count)
      let verdict: JSONValue = Self.sampled.contains(String(stem)) ? "sampled" : "exact"
      #expect(file["verdict"] == verdict, "\(file.text)")
      #expect(file["findings"] == [], "\(file.text)")
      guard case .array(let remarks)? = file["remarks"] else { continue }
      let assumed = Set(
        remarks.filter { $0["effect"] == "sampled" }.compactMap { $0["code"]?.string })
      #expect(assumed.isSubset(of: ["lower-capacity", "folded"]), "\(file.text)")
      let unused = remarks.filter { $0["message"]?.string?.contains("matches no finding") == true }
      #expect(unused.isEmpty, "\(file.text)")
    }
  }
}
