import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Searches of topologies with known results", .timed)
struct SpinTests {
  /// The numbers that a search has counted.
  private struct Counts: Equatable {
    var states: Int?
    var steps: Int?
    var deadlocks: Int?
  }

  private static func expected(_ known: KnownTopology) -> Counts {
    Counts(states: known.states, steps: known.steps, deadlocks: known.deadlocks)
  }

  @Test(
    "A search finds the known numbers of states, steps and deadlocks", arguments: KnownTopology.few)
  func known(_ known: KnownTopology) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(known.yaml, to: "known.yaml")
    let result = try await tool.run(
      "check", "--explore", "--no-reduction", "known.yaml", "-o", "json", within: .seconds(120))
    #expect(result.code == (known.deadlocks == 0 ? 0 : 1), "\(result)")
    guard case .array(let files) = try JSONValue(parsing: result.output.utf8),
      let file = files.first, case .array(let findings)? = file["findings"]
    else {
      Issue.record("\(result)")
      return
    }
    #expect(file["verdict"] == "exact", "\(result)")
    #expect(
      Counts(
        states: file["states"]?.integer.map(Int.init), steps: file["steps"]?.integer.map(Int.init),
        deadlocks: findings.count { $0["code"] == "deadlock" }) == Self.expected(known))
  }

  // MARK: SPIN

  private static let spin = InstalledProgram.path(of: ["spin"])
  private static let missing: Comment =
    "SPIN is missing, or a C compiler: 'apt-get install spin gcc' (tools for this test only)"

  @Test(
    "SPIN finds the known numbers of states, steps and deadlocks in the exported model",
    .enabled(if: spin != nil && InstalledProgram.compiler != nil, missing),
    arguments: KnownTopology.all)
  func bySpin(_ known: KnownTopology) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(known.yaml, to: "known.yaml")
    let model = try await tool.run("export", "promela", "known.yaml", within: .seconds(120))
    #expect(model.code == 0, "\(model)")
    try tool.directory.write(model.output, to: "known.pml")
    func run(_ program: String, _ arguments: String...) async throws -> CommandLineTool.Result {
      try await tool.end(of: tool.start(program: program, arguments), within: .seconds(120))
    }
    _ = try await run(try #require(Self.spin), "-a", "known.pml")
    _ = try await run(
      try #require(InstalledProgram.compiler), "-O0", "-DSAFETY", "-DNOREDUCE", "-w", "-o", "pan",
      "pan.c")
    // 'pan' continues after errors.
    let found = try await run(tool.directory.path + "/pan", "-m1000000", "-w20", "-c0")
    func number(before words: String) -> Int? {
      found.output.split(separator: "\n").compactMap { line -> Int? in
        line.firstRange(of: words).flatMap {
          line[..<$0.lowerBound].split(separator: " ").last.flatMap { Int($0) }
        }
      }.first
    }
    let errors = found.output.firstRange(of: "errors: ").flatMap {
      Int(found.output[$0.upperBound...].prefix { $0.isNumber })
    }
    // SPIN counts the transition into the first state, too.
    #expect(
      Counts(
        states: number(before: " states, stored"),
        steps: number(before: " transitions (").map { $0 - 1 }, deadlocks: errors)
        == Self.expected(known), "\(found)")
  }
}
