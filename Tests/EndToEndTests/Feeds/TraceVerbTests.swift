import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The output of 'trace'", .timed)
struct TraceVerbTests {
  private static let numbers = """
    topology: numbers
    program: TestNodes
    nodes: { source: { machine: Source }, sink: { machine: Sink } }
    pipes: [{ from: source.out, to: sink.in, name: numbers }]
    """

  @Test(
    "'trace' writes steps with their causes in each format",
    arguments: [
      ("text", "    sink    "), ("mermaid", "n1->>n2: number(n#58; "),
      ("chrome", #""bp":"e""#), ("otlp", #""parentSpanId":"#),
    ])
  func forms(form: String, part: String) async throws {
    try await withTopology(yaml: Self.numbers) { topology in
      let tool = CommandLineTool(beside: topology)
      var result = CommandLineTool.Result(output: "", error: "")
      // On a slow machine too few events may have been traced, so the test tries longer times.
      for seconds in [1, 4, 16, 64] {
        let trace = try tool.start(["trace", "--for", "\(seconds)s", "-o", form])
        // Steps before the subscription are not reported.
        while trace.exit == nil { try await topology.send("source", Source.Event.go(count: 1)) }
        result = try await tool.end(of: trace)
        if result.output.contains(part) { break }
      }
      #expect(result.output.contains(part), "\(result)")
      if form == "chrome" || form == "otlp" {
        _ = try JSONValue(parsing: result.output.utf8)
      }
    }
  }

  @Test("'trace --event' writes only the causes and effects of one step")
  func oneStep() async throws {
    try await withTopology(yaml: Self.numbers) { topology in
      let tool = CommandLineTool(beside: topology)
      var lines: [Substring] = []
      for seconds in [1, 4, 16, 64] {
        let trace = try tool.start(["trace", "--for", "\(seconds)s", "--event", "source"])
        while trace.exit == nil { try await topology.send("source", Source.Event.go(count: 1)) }
        lines = try await tool.end(of: trace).output.split(separator: "\n")
        if !lines.isEmpty { break }
      }
      // All other recorded steps have other causes. A step at the left has no cause.
      #expect(lines.first?.contains("source") == true && lines.count < 5, "\(lines)")
      #expect(lines.count { $0.dropFirst(13).first != " " } == 1, "\(lines)")
    }
  }

  @Test(
    "'trace --event' exits 2 for an invalid argument, and 1 if the step was not recorded",
    arguments: [
      ("sink@now", 2), ("sinc@3", 2), ("sink@77777", 1),
    ])
  func unknownStep(event: String, code: Int32) async throws {
    try await withTopology(yaml: Self.numbers) { topology in
      let tool = CommandLineTool(beside: topology)
      let trace = try tool.start(["trace", "--for", "10ms", "--event", event])
      let exit = try await trace.waitForExit(within: .seconds(20))
      #expect(exit == .exited(code: code), "\(trace.errorText)")
    }
  }

  @Test("'trace' ends early on ^C and exits 0")
  func interrupted() async throws {
    try await withTopology(yaml: Self.numbers) { topology in
      let tool = CommandLineTool(beside: topology)
      let trace = try tool.start(["trace", "--for", "1h", "-o", "text"])
      // Waits until the program has blocked the signal: an earlier signal would kill the program.
      let isBlocked: Bool? = try await poll(within: .seconds(20)) {
        try Self.blocked(by: trace.pid) & 1 << UInt64(SIGINT - 1) != 0 ? true : nil
      }
      #expect(isBlocked == true)
      trace.signal(.interrupt)
      let exit = try await trace.waitForExit(within: .seconds(20))
      #expect(exit == .exited(code: 0), "\(trace.errorText)")
    }
  }

  /// Returns the signals that a process has blocked, one bit each.
  private static func blocked(by pid: Int32) throws -> UInt64 {
    let status = FileSystem.text(of: "/proc/\(pid)/status") ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("SigBlk:") }
    return line.flatMap { UInt64($0.dropFirst(7).drop { $0 == "\t" }, radix: 16) } ?? 0
  }
}
